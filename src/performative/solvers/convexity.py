"""Is a problem convex? Proved from its programs, or refuted at points all over Θ."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.constraints import Constraint
from performative.numerics import polynomial
from performative.numerics.arrays import Floats
from performative.numerics.curvature import is_convex
from performative.numerics.definite import is_indefinite, is_semidefinite
from performative.problem import Problem
from performative.solvers.conic import undeclared
from performative.solvers.derivatives import (
    DecoupledRisk,
    Derivatives,
    Model,
    constraint_curvature,
    constraint_derivatives,
    projected,
    require_finite,
    smoothed,
)


class Survey(NamedTuple):
    """A risk at points all over Θ, taken before it is minimized."""

    points: Floats
    models: list[Model]
    quadratic: bool


def survey(derivatives: Derivatives, problem: Problem, theta: Floats, risk: Callable[[Array], Array]) -> Survey:
    """The risk at θ and at points all over Θ."""
    first = smoothed(derivatives, problem, theta)
    require_finite(first, theta)
    points = [theta, *spread_of_points(problem, theta)]
    if polynomial.degree(risk, np.zeros(problem.d)) <= 2:
        moves = np.stack(points) - theta
        gradients = first.gradient + moves @ first.hessian
        values = first.value + 0.5 * np.sum(moves * (first.gradient + gradients), axis=1)
        return Survey(
            np.stack(points), [Model(v, g, first.hessian) for v, g in zip(values, gradients, strict=True)], True
        )
    models = [first, *(derivatives(point) for point in points[1:])]
    finite = [all(np.all(np.isfinite(part)) for part in model) for model in models]
    finite_models = [model for model, good in zip(models, finite, strict=True) if good]
    return Survey(np.stack(points)[finite], finite_models, False)


def proof_of_convexity(
    problem: Problem, survey: Survey, risk: DecoupledRisk, name: str, frozen: bool, scale: float
) -> str | None:
    """Why the problem is convex, or None where that is not proved.

    A quadratic risk has one Hessian, whose eigenvalues tell. Any risk is convex if its integrand is, for every individual, by the
    rules of composition; with `frozen`, on data that do not react. Constraints are convex by their type, by their Hessian
    if they are quadratic, or by the same rules.
    """
    theta = np.zeros(problem.d)
    if survey.quadratic and is_semidefinite(survey.models[0].hessian):
        why = "it is quadratic"
    elif _convex_integrand(
        risk, theta, frozen
    ):  # also of a quadratic risk: the rules know coefficients that cancel exactly
        why = "it is built by rules that keep convexity"
    else:
        return None
    for item in problem.constraints:
        if not convex_constraint(problem, item):
            return None
    return f"{name} is convex, since {why}" + (", and so are the constraints" if problem.constraints else "")


def _convex_integrand(risk: DecoupledRisk, theta: Floats, frozen: bool) -> bool:
    integrand = getattr(risk, "integrand", None)
    if integrand is None:
        return False
    z0 = np.zeros(risk.width)  # type: ignore[attr-defined]
    if frozen:
        return is_convex(integrand, theta, theta, z0)
    return is_convex(lambda theta, z0: integrand(theta, theta, z0), theta, z0)


def convex_constraint(problem: Problem, item: Constraint) -> bool:
    """Whether a constraint is proved convex: by its type, by its Hessian if it is quadratic, or by the rules of composition."""
    if item.has_convex_form:
        return True
    theta = np.zeros(problem.d)
    if polynomial.degree(item, theta) <= 2:
        rows = np.eye(len(item.names))
        hessians = [np.asarray(jax.hessian(lambda theta, row=row: jnp.sum(row * item(theta)))(theta)) for row in rows]
        return bool(np.all(is_semidefinite(np.stack(hessians))))
    return is_convex(item, theta)


def usual_slope(derivatives: Derivatives, problem: Problem) -> float:
    """The usual size of the gradient: its lower quartile over points all over Θ, without those where the risk is flat.

    The points are the same whatever the decision, and so is the unit in which residuals are measured.
    """
    center = projected(problem, np.zeros(problem.d))
    models = [derivatives(point) for point in [center, *spread_of_points(problem, center)]]
    finite = [model for model in models if np.all(np.isfinite(model.gradient)) and np.isfinite(model.value)]
    sizes = np.array([np.linalg.norm(model.gradient) for model in finite])
    rounding = 1e-15 * np.array([abs(float(model.value)) for model in finite])
    steep = sizes > rounding
    return float(np.quantile(sizes[steep], 0.25)) if np.any(steep) else float(np.max(rounding, initial=0.0)) or 1.0


def spread_of_points(problem: Problem, theta: Floats, pairs: int = 4) -> list[Floats]:
    """Points of Θ, the same every time: first all over Θ, then around θ; inside and on the boundary."""
    random = np.random.default_rng(0)
    radius = problem.decisions.radius
    near = min(radius, 10.0) / np.sqrt(problem.d)
    reach = (np.zeros_like(theta), 4 * radius) if np.isfinite(radius) else (theta, 10 * near)
    points = []
    for center, length in (reach, (theta, near)):
        moves = length * random.normal(size=(pairs, problem.d))
        ends = [projected(problem, center + sign * move) for move in moves for sign in (1, -1)]
        weights = random.uniform(size=2 * pairs)
        between = [w * one + (1 - w) * other for w, one, other in zip(weights, ends, ends[1:] + ends[:1], strict=True)]
        points += [*between, *ends[:pairs]]
    return points


def not_convex(problem: Problem, survey: Survey, name: str, scale: float) -> str | None:
    """Why the problem is not convex, or None: the risk or a constraint curves downward or has a kink that does."""
    if survey.quadratic:
        reason = _indefinite(name, survey.models[0].hessian, scale)
    else:
        reason = bent_downward(name, [model.hessian for model in survey.models], scale)
    if reason is None and not survey.quadratic:
        values, gradients = (np.stack(part) for part in list(zip(*survey.models, strict=True))[:2])
        reason = _above_chord(name, survey.points, values, gradients)
    points = survey.points[:1] if polynomial.degree(problem.g, np.zeros(problem.d)) <= 2 else survey.points
    for index in np.flatnonzero(undeclared(problem)):
        if reason is not None:
            break
        label, alone = f"constraint {problem.constraint_names[index]}", np.eye(len(problem.constraint_names))[index]
        curvatures = [constraint_curvature(problem, point, alone) for point in points]
        reason = _indefinite(label, curvatures[0], 0.0) if len(points) == 1 else bent_downward(label, curvatures, 0.0)
        if reason is None and len(points) > 1:
            g, jacobians = (
                np.stack(part) for part in zip(*(constraint_derivatives(problem, p) for p in points), strict=True)
            )
            reason = _above_chord(label, points, g[:, index], jacobians[:, index])
    return reason


def _indefinite(name: str, hessian: Floats, scale: float) -> str | None:
    """Why a quadratic function is not convex, or None; its Hessian is exact up to rounding, its gradient of size `scale`."""
    if not is_indefinite(hessian, scale):
        return None
    lowest = min(float(np.linalg.eigvalsh((hessian + hessian.T) / 2)[0]), float(np.min(np.diagonal(hessian))))
    return f"{name} is not convex: its Hessian has the eigenvalue {lowest:.6g}"


def bent_downward(name: str, hessians: list[Floats], scale: float) -> str | None:
    """Why Hessians at some points show that a function is not convex, or None; its gradient is of size `scale`.

    They are averages over nodes and not exact, so that a small negative eigenvalue shows nothing.
    """
    lowest = min(float(np.linalg.eigvalsh((h + h.T) / 2)[0]) for h in hessians)
    if lowest < -1e-9 * max(float(np.max(np.abs(hessians))), 1e-3 * scale):
        return f"{name} is not convex: its Hessian has the eigenvalue {lowest:.6g}"
    return None


def _above_chord(name: str, points: Floats, values: Floats, gradients: Floats) -> str | None:
    """Why f(y) ≥ f(x) + ⟨∇f(x), y − x⟩ fails for a pair of points, beyond rounding, or None."""
    finite = np.isfinite(values) & np.all(np.isfinite(gradients), axis=1)
    points, values, gradients = points[finite], values[finite], gradients[finite]
    along = gradients @ points.T - np.sum(gradients * points, axis=1)[:, None]
    gap = values[None, :] - values[:, None] - along
    allowed = 1e-10 * (np.abs(values)[None, :] + np.abs(values)[:, None] + np.abs(gradients) @ np.abs(points).T)
    if not np.any(gap < -allowed):
        return None
    x, y = np.unravel_index(np.argmin(gap / np.maximum(allowed, 1e-300)), gap.shape)
    return f"{name} is not convex: at {points[y]} it lies {-gap[x, y]:.6g} below its tangent at {points[x]}"
