"""Past deployments: the decisions you made before, and the data that they brought."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from performative.numerics.arrays import Floats, as_field
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import changed, pytree
from performative.problem import Problem
from performative.tables import header_of, numbers_of, read_frame
from performative.validation import finite_array, read_only, shown
from performative.wording import counted

MOST_ROWS = 10_000
"""How many of the last rows are kept for losses that are not quadratic in the data."""
SAME = 1e-12
"""Decisions that differ by this share of the largest number in their column are the same."""


@pytree("columns")
class Past:
    """Past deployments: N different `decisions` (N, d), the `means` (N, k) of their data, and the `counts` (N,) of their samples.

    Rows with the same decision, wherever they stand, are one deployment, and the latest deployments come last. So the means of
    weeks, with the number of days in each, weigh what the rows of the days weigh. But only rows, or weeks with the same decision,
    show how large the noise is: with other means it is taken to be large, and less is believed. `scatter` (k, k) is
    Σ n(z − z̄)(z − z̄)ᵀ within deployments, over rows z that stand for n samples each, and `degrees` are its degrees of
    freedom: `scatter / degrees` estimates the covariance of one sample. `rows`, decisions and samples, are the last
    10,000 rows as they were given; None if they are means of several samples, which do not show how single samples are
    distributed. `columns` are the names of the data's columns, if a table gave them.

    >>> import performative as pf
    >>> days = pf.Past.of(decisions=[[2.0], [2.0], [3.0]], samples=[[8.0], [6.0], [4.0]])
    >>> weeks = pf.Past.of(decisions=[[2.0], [3.0]], samples=[[7.0], [4.0]], counts=[2, 1])
    >>> days.means.tolist() == weeks.means.tolist(), days.counts.tolist() == weeks.counts.tolist()
    (True, True)
    >>> days.scatter.tolist(), float(days.degrees)
    ([[2.0]], 1.0)
    """

    decisions: Array
    means: Array
    counts: Array
    scatter: Array
    degrees: Array
    rows: tuple[Array, Array] | None
    columns: tuple[str, ...] | None = None

    def __str__(self) -> str:
        """How much there is, without the numbers.

        >>> print(Past.of(decisions=[[2.0], [2.0], [3.0]], samples=[[8.0], [6.0], [4.0]]))
        past deployments: 2 decisions of 1 number, 3 samples of 1 number
        """
        (count, d), k = self.decisions.shape, self.means.shape[1]
        samples = counted(int(np.sum(np.asarray(self.counts))), "sample")
        data = counted(k, "number") if self.columns is None else ", ".join(self.columns)
        return f"past deployments: {counted(count, 'decision')} of {counted(d, 'number')}, {samples} of {data}"

    @staticmethod
    def of(decisions: ArrayLike, samples: ArrayLike, counts: ArrayLike | None = None) -> Past:
        """From decisions (N, d) and samples (N, k), row by row; a row with a count is the mean of that many samples.

        Where a decision or a sample is one number, a list of numbers will do.
        """
        x, z = (_table(name, part) for name, part in (("decisions", decisions), ("samples", samples)))
        if len(x) != len(z) or 0 in x.shape or 0 in z.shape:
            raise ValueError(
                f"`decisions` (N, d) and `samples` (N, k) must have the same number of rows, at least one, but got {x.shape} and "
                f"{z.shape}"
            )
        weights = np.ones(len(x)) if counts is None else finite_array("counts", counts, 1)
        if weights.shape != (len(x),):
            raise ValueError(f"`counts` must hold {len(x)} numbers, one for each row, but got shape {weights.shape}")
        _require_counts("`counts`", weights)
        return _clustered(x, z, weights)

    @staticmethod
    def from_frame(
        frame: Any, decisions: str | Sequence[str], data: str | Sequence[str], count: str | None = None
    ) -> Past:
        """From columns of a pandas or polars data frame, by name; `count` is the column of counts, if rows are means.

        >>> import pandas as pd
        >>> import performative as pf
        >>> frame = pd.DataFrame({"price": [2.0, 3.0], "sold": [7.0, 4.0], "days": [7, 5]})
        >>> pf.Past.from_frame(frame, decisions=["price"], data=["sold"], count="days").counts.tolist()
        [7.0, 5.0]
        """
        if not hasattr(frame, "columns") or not hasattr(frame, "__getitem__"):
            raise TypeError(f"`frame` must be a data frame, but got {shown(frame)}; Past.of takes arrays")
        wanted = _wanted(decisions, data, count)
        _require_columns("the data frame", list(frame.columns), wanted)
        return _from_columns("the data frame", frame, wanted)

    @staticmethod
    def from_csv(
        path: str | os.PathLike[str],
        decisions: str | Sequence[str],
        data: str | Sequence[str],
        count: str | None = None,
    ) -> Past:
        """From columns of a CSV file (.csv, or .csv.gz) whose first line names them."""
        file = Path(path)
        if not file.name.lower().endswith((".csv", ".csv.gz")):
            raise ValueError(
                f"`path` must end in .csv or .csv.gz, but got {str(file)!r}; Past.from_frame takes a data frame"
            )
        wanted = _wanted(decisions, data, count)
        _require_columns(repr(str(file)), header_of(file), wanted)
        return _from_columns(
            repr(str(file)), read_frame(file, [name for part in wanted.values() for name in part]), wanted
        )


@in_float64
def history_for(problem: Problem, history: Past | tuple[ArrayLike, ArrayLike]) -> Past:
    """The `history` given to a method, checked against its problem."""
    if not isinstance(history, Past):
        if not isinstance(history, tuple | list) or len(history) != 2:
            got = f"a {type(history).__name__}" if hasattr(history, "columns") else shown(history)
            raise TypeError(
                f"`history` must be a pair of arrays, decisions (N, d) and samples (N, k), or a performative.Past, but got "
                f"{got}; pf.Past.from_frame takes a data frame"
            )
        history = Past.of(*history)
    d, width = history.decisions.shape[1], history.means.shape[1]
    if d != problem.d:
        raise ValueError(
            f"`history` must hold decisions of {problem.d} numbers, like the problem's, but got {d} numbers"
        )
    try:
        problem.check_samples(width)
    except ValueError as error:
        raise ValueError(
            f"`history` must hold samples that the loss accepts, but got {width} numbers each: {error}"
        ) from error
    return history


def _clustered(x: Floats, z: Floats, weights: Floats) -> Past:
    """Rows with the same decision as one deployment; deployments are ordered by their last row."""
    n = len(x)
    groups, which = np.unique(np.stack([_labels(column) for column in x.T]), axis=1, return_inverse=True)
    which = which.reshape(n)
    first, last = np.full(groups.shape[1], n), np.zeros(groups.shape[1], int)
    np.minimum.at(first, which, np.arange(n))
    np.maximum.at(last, which, np.arange(n))
    order = np.argsort(last)
    place = np.argsort(order)[which]
    counts, center = np.bincount(place, weights), np.average(z, axis=0, weights=weights)
    means = np.stack([np.bincount(place, weights * column) for column in (z - center).T], axis=1) / counts[:, None]
    apart = (z - center) - means[place]
    single = bool(np.all(weights == 1))
    return Past(
        decisions=_field(x[first[order]]),
        means=_field(means + center),
        counts=_field(counts),
        scatter=_field((weights[:, None] * apart).T @ apart),
        degrees=_field(np.float64(n - len(counts))),
        rows=(_field(x[-MOST_ROWS:]), _field(z[-MOST_ROWS:])) if single else None,
    )


def _labels(column: Floats) -> Floats:
    """A number for each entry of a column, the same for entries that are equal up to rounding."""
    order = np.argsort(column, kind="stable")
    steps = np.diff(column[order], prepend=column[order[0]]) > SAME * np.max(np.abs(column))
    labels = np.empty(len(column))
    labels[order] = np.cumsum(steps)
    return labels


def _table(name: str, part: ArrayLike) -> Floats:
    array = finite_array(name, part, (1, 2))
    return array[:, None] if array.ndim == 1 else array


def _field(numbers: Any) -> Array:
    return as_field(read_only(np.array(numbers, dtype=np.float64)))


def _wanted(decisions: str | Sequence[str], data: str | Sequence[str], count: str | None) -> dict[str, list[str]]:
    """The names of columns, by the argument that gives them."""
    given = {"decisions": decisions, "data": data, "count": [] if count is None else count}
    wanted = {key: [names] if isinstance(names, str) else list(names) for key, names in given.items()}
    for key in ("decisions", "data"):
        if not wanted[key]:
            raise ValueError(f"`{key}` must name at least one column, but got {shown(given[key])}")
    names = [name for part in wanted.values() for name in part]
    twice = sorted({str(name) for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"each column must be named once in `decisions`, `data` and `count`, but got {twice} twice")
    return wanted


def _require_columns(source: str, names: list[Any], wanted: dict[str, list[str]]) -> None:
    """Refuse columns that a table does not have, or has twice."""
    for key, part in wanted.items():
        missing = [name for name in part if name not in names]
        if missing:
            raise ValueError(f"`{key}` must name columns of {source}, but {missing} are not among {names}")
        twice = [name for name in part if names.count(name) > 1]
        if twice:
            raise ValueError(f"columns of {source} must have different names, but {twice} occur twice among {names}")


def _from_columns(source: str, frame: Any, wanted: dict[str, list[str]]) -> Past:
    decisions, data, counts = ([numbers_of(source, frame, name) for name in part] for part in wanted.values())
    if not len(decisions[0]):
        raise ValueError(f"{source} must hold at least one row, but has none")
    for name, column in zip(wanted["count"], counts, strict=True):
        _require_counts(f"column {name!r} of {source}", column)
    past = Past.of(np.stack(decisions, axis=1), np.stack(data, axis=1), counts[0] if counts else None)
    return changed(past, columns=tuple(wanted["data"]))


def _require_counts(what: str, counts: Floats) -> None:
    for row in np.flatnonzero((counts < 1) | (counts != np.floor(counts)))[:1]:
        raise ValueError(f"{what} must hold whole numbers >= 1, but got {counts[row]:g} in row {row}, counted from 0")
