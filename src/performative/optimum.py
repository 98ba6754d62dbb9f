"""The performative optimum and the stable point, certified by their KKT residual."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative import convex, polynomial
from performative.convex import Model, Point, SolverFailed
from performative.precision import in_float64
from performative.problem import Problem
from performative.pytrees import pytree
from performative.risk import LocationRisk, knows_risk
from performative.validation import Floats, finite_array

TOLERANCE = 1e-7
"""The KKT residual, relative to the gradient's size, up to which an answer is accepted."""
FEASIBLE = 1e-8
"""How large max g may be at its smallest for a problem to count as feasible."""


class InfeasibleProblem(ValueError):
    """No decision in Θ meets all constraints; `violation` is the smallest max_i g_i, `conflicting` who insists on it."""

    def __init__(self, violation: float, conflicting: dict[str, float]) -> None:
        self.violation = violation
        self.conflicting = conflicting
        names = ", ".join(conflicting)
        super().__init__(
            "a decision in the set with g(θ) <= 0 must exist, but the smallest max g(θ) that was found is "
            f"{violation:.6g}; in conflict (with each other or with the decision set): {names}"
        )


@pytree("local", "message")
class Solution:
    """A KKT point: the decision θ, the multipliers λ of the constraints, its performative risk, and the certificate.

    `kkt_residual` is the largest of ‖θ − Π_Θ(θ − ∇ − λᵀ∇g)‖, max g⁺ and max |λ g|. `local` says that the problem is not
    convex, so that there may be better decisions elsewhere; `message` says how that was found out.
    """

    decision: Any
    multipliers: Any
    risk: Any
    kkt_residual: Any
    local: Any
    message: Any


@in_float64
def performative_optimum(problem: Problem, environment: Any, start: Any = None) -> Solution:
    """θ_PO, the minimiser of PR(θ) over θ ∈ Θ with g(θ) ≤ 0.

    Exact convex programming where PR is quadratic, sequential convex programming otherwise. For any location family.
    """
    problem = _resolved(problem, environment)
    theta = require_feasible(problem, start)
    risk = functools.partial(_model, problem, environment)
    point, hessians = _minimised(risk, problem, theta)
    local, message = _convexity(problem, environment, hessians)
    return _certified(problem, environment, point, point.residual, local, message)


@in_float64
def stable_point(problem: Problem, environment: Any, start: Any = None) -> Solution:
    """θ_PS, which minimises the risk on the very data it induces: θ_PS = argmin_θ E_{Z∼D(θ_PS)} ℓ(θ; Z), g(θ) ≤ 0.

    Found by repeated risk minimisation with Anderson acceleration, so that it is also found where plain repetition
    circles or diverges. `risk` is PR(θ_PS).
    """
    problem = _resolved(problem, environment)
    theta = require_feasible(problem, start)

    def minimiser(where: Floats) -> Point:
        frozen = functools.partial(_frozen_model, problem, environment, jnp.asarray(where))
        return _minimised(frozen, problem, where)[0]

    def residual(theta: Floats, lam: Floats) -> float:
        gradient = _frozen_model(problem, environment, jnp.asarray(theta), theta).gradient
        return convex.kkt_residual(problem, theta, lam, gradient)

    best = Point(theta, np.zeros(len(problem.constraint_names)), np.inf)
    inputs: list[Floats] = []
    outputs: list[Floats] = []
    for _ in range(200):
        found = minimiser(theta)
        for candidate in (theta, found.decision):
            gap = float(np.linalg.norm(found.decision - theta))
            reached = min(residual(candidate, found.multipliers), max(found.residual, gap))
            if reached < best.residual:
                best = Point(candidate, found.multipliers, reached)
        if best.residual <= 1e-3 * TOLERANCE * _scale(problem, environment, best.decision):
            break
        inputs, outputs = [*inputs[-8:], theta], [*outputs[-8:], found.decision]
        theta = np.asarray(problem.decisions.project(jnp.asarray(_anderson(inputs, outputs))))
    return _certified(problem, environment, best, best.residual, False, "stable point of the repeated minimisation")


@in_float64
def certify(problem: Problem, environment: Any, decision: Any, multipliers: Any) -> Solution:
    """A `Solution` from a decision and multipliers found elsewhere, in closed form say, with its KKT residual."""
    problem = _resolved(problem, environment)
    decision, multipliers = finite_array("decision", decision, 1), finite_array("multipliers", multipliers, 1)
    model = _model(problem, environment, decision)
    residual = convex.kkt_residual(problem, decision, multipliers, model.gradient)
    return _certified(problem, environment, Point(decision, multipliers, residual), residual, False, "certified")


def require_feasible(problem: Problem, candidate: Any = None) -> Floats:
    """A decision in Θ with g ≤ 0 (the candidate or the projection of 0 if they will do), or `InfeasibleProblem`."""
    first = np.zeros(problem.dimension) if candidate is None else finite_array("start", candidate, 1)
    if first.shape != (problem.dimension,):
        raise ValueError(f"`start` must have shape ({problem.dimension},), but got {first.shape}")
    theta = _projected(problem, first)
    g = _g(problem, theta)
    for name, value in zip(problem.constraint_names, g, strict=True):
        if not np.isfinite(value):
            raise ValueError(
                f"constraint {name} must be finite on the decision set, but is {value} at {theta}; give a start"
            )
    if np.max(g, initial=-np.inf) <= 0:
        return theta
    theta, slack, blocking = _largest_slack(problem)
    if slack < -FEASIBLE:
        raise InfeasibleProblem(-slack, blocking)
    return theta


@in_float64
def _projected(problem: Problem, point: Floats) -> Floats:
    return np.asarray(problem.decisions.project(jnp.asarray(point)))


@in_float64
def _g(problem: Problem, theta: Floats) -> Floats:
    return np.asarray(_jitted_g(problem, theta))


@jax.jit
def _jitted_g(problem: Problem, theta: Array) -> Array:
    return problem.g(theta)


_largest_slack = in_float64(convex.largest_slack)


def _resolved(problem: Problem, environment: Any) -> Problem:
    if not isinstance(problem, Problem):
        raise TypeError(f"`problem` must be a performative.Problem, but got {problem!r}")
    if not knows_risk(environment):
        raise TypeError(
            "the optimum needs an environment whose truth is known, such as performative.LocationFamily, "
            f"but got {type(environment).__name__}"
        )
    if environment.dimension is not None:
        problem = problem.of_dimension(environment.dimension)
    if problem.dimension is None:
        raise ValueError("the problem's dimension must be known; give Problem(..., dimension=d)")
    environment.check(problem)
    return problem


def _minimised(risk: Callable[[Floats], Model], problem: Problem, theta: Floats) -> tuple[Point, list[Floats]]:
    scale = max(1.0, float(np.linalg.norm(risk(theta).gradient)))
    point, hessians = convex.minimise(risk, problem, theta, TOLERANCE * scale)
    if not point.residual <= TOLERANCE * scale:
        kinked = convex.minimise_with_kinks(risk, problem, point.decision, 0.1 * TOLERANCE * scale)
        point = kinked if kinked.residual < point.residual else point
    return point, hessians


def _certified(
    problem: Problem, environment: Any, point: Point, residual: float, local: bool, message: str
) -> Solution:
    if not residual <= TOLERANCE * _scale(problem, environment, point.decision):
        raise SolverFailed(
            f"no KKT point was found: the best residual is {residual:.3g}, accepted is {TOLERANCE:.0e} relative"
        )
    risk = _model(problem, environment, point.decision).value
    return Solution(point.decision, point.multipliers, np.float64(risk), np.float64(residual), local, message)


def _scale(problem: Problem, environment: Any, theta: Floats) -> float:
    return max(1.0, float(np.linalg.norm(_model(problem, environment, theta).gradient)))


def _convexity(problem: Problem, environment: Any, hessians: list[Floats]) -> tuple[bool, str]:
    """Whether the optimum may be a local one: PR or a constraint curves downwards somewhere."""
    quadratic = polynomial.degree(
        lambda theta: LocationRisk.of(problem, environment)(theta), np.zeros(problem.dimension)
    )
    looked_at = "everywhere, since the risk is quadratic"
    curved = polynomial.degree(problem.g, np.zeros(problem.dimension)) > 2
    probes = [np.zeros(problem.dimension)]
    if quadratic > 2 or curved:
        random = np.random.default_rng(0)
        radius = min(problem.decisions.radius, 10.0)
        drawn = random.normal(size=(16, problem.dimension)) * radius / np.sqrt(problem.dimension)
        probes = [_projected(problem, point) for point in drawn]
        hessians = hessians + [_model(problem, environment, point).hessian for point in probes]
        looked_at = f"and the constraints: at all of {len(hessians)} points looked at"
    lowest = min(float(np.linalg.eigvalsh((h + h.T) / 2)[0]) for h in hessians)
    largest = max(float(np.max(np.abs(h))) for h in hessians)
    if lowest < -1e-9 * max(largest, 1e-12):
        return (
            True,
            f"local: the performative risk is not convex, its Hessian has the eigenvalue {lowest:.6g}",
        )
    for index, name in enumerate(problem.constraint_names):
        alone = np.zeros(len(problem.constraint_names))
        alone[index] = 1.0
        for point in probes:
            curvature = np.asarray(convex.constraint_curvature(problem, point, alone))
            bent = float(np.linalg.eigvalsh(curvature)[0])
            if bent < -1e-9 * max(float(np.max(np.abs(curvature))), 1e-12):
                return (
                    True,
                    f"local: constraint {name} is not convex, its Hessian has the eigenvalue {bent:.6g}",
                )
    return False, f"global: the performative risk is convex ({looked_at})"


def _anderson(inputs: list[Floats], outputs: list[Floats]) -> Floats:
    """The next input of the fixed-point iteration: the mixture of outputs whose residuals cancel best."""
    residuals = np.stack(outputs) - np.stack(inputs)
    if len(residuals) == 1:
        return outputs[-1]
    steps = np.diff(residuals, axis=0).T
    weights = np.linalg.lstsq(steps, residuals[-1], rcond=1e-12)[0]
    return np.asarray(outputs[-1] - np.diff(np.stack(outputs), axis=0).T @ weights)


def _model(problem: Problem, environment: Any, theta: Floats) -> Model:
    return Model(*(np.asarray(part) for part in _derivatives(problem, environment, theta)))


def _frozen_model(problem: Problem, environment: Any, where: Array, theta: Floats) -> Model:
    return Model(*(np.asarray(part) for part in _frozen_derivatives(problem, environment, where, theta)))


@jax.jit
def _derivatives(problem: Problem, environment: Any, theta: Array) -> tuple[Array, Array, Array]:
    risk = LocationRisk.of(problem, environment)
    return (*jax.value_and_grad(risk)(theta), jax.hessian(risk)(theta))


@jax.jit
def _frozen_derivatives(problem: Problem, environment: Any, where: Array, theta: Array) -> tuple[Array, Array, Array]:
    risk = LocationRisk.of(problem, environment)
    return (*jax.value_and_grad(risk)(theta, where), jax.hessian(risk)(theta, where))
