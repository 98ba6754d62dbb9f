"""The samples given to `tell`, as an array."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from performative.numerics.arrays import Floats
from performative.study.sheet import Sheet, sheet_of
from performative.tables import is_pandas
from performative.validation import finite_array, read_only, require_samples, shown

MOST_NUMBERS = 2**25
"""How many numbers one `tell` may bring at most: a quarter of a gigabyte."""


class Samples(NamedTuple):
    """Finite numbers (b, n, k), the names of the k columns if they have any, and the file and its lines, if it was one."""

    values: Floats
    columns: list[str] | None
    file: str | None = None
    lines: tuple[tuple[int, ...], ...] | None = None


def read(samples: Any, count: int, columns: list[str] | None, scalars: bool = False, in_order: bool = False) -> Samples:
    """Samples of `count` decisions: an array (b, n, k), or a data frame or `Sheet` (n, k) for each, or with `scalars` a number.

    With known `columns`, tables must have the same ones and are put in that order. Where either side knows no names, the
    columns of a table are taken as they stand if that is said to be right (`in_order`). Arrays, and frames whose columns are
    0, 1, …, are in order as they are.
    """
    file = lines = None
    if _is_table(samples):
        samples = [samples]
    if isinstance(samples, list | tuple) and samples and all(map(_is_table, samples)):
        _require_few(sum(part.values.size if isinstance(part, Sheet) else part.size for part in samples))
        sheets = [part if isinstance(part, Sheet) else sheet_of(part) for part in samples]
        for given, sheet in zip(samples, sheets, strict=True):
            if isinstance(given, Sheet) or sheet.names is not None:
                _require_known(sheet, columns, in_order)
        columns = sheets[0].names if columns is None else columns
        sheets = [sheet if columns is None or sheet.names is None else sheet.arranged(columns) for sheet in sheets]
        file, places = sheets[0].file, [sheet.lines for sheet in sheets]
        lines = tuple(place for place in places if place is not None) or None
        samples = [sheet.values for sheet in sheets]
        if len({part.shape for part in samples}) > 1:
            raise ValueError(f"data frames must all have the same shape, but have {[part.shape for part in samples]}")
    _require_few(getattr(samples, "size", 0))
    data = finite_array("samples", _numbers(samples))
    data = require_samples(data, count, scalars)
    _require_few(data.size)
    if columns is not None and data.shape[2] != len(columns):
        raise ValueError(
            f"`samples` must hold {len(columns)} numbers each ({', '.join(columns)}), but got {data.shape[2]}"
        )
    return Samples(data, columns, file, lines)


def _require_known(sheet: Sheet, columns: list[str] | None, in_order: bool) -> None:
    """Refuse a table whose columns are not known to be in the order of a sample."""
    source = sheet.file or "`samples`"
    if in_order or (columns is not None and sheet.names is not None):
        return
    if columns is None and sheet.names is not None:
        raise ValueError(
            f"{source} has the columns {', '.join(sheet.names)}, but the study knows no names: name the columns of a sample when "
            "you create it, or pass in_order=True (--in-order) if these are in the order of a sample; later tables are then "
            "matched by these names"
        )
    if columns is not None:
        raise ValueError(
            f"{source} must name its columns ({', '.join(columns)}, in any order), but has no names; pass in_order=True "
            "(--in-order) if they are in this order"
        )


def really_deployed(given: ArrayLike, asked: Floats, argument: str = "deployed") -> Floats | None:
    """The decisions (b, d) that were really deployed, as the `argument` says; None if they are those asked for.

    >>> really_deployed([3.5], np.array([[3.4987]]))
    array([[3.5]])
    """
    deployed = finite_array(argument, given)
    if len(asked) == 1 and deployed.shape == asked.shape[1:]:
        deployed = read_only(deployed.reshape(asked.shape))
    if deployed.shape != asked.shape:
        remedy = "give each number of every decision that was asked for"
        raise ValueError(f"`{argument}` must have shape {asked.shape}, but got {deployed.shape}; {remedy}")
    return None if np.array_equal(deployed, asked) else deployed


def _is_table(part: Any) -> bool:
    return isinstance(part, Sheet) or is_pandas(part, "DataFrame")


def _numbers(samples: Any) -> Any:
    """The samples as an array of real numbers; strings, dates and masked entries are refused."""
    if isinstance(samples, np.ma.MaskedArray):
        raise ValueError("`samples` must be numbers, but got a masked array; pass only the entries that are not masked")
    try:
        array = np.asarray(samples)
    except ValueError as error:
        raise ValueError(f"`samples` must be numbers of shape (b, n, k), but got {shown(samples)}") from error
    if array.dtype.kind not in "biuf":
        raise ValueError(
            f"`samples` must be numbers, but got {shown(samples)} of dtype {array.dtype}; encode words as numbers"
        )
    return array


def _require_few(size: object) -> None:
    if isinstance(size, int) and size > MOST_NUMBERS:
        raise ValueError(f"`samples` must hold at most {MOST_NUMBERS} numbers, but hold {size}")
