"""Upper bounds over Θ that are proved: of the norm of an affine map, and of the range of a quadratic function.

On a ball the largest value of a quadratic function is known, as its dual has no gap; on a box of few dimensions a convex function
is largest at a corner; elsewhere a ball around Θ is used.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from performative.numerics.arrays import Floats
from performative.sets import Ball, Box, DecisionSet
from performative.theory.suprema import spectral_norm

CORNERS = 12
"""The most dimensions of a box whose corners are all tried."""


def ball_around(decisions: DecisionSet, dimension: int) -> tuple[Floats, float]:
    """A center and a radius of a ball that holds Θ."""
    if isinstance(decisions, Ball):
        center = np.zeros(dimension) if decisions.center is None else np.asarray(decisions.center)
        return center, float(decisions.size)
    if isinstance(decisions, Box):
        lower, upper = (np.broadcast_to(bound, (dimension,)) for bound in (decisions.lower, decisions.upper))
        return (lower + upper) / 2, float(np.linalg.norm(upper - lower)) / 2
    return np.zeros(dimension), float(decisions.radius)


def corners(decisions: DecisionSet, dimension: int) -> Floats | None:
    """All corners (2^d, d) of a box of few dimensions."""
    if not isinstance(decisions, Box) or dimension > CORNERS:
        return None
    lower, upper = (np.broadcast_to(bound, (dimension,)) for bound in (decisions.lower, decisions.upper))
    return np.asarray(list(itertools.product(*zip(lower, upper, strict=True))))


def largest_affine_norm(
    function: Callable[[Array], Array], decisions: DecisionSet, dimension: int
) -> tuple[float, str]:
    """At least sup ‖M(θ)‖₂ over Θ, of a vector or matrix M that is affine in θ, and why."""
    ends = corners(decisions, dimension)
    if ends is not None:
        norms = jax.jit(lambda points: lax.map(lambda theta: _norm(function(theta)), points))(jnp.asarray(ends))
        return float(jnp.max(norms)), f"the largest at the {len(ends)} corners of the box, since it is convex"
    center, reach = ball_around(decisions, dimension)
    both = jax.jit(lambda theta: (function(theta), jax.jacfwd(function)(theta)))
    middle, slope = (np.asarray(value) for value in both(jnp.asarray(center)))
    where = "on the ball" if isinstance(decisions, Ball) else "on a ball around Θ"
    if middle.ndim == 1:  # ‖b + Mx‖² = ‖b‖² + 2(Mᵀb)ᵀx + xᵀMᵀMx
        square = middle @ middle + largest_quadratic(2 * slope.T @ middle, 2 * slope.T @ slope, reach)
        return math.sqrt(max(square, 0.0)), f"an affine map {where}"
    # ‖Σ x_k M_k‖ ≤ ‖x‖ times the spectral norm of any matrix that the M_k are arranged in.
    sides = [np.moveaxis(slope, axis, 0).reshape(slope.shape[axis], -1) for axis in range(slope.ndim)]
    squares = [side @ side.T if len(side) <= side.shape[1] else side.T @ side for side in sides]
    steepest = min(math.sqrt(float(np.linalg.eigvalsh(square)[-1])) for square in squares) if np.any(slope) else 0.0
    at_center = float(np.linalg.norm(middle, 2)) if middle.size else 0.0
    return at_center + reach * steepest, f"from the coefficients of an affine map {where}"


def largest_quadratic_norm(
    function: Callable[[Array], Array], decisions: DecisionSet, dimension: int
) -> tuple[float, str]:
    """At least sup ‖g(θ)‖₂ over Θ, of functions g_i that are at most quadratic, from the range of each."""
    center, reach = ball_around(decisions, dimension)
    program = jax.jit(lambda theta: (function(theta), jax.jacfwd(function)(theta), jax.hessian(function)(theta)))
    values, slopes, curvatures = (np.asarray(value) for value in program(jnp.asarray(center)))
    half = np.broadcast_to(decisions.upper, center.shape) - center if isinstance(decisions, Box) else None
    ends = corners(decisions, dimension)
    total = 0.0
    for value, slope, curvature in zip(values, slopes, curvatures, strict=True):
        up, down = (largest_quadratic(sign * slope, sign * curvature, reach) for sign in (1, -1))
        if half is not None:  # each term by itself, over the box
            terms = np.abs(slope) @ half
            bent = 0.5 * np.abs(curvature) @ half @ half
            up, down = min(up, terms + bent), min(down, terms + bent)
            if np.linalg.eigvalsh(curvature)[0] >= -1e-12 * np.linalg.norm(curvature):  # convex, up to rounding
                down = min(down, terms)
                if ends is not None:
                    steps = ends - center
                    up = min(up, float(np.max(steps @ slope + 0.5 * np.sum(steps @ curvature * steps, axis=1))))
        total += max(abs(value + up), abs(value - down)) ** 2
    return math.sqrt(total), "the range of each g_i, a quadratic function"


def largest_quadratic(slope: Floats, curvature: Floats, reach: float) -> float:
    """At least max ⟨b, x⟩ + ½xᵀHx over ‖x‖ ≤ r: the least found of ½μr² + ½bᵀ(μI − H)⁻¹b over μ ≥ 0 with μI − H ≻ 0.

    Every such μ gives an upper bound, and the least of them is the maximum.
    """
    values, vectors = np.linalg.eigh(curvature)
    parts = (vectors.T @ slope) ** 2
    floor = max(float(values[-1]), 0.0)
    unit = max(floor, float(np.sqrt(parts.sum())) / reach if reach > 0 else 0.0)
    if reach == 0 or unit == 0:
        return 0.0

    def dual(log_excess: float) -> float:
        mu = floor + unit * math.exp(log_excess)
        return 0.5 * mu * reach**2 + 0.5 * float(np.sum(parts / (mu - values)))

    low, high = math.log(1e-13), math.log(1e3)
    for _ in range(200):  # the dual is convex in μ, so unimodal in its logarithm
        one, other = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, other) if dual(one) <= dual(other) else (one, high)
    return dual((low + high) / 2)


def _norm(value: Array) -> Array:
    return jnp.linalg.norm(value) if value.ndim == 1 else spectral_norm(value)
