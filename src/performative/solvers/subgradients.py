"""The KKT residual of a risk that may have kinks: with the gradient, or with a subgradient from the nearest surroundings."""

from __future__ import annotations

import numpy as np

from performative.errors import SolverFailed
from performative.numerics.arrays import Floats
from performative.problem import Problem
from performative.solvers.conic import solve
from performative.solvers.derivatives import Derivatives, linearized, projected
from performative.solvers.kkt import TOLERANCE, Point, kkt_residual

NEAR = 1e-7
"""How far from θ gradients are gathered, relative to max(1, ‖θ‖)."""
MOST = 60
"""The most gradients that are gathered."""


def stationarity(problem: Problem, risk: Derivatives, theta: Floats, lam: Floats) -> float:
    """The KKT residual at (θ, λ) of a risk whose gradient is usually of size one: the only definition of it.

    With the gradient at θ. Where that is not accepted, with the best subgradient of the surroundings as well.
    """
    gradient = risk(theta).gradient
    plain = kkt_residual(problem, theta, lam, gradient)
    if plain <= TOLERANCE * max(1.0, float(np.linalg.norm(gradient))):
        return plain
    return min(plain, _gathered(problem, risk, theta, lam).residual)


def with_best_multipliers(problem: Problem, risk: Derivatives, point: Point) -> Point:
    """The same decision with the multipliers that fit the gradients around it best, if they leave a smaller residual."""
    lam = _gathered(problem, risk, point.decision, None).multipliers
    residuals = {True: stationarity(problem, risk, point.decision, point.multipliers)}
    residuals[False] = stationarity(problem, risk, point.decision, lam)
    keep = residuals[True] <= residuals[False]
    return Point(point.decision, point.multipliers if keep else lam, residuals[keep])


def _gathered(problem: Problem, risk: Derivatives, theta: Floats, lam: Floats | None) -> Point:
    """The least residual with an element of the convex hull of gradients close to θ, and the multipliers for it.

    The hull grows by the gradient a little ahead in the direction in which its tangents all fall. If none of them does, no
    direction is left, and 0 is a subgradient. Without `lam`, the multipliers are those of the linearized constraints.
    """
    import cvxpy as cp

    g, jacobian = linearized(problem, theta)
    near = NEAR * max(1.0, float(np.linalg.norm(theta)))
    gradients = [risk(theta).gradient]
    best = Point(theta, np.zeros(len(g)) if lam is None else lam, np.inf)
    for _ in range(MOST):
        x, level = cp.Variable(problem.dimension), cp.Variable()
        tangents = np.stack(gradients) @ (x - theta) <= level
        limits = [] if lam is not None or not len(g) else [g + jacobian @ (x - theta) <= 0]
        pull = 0.0 if lam is None else (lam @ jacobian) @ (x - theta)
        objective = level + pull + 0.5 * cp.sum_squares(x - theta)
        try:
            solve(cp.Problem(cp.Minimize(objective), [tangents, *limits, *problem.decisions.declare(x)]))
        except SolverFailed:
            break
        weights = np.maximum(np.atleast_1d(tangents.dual_value), 0.0)
        subgradient = weights / max(float(np.sum(weights)), 1e-300) @ np.stack(gradients)
        fitted = np.maximum(np.atleast_1d(limits[0].dual_value), 0.0) if limits else best.multipliers
        residual = kkt_residual(problem, theta, fitted, subgradient)
        if residual < best.residual:
            best = Point(theta, fitted, residual)
        way = projected(problem, x.value) - theta
        length = float(np.linalg.norm(way))
        if best.residual <= 1e-3 * TOLERANCE or not length > 0:
            break
        ahead = risk(projected(problem, theta + near * way / length)).gradient
        if not np.all(np.isfinite(ahead)) or min(np.linalg.norm(ahead - one) for one in gradients) <= 1e-12:
            break
        gradients.append(ahead)
    return best
