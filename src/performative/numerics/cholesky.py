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


def root(matrices: Array) -> Array:
    """L with LLᵀ = matrices (…, n, n), by elimination without LAPACK: slower for large ones."""
    n = matrices.shape[-1]

    def eliminate(column: Array, pair: tuple[Array, Array]) -> tuple[Array, Array]:
        left, lower = pair
        here = jnp.arange(n) == column
        entries = jnp.sum(jnp.where(here, left, 0.0), axis=-1, keepdims=True)
        pivot = jnp.sum(jnp.where(here[:, None], entries, 0.0), axis=-2, keepdims=True)
        scaled = jnp.where((jnp.arange(n) >= column)[:, None], entries / jnp.sqrt(pivot), 0.0)
        return left - scaled * jnp.swapaxes(scaled, -1, -2), lower + jnp.where(here, scaled, 0.0)

    return lax.fori_loop(0, n, eliminate, (matrices, jnp.zeros_like(matrices)))[1]


def eliminated(matrices: Array) -> Array:
    """The inverses of matrices (…, n, n), or of their roots, by elimination without LAPACK: slower for large ones."""
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
