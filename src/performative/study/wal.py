"""Finds damage in SQLite's write-ahead log.

SQLite takes the first frame with a wrong checksum for the end of its log and silently drops everything behind it. After a crash
that is one transaction, which was never acknowledged. If there are more, they were acknowledged, and a changed bit would lose
them. Of one transaction nobody can say which it is. The format is described at https://www.sqlite.org/fileformat.html#walformat.
"""

from __future__ import annotations

import struct
import time
from pathlib import Path

_HEADER, _FRAME = struct.Struct(">8I"), struct.Struct(">6I")
_MAGIC = 0x377F0682
_MASK = 0xFFFFFFFF
_PAUSES = (0.0, 0.0, 0.05, 0.1)


def dropped(log: Path) -> int:
    """How many transactions lie behind what SQLite takes for the end of the log: none, one, or at least two.

    Another process may be writing to the log, so what looks damaged is read again.
    """
    fewest = 2
    for pause in _PAUSES:
        time.sleep(pause)
        fewest = min(fewest, _dropped(log))
        if fewest == 0:
            break
    return fewest


def _dropped(log: Path) -> int:
    try:
        data = log.read_bytes()
    except FileNotFoundError:
        return 0
    if len(data) <= _HEADER.size:
        return 0
    page = _page_size(data)
    if page is None:
        return 2
    magic, _, _, _, *salts, first, second = _HEADER.unpack_from(data)
    order = ">" if magic & 1 else "<"
    sums = _checksum(data[:24], (0, 0), order)
    wrong, behind = sums != (first, second), 0
    places = range(_HEADER.size, len(data) - page - _FRAME.size + 1, page + _FRAME.size)
    frames = [_FRAME.unpack_from(data, place) for place in places]
    # What an earlier log left behind has two other salts.
    current = [frame[2] == salts[0] or frame[3] == salts[1] for frame in frames]
    last = max((index for index, ours in enumerate(current) if ours), default=-1)
    if wrong and last < 0:  # the header was damaged, but the frames belong together
        last = len(frames) - 1 if len({frame[2:4] for frame in frames}) == 1 else -1
    for place, frame, ours in list(zip(places, frames, current, strict=True))[: last + 1]:
        if not wrong:
            body = place + _FRAME.size
            sums = _checksum(data[place : place + 8] + data[body : body + page], sums, order)
            wrong = not ours or [*frame[2:4]] != salts or sums != frame[4:]
        if wrong:
            behind += frame[1] != 0
    return min(max(behind, int(wrong)), 2)


def _page_size(data: bytes) -> int | None:
    """The page size in the header, or None if the header cannot be right."""
    magic, version, page, *_ = _HEADER.unpack_from(data)
    fits = magic & ~1 == _MAGIC and version == 3007000 and 512 <= page <= 65536 and page & (page - 1) == 0
    return page if fits else None


def _checksum(data: bytes, sums: tuple[int, int], order: str) -> tuple[int, int]:
    one, other = sums
    words = iter(struct.unpack(f"{order}{len(data) // 4}I", data))
    for left, right in zip(words, words, strict=True):
        one = (one + left + other) & _MASK
        other = (other + right + one) & _MASK
    return one, other
