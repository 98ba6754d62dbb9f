"""Events and states as bytes: a JSON header, then the raw numbers of named arrays, little-endian. No pickles."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]
_LENGTH = struct.Struct("<I")


def packed(header: Mapping[str, Any], arrays: Arrays) -> bytes:
    """Header and arrays as bytes; the same ones give the same bytes."""
    rows, parts = [], []
    for name, array in arrays.items():
        plain = np.asarray(array, dtype=array.dtype.newbyteorder("<"))
        rows.append([name, plain.dtype.str, list(plain.shape)])
        parts.append(plain.tobytes())
    text = json.dumps({**header, "arrays": rows}, separators=(",", ":"), ensure_ascii=False).encode()
    return b"".join((_LENGTH.pack(len(text)), text, *parts))


def unpacked(body: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """What was packed; the arrays are closed to writing."""
    (length,) = _LENGTH.unpack_from(body)
    place = _LENGTH.size + length
    header = json.loads(body[_LENGTH.size : place])
    arrays = {}
    for name, dtype, shape in header.pop("arrays"):
        kind = np.dtype(dtype)
        count = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(body, kind, count, place).reshape(shape)
        arrays[name] = array if kind.isnative else array.astype(kind.newbyteorder("="))
        place += count * kind.itemsize
    return header, arrays


def packed_tree(tree: Any) -> bytes:
    """The leaves of a tree by their paths; random keys as their data."""
    keys, arrays = {}, {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        name = jax.tree_util.keystr(path)
        if is_key(leaf):
            keys[name] = str(jax.random.key_impl(leaf))
            leaf = jax.random.key_data(leaf)
        arrays[name] = np.asarray(leaf)
    return packed({"keys": keys}, arrays)


def unpacked_tree(body: bytes, like: Any) -> Any:
    """The tree of the structure of `like` whose leaves were packed, as NumPy arrays; an error where they are others."""
    header, arrays = unpacked(body)
    paths, structure = jax.tree_util.tree_flatten_with_path(like)
    names = [jax.tree_util.keystr(path) for path, _ in paths]
    if names != list(arrays):
        raise ValueError(f"the state must have the leaves {names}, but {list(arrays)} are stored")
    leaves: list[Any] = []
    for name, array in arrays.items():
        impl = header["keys"].get(name)
        leaves.append(array if impl is None else jax.random.wrap_key_data(jax.numpy.asarray(array), impl=impl))
    return jax.tree_util.tree_unflatten(structure, leaves)


def leaf_names(body: bytes) -> list[str]:
    """The paths of the leaves that were packed."""
    return list(unpacked(body)[1])


def is_key(leaf: Any) -> bool:
    """Whether a leaf is a random key."""
    return hasattr(leaf, "dtype") and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
