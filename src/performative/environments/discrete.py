"""Families of counts, parametrized by their mean: risks are exact sums over all outcomes."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.numerics.arrays import Floats
from performative.numerics.pytrees import pytree
from performative.problem import Loss, Problem
from performative.validation import whole

MOST_OUTCOMES = 4096
"""The most outcomes to sum over."""
TAIL = 1e-9
"""The largest probability that may lie beyond the largest outcome."""


class Discrete:
    """Independent entries with outcomes 0, 1, …: exact sums over all outcomes."""

    width: int

    @property
    def size(self) -> int:
        """k: the parameter holds the mean of each entry."""
        return int(self.width)

    @property
    def by_mean(self) -> bool:
        """True: the parameter is the mean of Z."""
        return True

    def normals(self, n: int) -> int:
        """n·k: a sample takes k standard normal numbers."""
        return n * int(self.width)

    @property
    def discrete(self) -> bool:
        """True: p is a probability."""
        return True

    def mass(self, parameter: Array) -> Array:
        """P(0), P(1), … of one entry."""
        raise TypeError(f"{type(self).__name__} must define mass(parameter)")

    def draw(self, normals: Array, parameter: Array) -> Array:
        """The inverse of the distribution function at Φ(normals)."""
        below = jnp.cumsum(jax.vmap(self.mass)(parameter), axis=1)[:, :-1]  # (k, outcomes − 1)
        uniform = jax.scipy.special.ndtr(normals.reshape(-1, int(self.width), 1))
        return jnp.sum((uniform > below).astype(jnp.float64), axis=-1)

    def log_density(self, z: Array, parameter: Array) -> Array:
        """Σ log P(z_i); −∞ if an entry is not an outcome."""
        table = jax.vmap(self.mass)(parameter)
        counts = jnp.clip(z, 0, table.shape[1] - 1).astype(jnp.int64)
        chances = jnp.take_along_axis(table, counts[:, None], axis=1)[:, 0]
        possible = (jnp.floor(z) == z) & (z >= 0) & (z <= self.largest) & (chances > 0)
        return jnp.sum(jnp.where(possible, jnp.log(jnp.where(possible, chances, 1.0)), -jnp.inf))

    @property
    def largest(self) -> float:
        """The largest number that counts as an outcome."""
        raise TypeError(f"{type(self).__name__} must define largest")

    def risk(self, problem: Problem, parameter: Callable[[Array], Array], steps: int | None = None) -> _Sum:
        """The decoupled risk as a sum over all outcomes."""
        return _Sum(problem.loss, self, parameter)

    def outcomes(self) -> Array:
        """All possible samples (s, k)."""
        one = range(self.mass(jnp.full((), 0.5)).shape[0])
        return jnp.asarray(list(itertools.product(one, repeat=int(self.width))), dtype=jnp.float64)


@pytree()
class _Sum:
    loss: Loss
    family: Discrete
    parameter: Callable[[Array], Array]

    def __call__(self, theta: Array, where: Array | None = None) -> Array:
        parameter = self.parameter(theta if where is None else where)
        table = jax.vmap(self.family.mass)(parameter)
        points = self.family.outcomes()
        columns = np.arange(points.shape[1])
        weights = jnp.prod(table[columns, points.astype(jnp.int64)], axis=1)
        return jnp.sum(weights * jax.vmap(lambda z: self.loss(theta, z))(points))


@pytree("width")
class Bernoulli(Discrete):
    """`width` independent entries, 1 with probability f and 0 otherwise.

    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> buyers = pf.ParametricFamily(pf.Bernoulli(), lambda price: 1.0 - price / 4.0)
    >>> problem = pf.Problem(lambda price, bought: -price[0] * bought[0], pf.Box([0.0], [4.0]))
    >>> pf.performative_risk(problem, buyers, [1.0])
    -0.75
    """

    width: int = 1

    def __post_init__(self) -> None:
        whole("width", self.width, 1, int(np.log2(MOST_OUTCOMES)))

    def mass(self, parameter: Array) -> Array:
        """P(0) = 1 − f and P(1) = f."""
        return jnp.stack([1.0 - parameter, parameter])

    @property
    def largest(self) -> float:
        """1, since an entry is 0 or 1."""
        return 1.0

    def fault(self, parameter: Floats) -> str | None:
        """What is wrong if f is not a probability."""
        return None if np.all((parameter >= 0) & (parameter <= 1)) else "must lie in [0, 1]"

    def inside(self, parameter: Array) -> Array:
        """f, kept away from 0 and 1."""
        return jnp.clip(parameter, 1e-3, 1.0 - 1e-3)


@pytree("width", "most")
class Poisson(Discrete):
    """`width` independent counts of mean f; counts above `most` are recorded as `most`.

    >>> import performative as pf
    >>> sales = pf.ParametricFamily(pf.Poisson(most=40), lambda price: 8.0 - 2.0 * price)
    >>> problem = pf.Problem(lambda price, sold: -price[0] * sold[0], pf.Box([0.0], [4.0]))
    >>> round(pf.performative_risk(problem, sales, [2.0]), 6)
    -8.0
    """

    width: int = 1
    most: int = 60

    def __post_init__(self) -> None:
        whole("width", self.width, 1)
        outcomes = (whole("most", self.most, 1) + 1) ** int(self.width)
        if outcomes > MOST_OUTCOMES:
            raise ValueError(
                f"`(most + 1) ** width` must be at most {MOST_OUTCOMES}, the most outcomes to sum over, but is {outcomes}"
            )

    def mass(self, parameter: Array) -> Array:
        """P(z) = f^z e^(−f)/z!; the last outcome takes the rest."""
        factors = parameter / jnp.arange(1.0, self.most)
        chances = jnp.exp(-parameter) * jnp.concatenate([jnp.ones(1), jnp.cumprod(factors)])
        return jnp.concatenate([chances, jnp.maximum(1.0 - jnp.sum(chances), 0.0)[None]])

    @property
    def largest(self) -> float:
        """Infinity: counts above `most` count as `most`."""
        return float("inf")

    def fault(self, parameter: Floats) -> str | None:
        """What is wrong if f is negative, or too close to `most`."""
        if not np.all(parameter >= 0):
            return "must be >= 0"
        from scipy import stats

        beyond = float(np.max(stats.poisson.sf(self.most, parameter)))
        return (
            None if beyond <= TAIL else f"must leave at most {TAIL:.0e} above most={self.most}, but leaves {beyond:.2g}"
        )

    def inside(self, parameter: Array) -> Array:
        """f, kept above 0."""
        return jnp.maximum(parameter, 1e-3)
