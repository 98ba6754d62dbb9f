"""Feasible decisions: one that satisfies all constraints, and the one with the largest slack."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from performative.errors import InfeasibleProblem, NoStrictlyFeasibleDecision, SolverFailed
from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64
from performative.problem import Problem
from performative.solvers.conic import constraint_values, solve
from performative.solvers.derivatives import constraint_values_at, projected
from performative.validation import vector

FEASIBLE = 1e-8
"""A problem is feasible if the smallest max g is at most this."""


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
    theta, slack, blocking = largest_slack(problem)
    if slack < -FEASIBLE:
        raise InfeasibleProblem(-slack, blocking)
    return theta


@in_float64
def strictly_feasible(problem: Problem, anchor: ArrayLike | None = None) -> Floats:
    """The `anchor` or, by default, the decision of largest slack; `NoStrictlyFeasibleDecision` if it has no slack."""
    if anchor is None:
        try:
            theta, slack, blocking = largest_slack(problem)
        except SolverFailed as error:
            raise ValueError(
                f"the solver could not find the decision with the largest slack; pass an `anchor` ({error})"
            ) from error
    else:
        theta = require_inside("anchor", problem, anchor)
        values = np.asarray(problem.g(jnp.asarray(theta)))
        slack = float(-np.max(values, initial=-np.inf))
        blocking = {name: 1.0 for name, value in zip(problem.constraint_names, values, strict=True) if value >= 0}
    if not slack > 0:
        raise NoStrictlyFeasibleDecision(slack, blocking)
    return np.asarray(theta, dtype=np.float64)


@in_float64
def largest_slack(problem: Problem) -> tuple[Floats, float, dict[str, float]]:
    """The θ ∈ Θ that minimizes max_i g_i(θ); the slack −max_i g_i(θ); and the constraints that limit it.

    These come with their weights (summing to 1) in the convex combination of constraints that cannot be made smaller.
    """
    import cvxpy as cp

    names = problem.constraint_names
    theta = projected(problem, np.zeros(problem.d))
    if not names:
        return theta, np.inf, {}
    bent = any(item.declare(cp.Variable(problem.d)) is None for item in problem.constraints)
    starts = [theta]
    if bent:  # perhaps not convex: search from several points
        random = np.random.default_rng(0)
        radius = min(problem.decisions.radius, 10.0)
        points = random.normal(size=(8, theta.shape[0])) * radius
        starts += [projected(problem, point) for point in points]
    best = _slack_from(problem, theta, bent)
    for start in starts[1:]:
        if best[1] <= 0:
            break
        if np.all(np.isfinite(problem.g(jnp.asarray(start)))):
            best = min(best, _slack_from(problem, start, bent), key=lambda candidate: candidate[1])
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
        x, level = cp.Variable(problem.d), cp.Variable()
        limits = [values <= level for values in constraint_values(problem, theta, x)]
        # Slack is capped, so that the program is bounded where the set is not.
        bounded = [level >= -1e6]
        proximal = 1e-3 * cp.sum_squares(x - theta) if bent else 0.0
        solve(cp.Problem(cp.Minimize(level + proximal), limits + bounded + problem.decisions.declare(x)))
        theta = projected(problem, x.value)
        weights = np.concatenate([np.atleast_1d(item.dual_value) for item in limits])
        reached = float(np.max(np.asarray(problem.g(jnp.asarray(theta)))))
        improved = reached < best[1] - 1e-10 * max(1.0, abs(best[1]))
        if iteration == 0:
            best = (*best[:2], weights)  # the weights at the start, in case nothing is better
        if reached < best[1]:
            best = (theta, reached, weights)
        if not improved:
            break
    return best
