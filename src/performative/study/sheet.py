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
from performative.validation import read_only, shown


class Sheet(NamedTuple):
    """Finite numbers (n, k), and the names of the columns, if they have any."""

    names: list[str] | None
    values: Floats

    def arranged(self, columns: list[str] | None) -> Sheet:
        """The same with these columns, in this order, if both have names."""
        if columns is None or self.names is None or self.names == columns:
            return self
        if set(self.names) != set(columns):
            raise ValueError(
                f"`samples` must have the columns {columns}, as in the first report or the history, but have {self.names}"
            )
        return Sheet(columns, self.values[:, [self.names.index(name) for name in columns]])

    def without(self, column: str) -> tuple[Sheet, Floats]:
        """The other columns, and the numbers in this one."""
        assert self.names is not None
        place = self.names.index(column)
        names = [name for name in self.names if name != column]
        return Sheet(names, np.delete(self.values, place, axis=1)), self.values[:, place]


def sheet_of(frame: Any) -> Sheet:
    """A data frame of pandas as a sheet; names that are not distinct strings are none."""
    names = frame.columns.tolist()
    named = all(isinstance(name, str) for name in names) and len(set(names)) == len(names)
    return Sheet([normal(name) for name in names] if named else None, from_frame(frame))


def read_sheet(path: Path, sep: str = ",", decimal: str = ".", ignore: Collection[str] = ()) -> Sheet:
    """A CSV file, whose first line names the columns. Columns to `ignore`, such as a date, may hold anything."""
    if len(sep) != 1 or len(decimal) != 1 or sep == decimal:
        raise ValueError(f"`sep` and `decimal` must be two different characters, but got {sep!r} and {decimal!r}")
    with open(str(path), "rb") as file, naming(file):
        plain = gzip.GzipFile(fileobj=file) if path.name.lower().endswith(".gz") else file
        text = io.TextIOWrapper(cast(IO[bytes], plain), encoding="utf-8-sig", newline="")
        lines = [line for line in csv.reader(text, delimiter=sep, strict=True) if line]
    if not lines:
        raise ValueError(f"{path} must begin with the names of its columns, but is empty")
    names, rows = [normal(name.strip()) for name in lines[0]], lines[1:]
    _require_names(path, names, ignore)
    for number, row in enumerate(rows, start=2):
        if len(row) != len(names):
            raise ValueError(f"{path} must have {len(names)} numbers in each line, but line {number} has {len(row)}")
    kept = [place for place, name in enumerate(names) if name not in ignore]
    values = np.array(
        [
            [_number(path, row[place], names[place], number, decimal) for place in kept]
            for number, row in enumerate(rows, 2)
        ]
    )
    return Sheet([names[place] for place in kept], read_only(values.reshape(len(rows), len(kept))))


def normal(name: str) -> str:
    """A name as it is compared: letters with accents may be written in two ways."""
    return unicodedata.normalize("NFC", name)


def _require_names(path: Path, names: Sequence[str], ignore: Collection[str]) -> None:
    double = sorted({name for name in names if names.count(name) > 1})
    if double:
        raise ValueError(f"{path} must have columns of different names, but has {', '.join(double)} more than once")
    if any(map(_is_no_name, names)):
        raise ValueError(f"the first line of {path} must name every column, but is {shown(list(names))}")
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
    text = cell.strip().replace("_", "?")  # which Python takes for a part of a number
    if decimal != ".":
        text = text.replace(".", "?").replace(decimal, ".")
    try:
        number = float(text)
    except ValueError:
        raise ValueError(
            f"column {name!r} of {path} must hold numbers with the decimal sign {decimal!r}, but line {line} has {shown(cell)}"
        ) from None
    if not np.isfinite(number):
        raise ValueError(f"column {name!r} of {path} must be finite, but line {line} has {shown(cell)}")
    return number
