"""A reservoir: a uniform sample of everything observed so far, of a fixed size."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax


def first_rows(key: Array, rows: Array, size: int) -> Array:
    """The reservoir (size, k) after its first rows (n, k): all of them, in random order, repeated until it is full."""
    return jnp.resize(jax.random.permutation(key, rows), (size, rows.shape[1]))


def with_rows(
    reservoir: Array, key: Array, rows: Array, count: Array, first_draw: Array, filled: Array | None = None
) -> Array:
    """The reservoir after new rows (n, k), where `count` rows have been observed before (Vitter 1985).

    Row number i of all takes place i while there is room, and a uniform place among i afterward. Where old rows count less than
    one each, so many places are `filled` all the same. The first of the new rows uses draw number `first_draw` of the key, and
    each row after it the next.
    """
    size = reservoir.shape[0]

    def put(index: Array, reservoir: Array) -> Array:
        before, taken = count + index, (count if filled is None else filled) + index
        draw = jax.random.uniform(jax.random.fold_in(key, (first_draw + index).astype(jnp.int64)))
        place = jnp.where(taken < size, taken, jnp.floor(draw * jnp.maximum(before + 1.0, size))).astype(jnp.int64)
        return jnp.where((jnp.arange(size) == place)[:, None], rows[index], reservoir)

    if rows.shape[0] == 1:
        return put(jnp.asarray(0), reservoir)
    return lax.fori_loop(0, rows.shape[0], put, reservoir)
