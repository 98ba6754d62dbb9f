"""Bytes for the file: a JSON header, then the raw numbers of named arrays, little-endian; no pickles."""

from __future__ import annotations

import functools
import json
import math
import struct
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
