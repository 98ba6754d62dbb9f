"""The user's tables: pandas frames, parquet and CSV files, as arrays of finite numbers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from performative.numerics.arrays import Floats
from performative.validation import read_only


def is_pandas(value: Any, name: str) -> bool:
    """Whether `value` is of pandas' class `name`, told without importing pandas."""
    return any(cls.__name__ == name and cls.__module__.split(".")[0] == "pandas" for cls in type(value).__mro__)


def from_frame(frame: Any) -> Floats:
    """The columns of a DataFrame as read-only float64 (n, k), every entry finite."""
    others = [f"{name!r} of dtype {dtype}" for name, dtype in frame.dtypes.items() if dtype.kind not in "biuf"]
    if others:
        raise ValueError(f"`samples` must have numeric or boolean columns alone, but got {', '.join(others)}")
    samples = np.empty(frame.shape)
    for place in range(frame.shape[1]):  # by place, since names may repeat
        samples[:, place] = frame.iloc[:, place].to_numpy(np.float64, na_value=np.nan)
    wrong = np.argwhere(~np.isfinite(samples))
    if len(wrong):
        row, place = wrong[0]
        name, label = frame.columns.tolist()[place], frame.index[row : row + 1].tolist()[0]
        raise ValueError(f"`samples` must be finite, but got {samples[row, place]} in column {name!r}, row {label!r}")
    return read_only(samples)


def read_frame(path: Path, columns: Sequence[str | int] | None) -> Any:
    """The columns of a parquet or CSV file as a DataFrame."""
    columns = columns if columns is None or isinstance(columns, str) else list(columns)
    if columns is not None and (isinstance(columns, str) or len(set(columns)) < max(len(columns), 1)):
        raise ValueError(f"`columns` must be a list of different names, but got {columns!r}")
    if not path.name.lower().endswith((".parquet", ".pq", ".csv", ".csv.gz")):
        raise ValueError(f"`path` must end in .parquet, .pq, .csv or .csv.gz, but got {str(path)!r}")
    with open(str(path), "rb") as file:  # whose name is then a string
        if path.suffix.lower() in (".parquet", ".pq"):
            return _read_parquet(file, columns)
        return _read_csv(file, columns, "gzip" if path.suffix.lower() == ".gz" else None)


def _read_parquet(file: IO[bytes], columns: list[str | int] | None) -> Any:
    import pandas

    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(f"reading {file.name!r} needs pyarrow: pip install performative[tables]") from error
    with _failures_of(file):  # the index is stored like a column, and pandas tells them apart
        names = parquet.read_schema(file).empty_table().to_pandas().columns.tolist()
    _check_there(file, names, columns)
    with _failures_of(file):
        if columns is None:
            return pandas.read_parquet(file, engine="pyarrow")
        return pandas.read_parquet(file, engine="pyarrow", columns=[str(name) for name in columns])[columns]


def _read_csv(file: IO[bytes], columns: list[str | int] | None, compression: str | None) -> Any:
    import pandas

    with _failures_of(file):
        names = pandas.read_csv(file, nrows=0, compression=compression).columns.tolist()
    _check_there(file, names, columns)
    unnamed = ValueError(
        f"the first line of {file.name!r} must name every column, but got {names}; "
        "`columns` picks those that you name, numbers or not"
    )
    if columns is None and names != [str(place) for place in range(len(names))] and any(map(_is_no_name, names)):
        raise unnamed
    file.seek(0)
    # The nearest float64 to each number: pandas gives it unasked from 3.1 on, and deprecates the asking.
    exact = "round_trip" if tuple(map(int, pandas.__version__.split(".")[:2])) < (3, 1) else None
    with _failures_of(file):  # with `low_memory` the dtype would be guessed chunk by chunk
        frame = pandas.read_csv(file, usecols=columns, compression=compression, float_precision=exact, low_memory=False)
    if not frame.index.equals(pandas.RangeIndex(len(frame))):  # a field more than names, taken for row labels
        raise unnamed
    return frame if columns is None else frame[columns]


def _is_no_name(name: str) -> bool:
    """Whether pandas made the name up for an empty one, or it is a number: the file has no line of names, then."""
    try:
        return bool(np.isfinite(float(name)))
    except ValueError:
        return name.startswith("Unnamed: ")


def _check_there(file: IO[bytes], names: list[Any], columns: list[str | int] | None) -> None:
    missing = [name for name in columns or () if name not in names]
    if missing:
        raise ValueError(f"`columns` must be in {file.name!r}, but {missing} are not among {names}")


@contextlib.contextmanager
def _failures_of(file: IO[bytes]) -> Iterator[None]:
    """What a library raises about a broken file, with the file's name."""
    try:
        yield
    except (ValueError, OSError, EOFError) as error:
        raise ValueError(f"{file.name!r} must be of the format that its name says, but got: {error}") from error
