"""The least risk that a curved world allows: where it is predicted, and bounds on what it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
from jax import Array

from performative.estimators.curved import CurvedRisk
from performative.numerics.arrays import Floats
from performative.numerics.programs import Program
from performative.problem import Problem
from performative.sets import Box

SCATTERED, AGAIN = 5, 2
"""How many random starts there are beside decisions that are known to be good, at first and where the last answer is known."""
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

    With the `last` answer, to nearly the same question, the search begins there as well and is shorter.

    The least risk is at most the least of R̂ + q·error, and at least the least of R̂ − q·error.
    """
    low, high = (np.asarray(part) for part in risk.world.trusted())
    if isinstance(problem.decisions, Box):
        low, high = (np.asarray(problem.decisions.project(end)) for end in (low, high))
    random = np.random.default_rng(0).uniform(low, high, (SCATTERED if last is None else AGAIN, len(low)))
    starts = np.clip(np.concatenate([known, random, *([] if last is None else [last[None]])]), low, high)
    quantile = float(risk.world.quantile)
    bound = _bound.of((problem, risk))
    found = [_found(problem, bound, starts, (low, high), factor) for factor in (0.0, quantile, -quantile)]
    if any(one is None for one in found):
        return None
    decision, upper, lower = (one for one in found if one is not None)
    nearest, farthest = (np.asarray(part) for part in risk.world.trusted())
    margin = 1e-3 * (farthest - nearest)
    edge = bool(np.any((decision < nearest + margin) | (decision > farthest - margin)))

    def value(theta: Floats, factor: float) -> float:
        return float(bound(theta, starts[0], factor)[0])

    return Least(decision, value(decision, 0.0), value(lower, -quantile), value(upper, quantile), edge)


def _found(
    problem: Problem,
    bound: Callable[..., tuple[Array, Array]],
    starts: Floats,
    region: tuple[Floats, Floats],
    factor: float,
) -> Floats | None:
    """The feasible decision of least R̂ + factor·error, by sequential quadratic programs from all starts."""
    from scipy.optimize import minimize

    other, constraints, names = starts[0], _constraints.of(problem), problem.constraint_names
    unit = max(float(bound(other, other, 1.0)[0]) - float(bound(other, other, 0.0)[0]), 1e-300)
    width = np.maximum(region[1] - region[0], 1e-300)
    steep = np.maximum(np.linalg.norm(np.asarray(constraints(other)[1]) * width, axis=1), 1e-300)

    def objective(u: Floats) -> tuple[float, Floats]:
        value, slope = bound(region[0] + width * u, other, factor)
        return float(value) / unit, np.asarray(slope) * width / unit

    def slack(u: Floats) -> Floats:
        return -np.asarray(constraints(region[0] + width * u)[0]) / steep

    def slack_slope(u: Floats) -> Floats:
        return -np.asarray(constraints(region[0] + width * u)[1]) * width / steep[:, None]

    limits = [{"type": "ineq", "fun": slack, "jac": slack_slope}] if names else []
    tries = [(start - region[0]) / width for start in starts]
    box = [(0.0, 1.0)] * len(width)
    tries += [minimize(objective, u, jac=True, method="SLSQP", bounds=box, constraints=limits).x for u in tries]
    fine = [u for u in tries if np.all(np.isfinite(u)) and (not names or np.min(slack(u)) >= -VIOLATED)]
    values = [objective(u)[0] for u in fine]
    if not fine or not np.any(np.isfinite(values)):
        return None
    return np.asarray(problem.decisions.project(region[0] + width * fine[int(np.nanargmin(values))]))


@Program
def _bound(given: tuple[Problem, CurvedRisk], theta: Array, other: Array, factor: float) -> tuple[Array, Array]:
    """R̂ + factor·error at the decision nearest to θ, and its gradient."""
    problem, risk = given
    return jax.value_and_grad(lambda x: risk.bound(problem.decisions.project(x), other, factor))(theta)


@Program
def _constraints(problem: Problem, theta: Array) -> tuple[Array, Array]:
    """g and its derivative at the decision nearest to θ."""

    def g(x: Array) -> Array:
        return problem.g(problem.decisions.project(x))

    return g(theta), jax.jacrev(g)(theta)
