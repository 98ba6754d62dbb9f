"""The minimizer of a risk over Θ with g ≤ 0, certified by its KKT residual."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from performative.errors import SolverFailed
from performative.numerics.arrays import Floats
from performative.problem import Problem
from performative.solvers.bundle import minimize_with_kinks
from performative.solvers.certificate import certified
from performative.solvers.convexity import bent_downwards, not_convex, spread_of_points, survey
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
"""From how many more points a problem that is not convex is solved."""


def minimum(problem: Problem, risk: DecoupledRisk, start: Any = None) -> Solution:
    """argmin risk(θ) over θ ∈ Θ with g(θ) ≤ 0.

    Exact convex programming where the risk is quadratic, sequential convex programming otherwise. Where the problem is found
    not to be convex, the best of the KKT points that are reached from nine starts.
    """
    derivatives = functools.partial(model_of, risk)
    theta = smooth_start(problem, derivatives, require_feasible(problem, start))
    seen = survey(derivatives, problem, theta, risk)
    scaled = normalized(derivatives, problem, seen.scale)
    reason = not_convex(problem, seen, "the performative risk")
    message = f"global: the performative risk is convex ({seen.extent})"
    if reason is None:
        point, hessians = minimized(scaled, problem, theta)
        reason = bent_downwards("the performative risk", [seen.scale * h for h in hessians], seen.scale)
    if reason is not None:
        point, count = best_of_starts(scaled, problem, theta)
        message = f"local: {reason}; the best of the KKT points that {count} of {STARTS + 1} starts led to"
    return certified(problem, risk, point, seen.scale, reason is not None, message)


def minimized(risk: Derivatives, problem: Problem, theta: Floats, bend: float = 0.0) -> tuple[Point, list[Floats]]:
    """A KKT point, and the Hessians met on the way; points that curve downwards are left."""
    hessians: list[Floats] = []
    for _ in range(10):
        accepted = TOLERANCE * gradient_size(risk, theta)
        point, met = minimize(risk, problem, theta, accepted)
        hessians += met
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
    """The best of the KKT points that are reached from θ and from other starts, and how many there are."""
    found: list[tuple[bool, float, Point]] = []
    failure: Exception = SolverFailed("no start led to a KKT point")
    for start in [theta, *_starts(risk, problem, theta)]:
        try:
            point, _ = minimized(risk, problem, start, bend=1.0)
        except (SolverFailed, ValueError) as error:
            failure = error
            continue
        bad = not point.residual <= TOLERANCE * gradient_size(risk, point.decision)
        found.append((bad, point.residual if bad else float(risk(point.decision).value), point))
    if not found:
        raise failure
    best = found[0]
    for other in found[1:]:  # the first of those that are as good
        if other[0] < best[0] or (other[0] == best[0] and other[1] < best[1] - 1e-9 * max(1.0, abs(best[1]))):
            best = other
    return best[2], sum(not bad for bad, _, _ in found)


def _starts(risk: Derivatives, problem: Problem, theta: Floats) -> list[Floats]:
    """The points with the least risk among feasible ones all over Θ that are not close to one another."""
    points = [_feasible(problem, theta, point) for point in spread_of_points(problem, theta, 32)]
    close = 0.25 * np.median([np.linalg.norm(point - theta) for point in points])
    chosen: list[Floats] = []
    for index in np.argsort([float(risk(point).value) for point in points], kind="stable"):
        if len(chosen) < STARTS and all(np.linalg.norm(points[index] - other) >= close for other in chosen):
            chosen.append(points[index])
    return chosen


def _feasible(problem: Problem, theta: Floats, point: Floats) -> Floats:
    """The point, or the first on the way from it to the feasible θ that meets the constraints."""
    for halving in range(6):
        there = theta + 0.5**halving * (point - theta)
        if np.max(constraint_values_at(problem, there), initial=-np.inf) <= 0:
            return there
    return theta


def smooth_start(problem: Problem, derivatives: Derivatives, theta: Floats) -> Floats:
    """θ, or a feasible point close to it where derivatives are not finite at θ itself (a norm at 0)."""
    for length in (0.0, 1e-2, 1e-3, 1e-4):
        moved = nudged(problem, theta, length) if length else theta
        parts = [*derivatives(moved), *constraint_derivatives(problem, moved)]
        if all(np.all(np.isfinite(part)) for part in parts) and np.max(parts[3], initial=-np.inf) <= FEASIBLE:
            return moved
    return theta
