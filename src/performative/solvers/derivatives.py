"""Values and derivatives of a risk and of constraints at a point, or right next to it if they are not finite at it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64
from performative.numerics.programs import Program
from performative.problem import Problem
from performative.sets import Box, DecisionSet

DecoupledRisk = Callable[..., Array]
"""risk(θ, where): the average loss of θ on the data that the decision `where` induces, which is θ itself by default.

It is a pytree, so that it can be an argument of a compiled function. If it is an average over individuals z₀ of `width` numbers,
it may offer `integrand(θ, where, z₀)`, from which its convexity can be proved.
"""


class Model(NamedTuple):
    """Value, gradient and Hessian of a risk at a point."""

    value: Floats
    gradient: Floats
    hessian: Floats


Derivatives = Callable[[Floats], Model]


@in_float64
def projected(problem: Problem, point: Floats) -> Floats:
    """Π_Θ(point)."""
    if isinstance(problem.decisions, Box):  # what it does to numbers is not worth a program
        return np.clip(point, problem.decisions.lower, problem.decisions.upper)
    return np.asarray(_projection(problem.decisions, point))


@in_float64
def constraint_values_at(problem: Problem, theta: Floats) -> Floats:
    """g(θ)."""
    return np.asarray(_values(problem, theta))


@Program
def _projection(decisions: DecisionSet, point: Array) -> Array:
    return decisions.project(point)


@Program
def _values(problem: Problem, theta: Array) -> Array:
    return problem.g(theta)


def model_of(risk: DecoupledRisk, theta: Floats) -> Model:
    """The model of θ ↦ risk(θ), with the data's reaction."""
    return Model(*(np.asarray(part) for part in _derivatives(risk, theta)))


def frozen_models(risk: DecoupledRisk) -> Callable[[Floats, Floats], Model]:
    """`frozen_model_of` a risk, for many pairs of `where` and θ."""
    expanded = _frozen_derivatives.of(risk)
    return lambda where, theta: Model(*(np.asarray(part) for part in expanded(where, theta)))


def frozen_model_of(risk: DecoupledRisk, where: Array, theta: Floats) -> Model:
    """The model of θ ↦ risk(θ, where), on data that do not react."""
    return Model(*(np.asarray(part) for part in _frozen_derivatives(risk, where, theta)))


@Program
def _derivatives(risk: DecoupledRisk, theta: Array) -> tuple[Array, Array, Array]:
    return _expanded(risk, theta)


@Program
def _frozen_derivatives(risk: DecoupledRisk, where: Array, theta: Array) -> tuple[Array, Array, Array]:
    return _expanded(lambda theta: risk(theta, where), theta)


def _expanded(risk: Callable[[Array], Array], theta: Array) -> tuple[Array, Array, Array]:
    """Value, gradient and Hessian from one program, which compiles in half the time of two."""

    def slope(theta: Array) -> tuple[Array, tuple[Array, Array]]:
        value, gradient = jax.value_and_grad(risk)(theta)
        return gradient, (value, gradient)

    hessian, (value, gradient) = jax.jacfwd(slope, has_aux=True)(theta)
    return value, gradient, hessian


def normalized(derivatives: Derivatives, problem: Problem, scale: float) -> Derivatives:
    """The derivatives divided by `scale`, finite wherever the risk is."""

    def risk(theta: Floats) -> Model:
        return Model(*(part / scale for part in smoothed(derivatives, problem, theta)))

    return risk


def gradient_size(derivatives: Derivatives, theta: Floats) -> float:
    """The length of the gradient at θ, at least 1."""
    return max(1.0, float(np.linalg.norm(derivatives(theta).gradient)))


@Program
def constraint_derivatives(problem: Problem, theta: Array) -> tuple[Array, Array]:
    """g(θ) and its Jacobian, finite or not."""
    return problem.g(theta), jax.jacrev(problem.g)(theta)


@Program
def _curvature(problem: Problem, theta: Array, lam: Array) -> Array:
    return jax.hessian(lambda theta: jnp.sum(lam * problem.g(theta)))(theta)


def constraint_curvature(problem: Problem, theta: Floats, lam: Floats) -> Floats:
    """Σ λ_i ∇²g_i(θ), taken next to θ if it is not finite at θ; entries that are not finite there either become zero."""
    if not np.any(lam):
        return np.zeros((problem.d, problem.d))
    curvature = np.asarray(_curvature(problem, theta, lam))
    if not np.all(np.isfinite(curvature)):
        curvature = np.nan_to_num(_curvature(problem, nudged(problem, theta), lam), nan=0.0, posinf=0.0, neginf=0.0)
    return (curvature + curvature.T) / 2


def linearized(problem: Problem, theta: Floats) -> tuple[Floats, Floats]:
    """g(θ) and its Jacobian; rows that are not finite at θ (as for a norm at 0) are taken next to it."""
    g, jacobian = (np.asarray(part) for part in constraint_derivatives(problem, theta))
    finite = np.all(np.isfinite(jacobian), axis=1)
    if not np.all(finite):
        jacobian = np.where(finite[:, None], jacobian, constraint_derivatives(problem, nudged(problem, theta))[1])
    for name, value, row in zip(problem.constraint_names, g, jacobian, strict=True):
        if not np.isfinite(value):
            raise ValueError(f"constraint {name} must be finite on the decision set, but is {value} at {theta}")
        if not np.all(np.isfinite(row)):
            raise ValueError(f"the gradient of constraint {name} must be finite, but is {row} at {theta}")
    return g, jacobian


def smoothed(derivatives: Derivatives, problem: Problem, theta: Floats) -> Model:
    """The model at θ; if the value is finite but a derivative is not, the derivative is taken next to θ."""
    model = derivatives(theta)
    if not np.isfinite(model.value) or all(np.all(np.isfinite(part)) for part in model):
        return model
    near = derivatives(nudged(problem, theta))
    gradient = model.gradient if np.all(np.isfinite(model.gradient)) else near.gradient
    hessian = near.hessian if np.all(np.isfinite(near.hessian)) else np.zeros_like(near.hessian)
    require_finite(Model(model.value, gradient, hessian), theta)
    return Model(model.value, gradient, hessian)


def require_finite(model: Model, theta: Floats) -> None:
    """Refuse an average loss that is not finite at θ, or whose gradient is not finite there."""
    if not np.isfinite(model.value):
        raise ValueError(
            f"the average loss must be finite on the decision set, but is {model.value} at {theta}; shrink the set, or guard the "
            "loss where it has no value, as in jnp.log(jnp.maximum(x, 1e-9))"
        )
    if not np.all(np.isfinite(model.gradient)):
        raise ValueError(
            f"the gradient of the loss must be finite, but its average is {model.gradient} at {theta}; shrink the set, or guard "
            "the loss where it has no slope, as in jnp.sqrt(x + 1e-9)"
        )


def nudged(problem: Problem, theta: Floats, length: float = 1e-9) -> Floats:
    """θ moved into the interior of Θ by about `length` times its size, always in the same direction."""
    size = max(1.0, float(np.linalg.norm(theta)))
    points = theta + size * np.random.default_rng(1).normal(size=(32, theta.shape[0]))
    inside = np.mean([projected(problem, point) for point in points], axis=0)
    return np.asarray(theta + length * (inside - theta))
