"""Solutions from KKT points, certified by their residual."""

from __future__ import annotations

import functools

from numpy.typing import ArrayLike

from performative.errors import SolverFailed
from performative.problem import Problem
from performative.solvers.convexity import survey
from performative.solvers.derivatives import DecoupledRisk, gradient_size, model_of, normalized
from performative.solvers.kkt import TOLERANCE, Point, Solution, kkt_residual
from performative.validation import finite_array


def certify(problem: Problem, risk: DecoupledRisk, decision: ArrayLike, multipliers: ArrayLike) -> Solution:
    """A `Solution` with its KKT residual, from a decision and multipliers found elsewhere, say in closed form."""
    decision, multipliers = finite_array("decision", decision, 1), finite_array("multipliers", multipliers, 1)
    derivatives = functools.partial(model_of, risk)
    scale = survey(derivatives, problem, decision, risk).scale
    gradient = normalized(derivatives, problem, scale)(decision).gradient
    residual = kkt_residual(problem, decision, multipliers / scale, gradient)
    return certified(problem, risk, Point(decision, multipliers / scale, residual), scale, False, "certified")


def certified(problem: Problem, risk: DecoupledRisk, point: Point, scale: float, local: bool, message: str) -> Solution:
    """The solution at a point of the problem with its risk divided by `scale`, refused if its residual is too large."""
    derivatives = functools.partial(model_of, risk)
    size = gradient_size(normalized(derivatives, problem, scale), point.decision)
    if not point.residual <= TOLERANCE * size:
        raise SolverFailed(
            f"no KKT point was found: the residual must be at most {TOLERANCE:.0e} relative to the gradient, but the best "
            f"is {point.residual:.3g}"
        )
    risk_there = derivatives(point.decision).value
    return Solution.of(point.decision, scale * point.multipliers, risk_there, point.residual, local, message)
