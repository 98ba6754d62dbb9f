"""The supremum of a function over Θ, by projected ascent from many decisions."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from performative.numerics.arrays import Floats
from performative.sets import DecisionSet

ASCENT = 60
"""Steps of each ascent."""


def spectral_norm(matrix: Array) -> Array:
    """‖matrix‖₂, 0 if it is empty."""
    return jnp.linalg.norm(matrix, 2) if matrix.size else jnp.zeros(())


def least_eigenvalue(matrix: Array) -> Array:
    """The smallest eigenvalue of a symmetric matrix."""
    return jnp.linalg.eigvalsh(matrix)[0]


def largest_value(value: Callable[[Array], Array], decisions: DecisionSet, starts: Floats) -> tuple[float, Floats]:
    """The largest value of a function on Θ that ascent from `starts` finds, and where.

    Steps follow the gradient as far as Θ is wide and half as far after every failure; projected, they reach the boundary,
    where convex functions are largest.
    """
    width = decisions.radius if math.isfinite(decisions.radius) else 10.0

    def climb(theta: Array) -> tuple[Array, Array]:
        def step(_: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            theta, best, length = carry
            slope = jax.grad(value)(theta)
            slope = jnp.where(jnp.isfinite(slope), slope, 0.0)
            candidate = decisions.project(theta + length * slope / jnp.maximum(jnp.linalg.norm(slope), 1e-300))
            reached = value(candidate)
            better = reached > best
            next_theta, next_length = jnp.where(better, candidate, theta), jnp.where(better, length, length / 2)
            return next_theta, jnp.maximum(reached, best), next_length

        theta, best, _ = lax.fori_loop(0, ASCENT, step, (theta, value(theta), jnp.asarray(2.0 * width)))
        return best, theta

    tops, where = jax.jit(lambda starts: lax.map(climb, starts))(jnp.asarray(starts))
    values = np.nan_to_num(np.asarray(tops), nan=-np.inf)
    best = int(np.argmax(values))
    return float(values[best]), np.asarray(where)[best]
