"""States as bytes: their leaves by name, and random keys as the words they are made of."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np

from performative.numerics.pytrees import pytree
from performative.study.records import packed, unpacked


def packed_state(state: Any) -> bytes:
    """The leaves of a state without random keys, by path."""
    leaves, structure = jax.tree.flatten(state)
    return packed({}, dict(zip(_names(structure), leaves, strict=True)))


def unpacked_state(body: bytes, like: Any) -> Any:
    """The packed state, with NumPy arrays as leaves and the structure of `like`; an error if its leaves have other names."""
    _, arrays = unpacked(body)
    names = leaf_names(like)
    if names != list(arrays):
        raise ValueError(f"the state must have the leaves {names}, but the stored ones are {list(arrays)}")
    return jax.tree.unflatten(jax.tree.structure(like), list(arrays.values()))


def not_finite(state: Any) -> list[str]:
    """The paths of the leaves that hold a number that is not finite."""
    leaves, structure = jax.tree.flatten(state)
    is_bad = [leaf.dtype.kind == "f" and not np.isfinite(leaf).all() for leaf in map(np.asarray, leaves)]
    return [name for name, bad in zip(_names(structure), is_bad, strict=True) if bad] if any(is_bad) else []


def leaf_names(state: Any) -> list[str]:
    """The paths of the leaves of a state."""
    return list(_names(jax.tree.structure(state)))


@pytree("kind")
class KeyData:
    """The words of a random key, and the name of its generator."""

    data: jax.Array
    kind: str


def without_keys(state: Any) -> Any:
    """The state with `KeyData` in place of random keys."""
    return jax.tree.map(
        lambda leaf: KeyData(jax.random.key_data(leaf), str(jax.random.key_impl(leaf))) if is_key(leaf) else leaf, state
    )


def with_keys(state: Any) -> Any:
    """The state with random keys in place of `KeyData`."""
    return jax.tree.map(
        lambda leaf: jax.random.wrap_key_data(leaf.data, impl=leaf.kind) if isinstance(leaf, KeyData) else leaf,
        state,
        is_leaf=lambda node: isinstance(node, KeyData),
    )


def is_key(leaf: object) -> bool:
    """Whether a leaf is a random key."""
    return hasattr(leaf, "dtype") and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)


@functools.lru_cache
def _names(structure: jax.tree_util.PyTreeDef) -> tuple[str, ...]:
    numbered = jax.tree.unflatten(structure, range(structure.num_leaves))
    paths = jax.tree_util.tree_flatten_with_path(numbered)[0]
    return tuple(jax.tree_util.keystr(path) for path, _ in paths)
