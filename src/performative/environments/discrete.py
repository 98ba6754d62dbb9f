"""Families of counts, parametrised by their mean: risks are sums over all outcomes, and exact."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.numerics.pytrees import pytree
from performative.problem import Problem
from performative.validation import whole

MOST_OUTCOMES = 4096
"""Outcomes that a discrete family is summed over, at most."""
TAIL = 1e-9
"""The most probability that may lie beyond the largest outcome."""


class Discrete:
    """Independent entries with outcomes 0, 1, …: exact sums over all outcomes."""

    width: Any

    @property
    def size(self) -> int:
        """k."""
        return int(self.width)

    @property
    def by_mean(self) -> bool:
        """Yes."""
        return True

    def normals(self, n: int) -> int:
        """k for each sample."""
        return n * int(self.width)

    @property
    def discrete(self) -> bool:
        """Yes."""
        return True

    def mass(self, parameter: Array) -> Array:
        """P(0), P(1), … of one entry."""
        raise TypeError(f"{type(self).__name__} must define mass(parameter)")

    def draw(self, normals: Array, parameter: Array) -> Array:
        """The inverse of the distribution function at Φ of the numbers."""
        below = jnp.cumsum(jax.vmap(self.mass)(parameter), axis=1)[:, :-1]  # (k, outcomes − 1)
        uniform = jax.scipy.special.ndtr(normals.reshape(-1, int(self.width), 1))
        return jnp.sum((uniform > below).astype(jnp.float64), axis=-1)

    def log_density(self, z: Array, parameter: Array) -> Array:
        """Σ log P(z_i); −∞ for what is no outcome."""
        table = jax.vmap(self.mass)(parameter)
        counted = jnp.clip(z, 0, table.shape[1] - 1).astype(jnp.int64)
        chances = jnp.take_along_axis(table, counted[:, None], axis=1)[:, 0]
        possible = (jnp.floor(z) == z) & (z >= 0) & (z <= self.largest) & (chances > 0)
        return jnp.sum(jnp.where(possible, jnp.log(jnp.where(possible, chances, 1.0)), -jnp.inf))

    @property
    def largest(self) -> float:
        """The largest number that counts as an outcome."""
        raise TypeError(f"{type(self).__name__} must define largest")

    def risk(self, problem: Problem, parameter: Any, steps: int | None = None) -> Any:
        """A sum over all outcomes."""
        return _Sum(problem.loss, self, parameter)

    def outcomes(self) -> Array:
        """All samples (s, k) there are."""
        one = range(self.mass(jnp.full((), 0.5)).shape[0])
        return jnp.asarray(list(itertools.product(one, repeat=int(self.width))), dtype=jnp.float64)


@pytree()
class _Sum:
    loss: Any
    family: Any
    parameter: Any

    def __call__(self, theta: Array, where: Array | None = None) -> Array:
        parameter = self.parameter(theta if where is None else where)
        table = jax.vmap(self.family.mass)(parameter)
        points = self.family.outcomes()
        columns = np.arange(points.shape[1])
        weights = jnp.prod(table[columns, points.astype(jnp.int64)], axis=1)
        return jnp.sum(weights * jax.vmap(lambda z: self.loss(theta, z))(points))


@pytree("width")
class Bernoulli(Discrete):
    """`width` independent entries, 1 with probability f and 0 otherwise."""

    width: Any = 1

    def __post_init__(self) -> None:
        whole("width", self.width, 1, int(np.log2(MOST_OUTCOMES)))

    def mass(self, parameter: Array) -> Array:
        """1 − f, f."""
        return jnp.stack([1.0 - parameter, parameter])

    @property
    def largest(self) -> float:
        """1."""
        return 1.0

    def fault(self, parameter: Array) -> str | None:
        """A probability."""
        return None if np.all((parameter >= 0) & (parameter <= 1)) else "must lie in [0, 1]"

    def inside(self, parameter: Array) -> Array:
        """Away from 0 and 1."""
        return jnp.clip(parameter, 1e-3, 1.0 - 1e-3)


@pytree("width", "most")
class Poisson(Discrete):
    """`width` independent counts of mean f; outcomes above `most` are counted as `most`."""

    width: Any = 1
    most: Any = 60

    def __post_init__(self) -> None:
        whole("width", self.width, 1)
        outcomes = (whole("most", self.most, 1) + 1) ** int(self.width)
        if outcomes > MOST_OUTCOMES:
            raise ValueError(
                f"`(most + 1) ** width` must be at most {MOST_OUTCOMES}, the outcomes to sum over, but is {outcomes}"
            )

    def mass(self, parameter: Array) -> Array:
        """f^z e^(−f)/z!, the last outcome holding what is left."""
        factors = parameter / jnp.arange(1.0, self.most)
        chances = jnp.exp(-parameter) * jnp.concatenate([jnp.ones(1), jnp.cumprod(factors)])
        return jnp.concatenate([chances, jnp.maximum(1.0 - jnp.sum(chances), 0.0)[None]])

    @property
    def largest(self) -> float:
        """Any: what is above `most` counts as `most`."""
        return float("inf")

    def fault(self, parameter: Array) -> str | None:
        """A mean well below `most`."""
        if not np.all(parameter >= 0):
            return "must be >= 0"
        from scipy import stats

        beyond = float(np.max(stats.poisson.sf(self.most, parameter)))
        return (
            None if beyond <= TAIL else f"must leave at most {TAIL:.0e} above most={self.most}, but leaves {beyond:.2g}"
        )

    def inside(self, parameter: Array) -> Array:
        """Above 0."""
        return jnp.maximum(parameter, 1e-3)
