"""Inverses of symmetric positive definite matrices.

On a machine with two cores, two batched calls of LAPACK that run at the same time wait for each other forever (jaxlib 0.10): each
holds a thread and waits for another. So what can be inverted at the same time is inverted in one call, or `eliminated`.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, lax


def inverse_root(matrices: Array) -> Array:
    """L⁻¹ of matrices LLᵀ (…, n, n), whose inverses are L⁻ᵀL⁻¹."""
    identity = jnp.broadcast_to(jnp.eye(matrices.shape[-1]), matrices.shape)
    return lax.linalg.triangular_solve(lax.linalg.cholesky(matrices), identity, left_side=True, lower=True)


def inverse(matrices: Array) -> Array:
    """The inverses of matrices (…, n, n), by Cholesky: fewer operations than a general inverse, to run and to compile."""
    half = inverse_root(matrices)
    return jnp.swapaxes(half, -1, -2) @ half


def eliminated(matrices: Array) -> Array:
    """The inverses of matrices (…, n, n), by elimination without LAPACK: slower for large ones."""
    n = matrices.shape[-1]

    def eliminate(column: Array, pair: tuple[Array, Array]) -> tuple[Array, Array]:
        here = jnp.arange(n) == column
        row, beside = (jnp.sum(jnp.where(here[:, None], part, 0.0), axis=-2, keepdims=True) for part in pair)
        pivot = jnp.sum(jnp.where(here, row, 0.0), axis=-1, keepdims=True)
        entries = jnp.sum(jnp.where(here, pair[0], 0.0), axis=-1, keepdims=True)
        factor = jnp.where(here[:, None], pivot - 1.0, entries) / pivot
        return pair[0] - factor * row, pair[1] - factor * beside

    identity = jnp.broadcast_to(jnp.eye(n), matrices.shape)
    return lax.fori_loop(0, n, eliminate, (matrices, identity))[1]
