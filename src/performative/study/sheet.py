"""A table of samples: numbers in named columns, from a CSV file or a data frame."""

from __future__ import annotations

import csv
import gzip
import io
import unicodedata
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np

from performative.numerics.arrays import Floats
from performative.tables import from_frame, naming
from performative.validation import like, read_only, shown

SEPARATORS = {";": "';'", "\t": "$'\\t'", "|": "'|'", ",": "','"}
"""What separates cells in files that people have, as it is typed in a shell."""


class Sheet(NamedTuple):
    """Finite numbers (n, k), the names of the columns, if they have any, and the file and its `lines` (n,), if it was one."""

    names: list[str] | None
    values: Floats
    file: str | None = None
    lines: tuple[int, ...] | None = None

    def arranged(self, columns: Sequence[str]) -> Sheet:
        """The same with these columns, in this order."""
        assert self.names is not None
        missing = [name for name in columns if name not in self.names]
        unknown = [name for name in self.names if name not in columns]
        if missing or unknown:
            lists = ((missing, "missing"), (unknown, "unknown"))
            wrong = "; ".join(f"{what}: {', '.join(names)}" for names, what in lists if names)
            raise ValueError(
                f"{self.file or '`samples`'} must have the columns {', '.join(columns)}, in any order, but {wrong}"
                + (like(unknown[0], missing) if unknown and missing else "")
                + ("; `ignore` leaves out columns of a CSV file" if unknown and self.lines and not missing else "")
            )
        if self.names == list(columns):
            return self
        return self._replace(names=list(columns), values=self.values[:, [self.names.index(name) for name in columns]])

    def rows(self, which: Any) -> Sheet:
        """The rows at which a mask is true."""
        kept = np.flatnonzero(which)
        lines = None if self.lines is None else tuple(self.lines[place] for place in kept.tolist())
        return self._replace(values=self.values[kept], lines=lines)

    def without(self, column: str) -> tuple[Sheet, Floats]:
        """The other columns, and the numbers in this one."""
        assert self.names is not None
        place = self.names.index(column)
        names = [name for name in self.names if name != column]
        return self._replace(names=names, values=np.delete(self.values, place, axis=1)), self.values[:, place]


def sheet_of(frame: Any, file: str | None = None) -> Sheet:
    """A data frame of pandas as a sheet. Columns 0, 1, … have no names; all others must have different ones."""
    names, source = frame.columns.tolist(), file or "`samples`"
    if names == list(range(len(names))) and not any(isinstance(name, bool) for name in names):
        return Sheet(None, from_frame(frame), file)
    others = [name for name in names if not isinstance(name, str)]
    if others:
        raise ValueError(f"{source} must have columns whose names are strings, or none at all, but has {shown(others)}")
    plain = [normal(name.strip()) for name in names]
    _require_different(source, plain)
    return Sheet(plain, from_frame(frame), file)


def read_sheet(path: Path, sep: str = ",", decimal: str = ".", ignore: Collection[str] = ()) -> Sheet:
    """A CSV file, whose first line names the columns. Columns to `ignore`, such as a date, may hold anything."""
    if len(sep) != 1 or len(decimal) != 1 or sep == decimal:
        raise ValueError(f"`sep` and `decimal` must be two different characters, but got {sep!r} and {decimal!r}")
    lines, rows = _cells(path, sep)
    if not rows:
        raise ValueError(f"{path} must begin with the names of its columns, but is empty")
    names = [normal(name.strip()) for name in rows.pop(0)]
    _require_separated(path, names, sep)
    while len(names) > 1 and not names[-1] and all(len(row) < len(names) or not row[-1].strip() for row in rows):
        names, rows = names[:-1], [row[: len(names) - 1] for row in rows]  # what a spreadsheet adds on the right
    ignore = [normal(name) for name in ignore]
    _require_names(path, names, ignore)
    for line, row in zip(lines[1:], rows, strict=True):
        if len(row) != len(names):
            commas = sep == "," and len(row) == 2 * len(names)
            remedy = "; where commas are decimal signs, cells must be separated by something else" if commas else ""
            raise ValueError(
                f"{path} must have {len(names)} cells in each line, but line {line} has {len(row)}{remedy}"
            )
    kept = [place for place, name in enumerate(names) if name not in ignore]
    values = np.array(
        [
            [_number(path, row[place], names[place], line, decimal) for place in kept]
            for line, row in zip(lines[1:], rows, strict=True)
        ]
    )
    table = read_only(values.reshape(len(rows), len(kept)))
    return Sheet([names[place] for place in kept], table, str(path), tuple(lines[1:]))


def normal(name: str) -> str:
    """A name as it is compared: letters with accents may be written in two ways."""
    return unicodedata.normalize("NFC", name)


def _cells(path: Path, sep: str) -> tuple[list[int], list[list[str]]]:
    """The lines of a CSV file that are not blank: their numbers and their cells."""
    with open(str(path), "rb") as file, naming(file):
        plain = gzip.GzipFile(fileobj=file) if path.name.lower().endswith(".gz") else file
        body = cast(IO[bytes], plain).read()
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = body[: error.start].count(b"\n") + 1
        raise ValueError(
            f"{path} must be text in UTF-8, but line {line} has the byte 0x{body[error.start]:02x}, which is not; save the file "
            'as "CSV UTF-8"'
        ) from None
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=sep, strict=True)
    lines, rows = [], []
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                lines.append(reader.line_num)
                rows.append(row)
    except csv.Error as error:
        raise ValueError(f"{path} must be a CSV file, but line {reader.line_num} is not one of it: {error}") from None
    return lines, rows


def _require_separated(path: Path, names: Sequence[str], sep: str) -> None:
    """Refuse one column that looks like several."""
    other = next((one for one in SEPARATORS if one != sep and len(names) == 1 and one in names[0]), None)
    if other is not None:
        raise ValueError(
            f"{path} must have its cells separated by {sep!r}, but its first line is {shown(names[0])}; "
            f"did you mean --sep {SEPARATORS[other]}?"
        )


def _require_different(source: object, names: Sequence[str]) -> None:
    double = sorted({name for name in names if names.count(name) > 1})
    if double:
        raise ValueError(f"{source} must have columns of different names, but has {', '.join(double)} more than once")


def _require_names(path: Path, names: Sequence[str], ignore: Collection[str]) -> None:
    if any(map(_is_no_name, names)):
        raise ValueError(f"the first line of {path} must name every column, but is {shown(list(names))}")
    _require_different(path, names)
    missing = [name for name in ignore if name not in names]
    if missing:
        raise ValueError(f"`ignore` must name columns of {path}, but {', '.join(missing)} are not among {list(names)}")


def _is_no_name(name: str) -> bool:
    """Whether it is a number, or nothing: then the file has no line of names."""
    try:
        return bool(np.isfinite(float(name)))
    except ValueError:
        return not name


def _number(path: Path, cell: str, name: str, line: int, decimal: str) -> float:
    number = _parsed(cell, decimal)
    if number is None:
        raise ValueError(
            f"column {name!r} of {path} must hold numbers with the decimal sign {decimal!r}, but line {line} has {shown(cell)}"
            f"{_remedy(cell, decimal)}"
        )
    if not np.isfinite(number):
        raise ValueError(f"column {name!r} of {path} must be finite, but line {line} has {shown(cell)}")
    return number


def _parsed(cell: str, decimal: str) -> float | None:
    """The number in a cell; None if there is none."""
    text = cell.strip().replace("_", "?")  # which Python takes for a part of a number
    if decimal != ".":
        text = text.replace(".", "?").replace(decimal, ".")
    try:
        return float(text)
    except ValueError:
        return None


def _remedy(cell: str, decimal: str) -> str:
    """What to do about a cell that is no number."""
    other = "," if decimal == "." else "."
    grouped = _parsed("".join(cell.split()).replace("'", "").replace("\u2019", "").replace(other, ""), decimal)
    if not cell.strip():
        return "; fill the cell or leave out the line"
    if _parsed(cell, other) is not None:
        return f"; did you mean --decimal {other!r}? If {other!r} separates thousands, write numbers without it"
    return "; write numbers without separators of thousands" if grouped is not None else ""
