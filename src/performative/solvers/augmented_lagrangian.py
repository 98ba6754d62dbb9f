"""A small solver for use inside compiled loops: argmin of a smooth risk over Θ with g ≤ 0, warm-started.

An augmented Lagrangian outside, accelerated projected gradients with restarts inside. It gives up digits to be pure
arithmetic that runs in every lane of a simulation; `solvers.minimum` certifies its solutions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from performative.problem import Problem
from performative.sets import DecisionSet

OUTER, INNER = 25, 150
"""The most updates of the multipliers, and the most steps between two of them."""
POWER = 8
"""Steps of the power method for the curvature."""
_Carry = tuple[Array, ...]


class Minimizer(NamedTuple):
    """A decision and the multipliers of its constraints."""

    decision: Array
    multipliers: Array


def minimize(
    problem: Problem,
    risk: Callable[[Array], Array],
    theta: Array,
    multipliers: Array,
    width: float | Array,
    tolerance: float = 1e-7,
) -> Minimizer:
    """argmin risk(θ) over θ ∈ Θ, g(θ) ≤ 0, from θ and λ.

    Stops when θ moves, and constraints are violated, by less than `tolerance` of `width`, a length of Θ. A risk that is not
    convex leads to a stationary point, a linear one to a vertex of Θ.
    """
    slope = jax.grad(risk)
    bend = jnp.maximum(_largest_curvature(slope, theta), 1e-3 * jnp.linalg.norm(slope(theta)) / width)
    bend = jnp.maximum(bend, 1e-12)
    # At θ, where a gradient may be 0, and at the minimizer of the risk alone; each constraint in its own unit.
    ahead = problem.decisions.project(theta - slope(theta) / bend)
    steepness = jnp.ones(len(problem.constraint_names))
    if problem.constraint_names:
        steepness = jnp.maximum(problem.steepness(theta), problem.steepness(ahead))
        steepness = jnp.where(steepness > 0, steepness, 1.0)

    def outer(carry: _Carry) -> _Carry:
        count, theta, lam, penalty, before, _ = carry

        def augmented(theta: Array) -> Array:
            return slope(theta) + problem.pullback(theta, jnp.maximum(lam + penalty * problem.g(theta), 0.0))

        stiffest = bend + jnp.max(penalty * steepness, initial=0.0)
        moved = _descended(problem, augmented, theta, stiffest, 0.03 * tolerance * width)
        g = problem.g(moved)
        now = jnp.abs(jnp.maximum(g, -lam / penalty)) / jnp.sqrt(steepness)  # how far g and λ are from complementary
        next_penalty = jnp.where(now > 0.25 * before, 3.0 * penalty, penalty)
        change = jnp.linalg.norm(moved - theta) + jnp.max(now, initial=0.0)
        return count + 1, moved, jnp.maximum(lam + penalty * g, 0.0), next_penalty, now, change

    def unfinished(carry: _Carry) -> Array:
        return (carry[0] < OUTER) & (carry[5] > tolerance * width)

    never = jnp.full_like(steepness, jnp.inf)
    start: _Carry = (jnp.asarray(0), theta, multipliers, 10.0 * bend / steepness, never, jnp.asarray(jnp.inf))
    _, theta, lam, _, _, _ = lax.while_loop(unfinished, outer, start)
    return Minimizer(theta, lam)


def width_of(decisions: DecisionSet) -> float:
    """A length of Θ, at most 10, since Θ is often a ball that never binds."""
    return min(float(decisions.radius), 10.0)


def _descended(
    problem: Problem, slope: Callable[[Array], Array], theta: Array, bend: Array, tolerance: float | Array
) -> Array:
    """Accelerated projected gradient descent on a function with this slope, restarted when it would climb.

    `bend` is the initial estimate of the curvature; steps become shorter when two slopes show more of it, and slowly longer
    otherwise. So a step costs one slope and no value.
    """

    def step(carry: _Carry) -> _Carry:
        count, theta, ahead, before, slope_before, momentum, bend, _ = carry
        here = slope(ahead)
        way = ahead - before
        curvature = jnp.sqrt(jnp.sum((here - slope_before) ** 2) / jnp.maximum(jnp.sum(way * way), 1e-300))
        steeper = (count > 0) & (curvature > bend)
        bend = jnp.where(steeper, 1.5 * curvature, bend)
        moved = problem.decisions.project(ahead - here / bend)
        uphill = steeper | (jnp.sum((ahead - moved) * (moved - theta)) > 0)
        next_momentum = jnp.where(uphill, 1.0, 0.5 * (1.0 + jnp.sqrt(1.0 + 4.0 * momentum * momentum)))
        weight = jnp.where(uphill, 0.0, (momentum - 1.0) / next_momentum)
        change = jnp.sqrt(jnp.sum((moved - ahead) ** 2))
        return count + 1, moved, moved + weight * (moved - theta), ahead, here, next_momentum, 0.98 * bend, change

    def unfinished(carry: _Carry) -> Array:
        return (carry[0] < INNER) & (carry[-1] > tolerance)

    zero = jnp.zeros_like(theta)
    start: _Carry = (jnp.asarray(0), theta, theta, zero, zero, jnp.ones(()), bend, jnp.asarray(jnp.inf))
    return lax.while_loop(unfinished, step, start)[1]


def _largest_curvature(slope: Callable[[Array], Array], theta: Array) -> Array:
    """The largest |eigenvalue| of the Hessian at θ, by the power method."""

    def again(_: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        way, _ = carry
        bent = jax.jvp(slope, (theta,), (way,))[1]
        size = jnp.linalg.norm(bent)
        return bent / jnp.maximum(size, 1e-300), size

    way = jnp.cos(jnp.arange(1.0, theta.shape[0] + 1.0))
    return lax.fori_loop(0, POWER, again, (way / jnp.linalg.norm(way), jnp.zeros(())))[1]
