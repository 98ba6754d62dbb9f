"""Looks for damage in the middle of SQLite's write-ahead log.

SQLite takes the first frame whose checksum is wrong for the end of its log, as after a crash: everything behind it is dropped
without a word. After a crash that is one transaction that was never acknowledged. More of them are events that were, and
are lost to a bit that changed. The format is https://www.sqlite.org/fileformat.html#walformat.
"""

from __future__ import annotations

import struct
from pathlib import Path

_HEADER, _FRAME = struct.Struct(">8I"), struct.Struct(">6I")
_MAGIC = 0x377F0682
_MASK = 0xFFFFFFFF


def is_damaged(log: Path) -> bool:
    """Whether at least two committed transactions lie behind a frame whose checksum is wrong."""
    try:
        data = log.read_bytes()
    except FileNotFoundError:
        return False
    if len(data) < _HEADER.size:
        return False
    magic, _, page, _, salt, pepper, *_ = _HEADER.unpack_from(data)
    if magic & ~1 != _MAGIC or not 512 <= page <= 65536:
        return False
    order = ">" if magic & 1 else "<"
    sums = _checksum(data[:24], (0, 0), order)
    wrong, behind = sums != _HEADER.unpack_from(data)[6:], 0
    for place in range(_HEADER.size, len(data) - page - _FRAME.size + 1, page + _FRAME.size):
        _, commit, *salts, first, second = _FRAME.unpack_from(data, place)
        if salts != [salt, pepper]:  # of an earlier round of the log
            break
        if not wrong:
            body = place + _FRAME.size
            sums = _checksum(data[place : place + 8] + data[body : body + page], sums, order)
            wrong = sums != (first, second)
        if wrong:
            behind += commit != 0
    return behind >= 2


def _checksum(data: bytes, sums: tuple[int, int], order: str) -> tuple[int, int]:
    one, other = sums
    words = iter(struct.unpack(f"{order}{len(data) // 4}I", data))
    for left, right in zip(words, words, strict=True):
        one = (one + left + other) & _MASK
        other = (other + right + one) & _MASK
    return one, other
