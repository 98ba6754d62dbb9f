"""When two runs count as the same: bit for bit, or up to rounding."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Numbers = np.ndarray[Any, Any]
SMALL = 1e-3
"""The least size that differences are relative to: in a run of zeros only rounding is left to compare."""


def leaves(state: Any) -> list[Numbers]:
    """Copies of all arrays of a state, keys as their words."""
    copies = []
    for leaf in jax.tree.leaves(state):
        if jnp.issubdtype(getattr(leaf, "dtype", np.float64), jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        copy = np.array(leaf)
        if copy.dtype.kind not in "biufc":
            raise TypeError(f"a state must be a pytree of numbers, but holds a {type(leaf).__name__}")
        copies.append(copy)
    return copies


def same_bits(one: list[Numbers], other: list[Numbers]) -> bool:
    """Whether two lists of arrays are the same, bit for bit."""
    return [_bits(array) for array in one] == [_bits(array) for array in other]


def _bits(array: Numbers) -> tuple[tuple[int, ...], np.dtype[Any], bytes]:
    return array.shape, array.dtype, array.tobytes()


def gap(one: Numbers, other: Numbers) -> float:
    """The largest difference, relative to the largest number."""
    largest = np.max(np.abs(other), initial=SMALL)
    return float(np.max(np.abs(one - other), initial=0.0) / largest)
