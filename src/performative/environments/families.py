"""Families of distributions whose parameter moves with the decision: Z ∼ p(·; f(θ)).

The form p of the density is often known while f is not: PerfGD learns f, and a score-function gradient needs both. The
exponential families here are parametrised by the mean of Z, so that an average of samples estimates the parameter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.environments.bases import Gaussian
from performative.environments.reaction import LOOKS, Reaction
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import assign, callable_node, pytree
from performative.numerics.randomness import standard_normal
from performative.problem import Problem
from performative.validation import finite_array, is_traced, jax_arrays, symmetric


class Family(Protocol):
    """A form of density p(z; f) with a parameter f (p,)."""

    @property
    def width(self) -> int:
        """k, the length of one sample."""

    @property
    def size(self) -> int:
        """p, the length of the parameter."""

    @property
    def by_mean(self) -> bool:
        """Whether the parameter is the mean of Z, so that samples estimate it."""

    @property
    def discrete(self) -> bool:
        """Whether p is a probability and not a density."""

    def normals(self, n: int) -> int:
        """How many standard normal numbers n samples take."""

    def draw(self, normals: Array, parameter: Array) -> Array:
        """The samples (n, k) that these numbers stand for."""

    def log_density(self, z: Array, parameter: Array) -> Array:
        """log p(z; f)."""

    def risk(self, problem: Problem, parameter: Any, steps: int | None = None) -> Any:
        """The decoupled risk where the parameter is `parameter(θ)`."""

    def fault(self, parameter: Array) -> str | None:
        """What is wrong with a parameter, or None."""

    def inside(self, parameter: Array) -> Array:
        """The parameter, or one close to it at which the density is defined: estimates may stray."""


@pytree()
class Normal:
    """N(f, covariance) on R^k, the covariance known."""

    base: Any

    def __init__(self, covariance: Any) -> None:
        covariance = np.atleast_1d(finite_array("covariance", covariance, (0, 1, 2)))
        least = (
            np.min(covariance) if covariance.ndim == 1 else np.linalg.eigvalsh(symmetric("covariance", covariance))[0]
        )
        if not least > 0:
            raise ValueError(f"`covariance` must be positive definite, but its smallest eigenvalue is {least:.6g}")
        assign(self, base=Gaussian(np.zeros(covariance.shape[0]), covariance))

    @property
    def width(self) -> int:
        """k."""
        return self.base.width

    @property
    def size(self) -> int:
        """k."""
        return self.base.width

    @property
    def by_mean(self) -> bool:
        """Yes."""
        return True

    @property
    def discrete(self) -> bool:
        """No."""
        return False

    def normals(self, n: int) -> int:
        """k for each sample."""
        return self.base.normals(n)

    def draw(self, normals: Array, parameter: Array) -> Array:
        """The base moved by the mean."""
        return self.base.from_normals(normals) + parameter

    def log_density(self, z: Array, parameter: Array) -> Array:
        """−½ (z − f)ᵀ Σ⁻¹ (z − f) − ½ log det 2πΣ."""
        apart = z - parameter
        if self.base.covariance.ndim == 1:
            variances = jnp.asarray(self.base.covariance)
            return -0.5 * jnp.sum(apart * apart / variances + jnp.log(2.0 * jnp.pi * variances))
        covariance = jnp.asarray(self.base.covariance)
        normaliser = jnp.linalg.slogdet(2.0 * jnp.pi * covariance)[1]
        return -0.5 * (jnp.sum(apart * jnp.linalg.solve(covariance, apart)) + normaliser)

    def risk(self, problem: Problem, parameter: Any, steps: int | None = None) -> Any:
        """Exact for quadratic losses, a quadrature for others."""
        return self._world(parameter).risk(problem, steps)

    def coarse_enough(self, problem: Problem, parameter: Any) -> int | None:
        """As in `Reaction`."""
        return self._world(parameter).coarse_enough(problem)

    def fault(self, parameter: Array) -> str | None:
        """Any finite mean will do."""
        return None if np.all(np.isfinite(parameter)) else "must be finite"

    def inside(self, parameter: Array) -> Array:
        """As it is."""
        return parameter

    def _world(self, parameter: Any) -> Reaction:
        return Reaction(self.base, _Moved(parameter))


@pytree()
class _Moved:
    parameter: Any

    def __call__(self, theta: Array, z0: Array) -> Array:
        return z0 + self.parameter(theta)


@pytree()
class ParametricFamily:
    """Z ∼ p(·; f(θ)): `family` is the form p, `parameter` the function f from a decision (d,) to its parameter (p,)."""

    family: Any
    parameter: Any

    def __init__(self, family: Family, parameter: Callable[[Array], Array]) -> None:
        if not all(hasattr(family, part) for part in ("width", "size", "draw", "log_density", "risk")):
            raise TypeError(f"`family` must be one of performative.families, but got {family!r}")
        if not callable(parameter):
            raise TypeError(f"`parameter` must be a function of the decision, but got {parameter!r}")
        assign(self, family=family, parameter=jax_arrays(callable_node(parameter)))

    @property
    def width(self) -> int:
        """k, the length of one sample."""
        return int(self.family.width)

    @property
    def dimension(self) -> int | None:
        """Any: the problem tells it."""
        return None

    def normals(self, n: int) -> int:
        """How many standard normal numbers n samples take."""
        return int(self.family.normals(n))

    def respond(self, normals: Array, theta: Array) -> Array:
        """The samples that these numbers stand for."""
        return self.family.draw(normals, self.parameter(jnp.asarray(theta)))

    @in_float64
    def sample(self, key: Array, theta: Array, n: int) -> Array:
        """n samples (n, k) of Z ∼ D(θ)."""
        return self.respond(standard_normal(key, self.normals(n)), theta)

    def log_density(self, z: Array, theta: Array) -> Array:
        """log p(z; f(θ)): for those who know f too."""
        return self.family.log_density(z, self.parameter(theta))

    def risk(self, problem: Problem, steps: int | None = None) -> Any:
        """The decoupled risk."""
        return self.family.risk(problem, self.parameter, steps)

    def coarse_enough(self, problem: Problem) -> int | None:
        """The grid to measure with, where the family has one; see `Reaction`."""
        coarse = getattr(self.family, "coarse_enough", None)
        return coarse(problem, self.parameter) if coarse else None

    @in_float64
    def check(self, problem: Problem, theta: Any = None) -> None:
        """Refuse a parameter that is not one of the family, at `theta` or, left out, at any of 32 decisions."""
        decision = jax.ShapeDtypeStruct((problem.dimension,), np.float64)
        try:
            shape = jax.eval_shape(self.parameter, decision).shape
        except (TypeError, ValueError, IndexError) as error:
            raise ValueError(f"`parameter` must take a decision ({problem.dimension},), but failed: {error}") from error
        if shape != (self.family.size,):
            raise ValueError(
                f"`parameter` must return the {self.family.size} numbers of the family, but returned {shape}"
            )
        problem.check_samples(self.width)
        if is_traced(self, problem):
            return
        for point in problem.decisions.spread(problem.dimension, LOOKS) if theta is None else [np.asarray(theta)]:
            value = np.asarray(self.parameter(jnp.asarray(point)))
            fault = self.family.fault(value)
            if fault is not None:
                raise ValueError(f"`parameter(theta)` {fault}, but is {value} at the decision {point}")
