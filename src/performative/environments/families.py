"""Families of distributions whose parameter moves with the decision: Z ∼ p(·; f(θ)).

Often the form p of the density is known but f is not: PerfGD learns f, and a score-function gradient needs both. The
exponential families here are parametrized by the mean of Z, so that an average of samples estimates the parameter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from performative.environments.bases import Gaussian
from performative.environments.reaction import LOOKS, Reaction, ReactionRisk
from performative.explanations import explained
from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import assign, callable_node, pytree
from performative.numerics.randomness import standard_normal
from performative.numerics.tracers import is_traced, jax_arrays
from performative.problem import Problem
from performative.solvers.derivatives import DecoupledRisk
from performative.validation import finite_array, symmetric

Parameter = Callable[[Array], Array]
"""f: the parameter (p,) that a decision (d,) leads to."""


class Family(Protocol):
    """A form of density p(z; f) with a parameter f (p,).

    >>> import performative as pf
    >>> family = pf.Bernoulli(width=2)
    >>> family.width, family.size, family.by_mean, family.discrete
    (2, 2, True, True)
    """

    @property
    def width(self) -> int:
        """k, the length of one sample."""

    @property
    def size(self) -> int:
        """p, the length of the parameter."""

    @property
    def by_mean(self) -> bool:
        """Whether the parameter is the mean of Z, so that an average of samples estimates it."""

    @property
    def discrete(self) -> bool:
        """Whether p is a probability rather than a density."""

    def normals(self, n: int) -> int:
        """How many standard normal numbers n samples take."""

    def draw(self, normals: Array, parameter: Array) -> Array:
        """The samples (n, k) made from these numbers."""

    def log_density(self, z: Array, parameter: Array) -> Array:
        """log p(z; f)."""

    def risk(self, problem: Problem, parameter: Parameter, steps: int | None = None) -> DecoupledRisk:
        """The decoupled risk of the world with f = `parameter`."""

    def fault(self, parameter: Floats) -> str | None:
        """What is wrong with a parameter, or None."""

    def inside(self, parameter: Array) -> Array:
        """The nearest parameter at which the density is defined, for estimates that stray."""


@pytree()
class Normal:
    """N(f, covariance) on R^k with a known covariance, a matrix (k, k) or variances (k,).

    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> demand = pf.ParametricFamily(pf.Normal(0.5), lambda price: 4.0 - jnp.sqrt(price))
    >>> problem = pf.Problem(lambda price, sold: -price[0] * sold[0], pf.Box([0.0], [9.0]))
    >>> pf.performative_risk(problem, demand, [4.0])
    -8.0
    """

    base: Gaussian

    def __init__(self, covariance: ArrayLike) -> None:
        covariance = np.atleast_1d(finite_array("covariance", covariance, (0, 1, 2)))
        least = (
            np.min(covariance) if covariance.ndim == 1 else np.linalg.eigvalsh(symmetric("covariance", covariance))[0]
        )
        if not least > 0:
            raise ValueError(f"`covariance` must be positive definite, but its smallest eigenvalue is {least:.6g}")
        assign(self, base=Gaussian(np.zeros(covariance.shape[0]), covariance))

    @property
    def width(self) -> int:
        """k, the length of one sample."""
        return self.base.width

    @property
    def size(self) -> int:
        """k: the parameter is the mean."""
        return self.base.width

    @property
    def by_mean(self) -> bool:
        """True: the parameter is the mean of Z."""
        return True

    @property
    def discrete(self) -> bool:
        """False: p is a density."""
        return False

    def normals(self, n: int) -> int:
        """n·k: a sample takes k standard normal numbers."""
        return self.base.normals(n)

    def draw(self, normals: Array, parameter: Array) -> Array:
        """Samples of N(0, covariance), moved by the mean f."""
        return self.base.from_normals(normals) + parameter

    def log_density(self, z: Array, parameter: Array) -> Array:
        """−½ (z − f)ᵀ Σ⁻¹ (z − f) − ½ log det 2πΣ."""
        apart = z - parameter
        if self.base.covariance.ndim == 1:
            variances = jnp.asarray(self.base.covariance)
            return -0.5 * jnp.sum(apart * apart / variances + jnp.log(2.0 * jnp.pi * variances))
        covariance = jnp.asarray(self.base.covariance)
        normalizer = jnp.linalg.slogdet(2.0 * jnp.pi * covariance)[1]
        return -0.5 * (jnp.sum(apart * jnp.linalg.solve(covariance, apart)) + normalizer)

    def risk(self, problem: Problem, parameter: Parameter, steps: int | None = None) -> ReactionRisk:
        """The decoupled risk: exact for quadratic losses, by quadrature for others."""
        return self._world(parameter).risk(problem, steps)

    def coarse_enough(self, problem: Problem, parameter: Parameter) -> int | None:
        """The coarsest grid that is accurate enough; see `Reaction`."""
        return self._world(parameter).coarse_enough(problem)

    def fault(self, parameter: Floats) -> str | None:
        """What is wrong if the mean is not finite."""
        return None if np.all(np.isfinite(parameter)) else "must be finite"

    def inside(self, parameter: Array) -> Array:
        """The parameter itself: any mean is allowed."""
        return parameter

    def _world(self, parameter: Parameter) -> Reaction:
        return Reaction(self.base, _Moved(parameter))


@pytree()
class _Moved:
    parameter: Parameter

    def __call__(self, theta: Array, z0: Array) -> Array:
        return z0 + self.parameter(theta)


@pytree()
class ParametricFamily:
    """Z ∼ p(·; f(θ)): `family` is the form p, `parameter` the function f from a decision (d,) to its parameter (p,).

    >>> import performative as pf
    >>> visitors = pf.ParametricFamily(pf.Bernoulli(), lambda price: 1.0 - price / 4.0)
    >>> problem = pf.Problem(lambda price, bought: -price[0] * bought[0], pf.Box([0.0], [4.0]))
    >>> pf.performative_optimum(problem, visitors).decision.round(6).tolist()
    [2.0]
    """

    family: Family
    parameter: Parameter

    def __init__(self, family: Family, parameter: Parameter) -> None:
        if not all(hasattr(family, part) for part in ("width", "size", "draw", "log_density", "risk")):
            raise TypeError(f"`family` must be a family such as performative.Normal, but got {family!r}")
        if not callable(parameter):
            raise TypeError(f"`parameter` must be a function of the decision, but got {parameter!r}")
        assign(self, family=family, parameter=jax_arrays(callable_node(parameter)))

    @property
    def width(self) -> int:
        """k, the length of one sample."""
        return int(self.family.width)

    @property
    def dimension(self) -> int | None:
        """None: f takes decisions of any length."""
        return None

    def normals(self, n: int) -> int:
        """How many standard normal numbers n samples take."""
        return int(self.family.normals(n))

    def respond(self, normals: Array, theta: Array) -> Array:
        """The samples made from these numbers."""
        return self.family.draw(normals, self.parameter(jnp.asarray(theta)))

    @in_float64
    def sample(self, key: Array, theta: Array, n: int) -> Array:
        """n samples (n, k) of Z ∼ D(θ)."""
        return self.respond(standard_normal(key, self.normals(n)), theta)

    def log_density(self, z: Array, theta: Array) -> Array:
        """log p(z; f(θ)), which takes knowing f."""
        return self.family.log_density(z, self.parameter(theta))

    def risk(self, problem: Problem, steps: int | None = None) -> DecoupledRisk:
        """The decoupled risk, as the family computes it."""
        return self.family.risk(problem, self.parameter, steps)

    def coarse_enough(self, problem: Problem) -> int | None:
        """The grid to measure with, if the family has one; see `Reaction`."""
        coarse = getattr(self.family, "coarse_enough", None)
        return coarse(problem, self.parameter) if coarse else None

    @in_float64
    def check(self, problem: Problem, theta: ArrayLike | None = None) -> None:
        """Refuse a parameter that the family does not allow, at `theta` or, by default, at any of 32 decisions."""
        decision = jax.ShapeDtypeStruct((problem.d,), np.float64)
        try:
            shape = jax.eval_shape(self.parameter, decision).shape
        except (TypeError, ValueError, IndexError) as error:
            raise ValueError(
                f"`parameter` must take a decision ({problem.dimension},), but failed{explained(error)}"
            ) from error
        if shape != (self.family.size,):
            raise ValueError(
                f"`parameter` must return the {self.family.size} numbers of the family, but returned {shape}"
            )
        problem.check_samples(self.width)
        if is_traced(self, problem):
            return
        for point in problem.decisions.spread(problem.d, LOOKS) if theta is None else [np.asarray(theta)]:
            value = np.asarray(self.parameter(jnp.asarray(point)))
            fault = self.family.fault(value)
            if fault is not None:
                raise ValueError(
                    f"`parameter(theta)` {fault}, but is {value} at the decision {point}; change the function, or leave such "
                    "decisions out of the set"
                )

    @in_float64
    def check_solution(self, problem: Problem, theta: ArrayLike) -> None:
        """Refuse a solution whose parameter the family does not allow, by more than rounding at the end of the set."""
        others = problem.decisions.spread(problem.d, LOOKS) - np.asarray(theta)
        near = [np.asarray(self.parameter(jnp.asarray(theta + 1e-6 * move))) for move in (0.0 * others[0], *others)]
        if all(self.family.fault(value) is not None for value in near):
            self.check(problem, theta)
