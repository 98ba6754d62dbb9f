"""Bytes for the file: a JSON header, then the raw numbers of named arrays, little-endian; no pickles."""

from __future__ import annotations

import functools
import json
import math
import struct
import sys
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from performative.numerics.pytrees import pytree
from performative.study.renamed import stored_names

Arrays = Mapping[str, NDArray[Any]]
_LENGTH = struct.Struct("<I")
_JSON = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def packed(header: Mapping[str, Any], arrays: Arrays) -> bytes:
    """Header and arrays as bytes; equal ones give equal bytes."""
    plain = [np.asarray(array) for array in arrays.values()]
    if sys.byteorder == "big":
        plain = [array.astype(array.dtype.newbyteorder("<")) for array in plain]
    rows = _rows(tuple(arrays), tuple(array.dtype for array in plain), tuple(array.shape for array in plain))
    text = f"[{_JSON.encode(header)},{rows}]".encode()
    return b"".join((_LENGTH.pack(len(text)), text, *(array.tobytes() for array in plain)))


@functools.lru_cache
def _rows(names: tuple[str, ...], dtypes: tuple[np.dtype[Any], ...], shapes: tuple[tuple[int, ...], ...]) -> str:
    return _JSON.encode([[name, dtype.str, shape] for name, dtype, shape in zip(names, dtypes, shapes, strict=True)])


def unpacked(body: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The header and the arrays, which are read-only."""
    (length,) = _LENGTH.unpack_from(body)
    place = _LENGTH.size + length
    header, rows = json.loads(body[_LENGTH.size : place])
    arrays = {}
    for name, dtype, shape in rows:
        kind = np.dtype(dtype)
        count = math.prod(shape)
        array = np.frombuffer(body, kind, count, place).reshape(shape)
        arrays[name] = array if kind.isnative else array.astype(kind.newbyteorder("="))
        place += count * kind.itemsize
    return header, arrays


def packed_tree(tree: Any) -> bytes:
    """The leaves of a tree without random keys, by path."""
    leaves, structure = jax.tree.flatten(tree)
    return packed({}, dict(zip(_names(structure), leaves, strict=True)))


def unpacked_tree(body: bytes, like: Any) -> Any:
    """The packed tree, with NumPy arrays as leaves and the structure of `like`; an error if its leaves have other names."""
    _, arrays = unpacked(body)
    names = leaf_names(like)
    if names != list(arrays):
        raise ValueError(f"the state must have the leaves {names}, but the stored ones are {list(arrays)}")
    return jax.tree.unflatten(jax.tree.structure(like), list(arrays.values()))


def not_finite(tree: Any) -> list[str]:
    """The paths of the leaves that hold a number that is not finite."""
    leaves, structure = jax.tree.flatten(tree)
    is_bad = [leaf.dtype.kind == "f" and not np.isfinite(leaf).all() for leaf in map(np.asarray, leaves)]
    return [name for name, bad in zip(_names(structure), is_bad, strict=True) if bad] if any(is_bad) else []


def leaf_names(tree: Any) -> list[str]:
    """The paths of the leaves of a tree."""
    return list(_names(jax.tree.structure(tree)))


@pytree("kind")
class KeyData:
    """The words of a random key, and the name of its generator."""

    data: jax.Array
    kind: str


def without_keys(tree: Any) -> Any:
    """The tree with `KeyData` in place of random keys."""
    return jax.tree.map(
        lambda leaf: KeyData(jax.random.key_data(leaf), str(jax.random.key_impl(leaf))) if is_key(leaf) else leaf, tree
    )


def with_keys(tree: Any) -> Any:
    """The tree with random keys in place of `KeyData`."""
    return jax.tree.map(
        lambda leaf: jax.random.wrap_key_data(leaf.data, impl=leaf.kind) if isinstance(leaf, KeyData) else leaf,
        tree,
        is_leaf=lambda node: isinstance(node, KeyData),
    )


def is_key(leaf: object) -> bool:
    """Whether a leaf is a random key."""
    return hasattr(leaf, "dtype") and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)


@functools.lru_cache
def _names(structure: jax.tree_util.PyTreeDef) -> tuple[str, ...]:
    numbered = jax.tree.unflatten(structure, range(structure.num_leaves))
    paths = jax.tree_util.tree_flatten_with_path(numbered)[0]
    return stored_names(tuple(jax.tree_util.keystr(path) for path, _ in paths))
