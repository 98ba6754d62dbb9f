"""Your tables: pandas frames, parquet and CSV files, as arrays of finite numbers."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from decimal import Decimal
from numbers import Real
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from performative.numerics.arrays import Floats
from performative.validation import read_only

if TYPE_CHECKING:
    from pandas import DataFrame, Series


def is_pandas(value: Any, name: str) -> bool:
    """Whether `value` is an instance of the class `name` of pandas, without importing pandas."""
    return any(cls.__name__ == name and cls.__module__.split(".")[0] == "pandas" for cls in type(value).__mro__)


def from_frame(table: DataFrame | Series) -> Floats:
    """The columns of a DataFrame, or a Series as one column: read-only float64 (n, k), every entry finite."""
    frame = table.to_frame() if is_pandas(table, "Series") else table
    others = [f"{name!r} of dtype {dtype}" for name, dtype in frame.dtypes.items() if dtype.kind not in "biuf"]
    if others:
        raise ValueError(
            f"`samples` must have only numeric or boolean columns, but got {', '.join(others)}; encode or drop them"
        )
    samples = np.empty(frame.shape)
    for position in range(frame.shape[1]):  # by position, since names may repeat
        samples[:, position] = frame.iloc[:, position].to_numpy(np.float64, na_value=np.nan)
    non_finite = np.argwhere(~np.isfinite(samples))
    if len(non_finite):
        row, position = non_finite[0]
        name, label = frame.columns.tolist()[position], frame.index[row : row + 1].tolist()[0]
        raise ValueError(
            f"`samples` must be finite, but got {samples[row, position]} in column {name!r}, row {label!r}; fill or drop it"
        )
    return read_only(samples)


def numbers_of(source: str, frame: Any, name: str) -> Floats:
    """One column of a pandas or polars data frame as finite float64; `source` is what errors call the frame."""
    column = frame[name]
    array = np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)
    if array.dtype.kind not in "biuf":
        array = _converted(source, array.astype(object), name)
    numbers = array.astype(np.float64)
    for row in np.flatnonzero(~np.isfinite(numbers))[:1]:
        raise ValueError(
            f"column {name!r} of {source} must be finite, but got {numbers[row]} in row {row}, counted from 0; fill or drop it"
        )
    return numbers


def _converted(source: str, entries: NDArray[np.object_], name: str) -> Floats:
    """Entries that are numbers or missing, as float64; anything else is refused."""
    numbers = np.full(len(entries), np.nan)
    for row, entry in enumerate(entries):
        if isinstance(entry, Real | Decimal):
            numbers[row] = float(entry)
        elif entry is not None and str(entry) != "<NA>":
            raise ValueError(
                f"column {name!r} of {source} must hold numbers, but got {entry!r} in row {row}, counted from 0; encode it"
            )
    return numbers


def header_of(path: Path) -> list[str]:
    """The names in the first line of a CSV file, as they are written there."""
    with open(str(path), "rb") as file, naming(file):
        plain = gzip.GzipFile(fileobj=file) if path.name.lower().endswith(".gz") else file
        text = io.TextIOWrapper(cast(IO[bytes], plain), encoding="utf-8-sig", newline="")
        return next((names for names in csv.reader(text) if names), [])


def read_frame(path: Path, columns: Sequence[str | int] | None) -> DataFrame:
    """The columns of a parquet or CSV file as a DataFrame."""
    columns = columns if columns is None or isinstance(columns, str) else list(columns)
    if columns is not None and (isinstance(columns, str) or len(set(columns)) < max(len(columns), 1)):
        raise ValueError(f"`columns` must be a list of different names, but got {columns!r}")
    if not path.name.lower().endswith((".parquet", ".pq", ".csv", ".csv.gz")):
        raise ValueError(f"`path` must end in .parquet, .pq, .csv or .csv.gz, but got {str(path)!r}")
    with open(str(path), "rb") as file:  # the file's name is then a string
        if path.suffix.lower() in (".parquet", ".pq"):
            return _read_parquet(file, columns)
        return _read_csv(file, columns, "gzip" if path.suffix.lower() == ".gz" else None)


def _read_parquet(file: IO[bytes], columns: list[str | int] | None) -> DataFrame:
    import pandas

    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(f"reading {file.name!r} needs pyarrow: pip install performative[tables]") from error
    with naming(file):  # the index is stored like a column; pandas separates the two
        names = parquet.read_schema(file).empty_table().to_pandas().columns.tolist()
    _require_present(file, names, columns)
    with naming(file):
        if columns is None:
            return pandas.read_parquet(file, engine="pyarrow")
        return pandas.read_parquet(file, engine="pyarrow", columns=[str(name) for name in columns])[columns]


def _read_csv(file: IO[bytes], columns: list[str | int] | None, compression: str | None) -> DataFrame:
    import pandas

    with naming(file):
        names = pandas.read_csv(file, nrows=0, compression=compression).columns.tolist()
    _require_present(file, names, columns)
    unnamed = ValueError(
        f"the first line of {file.name!r} must name every column, but got {names}; "
        "`columns` selects columns by name, and a name may be a number"
    )
    if columns is None and names != [str(position) for position in range(len(names))] and any(map(_is_no_name, names)):
        raise unnamed
    file.seek(0)
    # The nearest float64 to each number: the default of pandas from 3.1 on, which deprecates the option.
    exact = "round_trip" if tuple(map(int, pandas.__version__.split(".")[:2])) < (3, 1) else None
    with naming(file):  # with `low_memory` pandas would guess the dtype chunk by chunk
        frame = pandas.read_csv(file, usecols=columns, compression=compression, float_precision=exact, low_memory=False)
    if not frame.index.equals(pandas.RangeIndex(len(frame))):  # one more field than names, taken for row labels
        raise unnamed
    return frame if columns is None else frame[columns]


def _is_no_name(name: str) -> bool:
    """Whether pandas made up the name or it is a number: then the file has no line of names."""
    try:
        return bool(np.isfinite(float(name)))
    except ValueError:
        return name.startswith("Unnamed: ")


def _require_present(file: IO[bytes], names: list[Any], columns: list[str | int] | None) -> None:
    missing = [name for name in columns or () if name not in names]
    if missing:
        raise ValueError(f"`columns` must be in {file.name!r}, but {missing} are not among {names}")


@contextlib.contextmanager
def naming(file: IO[bytes]) -> Iterator[None]:
    """Add the file's name to what a library raises about a broken file."""
    try:
        yield
    except (ValueError, OSError, EOFError, csv.Error, zlib.error) as error:
        raise ValueError(
            f"{file.name!r} must have the format that its name says, but reading failed: {error}"
        ) from error
