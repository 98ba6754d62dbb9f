"""A solver for the reference problems: smooth risk, constraints g(θ) ≤ 0, θ in Θ, to high accuracy, with multipliers.

Sequential convex programming: the risk is replaced by its second-order model at the current point, constraints that have
a convex cvxpy form stay as they are, others are linearised and their curvature, weighted by the multipliers, moves into the
model. Clarabel solves each subproblem. A convex quadratic program is its own model and takes one step.

Tolerances are meant for a risk whose gradient is usually of size one; the caller divides by that size.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.problem import Problem
from performative.validation import Floats


class Model(NamedTuple):
    """Value, gradient and Hessian of the risk at a point."""

    value: Floats
    gradient: Floats
    hessian: Floats


class Point(NamedTuple):
    """A decision with its multipliers and how far they are from satisfying the KKT conditions."""

    decision: Floats
    multipliers: Floats
    residual: float


class SolverFailed(RuntimeError):
    """The convex solver gave up on a subproblem."""


def minimise(
    risk: Callable[[Floats], Model], problem: Problem, start: Floats, tolerance: float, most: int = 60
) -> tuple[Point, list[Floats]]:
    """The minimiser of `risk` under the problem's constraints from `start`, and the Hessians met on the way."""
    theta, lam = start, np.zeros(len(problem.constraint_names))
    best = Point(theta, lam, np.inf)
    hessians: list[Floats] = []
    require_finite(risk(theta), theta)
    stalled = 0
    for _ in range(most):
        model = risk(theta)
        hessians.append(model.hessian)
        try:
            found, lam = _subproblem(problem, theta, lam, model)
        except SolverFailed:
            if best.residual < np.inf:
                break
            raise
        theta = _line_search(risk, problem, theta, found, model, lam)
        residual = kkt_residual(problem, theta, lam, risk(theta).gradient)
        stalled = 0 if residual < 0.5 * best.residual else stalled + 1
        if residual < best.residual:
            best = Point(theta, lam, residual)
        if best.residual <= tolerance * 1e-3 or (best.residual <= tolerance and stalled) or stalled > 8:
            break
    return _polished(risk, problem, best), hessians


def below(risk: Callable[[Floats], Model], problem: Problem, point: Point) -> Floats | None:
    """A decision that is better than a stationary point, along a direction in which the Lagrangian curves downwards."""
    theta, model = point.decision, risk(point.decision)
    values, vectors = np.linalg.eigh(model.hessian + constraint_curvature(problem, theta, point.multipliers))
    merit = _merit(problem, point.multipliers)
    lowest = merit(theta, float(model.value))
    lowest -= 1e-9 * max(1.0, abs(lowest))
    found = None
    for direction in vectors.T[values < -1e-9 * max(float(np.max(np.abs(values))), 1e-3)]:
        for length in 2.0 ** np.arange(4, -10, -1):
            for move in (length * direction, -length * direction):
                there = np.asarray(problem.decisions.project(jnp.asarray(theta + move)))
                reached = merit(there, float(risk(there).value))
                if np.isfinite(reached) and reached < lowest:
                    found, lowest = there, reached
    return found


def minimise_with_kinks(
    risk: Callable[[Floats], Model],
    problem: Problem,
    start: Floats,
    tolerance: float,
    most: int = 400,
    bend: float = 0.0,
) -> Point:
    """The minimiser of a risk that need not be smooth: a proximal bundle method (Kiwiel 1990).

    The risk is modelled by the largest of its tangents. With weights α of the active tangents, the aggregate Σα_j g_j is an
    ε-subgradient at the centre, ε = Σα_j e_j their linearisation errors; the residual is the largest of its distance from
    −λᵀ∇g − N_Θ, of ε, and of the violation. Where the risk is not convex, e_j is at least `bend` ‖centre − x_j‖², so that
    a tangent counts the less the farther away it was taken, and the point is a stationary one.
    """
    import cvxpy as cp

    center, prox = start, 1.0
    model = risk(center)
    value, cuts = float(model.value), [(start, float(model.value), model.gradient)]
    best = Point(center, np.zeros(len(problem.constraint_names)), np.inf)
    for _ in range(most):
        x, level = cp.Variable(problem.dimension), cp.Variable()
        errors = np.array([value - f - g @ (center - at) for at, f, g in cuts])
        if bend:
            apart = np.array([float(np.sum((center - at) ** 2)) for at, _, _ in cuts])
            errors = np.maximum(np.abs(errors), bend * apart)
        tangents = np.stack([g for _, _, g in cuts]) @ (x - center) - errors <= level  # relative to the centre's value
        held = [values <= 0 for values in _values(problem, center, x)]
        objective = level + cp.sum_squares(x - center) / (2 * prox)
        _solve(cp.Problem(cp.Minimize(objective), [tangents, *held, *problem.decisions.declare(x)]))
        found = np.asarray(problem.decisions.project(jnp.asarray(x.value, dtype=float)))
        lam = np.maximum(np.concatenate([np.atleast_1d(item.dual_value) for item in held] or [np.zeros(0)]), 0.0)
        weights = np.maximum(np.atleast_1d(tangents.dual_value), 0.0)
        aggregate = float(weights @ errors)
        violation = float(np.max(np.asarray(problem.g(jnp.asarray(center))), initial=0.0))
        residual = max(float(np.linalg.norm(found - center)) / prox, aggregate, violation)
        if residual < best.residual:
            best = Point(center, lam, residual)
        if best.residual <= tolerance:
            break
        model = risk(found)
        expected = -float(level.value)
        cuts = [cut for cut, weight in zip(cuts, weights, strict=True) if weight > 1e-10][-60:]
        if not np.isfinite(model.value):
            prox *= 0.1
            continue
        cuts.append((found, float(model.value), model.gradient))
        if float(model.value) <= value - 0.1 * expected or violation > tolerance:
            center, value, prox = found, float(model.value), min(prox * 2.0, 1e6)
        elif expected > tolerance:
            prox = max(prox * 0.7, 1e-4)
    return best


def _polished(risk: Callable[[Floats], Model], problem: Problem, point: Point) -> Point:
    """Projected gradient steps on the Lagrangian: cone solvers leave a curved Θ at half their digits, projections do not."""
    best, theta, lam = point, point.decision, point.multipliers
    curvature = np.linalg.eigvalsh(risk(theta).hessian + constraint_curvature(problem, theta, lam))
    length = 1 / max(float(np.max(np.abs(curvature))), 1e-12)
    for _ in range(100):
        ascent = risk(theta).gradient + lam @ linearised(problem, theta)[1]
        theta = np.asarray(problem.decisions.project(jnp.asarray(theta - length * ascent)))
        residual = kkt_residual(problem, theta, lam, risk(theta).gradient)
        if not residual < 0.99 * best.residual:
            break
        best = Point(theta, lam, residual)
    return best


def kkt_residual(problem: Problem, theta: Floats, lam: Floats, gradient: Floats) -> float:
    """The largest of ‖θ − Π_Θ(θ − ∇PR − λᵀ∇g)‖, max g⁺ and max |λ g|: zero exactly at a KKT point (λ ≥ 0)."""
    g, jacobian = linearised(problem, theta)
    moved = problem.decisions.project(jnp.asarray(theta - gradient - lam @ jacobian))
    stationarity = float(np.linalg.norm(theta - np.asarray(moved)))
    return max(stationarity, float(np.max(g, initial=0.0)), float(np.max(np.abs(lam * g), initial=0.0)))


def largest_slack(problem: Problem) -> tuple[Floats, float, dict[str, float]]:
    """The θ ∈ Θ that minimises max_i g_i(θ); the slack −max_i g_i(θ); and the constraints that hold it back.

    They come with their weights (summing to 1) in the convex combination of constraints that cannot be made smaller.
    """
    import cvxpy as cp

    names = problem.constraint_names
    theta = np.asarray(problem.decisions.project(jnp.zeros(problem.dimension)))
    if not names:
        return theta, np.inf, {}
    bent = any(item.declare(cp.Variable(problem.dimension)) is None for item in problem.constraints)
    starts = [theta]
    if bent:  # perhaps not convex: look from several points
        random = np.random.default_rng(0)
        radius = min(problem.decisions.radius, 10.0)
        drawn = random.normal(size=(8, theta.shape[0])) * radius
        starts += [np.asarray(problem.decisions.project(jnp.asarray(point))) for point in drawn]
    best = _slack_from(problem, theta, bent)
    for start in starts[1:]:
        if best[1] <= 0:
            break
        if np.all(np.isfinite(problem.g(jnp.asarray(start)))):
            best = min(best, _slack_from(problem, start, bent), key=lambda found: found[1])
    theta, worst, weights = best
    share = weights / max(float(np.sum(weights)), 1e-300)
    blocking = {name: float(w) for name, w in zip(names, share, strict=True) if w > 1e-4}
    return theta, -worst, blocking


def _slack_from(problem: Problem, theta: Floats, bent: bool) -> tuple[Floats, float, Floats]:
    """min max_i g_i from a point: the decision, the value and the constraints' weights."""
    import cvxpy as cp

    reached = float(np.max(np.asarray(problem.g(jnp.asarray(theta)))))
    best = (theta, reached, np.zeros(len(problem.constraint_names)))
    for iteration in range(40 if bent else 1):
        x, level = cp.Variable(problem.dimension), cp.Variable()
        held = [values <= level for values in _values(problem, theta, x)]
        # Slack is capped, so that the program is bounded where the set is not.
        bounded = [level >= -1e6]
        proximal = 1e-3 * cp.sum_squares(x - theta) if bent else 0.0
        _solve(cp.Problem(cp.Minimize(level + proximal), held + bounded + problem.decisions.declare(x)))
        theta = np.asarray(problem.decisions.project(jnp.asarray(x.value, dtype=float)))
        weights = np.concatenate([np.atleast_1d(item.dual_value) for item in held])
        reached = float(np.max(np.asarray(problem.g(jnp.asarray(theta)))))
        improved = reached < best[1] - 1e-10 * max(1.0, abs(best[1]))
        if iteration == 0:
            best = (*best[:2], weights)  # of the start, where nothing is better
        if reached < best[1]:
            best = (theta, reached, weights)
        if not improved:
            break
    return best


@jax.jit
def constraints(problem: Problem, theta: Array) -> tuple[Array, Array]:
    """g(θ) and its Jacobian as they come, finite or not."""
    return problem.g(theta), jax.jacrev(problem.g)(theta)


@jax.jit
def _curvature(problem: Problem, theta: Array, lam: Array) -> Array:
    return jax.hessian(lambda theta: jnp.sum(lam * problem.g(theta)))(theta)


def constraint_curvature(problem: Problem, theta: Floats, lam: Floats) -> Floats:
    """Σ λ_i ∇²g_i(θ), taken next to θ where it is not finite at θ itself; zero where it is not finite there either."""
    if not np.any(lam):
        return np.zeros((problem.dimension, problem.dimension))
    curvature = np.asarray(_curvature(problem, theta, lam))
    if not np.all(np.isfinite(curvature)):
        curvature = np.nan_to_num(_curvature(problem, nudged(problem, theta), lam), nan=0.0, posinf=0.0, neginf=0.0)
    return (curvature + curvature.T) / 2


def undeclared(problem: Problem) -> Floats:
    """1 for each constraint without a convex form, 0 for the others."""
    import cvxpy as cp

    x = cp.Variable(problem.dimension)
    open_ = [np.full(len(item.names), float(item.declare(x) is None)) for item in problem.constraints]
    return np.concatenate([*open_, np.zeros(0)])


def linearised(problem: Problem, theta: Floats) -> tuple[Floats, Floats]:
    """g(θ) and its Jacobian; rows that are not finite at θ (a norm at 0) are taken next to it."""
    g, jacobian = (np.asarray(part) for part in constraints(problem, theta))
    finite = np.all(np.isfinite(jacobian), axis=1)
    if not np.all(finite):
        jacobian = np.where(finite[:, None], jacobian, constraints(problem, nudged(problem, theta))[1])
    for name, value, row in zip(problem.constraint_names, g, jacobian, strict=True):
        if not np.isfinite(value):
            raise ValueError(f"constraint {name} must be finite on the decision set, but is {value} at {theta}")
        if not np.all(np.isfinite(row)):
            raise ValueError(f"the gradient of constraint {name} must be finite, but is {row} at {theta}")
    return g, jacobian


def smoothed(derivatives: Callable[[Floats], Model], problem: Problem, theta: Floats) -> Model:
    """The model at θ; derivatives that are not finite there, though the value is, are taken next to it."""
    model = derivatives(theta)
    if not np.isfinite(model.value) or all(np.all(np.isfinite(part)) for part in model):
        return model
    near = derivatives(nudged(problem, theta))
    gradient = model.gradient if np.all(np.isfinite(model.gradient)) else near.gradient
    hessian = near.hessian if np.all(np.isfinite(near.hessian)) else np.zeros_like(near.hessian)
    require_finite(Model(model.value, gradient, hessian), theta)
    return Model(model.value, gradient, hessian)


def require_finite(model: Model, theta: Floats) -> None:
    """Refuse an average loss that is not finite at θ, or whose gradient is not."""
    if not np.isfinite(model.value):
        raise ValueError(f"the average loss must be finite on the decision set, but is {model.value} at {theta}")
    if not np.all(np.isfinite(model.gradient)):
        raise ValueError(f"the gradient of the loss must be finite, but its average is {model.gradient} at {theta}")


def nudged(problem: Problem, theta: Floats, length: float = 1e-9) -> Floats:
    """θ, moved by about `length` of its size into the inside of Θ, always in the same direction."""
    size = max(1.0, float(np.linalg.norm(theta)))
    drawn = theta + size * np.random.default_rng(1).normal(size=(32, theta.shape[0]))
    inside = np.mean([np.asarray(problem.decisions.project(jnp.asarray(point))) for point in drawn], axis=0)
    return np.asarray(theta + length * (inside - theta))


def _values(problem: Problem, theta: Floats, variable: Any) -> list[Any]:
    """The constraints' values at `variable`: in convex form where there is one, linearised at θ elsewhere."""
    g, jacobian = linearised(problem, theta)
    values, row = [], 0
    for item in problem.constraints:
        rows = slice(row, row + len(item.names))
        row = rows.stop
        declared = item.declare(variable)
        values.append(g[rows] + jacobian[rows] @ (variable - theta) if declared is None else declared)
    return values


def _subproblem(problem: Problem, theta: Floats, lam: Floats, model: Model) -> tuple[Floats, Floats]:
    import cvxpy as cp

    x = cp.Variable(problem.dimension)
    hessian = model.hessian + constraint_curvature(problem, theta, lam * undeclared(problem))
    values, vectors = np.linalg.eigh((hessian + hessian.T) / 2)
    floor = 1e-9 * max(float(np.max(np.abs(values))), 1e-12)
    if values[0] < -floor:
        values = np.maximum(np.abs(values), floor)  # a convex model of a non-convex risk
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    move = x - theta
    objective = 0.5 * cp.sum_squares(root @ move) + model.gradient @ move
    held = [values <= 0 for values in _values(problem, theta, x)]
    _solve(cp.Problem(cp.Minimize(objective), held + problem.decisions.declare(x)))
    duals = np.concatenate([np.atleast_1d(item.dual_value) for item in held] or [np.zeros(0)])
    return np.asarray(problem.decisions.project(jnp.asarray(x.value, dtype=float))), np.maximum(duals, 0.0)


def _line_search(
    risk: Callable[[Floats], Model], problem: Problem, theta: Floats, found: Floats, model: Model, lam: Floats
) -> Floats:
    """The largest of the steps 1, ½, ¼, … that lowers the risk plus a penalty on violations."""
    merit = _merit(problem, lam)
    before = merit(theta, float(model.value))
    allowance = 1e-9 * max(1.0, abs(before))
    for halving in range(30):
        point = theta + 0.5**halving * (found - theta)
        reached = merit(point, float(risk(point).value))
        if np.isfinite(reached) and reached <= before + allowance:
            return point
    return found if np.isfinite(merit(found, float(risk(found).value))) else theta


def _merit(problem: Problem, lam: Floats) -> Callable[[Floats, float], float]:
    """The risk plus a penalty on violations."""
    weight = 2.0 * float(np.max(lam, initial=0.0)) + 1.0

    def merit(point: Floats, value: float) -> float:
        return value + weight * float(np.sum(np.maximum(np.asarray(problem.g(jnp.asarray(point))), 0.0)))

    return merit


def _solve(program: Any) -> None:
    import cvxpy as cp

    tight = {"tol_gap_abs": 1e-13, "tol_gap_rel": 1e-13, "tol_feas": 1e-13, "max_iter": 400}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # accuracy is certified by the KKT residual, not by the solver's status
        try:
            program.solve(solver=cp.CLARABEL, **tight)
        except cp.SolverError as error:
            raise SolverFailed(f"Clarabel failed: {error}") from error
    if program.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
        raise SolverFailed(f"the convex subproblem is {program.status}")
