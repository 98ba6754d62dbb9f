"""Arrays whose last axis may hold the lanes."""

from __future__ import annotations

from typing import Any, TypeGuard

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from performative.numerics.pytrees import pytree

Value = tuple[Array, bool]
"""An array, and whether its last axis holds the lanes."""


@pytree()
class Same:
    """An array that all lanes share, given to a function over lanes without an axis for them."""

    array: Array | NDArray[np.generic]


def is_same(leaf: Any) -> TypeGuard[Same]:
    """Whether all lanes share a leaf."""
    return isinstance(leaf, Same)


def spread_out(value: Value, lanes: int) -> Array:
    """The array with lanes last."""
    array, mapped = value
    if not mapped:
        array = jnp.broadcast_to(jnp.asarray(array)[..., None], (*jnp.shape(array), lanes))
    return array


def filled(value: Value, shape: tuple[int, ...], lanes: int) -> Array:
    """The array in the full shape of an elementwise operation, which accepts scalars in place of arrays."""
    array, mapped = value
    if mapped and array.ndim == 1 and shape:
        return lax.broadcast_in_dim(array, (*shape, lanes), (len(shape),))
    if not mapped and jnp.ndim(array) == 0:
        return lax.broadcast_in_dim(jnp.asarray(array), (*shape, lanes), ())
    return spread_out(value, lanes)
