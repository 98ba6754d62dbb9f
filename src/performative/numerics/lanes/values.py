"""Arrays whose last axis may hold the lanes."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from performative.numerics.pytrees import pytree

# A value is an array and whether its last axis holds the lanes.
Value = tuple[Any, bool]


@pytree()
class Same:
    """An array that all lanes share, given to a function over lanes without an axis for them."""

    array: Any


def is_same(leaf: Any) -> bool:
    """Whether all lanes share a leaf."""
    return isinstance(leaf, Same)


def spread_out(value: Value, lanes: int) -> Any:
    """The array with lanes last."""
    array, mapped = value
    if not mapped:
        array = jnp.broadcast_to(jnp.asarray(array)[..., None], (*jnp.shape(array), lanes))
    return array


def filled(value: Value, shape: tuple[int, ...], lanes: int) -> Any:
    """The array in the full shape of an elementwise operation, which lets scalars stand for arrays."""
    array, mapped = value
    if mapped and array.ndim == 1 and shape:
        return lax.broadcast_in_dim(array, (*shape, lanes), (len(shape),))
    if not mapped and jnp.ndim(array) == 0:
        return lax.broadcast_in_dim(jnp.asarray(array), (*shape, lanes), ())
    return spread_out(value, lanes)
