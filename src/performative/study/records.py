"""Bytes for the file: a JSON header, then the raw numbers of named arrays, little-endian; no pickles."""

from __future__ import annotations

import functools
import json
import math
import struct
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]
_LENGTH = struct.Struct("<I")
_JSON = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)
_HEADER = json.JSONDecoder()


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


class _Part(NamedTuple):
    """An array of a record: its type and shape, and where its `size` numbers begin behind the header."""

    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    size: int
    place: int


class Packed(Mapping[str, NDArray[Any]]):
    """The arrays of a record, each read when it is asked for; they are read-only."""

    def __init__(self, body: bytes, place: int, parts: dict[str, _Part]) -> None:
        self._body, self._place, self._parts = body, place, parts

    def __getitem__(self, name: str) -> NDArray[Any]:
        kind, shape, size, place = self._parts[name]
        array = np.frombuffer(self._body, kind, size, self._place + place).reshape(shape)
        return array if kind.isnative else array.astype(kind.newbyteorder("="))

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


@functools.lru_cache
def _parts(rows: str) -> dict[str, _Part]:
    """The arrays that are listed behind a header: those of many records are listed alike."""
    parts, place = dict[str, _Part](), 0
    for name, dtype, shape in json.loads(rows):
        parts[name] = _Part(np.dtype(dtype), tuple(shape), math.prod(shape), place)
        place += parts[name].size * parts[name].dtype.itemsize
    return parts


def unpacked(body: bytes) -> tuple[dict[str, Any], Packed]:
    """The header and the arrays."""
    (length,) = _LENGTH.unpack_from(body)
    place = _LENGTH.size + length
    text = body[_LENGTH.size : place].decode()
    header, end = _HEADER.raw_decode(text, 1)
    return header, Packed(body, place, _parts(text[end + 1 : -1]))
