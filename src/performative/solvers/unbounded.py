"""Is a problem unbounded? A ray of feasible decisions along which the risk falls without end."""

from __future__ import annotations

import numpy as np

from performative.errors import SolverFailed, UnboundedProblem
from performative.numerics.arrays import Floats
from performative.problem import Problem
from performative.solvers.conic import constraint_values, solve
from performative.solvers.derivatives import Derivatives, constraint_values_at, projected
from performative.solvers.feasibility import FEASIBLE

LENGTHS = 10.0 ** np.arange(0, 9)
"""How far along a ray the risk is looked at."""


def require_bounded(problem: Problem, risk: Derivatives, theta: Floats, name: str) -> None:
    """Raise `UnboundedProblem` if `risk`, whose `name` a message says, falls without end along a ray from the feasible θ."""
    if np.isfinite(problem.decisions.radius):
        return
    for direction in _directions(problem, risk, theta):
        if _falls(problem, risk, theta, direction):
            raise UnboundedProblem(name, direction, theta)


def _directions(problem: Problem, risk: Derivatives, theta: Floats) -> list[Floats]:
    """Where convex models of the problem lead if they are followed far, then the axes and the curvature's own directions."""
    import cvxpy as cp

    found = []
    model = risk(theta)
    values, vectors = np.linalg.eigh((model.hessian + model.hessian.T) / 2)
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    for bent in (True, False):
        reached = [theta]
        for length in (1e3, 1e4):
            x = cp.Variable(problem.dimension)
            objective = model.gradient @ (x - theta) + (0.5 * cp.sum_squares(root @ (x - theta)) if bent else 0.0)
            limits = [values <= 0 for values in constraint_values(problem, theta, x)]
            near = [cp.norm(x - theta, 2) <= length]
            try:
                solve(cp.Problem(cp.Minimize(objective), [*limits, *near, *problem.decisions.declare(x)]))
            except SolverFailed:
                break
            reached.append(np.asarray(x.value, dtype=float))
        # Between two far points a ray runs along the constraints that stopped it before.
        found += [reached[-1] - reached[-2], reached[-1] - theta] if len(reached) > 1 else []
    found += [sign * one for one in (*vectors.T, *np.eye(problem.d)) for sign in (1, -1)]
    rounded = [np.where(np.abs(one) < 1e-6 * np.max(np.abs(one)), 0.0, one) for one in found if np.any(one)]
    return [one / np.linalg.norm(one) for one in rounded]


def _falls(problem: Problem, risk: Derivatives, theta: Floats, direction: Floats) -> bool:
    """Whether the ray is feasible and every tenfold length lowers the risk by at least half as much as the one before."""
    points = [theta + length * direction for length in LENGTHS]
    for point, length in zip(points, LENGTHS, strict=True):
        inside = np.linalg.norm(projected(problem, point) - point) <= 1e-9 * length
        if not inside or np.max(constraint_values_at(problem, point), initial=-np.inf) > FEASIBLE * length:
            return False
    values = np.array([float(risk(point).value) for point in [theta, *points]])
    gains = -np.diff(values)
    return bool(np.all(np.isfinite(values)) and np.all(gains > 0) and np.all(gains[2:] >= 0.5 * gains[1:-1]))
