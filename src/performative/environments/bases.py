"""Base distributions D₀: the data Z₀ without performativity."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from performative.environments.quadrature import Quadrature
from performative.numerics.arrays import Floats
from performative.numerics.expectations import Moments, Pattern, Samples, from_samples
from performative.numerics.pytrees import assign, changed, pytree
from performative.tables import from_frame, is_pandas, read_frame
from performative.validation import finite_array, read_only, symmetric

if TYPE_CHECKING:
    from pandas import DataFrame, Series


class Base(Protocol):
    """A distribution on R^k to draw from and to average over.

    >>> import performative as pf
    >>> base = pf.Empirical([1.0, 2.0, 4.0])
    >>> base.width, base.normals(5)
    (1, 5)
    >>> float(base.expectation(None, smooth=True).mean(lambda z: z[0] ** 2))
    7.0
    """

    @property
    def width(self) -> int:
        """k, the length of one sample."""

    def normals(self, n: int) -> int:
        """How many standard normal numbers n samples take."""

    def from_normals(self, normals: Array) -> Array:
        """The samples (n, k) made from these numbers."""

    def expectation(self, pattern: Pattern | None, smooth: bool) -> Samples | Quadrature | Moments:
        """The distribution in a form that averages functions.

        By its moments if they are quadratic with this `pattern`; by nodes otherwise, where `smooth` says whether they are
        analytic.
        """


@pytree()
class Gaussian:
    """N(mean, covariance) on R^k.

    `covariance` is a full matrix (k, k), variances (k,), or (blocks, p, p) for independent blocks of length p.

    >>> import performative as pf
    >>> demand = pf.Gaussian(mean=[4.0, 5.0], covariance=[0.25, 0.5])
    >>> demand.width, demand.full_covariance().tolist()
    (2, [[0.25, 0.0], [0.0, 0.5]])
    """

    mean: Array
    covariance: Array
    factor: Array

    def __init__(self, mean: ArrayLike, covariance: ArrayLike) -> None:
        mean = np.atleast_1d(finite_array("mean", mean, (0, 1)))
        covariance = finite_array("covariance", covariance, (0, 1, 2, 3))
        covariance = np.atleast_1d(covariance)
        size = covariance.shape[0] * (covariance.shape[1] if covariance.ndim == 3 else 1)
        if size != mean.shape[0]:
            raise ValueError(
                f"`covariance` must fit the mean's length {len(mean)}, but got shape {covariance.shape}; give (k,) or (k, k)"
            )
        if covariance.ndim == 1:
            if not np.all(covariance >= 0):
                raise ValueError(
                    f"`covariance` given as variances must be >= 0, but got {covariance.min()}; they are squares of standard "
                    "deviations"
                )
            factor = np.sqrt(covariance)
        else:
            values, vectors = np.linalg.eigh(symmetric("covariance", covariance))
            if values.min() < -1e-10 * max(float(values.max()), 1e-300):
                raise ValueError(
                    f"`covariance` must be positive semidefinite, but its smallest eigenvalue is {values.min():.6g}; its "
                    "diagonal holds variances, which are >= 0, and np.cov(samples.T) estimates one that fits"
                )
            factor = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
            if values.min() > 0:  # the triangular factor costs half as many multiplications
                factor = np.linalg.cholesky(covariance)
        assign(self, mean=mean, covariance=covariance, factor=read_only(factor))

    def moved(self, **parameters: Array) -> Gaussian:
        """The same distribution with another `mean` or `covariance` of the same shape, which may be unknowns of a program."""
        if "covariance" in parameters:
            covariance = jnp.asarray(parameters["covariance"])
            parameters["factor"] = jnp.sqrt(covariance) if covariance.ndim == 1 else jnp.linalg.cholesky(covariance)
        return changed(self, **parameters)

    @property
    def width(self) -> int:
        """k, the length of one sample."""
        return int(self.mean.shape[0])

    def normals(self, n: int) -> int:
        """n·k: a sample takes k standard normal numbers."""
        return n * self.width

    def from_normals(self, normals: Array) -> Array:
        """mean + factor · normals."""
        return jax.vmap(self.color)(normals.reshape(-1, self.width))

    def color(self, white: Array) -> Array:
        """The sample (k,) made from standard normal numbers (k,)."""
        if self.factor.ndim == 1:
            return jnp.asarray(self.mean + self.factor * white)
        rows = white.reshape(-1, 1, self.factor.shape[-1])
        factor = self.factor.reshape(rows.shape[0], -1, self.factor.shape[-1])
        return self.mean + jnp.sum(factor * rows, axis=-1).reshape(-1)

    def expectation(self, pattern: Pattern | None, smooth: bool) -> Quadrature | Moments:
        """The exact moments or, without a pattern, a quadrature."""
        if pattern is None:
            return Quadrature(self, smooth)
        return Moments(jnp.asarray(self.mean), pattern.compress(self.full_covariance()), pattern)

    def nodes(self, rule: tuple[Floats, Floats]) -> Samples:
        """The nodes and weights of a rule for N(0, I), mapped to this distribution."""
        nodes, weights = rule
        return Samples(jax.vmap(self.color)(jnp.asarray(nodes)), jnp.asarray(weights))

    def full_covariance(self) -> Array:
        """The covariance as one matrix (k, k)."""
        if self.covariance.ndim == 2:
            return jnp.asarray(self.covariance)
        if self.covariance.ndim == 1:
            return jnp.diag(self.covariance)
        return jax.scipy.linalg.block_diag(*self.covariance)


@pytree()
class Empirical:
    """Your own samples (n, k), drawn with replacement; a vector (n,) counts as k = 1.

    They are an array, or a pandas DataFrame or Series of numbers and booleans; `Empirical.read` reads them from a file.

    >>> import performative as pf
    >>> demand = pf.Empirical([[1.0, 0.0], [2.0, 1.0], [4.0, 1.0]])
    >>> demand.width, demand.samples.shape
    (2, (3, 2))
    """

    samples: Array

    def __init__(self, samples: ArrayLike | DataFrame | Series) -> None:
        if isinstance(samples, str | PathLike):
            raise TypeError(f"`samples` must be numbers, but got {samples!r}; Empirical.read reads them from a file")
        tabular = is_pandas(samples, "DataFrame") or is_pandas(samples, "Series")
        numbers = from_frame(samples) if tabular else finite_array("samples", samples, (1, 2))
        numbers = numbers[:, None] if numbers.ndim == 1 else numbers
        if 0 in numbers.shape:
            raise ValueError(f"`samples` must hold at least one row of at least one number, but got {numbers.shape}")
        assign(self, samples=numbers)

    @classmethod
    def read(cls, path: str | PathLike[str], columns: Sequence[str | int] | None = None) -> Empirical:
        """The samples in a parquet (.parquet, .pq) or CSV (.csv, .csv.gz) file: all its columns, or `columns` in their order.

        The first line of a CSV file names its columns. Parquet needs pyarrow: `pip install performative[tables]`.
        """
        return cls(read_frame(Path(path), columns))

    @property
    def width(self) -> int:
        """k, the length of one sample."""
        return int(self.samples.shape[1])

    def normals(self, n: int) -> int:
        """n: a sample takes one standard normal number."""
        return n

    def from_normals(self, normals: Array) -> Array:
        """Rows drawn uniformly: Φ of a standard normal number is uniform on [0, 1]."""
        count = self.samples.shape[0]
        row = jnp.floor(jax.scipy.special.ndtr(normals) * count).astype(jnp.int64)
        return jnp.asarray(self.samples)[jnp.minimum(row, count - 1)]

    def expectation(self, pattern: Pattern | None, smooth: bool) -> Samples | Moments:
        """All samples with equal weights or, where the pattern allows, their moments: both exact."""
        return from_samples(jnp.asarray(self.samples), pattern)
