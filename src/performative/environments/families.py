"""Families of distributions whose parameter moves with the decision: Z ∼ p(·; f(θ)).

The form p of the density is often known while f is not: PerfGD learns f, and a score-function gradient needs both. The
exponential families here are parametrised by the mean of Z, so that an average of samples estimates the parameter.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.environments.bases import Gaussian
from performative.environments.reaction import LOOKS, Reaction
from performative.precision import in_float64
from performative.problem import Problem
from performative.pytrees import assign, callable_node, pytree
from performative.randomness import standard_normal
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
class Mixture:
    """One of several families, drawn with weights that may move too.

    The parameter holds the weights of all components and then the parameters of each, one after the other.
    """

    components: Any

    def __init__(self, components: Sequence[Any]) -> None:
        if not all(hasattr(item, "log_density") for item in components):
            raise TypeError(f"`components` must be families such as performative.Normal, but got {components!r}")
        widths = {item.width for item in components}
        if len(widths) != 1:
            raise ValueError(
                f"`components` must be at least one family, all of one width, but got the widths {sorted(widths)}"
            )
        if len({item.discrete for item in components}) > 1:
            raise ValueError("`components` must all have a density or all be discrete, but got some of both")
        assign(self, components=tuple(components))

    @property
    def width(self) -> int:
        """k."""
        return int(self.components[0].width)

    @property
    def size(self) -> int:
        """The weights and all parameters."""
        return len(self.components) + sum(item.size for item in self.components)

    @property
    def by_mean(self) -> bool:
        """No: the mean of Z does not tell the weights."""
        return False

    @property
    def discrete(self) -> bool:
        """As the components are."""
        return bool(self.components[0].discrete)

    def normals(self, n: int) -> int:
        """One to choose the component, and what the hungriest component takes."""
        return n * (1 + max(item.normals(1) for item in self.components))

    def draw(self, normals: Array, parameter: Array) -> Array:
        """A component by its weight, and a sample of it."""
        weights, parts = self.split(parameter)
        rows = normals.reshape(-1, self.normals(1))
        uniform = jax.scipy.special.ndtr(rows[:, 0])
        below = jnp.cumsum(weights)[:-1]
        chosen = jnp.sum((uniform[:, None] > below).astype(jnp.int64), axis=1)
        drawn = [
            jax.vmap(lambda row, item=item, part=part: item.draw(row[1 : 1 + item.normals(1)], part)[0])(rows)
            for item, part in zip(self.components, parts, strict=True)
        ]
        return jnp.sum(jnp.stack(drawn) * (chosen == np.arange(len(drawn))[:, None])[:, :, None], axis=0)

    def log_density(self, z: Array, parameter: Array) -> Array:
        """log Σ w_j p_j(z)."""
        weights, parts = self.split(parameter)
        logs = [item.log_density(z, part) for item, part in zip(self.components, parts, strict=True)]
        return jax.scipy.special.logsumexp(jnp.stack(logs) + jnp.log(jnp.maximum(weights, 1e-300)))

    def risk(self, problem: Problem, parameter: Any, steps: int | None = None) -> Any:
        """The weighted risks of the components."""
        risks = tuple(
            item.risk(problem, _Part(self, parameter, index), steps) for index, item in enumerate(self.components)
        )
        return _MixtureRisk(risks, self, parameter)

    def split(self, parameter: Array) -> tuple[Array, list[Array]]:
        """The weights, and the parameter of each component."""
        count = len(self.components)
        ends = np.cumsum([count, *(item.size for item in self.components)])
        return parameter[:count], [parameter[a:b] for a, b in itertools.pairwise(ends)]

    def fault(self, parameter: Array) -> str | None:
        """Weights that sum to 1, and proper components."""
        weights, parts = self.split(parameter)
        if not (np.all(np.asarray(weights) >= 0) and abs(float(np.sum(weights)) - 1.0) < 1e-9):
            return f"must begin with {len(self.components)} weights >= 0 that sum to 1"
        faults = [item.fault(part) for item, part in zip(self.components, parts, strict=True)]
        return next((fault for fault in faults if fault), None)

    def inside(self, parameter: Array) -> Array:
        """As it is: no estimate of it is made."""
        return parameter


@pytree("index")
class _Part:
    mixture: Any
    parameter: Any
    index: Any

    def __call__(self, theta: Array) -> Array:
        return self.mixture.split(self.parameter(theta))[1][self.index]


@pytree()
class _MixtureRisk:
    risks: Any
    mixture: Any
    parameter: Any

    def __call__(self, theta: Array, where: Array | None = None) -> Array:
        weights, _ = self.mixture.split(self.parameter(theta if where is None else where))
        return sum((w * risk(theta, where) for w, risk in zip(weights, self.risks, strict=True)), start=jnp.zeros(()))


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
