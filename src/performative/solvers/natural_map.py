"""Stable points where repetition does not converge: Newton's method on the natural map.

θ is stable exactly if it is the projection of θ − F(θ) on the feasible decisions, with F(θ) the gradient of the risk on the
data of θ. The difference θ − Π(θ − F(θ)), the natural map, is continuous and piecewise smooth, whatever the minimizer on
frozen data does, so that damped Newton steps (Levenberg-Marquardt) find its zero where repeated minimization circles.
"""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from performative.errors import SolverFailed
from performative.numerics.arrays import Floats
from performative.problem import Problem
from performative.solvers.derivatives import linearized, projected
from performative.solvers.kkt import Point, kkt_residual
from performative.solvers.quadratic import programs

STEPS = 40
"""The most steps."""
APART = 1e-7
"""The distance, relative to max(1, ‖θ‖), of the two points of a difference quotient."""


def zero_of_natural_map(field: Callable[[Floats], Floats], problem: Problem, theta: Floats, accepted: float) -> Point:
    """The best point on the way from θ to a zero of θ − Π(θ − field(θ)); `field` is usually of size one."""
    gap, lam = _natural_map(field, problem, theta)
    best = Point(theta, lam, kkt_residual(problem.frozen(jnp.asarray(theta)), theta, lam, field(theta)))
    damping = 1e-3
    for _ in range(STEPS):
        if best.residual <= 1e-2 * accepted or damping > 1e8:
            break
        step = APART * max(1.0, float(np.linalg.norm(theta)))
        columns = [(_natural_map(field, problem, theta + step * axis)[0] - gap) / step for axis in np.eye(len(theta))]
        jacobian = np.stack(columns, axis=1)
        moved = False
        while not moved and damping <= 1e8:
            way = np.linalg.solve(jacobian.T @ jacobian + damping * np.eye(len(theta)), -jacobian.T @ gap)
            there = projected(problem, theta + way)
            gap_there, lam = _natural_map(field, problem, there)
            moved = bool(np.linalg.norm(gap_there) < (1.0 - 1e-4) * np.linalg.norm(gap))
            damping = max(0.2 * damping, 1e-14) if moved else 4.0 * damping
        if not moved:
            break
        theta, gap = there, gap_there
        for candidate in (theta, theta - gap):
            residual = kkt_residual(problem.frozen(jnp.asarray(candidate)), candidate, lam, field(candidate))
            if residual < best.residual:
                best = Point(candidate, lam, residual)
    return best


def _natural_map(field: Callable[[Floats], Floats], problem: Problem, theta: Floats) -> tuple[Floats, Floats]:
    """θ − Π(θ − field(θ)), and the multipliers of the projection."""
    slope = field(theta)
    if not np.all(np.isfinite(slope)):
        raise SolverFailed(f"the gradient on the data of {theta} is not finite")
    problem = problem.frozen(jnp.asarray(theta))
    nearest, lam = programs(problem).minimize(theta, np.eye(len(theta)), slope, *linearized(problem, theta))
    return theta - projected(problem, nearest), lam


def jump(field: Callable[[Floats], Floats], theta: Floats, target: Floats) -> tuple[Floats, float] | None:
    """Where the gradient on frozen data turns between θ and `target`, and by how much it jumps there, if it does.

    By halving: a continuous gradient changes little across the last, tiny interval.
    """
    way = target - theta
    low, high = 0.0, 1.0
    if not (np.any(way) and field(theta) @ way < 0 < field(target) @ way):
        return None
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if field(theta + middle * way) @ way < 0 else (low, middle)
    size = float(np.linalg.norm(field(theta + high * way) - field(theta + low * way)))
    return (theta + high * way, size) if size > 1e-4 else None
