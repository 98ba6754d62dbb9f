"""Feasible decisions: one that satisfies all constraints, and the one with the largest slack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from performative.errors import InfeasibleProblem, NoStrictlyFeasibleDecision, SolverFailed
from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64
from performative.problem import Problem
from performative.solvers.conic import solve, undeclared
from performative.solvers.convexity import convex_constraint
from performative.solvers.derivatives import constraint_curvature, constraint_values_at, linearized, projected
from performative.solvers.quadratic import slack_program
from performative.validation import vector

if TYPE_CHECKING:
    from cvxpy import Variable

FEASIBLE = 1e-8
"""A problem is feasible if the smallest max g is at most this."""
LOWEST = -1e6
"""Slack beyond that of this level is not looked for, so that it is bounded where the set is not."""
MOST_STEPS = 80
"""The most convex programs of a search for slack."""
FAR, FAR_IN_A_BOUNDED_SET = 10.0, 1e3
"""How many times the distances at hand an anchor may lie away before a nearer one is looked for."""


def require_inside(name: str, problem: Problem, decision: ArrayLike) -> Floats:
    """The decision as an array, refused unless it lies in Θ; `name` is the name of the argument."""
    theta = vector(name, decision)
    if theta.shape != (problem.dimension,):
        raise ValueError(f"`{name}` must have shape ({problem.dimension},), but got {theta.shape}")
    if not problem.decisions.contains(theta):
        raise ValueError(
            f"`{name}` must lie in the decision set {problem.decisions}, but got {theta}; its project moves it there"
        )
    return theta


def require_feasible(problem: Problem, start: ArrayLike | None = None) -> Floats:
    """A decision in Θ with g ≤ 0 (the start, or the projection of 0, if it is feasible), or `InfeasibleProblem`."""
    first = np.zeros(problem.d) if start is None else require_inside("start", problem, start)
    theta = projected(problem, first)
    g = constraint_values_at(problem, theta)
    for name, value in zip(problem.constraint_names, g, strict=True):
        if not np.isfinite(value):
            raise ValueError(
                f"constraint {name} must be finite on the decision set, but is {value} at {theta}; pass a `start`"
            )
    if np.max(g, initial=-np.inf) <= 0:
        return theta
    found = largest_slack(problem)
    if found.slack < -FEASIBLE:
        raise InfeasibleProblem(-found.slack, found.blocking, found.proved)
    if found.slack >= 0:
        return found.decision
    # A violation within rounding for a slope of one may be a large one for a constraint that is written in small numbers.
    units = _slopes(problem, [theta, found.decision])
    if np.all(units == 1.0):
        return found.decision
    closer = largest_slack(problem, units)
    if closer.slack < -FEASIBLE:
        raise InfeasibleProblem(-found.slack, closer.blocking, closer.proved)
    return closer.decision


@in_float64
def _slopes(problem: Problem, points: list[Floats]) -> Floats:
    """The steepest slope of each constraint at these points, at most 1, and 1 where it has none."""
    slopes = np.max([np.linalg.norm(linearized(problem, point)[1], axis=1) for point in points], axis=0)
    return np.where(slopes > 0, np.minimum(slopes, 1.0), 1.0)


@in_float64
def strictly_feasible(problem: Problem, anchor: ArrayLike | None = None, start: ArrayLike | None = None) -> Floats:
    """The `anchor`, which must have slack, or the decision of largest slack; `NoStrictlyFeasibleDecision` if that has none.

    Where the slack grows without end, or as far as an immensely large Θ allows, a decision near the `start` (or near 0) is
    taken instead: one as far away as the constraints are.
    """
    if anchor is None:
        center = projected(problem, np.zeros(problem.d) if start is None else np.asarray(start))
        try:
            theta, slack, blocking, proved = largest_slack(problem)
        except (
            SolverFailed
        ) as error:  # numbers of very different size, perhaps, which slack as a distance does not have
            nearby = _nearby(problem, center, None)
            if nearby is None:
                raise ValueError(
                    f"the solver could not find the decision with the largest slack; pass an `anchor` ({error})"
                ) from error
            return nearby
        if slack > 0 and problem.constraint_names:
            nearby = _nearby(problem, center, theta)
            theta = theta if nearby is None else nearby
        if not slack > 0:
            raise NoStrictlyFeasibleDecision(slack, blocking, proved)
    else:
        theta = require_inside("anchor", problem, anchor)
        values = np.asarray(problem.g(jnp.asarray(theta)))
        for name, value in zip(problem.constraint_names, values, strict=True):
            if not value < 0:
                raise ValueError(f"`anchor` must meet every constraint with g(θ) < 0, but {name} is {value:.6g} there")
    return np.asarray(theta, dtype=np.float64)


def _nearby(problem: Problem, center: Floats, found: Floats | None) -> Floats | None:
    """A decision with slack about as far from the center as the constraints are; None if the one that was `found` will do.

    Slack is measured as a distance here, g_i over its slope: it is the largest one in a ball around the center, which grows
    until there is a tenth of its first radius, or of what was `found`.
    """
    g, jacobian = linearized(problem, center)
    if not (np.all(np.isfinite(g)) and np.all(np.isfinite(jacobian))):
        return None
    slopes = np.linalg.norm(jacobian, axis=1)
    away = np.where(slopes > 0, np.abs(g) / np.where(slopes > 0, slopes, 1.0), 0.0)
    nearest = float(np.min(away, where=away > 1e-9 * np.max(away), initial=np.inf))
    violated = float(np.max(away, where=g > 0, initial=0.0))
    scale = max(float(np.linalg.norm(center)), violated, nearest if np.isfinite(nearest) else 0.0) or 1.0
    units = np.where(slopes > 0, slopes, np.where(g == 0, 1.0, np.abs(g) / scale))
    enough, farthest = 0.1 * scale, FAR_IN_A_BOUNDED_SET * scale
    if found is not None:
        farthest = float(np.linalg.norm(found - center))
        if farthest <= (FAR if np.isinf(problem.decisions.radius) else FAR_IN_A_BOUNDED_SET) * scale:
            return None
        enough = min(enough, -0.1 * float(np.max(constraint_values_at(problem, found) / units)))
    convex = all(convex_constraint(problem, item) for item in problem.constraints)
    radius = scale
    while radius < farthest:
        try:
            nearby = _slack_from(problem, center, convex, units, radius)
        except SolverFailed:
            return None
        if -nearby.level >= enough:
            return nearby.decision
        radius *= 2.0
    return None


class Slack(NamedTuple):
    """The decision of largest slack; `blocking` are the constraints that limit it, with their weights.

    The weights (summing to 1) are those of the convex combination of constraints that cannot be made smaller. `proved` says that
    no decision has more slack, since the constraints are convex and the search converged.
    """

    decision: Floats
    slack: float
    blocking: dict[str, float]
    proved: bool


@in_float64
def largest_slack(problem: Problem, units: Floats | None = None) -> Slack:
    """The θ ∈ Θ that minimizes max_i g_i(θ), and the slack −max_i g_i(θ); each g_i is divided by its unit, if given."""
    names = problem.constraint_names
    theta = projected(problem, np.zeros(problem.d))
    if not names:
        return Slack(theta, np.inf, {}, True)
    units = np.ones(len(names)) if units is None else units
    convex = all(convex_constraint(problem, item) for item in problem.constraints)
    best = _slack_from(problem, theta, convex, units)
    for start in [] if convex else _starts(problem):
        if best.level <= 0:
            break
        if np.all(np.isfinite(constraint_values_at(problem, start))):
            best = min(best, _slack_from(problem, start, convex, units), key=lambda found: found.level)
    share = best.weights / max(float(np.sum(best.weights)), 1e-300)
    blocking = {name: float(w) for name, w in zip(names, share, strict=True) if w > 1e-4}
    return Slack(best.decision, -best.level, blocking, convex and best.converged)


def _starts(problem: Problem) -> list[Floats]:
    """Points of Θ, the same every time, around 0 and farther out."""
    lengths = np.minimum(problem.decisions.radius, np.tile([10.0, 1e3], 4))
    points = np.random.default_rng(0).normal(size=(len(lengths), problem.d)) * lengths[:, None]
    return [projected(problem, point) for point in points]


class _Found(NamedTuple):
    decision: Floats
    level: float
    weights: Floats
    converged: bool


def _slack_from(problem: Problem, theta: Floats, convex: bool, units: Floats, within: float | None = None) -> _Found:
    """min max_i g_i / unit_i from a point, or `within` that distance of it, by convex programs in a trust region.

    Constraints without a convex form are replaced by their tangents, with their curvature in the objective. Tangents of convex
    constraints hold everywhere: all are kept, so that a kink does not stop the search.
    """
    mark = undeclared(problem) > 0
    bent = bool(np.any(mark))
    g, jacobian = linearized(problem, theta)
    level = float(np.max(g / units))
    if within is None and not bent and (flat := slack_program(problem)) is not None:
        x, duals = flat.least_of_largest(theta, g / units, jacobian / units[:, None], LOWEST)
        target = projected(problem, x)
        reached = float(np.max(constraint_values_at(problem, target) / units))
        weights = duals / max(float(np.sum(duals)), 1e-300)
        return _Found(*((target, reached) if reached < level else (theta, level)), weights, True)
    import cvxpy as cp

    weights = np.where(np.arange(len(g)) == np.argmax(g / units), 1.0, 0.0)
    radius = min(problem.decisions.radius, 10.0)
    tangents: list[tuple[Floats, Floats]] = []
    center = theta
    for iteration in range(MOST_STEPS):
        tangents = [*(tangents if convex else []), (jacobian[mark], g[mark] - jacobian[mark] @ theta)]
        x, top = cp.Variable(problem.d), cp.Variable()
        bounded = top >= LOWEST if within is None else cp.norm(x - center, 2) <= within
        program = [bounded, *problem.decisions.declare(x)]
        program += [cp.norm(x - theta, 2) <= radius] if bent else []
        bounds = _over_units(problem, x, units, top)
        for rows, offsets in tangents if bent else []:
            bounds.append(
                (np.flatnonzero(mark).tolist(), (rows / units[mark, None]) @ x + offsets / units[mark] <= top)
            )
        root = _root(constraint_curvature(problem, theta, weights * mark / units)) if bent else np.zeros((1, problem.d))
        bend = 0.5 * cp.sum_squares(root @ (x - theta)) if np.any(root) else 0.0
        try:
            solve(cp.Problem(cp.Minimize(top + bend), [*(bound for _, bound in bounds), *program]))
        except SolverFailed:
            if iteration == 0:
                raise
            break
        duals = np.zeros(len(g))
        for places, bound in bounds:
            np.add.at(duals, places, np.atleast_1d(bound.dual_value))
        weights = duals / max(float(np.sum(duals)), 1e-300)
        target = projected(problem, x.value)
        values = constraint_values_at(problem, target)
        reached = float(np.max(values / units)) if np.all(np.isfinite(values)) else np.inf
        if not bent:
            return _Found(*((target, reached) if reached < level else (theta, level)), weights, True)
        length = float(np.linalg.norm(target - theta))
        promised = level - float(top.value) - float(np.sum((root @ (target - theta)) ** 2)) / 2
        if promised <= 1e-11 * max(1.0, abs(level)):
            return _Found(theta, level, weights, radius >= 1e-6)
        if reached <= level - 0.1 * promised:
            theta, level = target, reached
            g, jacobian = linearized(problem, theta)
            radius *= 4.0 if length >= 0.9 * radius else 1.0
            continue
        radius = 0.5 * length
        if radius <= 1e-12 * max(1.0, float(np.linalg.norm(theta))):
            break
        if convex and np.isfinite(reached):
            ahead, slopes = linearized(problem, target)
            tangents.append((slopes[mark], ahead[mark] - slopes[mark] @ target))
    return _Found(theta, level, weights, False)


def _over_units(problem: Problem, x: Variable, units: Floats, top: Variable) -> list[tuple[list[int], Any]]:
    """g_i(x) / unit_i ≤ top for the constraints with a convex form, each with the places of its values."""
    bounds, row = [], 0
    for item in problem.constraints:
        places = list(range(row, row + len(item.names)))
        row += len(item.names)
        declared = item.declare(x)
        if declared is not None:
            scaled = declared if np.all(units[places] == 1.0) else declared / units[places]
            bounds.append((places, scaled <= top))
    return bounds


def _root(hessian: Floats) -> Floats:
    """A square root of the Hessian, made convex."""
    values, vectors = np.linalg.eigh(hessian)
    return np.asarray(np.sqrt(np.abs(values))[:, None] * vectors.T)
