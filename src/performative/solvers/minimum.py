"""The minimizer of a risk over Θ with g ≤ 0: picks a solver, and certifies the result by its KKT residual."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from performative.errors import SolverFailed
from performative.numerics.arrays import Floats
from performative.numerics.programs import Program
from performative.problem import Problem
from performative.solvers.bundle import minimize_with_kinks
from performative.solvers.certificate import certified
from performative.solvers.convexity import (
    bent_downward,
    not_convex,
    proof_of_convexity,
    spread_of_points,
    survey,
    usual_slope,
)
from performative.solvers.derivatives import (
    DecoupledRisk,
    Derivatives,
    constraint_derivatives,
    constraint_values_at,
    gradient_size,
    model_of,
    normalized,
    nudged,
)
from performative.solvers.feasibility import FEASIBLE, require_feasible
from performative.solvers.kkt import TOLERANCE, Point, Solution
from performative.solvers.sequential import below, minimize
from performative.solvers.subgradients import with_best_multipliers
from performative.solvers.unbounded import lower_beyond, require_bounded

STARTS = 8
"""The number of further starts for a problem that is not convex."""
LOOKS = 384
"""The number of points at which the risk of a problem that is not proved convex is looked at."""


def minimum(problem: Problem, risk: DecoupledRisk, start: ArrayLike | None = None) -> Solution:
    """argmin risk(θ) over θ ∈ Θ with g(θ) ≤ 0.

    By exact convex programming if the risk is quadratic, and by sequential convex programming otherwise. If the problem turns
    out not to be convex, the best of the KKT points reached from nine starts and from the best of many points. Only what is
    proved convex is called a global minimum. `UnboundedProblem` names a direction in which the risk decreases without bound.
    """
    derivatives = functools.partial(model_of, risk)
    theta = smooth_start(problem, derivatives, require_feasible(problem, start))
    try:
        return _minimum(problem, risk, derivatives, theta)
    except SolverFailed:
        require_bounded(problem, derivatives, theta, "the performative risk")
        raise


def _minimum(problem: Problem, risk: DecoupledRisk, derivatives: Derivatives, theta: Floats) -> Solution:
    evidence = survey(derivatives, problem, theta, risk)
    scale = usual_slope(derivatives, problem)
    scaled = normalized(derivatives, problem, scale)
    name = "the performative risk"
    proof = proof_of_convexity(problem, evidence, risk, name, False, scale)
    reason = None if proof else not_convex(problem, evidence, name, scale)
    if reason is None:
        point, hessians = minimized(scaled, problem, theta)
        reason = None if proof else bent_downward(name, [scale * h for h in hessians], scale)
    local, message = proof is None, f"global: {proof}"
    if proof is None and reason is None:
        reason = f"{name} is not proved convex, though it is at all of {len(evidence.points)} points"
        lower, count = lower_elsewhere(problem, risk, point.decision)
        message = f"local: {reason}; none of {count} points all over the set is better"
        if lower is not None:
            point = min([point, minimized(scaled, problem, lower)[0]], key=lambda one: _order(scaled, one))
            message = (
                f"local: {reason}; the better of two KKT points, the second reached from the best of {count} points"
            )
    elif reason is not None:
        lower, looked = lower_elsewhere(problem, risk, theta)
        point, count = best_of_starts(scaled, problem, theta, [] if lower is None else [lower])
        message = (
            f"local: {reason}; the best of the KKT points reached from {count} of {STARTS + 1} starts and from the best of "
            f"{looked} points"
        )
    if proof is None:
        _require_nothing_lower(problem, risk, point.decision, lower)
    beyond = None if local else lower_beyond(problem, derivatives, point.decision, theta, scale)
    if beyond is not None:
        drop = float(derivatives(point.decision).value - derivatives(beyond).value)
        local = True
        message = (
            f"local: {name} keeps falling, and its least value may not be attained: at {beyond} it is lower by {drop:.3g}; "
            "bound the decision there"
        )
    return certified(problem, derivatives, point.decision, scale * point.multipliers, local, message)


def _require_nothing_lower(problem: Problem, risk: DecoupledRisk, theta: Floats, other: Floats | None) -> None:
    """Refuse a KKT point θ with a higher risk than another point, from which the search has started too: it went uphill."""
    if other is None:
        return
    (here, there), _ = (np.asarray(part) for part in _looked_at(problem, risk, np.stack([theta, other])))
    if there < here - 1e-6 * max(1.0, abs(float(here))):
        raise SolverFailed(
            f"derivatives lead to {theta} with a risk of {here:.6g}, but the risk is lower, {there:.6g}, at {other}: they do "
            "not show where it falls, as for a loss that jumps; smooth the loss (a sigmoid for a step)"
        )


def lower_elsewhere(problem: Problem, risk: DecoupledRisk, theta: Floats) -> tuple[Floats | None, int]:
    """The best of many feasible points all over Θ, if it is better than θ, and how many there are."""
    points = np.stack([theta, *spread_of_points(problem, theta, LOOKS // 6)])
    values, worst = (np.asarray(part) for part in _looked_at(problem, risk, points))
    usable = np.isfinite(values) & (worst <= 0)
    usable[0] = True
    best = int(np.argmin(np.where(usable, values, np.inf)))
    better = values[best] < values[0] - 1e-9 * max(1.0, abs(float(values[0])))
    return (points[best] if better else None), int(np.sum(usable)) - 1


@Program
def _looked_at(problem: Problem, risk: DecoupledRisk, points: Array) -> tuple[Array, Array]:
    return jax.lax.map(lambda theta: (risk(theta), jnp.max(problem.g(theta), initial=-jnp.inf)), points)


def minimized(risk: Derivatives, problem: Problem, theta: Floats, bend: float = 0.0) -> tuple[Point, list[Floats]]:
    """A KKT point and the Hessians on the way to it; stationary points where the risk curves downward are left behind."""
    hessians: list[Floats] = []
    for _ in range(10):
        accepted = TOLERANCE * gradient_size(risk, theta)
        point, on_the_way = minimize(risk, problem, theta, accepted)
        hessians += on_the_way
        lower = below(risk, problem, point)
        if lower is None:
            break
        theta = lower
    if not point.residual <= accepted:
        most = 100 if bend else 400
        kinked = minimize_with_kinks(risk, problem, point.decision, 0.1 * accepted, most, bend)
        # Where the risk is smooth after all, a few more steps from there reach the last digits.
        smooth, on_the_way = minimize(risk, problem, kinked.decision, accepted)
        point = min(point, smooth, key=lambda one: one.residual)
        hessians += on_the_way
        if not point.residual <= accepted:
            point = min(point, with_best_multipliers(problem, risk, kinked), key=lambda one: one.residual)
    return point, hessians


def best_of_starts(
    risk: Derivatives, problem: Problem, theta: Floats, further: Sequence[Floats] = ()
) -> tuple[Point, int]:
    """The best of the KKT points reached from θ, other starts and `further` ones, and their number without the latter."""
    points: list[tuple[bool, float, Point]] = []
    failure: Exception = SolverFailed("no start led to a KKT point")
    for start in [theta, *_starts(risk, problem, theta), *further]:
        try:
            point, _ = minimized(risk, problem, start, bend=1.0)
        except (SolverFailed, ValueError) as error:
            failure = error
            continue
        points.append((*_order(risk, point), point))
    if not points:
        raise failure
    best = points[0]
    for other in points[1:]:  # the first of those that are equally good
        if other[0] < best[0] or (other[0] == best[0] and other[1] < best[1] - 1e-9 * max(1.0, abs(best[1]))):
            best = other
    return best[2], min(sum(not bad for bad, _, _ in points), STARTS + 1)


def _order(risk: Derivatives, point: Point) -> tuple[bool, float]:
    """KKT points come first, by their risk; then all others, by their residual."""
    bad = not point.residual <= TOLERANCE * gradient_size(risk, point.decision)
    return bad, point.residual if bad else float(risk(point.decision).value)


def _starts(risk: Derivatives, problem: Problem, theta: Floats) -> list[Floats]:
    """The points of least risk among feasible ones all over Θ, none of them close to another."""
    points = [feasible_towards(problem, theta, point) for point in spread_of_points(problem, theta, 32)]
    close = 0.25 * np.median([np.linalg.norm(point - theta) for point in points])
    starts: list[Floats] = []
    for index in np.argsort([float(risk(point).value) for point in points], kind="stable"):
        if len(starts) < STARTS and all(np.linalg.norm(points[index] - other) >= close for other in starts):
            starts.append(points[index])
    return starts


def feasible_towards(problem: Problem, theta: Floats, point: Floats) -> Floats:
    """The point or, if it violates the constraints, the first feasible one on the way from it to the feasible θ."""
    for halving in range(6):
        there = theta + 0.5**halving * (point - theta)
        if np.max(constraint_values_at(problem, there), initial=-np.inf) <= 0:
            return there
    return theta


def smooth_start(problem: Problem, derivatives: Derivatives, theta: Floats) -> Floats:
    """θ or, if derivatives are not finite there (as for a norm at 0), a feasible point close to it."""
    for length in (0.0, 1e-2, 1e-3, 1e-4):
        moved = nudged(problem, theta, length) if length else theta
        parts = [np.asarray(part) for part in (*derivatives(moved), *constraint_derivatives(problem, moved))]
        if all(np.all(np.isfinite(part)) for part in parts) and np.max(parts[3], initial=-np.inf) <= FEASIBLE:
            return moved
    return theta
