"""The least risk that a curved world allows: where it is predicted, and bounds on what it is."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
from jax import Array

from performative.estimators.curved import CurvedRisk
from performative.numerics.arrays import Floats
from performative.numerics.programs import Program
from performative.problem import Problem
from performative.sets import Box
from performative.solvers.derivatives import projected
from performative.solvers.together import minimized_together

SCATTERED = 5
"""How many starts there are beside decisions that are known to be good: random ones, and the last answer if there is one."""
VIOLATED = 1e-5
"""By how much of the trust region's width a constraint may be violated."""


class Least(NamedTuple):
    """The decision of least predicted risk among those near what was deployed, and bounds on the least risk there.

    `edge` says that the decision lies at the edge of what is near, and the risk may be lower beyond.
    """

    decision: Floats
    risk: float
    low: float
    high: float
    edge: bool


def least(problem: Problem, risk: CurvedRisk, known: Floats, last: Floats | None = None) -> Least | None:
    """Of the decisions in the trust region; `known` (s, d) are feasible decisions to start from. None if none is found.

    With the `last` answer, to nearly the same question, the search begins there as well.

    The least risk is at most the least of R̂ + q·error, and at least the least of R̂ − q·error.
    """
    low, high = (np.asarray(part) for part in risk.world.trusted())
    if isinstance(problem.decisions, Box):
        low, high = (projected(problem, end) for end in (low, high))
    more = np.zeros((0, len(low))) if last is None else last[None]
    random = np.random.default_rng(0).uniform(low, high, (SCATTERED - len(more), len(low)))
    starts, quantile = np.clip(np.concatenate([known, random, more]), low, high), float(risk.world.quantile)
    found = _found(problem, risk, starts, (low, high), np.array([0.0, -quantile, quantile]))
    if found is None:
        return None
    decision, (value, lowest, highest) = found
    nearest, farthest = (np.asarray(part) for part in risk.world.trusted())
    margin = 1e-3 * (farthest - nearest)
    edge = bool(np.any((decision < nearest + margin) | (decision > farthest - margin)))
    return Least(decision, value, lowest, highest, edge)


def _found(
    problem: Problem, risk: CurvedRisk, starts: Floats, region: tuple[Floats, Floats], factors: Floats
) -> tuple[Floats, list[float]] | None:
    """The feasible decision of least R̂, and the least of R̂ + factor·error for each factor, the first of which is 0."""
    bound, constraints, other, each = _bounds.of((problem, risk)), _constraints.of(problem), starts[0], len(starts)
    lanes, factors = np.tile(starts, (len(factors), 1)), np.repeat(factors, each)
    errors = [float(bound(lanes, other, np.full(len(lanes), one))[0][0]) for one in (0.0, 1.0)]
    unit, width = max(errors[1] - errors[0], 1e-300), np.maximum(region[1] - region[0], 1e-300)
    steep = np.maximum(np.linalg.norm(np.asarray(constraints(lanes)[1])[0] * width, axis=1), 1e-300)

    def objective(u: Floats) -> tuple[Floats, Floats]:
        value, slope = (np.asarray(part) for part in bound(region[0] + width * u, other, factors))
        return value / unit, slope * width / unit

    def sides(u: Floats) -> tuple[Floats, Floats]:
        g, slope = (np.asarray(part) for part in constraints(region[0] + width * u))
        return g / steep, slope * width / steep[:, None]

    begun = (lanes - region[0]) / width
    tries = [begun, minimized_together(objective, sides, begun)]
    usable = [np.all(sides(u)[0] <= VIOLATED, axis=1) for u in tries]
    values = [np.where(fine, objective(u)[0], np.inf).reshape(-1, each) for fine, u in zip(usable, tries, strict=True)]
    reached = np.nan_to_num(np.concatenate(values, axis=1), nan=np.inf)  # one row for each factor
    if not np.all(np.isfinite(np.min(reached, axis=1))):
        return None
    ends = np.concatenate([u.reshape(-1, each, len(width)) for u in tries], axis=1)
    best = [projected(problem, region[0] + width * row[np.argmin(at)]) for row, at in zip(ends, reached, strict=True)]
    least_of_each = np.asarray(bound(np.repeat(best, each, axis=0), other, factors)[0])[::each]
    return best[0], least_of_each.tolist()


@Program
def _bounds(given: tuple[Problem, CurvedRisk], decisions: Array, other: Array, factors: Array) -> tuple[Array, Array]:
    """R̂ + factor·error at the decisions nearest to each of these (s, d), and its gradient there."""
    problem, risk = given

    def bound(theta: Array, factor: Array) -> Array:
        return risk.bound(problem.decisions.project(theta), other, factor)

    return jax.vmap(jax.value_and_grad(bound))(decisions, factors)


@Program
def _constraints(problem: Problem, decisions: Array) -> tuple[Array, Array]:
    """g and its derivative at the decisions nearest to each of these (s, d)."""

    def g(theta: Array) -> Array:
        return problem.g(problem.decisions.project(theta))

    return jax.vmap(g)(decisions), jax.vmap(jax.jacrev(g))(decisions)
