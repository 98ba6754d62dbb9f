"""Inverses of symmetric positive definite matrices."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, lax


def inverse(matrices: Array) -> Array:
    """The inverses of matrices (…, n, n), by Cholesky: fewer operations than a general inverse, to run and to compile."""
    root = lax.linalg.cholesky(matrices)
    identity = jnp.broadcast_to(jnp.eye(matrices.shape[-1]), matrices.shape)
    half = lax.linalg.triangular_solve(root, identity, left_side=True, lower=True)
    return jnp.swapaxes(half, -1, -2) @ half
