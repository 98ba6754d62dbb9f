"""Smooth risks under constraints, to high accuracy and with multipliers: a sequence of convex quadratic programs.

Sequential convex programming: the risk is replaced by its second-order model at the current point; constraints with a
convex cvxpy form stay as they are, others are linearized and their curvature, weighted by the multipliers, is added to the
model. Clarabel solves each subproblem. A convex quadratic program is its own model and takes one step.

Tolerances are for a risk whose gradient is usually of size one; the caller divides by that size.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from performative.errors import SolverFailed
from performative.numerics.arrays import Floats
from performative.problem import Problem
from performative.solvers.conic import undeclared
from performative.solvers.derivatives import (
    Model,
    constraint_curvature,
    constraint_values_at,
    linearized,
    projected,
    require_finite,
)
from performative.solvers.kkt import Point, kkt_residual
from performative.solvers.quadratic import programs


def minimize(
    risk: Callable[[Floats], Model], problem: Problem, start: Floats, tolerance: float, most: int = 60
) -> tuple[Point, list[Floats]]:
    """The minimizer of `risk` under the problem's constraints from `start`, and the Hessians on the way to it."""
    theta, lam = start, np.zeros(len(problem.constraint_names))
    best = Point(theta, lam, np.inf)
    hessians: list[Floats] = []
    require_finite(risk(theta), theta)
    stalled = 0
    for _ in range(most):
        model = risk(theta)
        hessians.append(model.hessian)
        try:
            target, lam = subproblem(problem, theta, lam, model)
        except SolverFailed:
            if best.residual < np.inf:
                break
            raise
        theta = _line_search(risk, problem, theta, target, model, lam)
        residual = kkt_residual(problem, theta, lam, risk(theta).gradient)
        stalled = 0 if residual < 0.5 * best.residual else stalled + 1
        if residual < best.residual:
            best = Point(theta, lam, residual)
        if best.residual <= tolerance * 1e-3 or (best.residual <= tolerance and stalled) or stalled > 8:
            break
    return _polished(risk, problem, best), hessians


def below(risk: Callable[[Floats], Model], problem: Problem, point: Point) -> Floats | None:
    """A decision better than a stationary point, along a direction in which the Lagrangian curves downward, or None."""
    theta, model = point.decision, risk(point.decision)
    values, vectors = np.linalg.eigh(model.hessian + constraint_curvature(problem, theta, point.multipliers))
    merit = _merit(problem, point.multipliers)
    lowest = merit(theta, float(model.value))
    lowest -= 1e-9 * max(1.0, abs(lowest))
    better = None
    for direction in vectors.T[values < -1e-9 * max(float(np.max(np.abs(values))), 1e-3)]:
        for length in 2.0 ** np.arange(4, -10, -1):
            for move in (length * direction, -length * direction):
                there = projected(problem, theta + move)
                reached = merit(there, float(risk(there).value))
                if np.isfinite(reached) and reached < lowest:
                    better, lowest = there, reached
    return better


def _polished(risk: Callable[[Floats], Model], problem: Problem, point: Point) -> Point:
    """Projected gradient steps on the Lagrangian: cone solvers lose half their digits on a curved Θ, projections do not."""
    best, theta, lam = point, point.decision, point.multipliers
    curvature = np.linalg.eigvalsh(risk(theta).hessian + constraint_curvature(problem, theta, lam))
    length = 1 / max(float(np.max(np.abs(curvature))), 1e-12)
    for _ in range(100):
        ascent = risk(theta).gradient + lam @ linearized(problem, theta)[1]
        theta = projected(problem, theta - length * ascent)
        residual = kkt_residual(problem, theta, lam, risk(theta).gradient)
        if not residual < 0.99 * best.residual:
            break
        best = Point(theta, lam, residual)
    return best


def subproblem(problem: Problem, theta: Floats, lam: Floats, model: Model) -> tuple[Floats, Floats]:
    """The minimizer of the model under the constraints at θ, and their multipliers."""
    hessian = model.hessian + constraint_curvature(problem, theta, lam * undeclared(problem))
    values, vectors = np.linalg.eigh((hessian + hessian.T) / 2)
    floor = 1e-9 * max(float(np.max(np.abs(values))), 1e-12)
    if values[0] < -floor:
        values = np.maximum(np.abs(values), floor)  # a convex model of a non-convex risk
    hessian = (vectors * np.maximum(values, 0.0)) @ vectors.T
    target, multipliers = programs(problem).minimize(theta, hessian, model.gradient, *linearized(problem, theta))
    return projected(problem, target), multipliers


def _line_search(
    risk: Callable[[Floats], Model], problem: Problem, theta: Floats, target: Floats, model: Model, lam: Floats
) -> Floats:
    """The first of the steps 1, ½, ¼, … that lowers the risk plus a penalty on violations by a tenth of what its slope says.

    The full step is also taken if it halves the KKT residual: close to a curved constraint the penalty may rise first.
    """
    merit = _merit(problem, lam)
    before = merit(theta, float(model.value))
    slope = min(float(model.gradient @ (target - theta)) - (before - float(model.value)), 0.0)
    allowance = 1e-9 * max(1.0, abs(before))
    for halving in range(30):
        point = theta + 0.5**halving * (target - theta)
        ahead = risk(point)
        reached = merit(point, float(ahead.value))
        if not np.isfinite(reached) or reached > before + allowance:
            continue
        if reached <= before + 0.1 * 0.5**halving * slope or abs(slope) <= allowance:
            return point
        if halving == 0 and kkt_residual(problem, point, lam, ahead.gradient) <= 0.5 * kkt_residual(
            problem, theta, lam, model.gradient
        ):
            return point
    return target if np.isfinite(merit(target, float(risk(target).value))) else theta


def _merit(problem: Problem, lam: Floats) -> Callable[[Floats, float], float]:
    """The risk plus a penalty on violations."""
    weight = 2.0 * float(np.max(lam, initial=0.0)) + 1.0

    def merit(point: Floats, value: float) -> float:
        return value + weight * float(np.sum(np.maximum(constraint_values_at(problem, point), 0.0)))

    return merit
