"""How far a decision may be from the one deployed before it."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.numerics.arrays import Floats, as_field
from performative.numerics.pytrees import pytree
from performative.validation import finite_array, shown

LEAST = 0.1
"""The least size that shares are taken of, as a share of the start's."""


@pytree()
class Moves:
    """The largest move of each coordinate: `absolute` (d,), plus a share `relative` (d,) of the size of the last decision, or of
    a tenth of the `start` where that is more: a coordinate may come near 0, and cross it.
    """

    absolute: Array
    relative: Array
    start: Array

    @staticmethod
    def of(max_move: Any, start: Floats) -> Moves:
        """From a number, a share such as "5%", or a list of them, one for each coordinate."""
        d = len(start)
        given = max_move if isinstance(max_move, list | tuple | np.ndarray) and np.ndim(max_move) else [max_move] * d
        shares = np.array([isinstance(one, str) for one in given])
        limits = np.array([_share(one) if isinstance(one, str) else finite_array("max_move", one) for one in given])
        if limits.shape != (d,) or np.any(limits <= 0) or any(isinstance(one, bool) for one in given):
            raise ValueError(
                f"`max_move` must be positive, one number or {d}, or shares such as '5%', but got {shown(max_move)}"
            )
        if np.any(shares & (start == 0)):
            place = int(np.flatnonzero(shares & (start == 0))[0])
            raise ValueError(
                f"`max_move` must be a number where the start is 0, of which any share is 0, but got {given[place]!r} for "
                f"coordinate {place}"
            )
        return Moves(as_field(np.where(shares, 0.0, limits)), as_field(np.where(shares, limits, 0.0)), as_field(start))

    def limits(self, last: Array) -> Array:
        """How far each coordinate may move from the last decision, or decisions (b, d)."""
        size = jnp.maximum(jnp.abs(last), LEAST * jnp.abs(jnp.asarray(self.start)))
        return jnp.asarray(self.absolute) + jnp.asarray(self.relative) * size


def _share(text: str) -> float:
    try:
        share = float(text.removesuffix("%")) / 100.0
    except ValueError:
        share = np.nan
    if not text.endswith("%") or not 0.0 < share < np.inf:
        raise ValueError(f"`max_move` must be a number > 0 or a share such as '5%', but got {text!r}")
    return share
