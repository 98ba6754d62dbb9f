"""Base distributions D₀: the data Z₀ without performativity."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.environments.quadrature import standard_normal_nodes
from performative.environments.tables import from_frame, is_pandas, read_frame
from performative.numerics.arrays import Floats
from performative.numerics.expectations import Moments, Pattern, Samples, from_samples
from performative.numerics.pytrees import assign, pytree
from performative.validation import finite_array, read_only, symmetric


class Base(Protocol):
    """A distribution on R^k that can be drawn from and averaged over."""

    @property
    def width(self) -> int:
        """k, the length of one sample."""

    def normals(self, n: int) -> int:
        """How many standard normal numbers n samples take."""

    def from_normals(self, normals: Array) -> Array:
        """The samples (n, k) that these numbers stand for."""

    def expectation(self, pattern: Pattern | None, smooth: bool) -> Samples | Moments:
        """The distribution in a form that averages: by its moments over functions that are quadratic with this
        `pattern`, by nodes over any other, `smooth` telling whether they are analytic.
        """


@pytree()
class Gaussian:
    """N(mean, covariance) on R^k.

    `covariance` is a full matrix (k, k), variances (k,), or (blocks, p, p) for independent stretches of length p.
    """

    mean: Any
    covariance: Any
    factor: Any

    def __init__(self, mean: Any, covariance: Any) -> None:
        mean = np.atleast_1d(finite_array("mean", mean, (0, 1)))
        covariance = finite_array("covariance", covariance, (0, 1, 2, 3))
        covariance = np.atleast_1d(covariance)
        size = covariance.shape[0] * (covariance.shape[1] if covariance.ndim == 3 else 1)
        if size != mean.shape[0]:
            raise ValueError(f"`covariance` must fit the mean's length {len(mean)}, but got shape {covariance.shape}")
        if covariance.ndim == 1:
            if not np.all(covariance >= 0):
                raise ValueError(f"`covariance` given as variances must be >= 0, but got {covariance.min()}")
            factor = np.sqrt(covariance)
        else:
            values, vectors = np.linalg.eigh(symmetric("covariance", covariance))
            if values.min() < -1e-10 * max(float(values.max()), 1e-300):
                raise ValueError(
                    f"`covariance` must be positive semidefinite, but its smallest eigenvalue is {values.min():.6g}"
                )
            factor = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
            if values.min() > 0:  # the triangular factor costs half as many multiplications
                factor = np.linalg.cholesky(covariance)
        assign(self, mean=mean, covariance=covariance, factor=read_only(factor))

    @property
    def width(self) -> int:
        """k."""
        return int(self.mean.shape[0])

    def normals(self, n: int) -> int:
        """k for each sample."""
        return n * self.width

    def from_normals(self, normals: Array) -> Array:
        """mean + factor · normals."""
        return jax.vmap(self.colour)(normals.reshape(-1, self.width))

    def colour(self, white: Array) -> Array:
        """The sample (k,) that standard normal numbers (k,) stand for."""
        if self.factor.ndim == 1:
            return jnp.asarray(self.mean + self.factor * white)
        rows = white.reshape(-1, 1, self.factor.shape[-1])
        factor = self.factor.reshape(rows.shape[0], -1, self.factor.shape[-1])
        return self.mean + jnp.sum(factor * rows, axis=-1).reshape(-1)

    def expectation(self, pattern: Pattern | None, smooth: bool) -> Samples | Moments:
        """Exact moments; without a pattern the nodes of `standard_normal_nodes`."""
        if pattern is None:
            return self.nodes(standard_normal_nodes(self.width, smooth))
        return Moments(jnp.asarray(self.mean), pattern.compress(self.full_covariance()), pattern)

    def nodes(self, rule: tuple[Floats, Floats]) -> Samples:
        """The nodes and weights of a rule for N(0, I), carried over to this distribution."""
        nodes, weights = rule
        return Samples(jax.vmap(self.colour)(jnp.asarray(nodes)), jnp.asarray(weights))

    def full_covariance(self) -> Array:
        """The covariance as one matrix (k, k)."""
        if self.covariance.ndim == 2:
            return jnp.asarray(self.covariance)
        if self.covariance.ndim == 1:
            return jnp.diag(self.covariance)
        return jax.scipy.linalg.block_diag(*self.covariance)


@pytree()
class Empirical:
    """The user's own samples (n, k), drawn with replacement; a vector (n,) counts as k = 1.

    They are an array, or a pandas DataFrame or Series of numbers and booleans; `Empirical.read` takes them from a file.
    """

    samples: Any

    def __post_init__(self) -> None:
        if is_pandas(self.samples, "DataFrame"):
            samples = from_frame(self.samples)
        elif is_pandas(self.samples, "Series"):
            samples = from_frame(self.samples.to_frame())
        else:
            samples = finite_array("samples", self.samples, (1, 2))
        samples = samples[:, None] if samples.ndim == 1 else samples
        if 0 in samples.shape:
            raise ValueError(f"`samples` must hold at least one row of at least one number, but got {samples.shape}")
        assign(self, samples=samples)

    @classmethod
    def read(cls, path: str | PathLike[str], columns: Sequence[str | int] | None = None) -> Empirical:
        """The samples in a parquet (.parquet, .pq) or CSV (.csv, .csv.gz) file: all its columns, or these in this order.

        The first line of a CSV file names its columns. Parquet needs pyarrow, `pip install performative[tables]`.
        """
        return cls(read_frame(Path(path), columns))

    @property
    def width(self) -> int:
        """k."""
        return int(self.samples.shape[1])

    def normals(self, n: int) -> int:
        """One for each sample."""
        return n

    def from_normals(self, normals: Array) -> Array:
        """Rows picked uniformly: Φ of a standard normal is uniform on [0, 1]."""
        count = self.samples.shape[0]
        row = jnp.floor(jax.scipy.special.ndtr(normals) * count).astype(jnp.int64)
        return jnp.asarray(self.samples)[jnp.minimum(row, count - 1)]

    def expectation(self, pattern: Pattern | None, smooth: bool) -> Samples | Moments:
        """Exact."""
        return from_samples(jnp.asarray(self.samples), pattern)
