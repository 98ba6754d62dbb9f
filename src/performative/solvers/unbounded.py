"""Is a problem unbounded? A ray of feasible decisions along which the risk decreases without bound."""

from __future__ import annotations

import numpy as np

from performative.constraints import Quadratic
from performative.errors import SolverFailed, UnboundedProblem
from performative.numerics.arrays import Floats
from performative.numerics.pytrees import changed
from performative.problem import Problem
from performative.solvers.conic import constraint_values, solve
from performative.solvers.convexity import usual_slope
from performative.solvers.derivatives import (
    Derivatives,
    constraint_derivatives,
    constraint_values_at,
    normalized,
    projected,
)
from performative.solvers.feasibility import FEASIBLE
from performative.solvers.kkt import TOLERANCE
from performative.solvers.sequential import minimize

LENGTHS = 10.0 ** np.arange(0, 16)
"""How far along a ray the risk is looked at."""
RADII = (1e1, 1e2, 1e3)
"""The balls in which the least risk is looked for where no ray tells."""
ROUGHLY = 1e-5
"""The KKT residual at which a decision counts as the best in a ball."""


def require_bounded(problem: Problem, risk: Derivatives, theta: Floats, name: str) -> None:
    """Raise `UnboundedProblem` if `risk`, whose `name` a message says, decreases without bound along a ray from the feasible θ.

    If no ray is found but the risk leads to the edge of every ball around θ, as along a parabola, `SolverFailed` says so.
    """
    if np.isfinite(problem.decisions.radius):
        return
    for direction in _directions(problem, risk, theta):
        if _falls(problem, risk, theta, direction):
            raise UnboundedProblem(name, direction, theta, float(LENGTHS[-1]))
    found = _at_the_edge(problem, risk, theta)
    if found is not None:
        edge, radius = found
        toward = (edge - theta) / np.linalg.norm(edge - theta)
        raise SolverFailed(
            f"no decision of least risk was found: in balls around {theta} with a radius of up to {radius:g}, {name} is least "
            f"at the edge, at last in the direction {toward.round(6)}; bound the decision there, by a decision set such as "
            "performative.Box or by a constraint"
        )


def lower_beyond(problem: Problem, risk: Derivatives, theta: Floats, start: Floats, slope: float) -> Floats | None:
    """A feasible decision far beyond θ whose risk is lower, or None: then no minimum is attained at θ.

    Beyond means on from `start` through θ, or along an axis; `slope` is the usual size of the gradient, for what is rounding.
    """
    if np.isfinite(problem.decisions.radius):
        return None
    value, size = float(risk(theta).value), max(1.0, float(np.linalg.norm(theta)))
    onward = theta - start
    axes = [sign * axis for axis in np.eye(problem.d) for sign in (1, -1)]
    for direction in [onward / np.linalg.norm(onward), *axes] if np.any(onward) else axes:
        for length in (size, 10 * size):
            point = projected(problem, theta + length * direction)
            rounding = 1e-15 * (abs(value) + slope * length)
            outside = np.max(constraint_values_at(problem, point), initial=-np.inf) > 0
            if not outside and np.linalg.norm(point - theta) >= 0.5 * length and risk(point).value < value - rounding:
                return point
    return None


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
        if not inside or not _feasible(problem, point, length * direction):
            return False
    values = np.array([float(risk(point).value) for point in [theta, *points]])
    gains = -np.diff(values)
    return bool(np.all(np.isfinite(values)) and np.all(gains > 0) and np.all(gains[2:] >= 0.5 * gains[1:-1]))


def _feasible(problem: Problem, point: Floats, move: Floats) -> bool:
    """Whether g ≤ 0 at the end of a move, but for what the rounding of the move's entries does to each constraint."""
    g, jacobian = constraint_derivatives(problem, point)
    return bool(np.all(g <= FEASIBLE * (1.0 + np.abs(jacobian) @ np.abs(move))))


def _at_the_edge(problem: Problem, risk: Derivatives, theta: Floats) -> tuple[Floats, float] | None:
    """The decision of least risk in a ball around θ, the largest in which it is found, and the radius.

    None if it is found inside of one of the balls, or in fewer than two.
    """
    edges = [theta]
    for radius in RADII:
        # ‖x − θ‖² / r ≤ r has a slope of two at the edge, whatever the radius.
        bound = radius - float(theta @ theta) / radius
        ball = Quadratic(np.eye(problem.d) / radius, bound, -2.0 * theta / radius, name="ball")
        near = changed(problem, constraints=(*problem.constraints, ball))
        try:
            point, _ = minimize(normalized(risk, near, usual_slope(risk, near)), near, edges[-1], TOLERANCE)
        except SolverFailed:
            break
        if not point.residual <= ROUGHLY:
            break
        if not np.linalg.norm(point.decision - theta) >= 0.99 * radius:
            return None
        edges.append(point.decision)
    return (edges[-1], RADII[len(edges) - 2]) if len(edges) > 2 else None
