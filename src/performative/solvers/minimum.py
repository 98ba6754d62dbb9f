"""The minimizer of a risk over Θ with g ≤ 0: picks a solver, and certifies the result by its KKT residual."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import ArrayLike

from performative.errors import SolverFailed
from performative.numerics.arrays import Floats
from performative.problem import Problem
from performative.solvers.bundle import minimize_with_kinks
from performative.solvers.certificate import certified
from performative.solvers.convexity import bent_downward, not_convex, spread_of_points, survey
from performative.solvers.derivatives import (
    DecoupledRisk,
    Derivatives,
    constraint_derivatives,
    gradient_size,
    model_of,
    normalized,
    nudged,
)
from performative.solvers.feasibility import FEASIBLE, constraint_values_at, require_feasible
from performative.solvers.kkt import TOLERANCE, Point, Solution
from performative.solvers.sequential import below, minimize

STARTS = 8
"""The number of further starts for a problem that is not convex."""


def minimum(problem: Problem, risk: DecoupledRisk, start: ArrayLike | None = None) -> Solution:
    """argmin risk(θ) over θ ∈ Θ with g(θ) ≤ 0.

    By exact convex programming if the risk is quadratic, and by sequential convex programming otherwise. If the problem turns
    out not to be convex, the best of the KKT points reached from nine starts.
    """
    derivatives = functools.partial(model_of, risk)
    theta = smooth_start(problem, derivatives, require_feasible(problem, start))
    evidence = survey(derivatives, problem, theta, risk)
    scale = evidence.scale
    scaled = normalized(derivatives, problem, scale)
    reason = not_convex(problem, evidence, "the performative risk")
    message = f"global: the performative risk is convex ({evidence.extent})"
    if reason is None:
        point, hessians = minimized(scaled, problem, theta)
        reason = bent_downward("the performative risk", [scale * h for h in hessians], scale)
    if reason is not None:
        point, count = best_of_starts(scaled, problem, theta)
        message = f"local: {reason}; the best of the KKT points reached from {count} of {STARTS + 1} starts"
    return certified(problem, risk, point, scale, reason is not None, message)


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
        point = kinked if kinked.residual < point.residual else point
    return point, hessians


def best_of_starts(risk: Derivatives, problem: Problem, theta: Floats) -> tuple[Point, int]:
    """The best of the KKT points reached from θ and from other starts, and their number."""
    points: list[tuple[bool, float, Point]] = []
    failure: Exception = SolverFailed("no start led to a KKT point")
    for start in [theta, *_starts(risk, problem, theta)]:
        try:
            point, _ = minimized(risk, problem, start, bend=1.0)
        except (SolverFailed, ValueError) as error:
            failure = error
            continue
        bad = not point.residual <= TOLERANCE * gradient_size(risk, point.decision)
        points.append((bad, point.residual if bad else float(risk(point.decision).value), point))
    if not points:
        raise failure
    best = points[0]
    for other in points[1:]:  # the first of those that are equally good
        if other[0] < best[0] or (other[0] == best[0] and other[1] < best[1] - 1e-9 * max(1.0, abs(best[1]))):
            best = other
    return best[2], sum(not bad for bad, _, _ in points)


def _starts(risk: Derivatives, problem: Problem, theta: Floats) -> list[Floats]:
    """The points of least risk among feasible ones all over Θ, none of them close to another."""
    points = [_feasible(problem, theta, point) for point in spread_of_points(problem, theta, 32)]
    close = 0.25 * np.median([np.linalg.norm(point - theta) for point in points])
    starts: list[Floats] = []
    for index in np.argsort([float(risk(point).value) for point in points], kind="stable"):
        if len(starts) < STARTS and all(np.linalg.norm(points[index] - other) >= close for other in starts):
            starts.append(points[index])
    return starts


def _feasible(problem: Problem, theta: Floats, point: Floats) -> Floats:
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
        parts = [*derivatives(moved), *constraint_derivatives(problem, moved)]
        if all(np.all(np.isfinite(part)) for part in parts) and np.max(parts[3], initial=-np.inf) <= FEASIBLE:
            return moved
    return theta
