"""The samples in a file: JSON, CSV or parquet, as a sheet for each decision."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from performative.numerics.arrays import Floats
from performative.study.labels import WHICH
from performative.study.sheet import Sheet, read_sheet, sheet_of
from performative.validation import finite_array, require_samples


def read_observed(
    path: Path, decisions: Floats, sep: str = ",", decimal: str = ".", ignore: Collection[str] = ()
) -> list[Sheet]:
    """The samples of decisions (b, d) in a file; `sep`, `decimal` and `ignore` are for CSV files.

    A JSON file holds rows, or a list of them for each decision. In a table, the column `decision` tells them apart.
    """
    if path.suffix.lower() == ".json":
        each = _each(_json(path))
        samples = require_samples(finite_array("samples", each), len(decisions), decisions.shape[1] == 1)
        return [Sheet(None, part, str(path)) for part in samples]
    if path.name.lower().endswith((".csv", ".csv.gz")):
        sheet = read_sheet(path, sep, decimal, ignore)
    else:
        from performative.tables import read_frame

        sheet = sheet_of(read_frame(path, None), str(path))
    if not len(sheet.values):
        raise ValueError(f"{path} must hold at least one sample, but has no rows")
    if sheet.names is None or WHICH not in sheet.names:
        return [sheet]
    others, which = sheet.without(WHICH)
    count = len(decisions)
    parts = [others.rows(which == place) for place in range(count)]
    sizes = [len(part.values) for part in parts]
    if sum(sizes) != len(which):
        raise ValueError(f"the column {WHICH!r} must hold 0 to {count - 1}, but got {sorted(set(which.tolist()))}")
    if len(set(sizes)) > 1:
        raise ValueError(f"every decision must have the same number of samples, but they have {sizes}")
    return parts


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from error


def _each(values: Any) -> Any:
    """Rows of one decision as those of each."""
    flat = isinstance(values, list) and values and isinstance(values[0], list)
    return [values] if flat and not isinstance(values[0][:1] and values[0][0], list) else values
