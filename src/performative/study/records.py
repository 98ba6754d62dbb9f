"""Bytes for the file: a JSON header, then the raw numbers of named arrays, little-endian; no pickles."""

from __future__ import annotations

import functools
import json
import math
import struct
import sys
from collections.abc import Iterator, Mapping
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


class Packed(Mapping[str, NDArray[Any]]):
    """The arrays of a record, each read when it is asked for; they are read-only."""

    def __init__(self, body: bytes, place: int, rows: list[tuple[str, str, list[int]]]) -> None:
        self._body = body
        self._places: dict[str, tuple[int, str, list[int]]] = {}
        for name, dtype, shape in rows:
            self._places[name] = place, dtype, shape
            place += math.prod(shape) * _kind(dtype).itemsize

    def __getitem__(self, name: str) -> NDArray[Any]:
        place, dtype, shape = self._places[name]
        kind = _kind(dtype)
        array = np.frombuffer(self._body, kind, math.prod(shape), place).reshape(shape)
        return array if kind.isnative else array.astype(kind.newbyteorder("="))

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


@functools.lru_cache
def _kind(dtype: str) -> np.dtype[Any]:
    return np.dtype(dtype)


def unpacked(body: bytes) -> tuple[dict[str, Any], Packed]:
    """The header and the arrays."""
    (length,) = _LENGTH.unpack_from(body)
    place = _LENGTH.size + length
    header, rows = json.loads(body[_LENGTH.size : place])
    return header, Packed(body, place, rows)
