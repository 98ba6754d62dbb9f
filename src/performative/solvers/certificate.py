"""Solutions from KKT points, certified by their residual."""

from __future__ import annotations

from performative.errors import SolverFailed
from performative.numerics.arrays import Floats
from performative.problem import Problem
from performative.solvers.convexity import usual_slope
from performative.solvers.derivatives import Derivatives, gradient_size, normalized
from performative.solvers.kkt import TOLERANCE, Solution
from performative.solvers.subgradients import stationarity


def certified(
    problem: Problem, derivatives: Derivatives, decision: Floats, multipliers: Floats, local: bool, message: str
) -> Solution:
    """The solution at a decision with multipliers, its residual computed anew, or `SolverFailed` if that is too large.

    `derivatives` are those of the risk to be least: PR or, for a stable point, the risk on the data frozen there.
    """
    scale = usual_slope(derivatives, problem)
    scaled = normalized(derivatives, problem, scale)
    residual = stationarity(problem, scaled, decision, multipliers / scale)
    if not residual <= TOLERANCE * gradient_size(scaled, decision):
        raise SolverFailed(
            f"no KKT point was found: the residual must be at most {TOLERANCE:.0e} relative to the gradient, but the best "
            f"is {residual:.3g}, at {decision}"
        )
    return Solution.of(decision, multipliers, derivatives(decision).value, residual, local, message)
