"""Past deployments: rows and means of rows teach the same, wherever they come from, and bad tables are refused by name."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import performative as pf
from performative.past import MOST_ROWS

RANDOM = np.random.default_rng(0)
PRICES = np.repeat([[2.0, 1.0], [3.0, 1.5], [2.0, 2.5], [4.0, 0.5]], [7, 5, 6, 3], axis=0)
SOLD = 9.0 - PRICES[:, :1] * [[1.0, 0.3, 0.0]] + RANDOM.normal(size=(21, 3))
DAYS = pd.DataFrame(np.column_stack([PRICES, SOLD]), columns=["p1", "p2", "a", "b", "c"])
NAMES = {"decisions": ["p1", "p2"], "data": ["a", "b", "c"]}
FIELDS = ("decisions", "means", "counts", "scatter", "degrees")


def weeks(days):
    """The mean of every price, and the number of its days."""
    grouped = days.groupby(["p1", "p2"], sort=False)
    return grouped.mean().assign(days=grouped.size()).reset_index()


def same(one, other, fields=FIELDS):
    for name in fields:
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-12, atol=1e-12, err_msg=name)


def test_means_with_counts_are_the_deployments_of_the_rows():
    days, means = pf.Past.from_frame(DAYS, **NAMES), pf.Past.from_frame(weeks(DAYS), **NAMES, count="days")
    same(days, means, FIELDS[:3])
    assert days.counts.tolist() == [7, 5, 6, 3]
    assert (float(days.degrees), float(means.degrees)) == (17, 0)
    inside = DAYS[["a", "b", "c"]] - DAYS.groupby(["p1", "p2"])[["a", "b", "c"]].transform("mean")
    np.testing.assert_allclose(days.scatter, inside.to_numpy().T @ inside.to_numpy(), rtol=1e-12)
    assert not np.any(means.scatter)
    assert means.rows is None
    np.testing.assert_array_equal(days.rows[1], SOLD)


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(21)))
def test_rows_of_one_decision_are_one_deployment_in_any_order(order):
    shuffled, sorted_ = pf.Past.of(PRICES[order], SOLD[order]), pf.Past.of(PRICES, SOLD)
    places = [np.lexsort(np.asarray(past.decisions).T) for past in (shuffled, sorted_)]
    for name in FIELDS[:3]:
        one, other = (
            np.asarray(getattr(past, name))[place] for past, place in zip((shuffled, sorted_), places, strict=True)
        )
        np.testing.assert_allclose(one, other, rtol=1e-12)
    same(shuffled, sorted_, FIELDS[3:])


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_decisions_that_differ_by_rounding_are_the_same(unit):
    jitter = 1.0 + 1e-15 * np.resize([1, -1], 21)[:, None]
    past = pf.Past.of(unit * PRICES * jitter, SOLD)
    assert past.counts.tolist() == [7, 5, 6, 3]
    assert pf.Past.of(unit * np.array([[1.0], [1.0 + 1e-9]]), np.zeros((2, 1))).counts.tolist() == [1, 1]
    assert pf.Past.of([[0.1 + 0.2 - 0.3], [0.0], [1.0]], np.zeros((3, 1))).counts.tolist() == [2, 1]


def test_means_of_one_decision_scatter_by_their_counts():
    """Σ n(z − z̄)² over means has as many degrees of freedom as there are means, less one."""
    past = pf.Past.of([1.0, 1.0, 1.0], [2.0, 4.0, 6.0], counts=[4, 4, 8])
    assert past.means.tolist() == [[4.5]]
    assert past.counts.tolist() == [16]
    assert past.scatter.tolist() == [[4 * 2.5**2 + 4 * 0.5**2 + 8 * 1.5**2]]
    assert float(past.degrees) == 2


def test_the_latest_deployments_come_last_and_the_latest_rows_are_kept():
    assert pf.Past.of([5.0, 3.0, 5.0, 4.0], np.zeros(4)).decisions.tolist() == [[3.0], [5.0], [4.0]]
    many = np.arange(MOST_ROWS + 5.0)
    past = pf.Past.of(many, many)
    assert past.counts.shape == (MOST_ROWS + 5,)
    assert past.rows[0][0] == 5.0
    assert past.rows[0].shape == (MOST_ROWS, 1)


class Column:
    def __init__(self, values):
        self.values = values

    def to_numpy(self):
        return np.asarray(self.values)


class Frame:
    """What polars and pandas have in common."""

    def __init__(self, frame):
        self.columns = [str(name) for name in frame.columns]
        self.parts = {name: Column(frame[name].tolist()) for name in self.columns}

    def __getitem__(self, name):
        return self.parts[name]


def test_frames_and_files_give_what_arrays_give(tmp_path):
    frame = weeks(DAYS)
    arrays = pf.Past.of(frame[["p1", "p2"]], frame[["a", "b", "c"]], frame["days"])
    path = tmp_path / "past.csv"
    for name in ("past.csv", "past.csv.gz"):
        path = tmp_path / name
        frame.to_csv(path, index=False)
        same(pf.Past.from_csv(path, **NAMES, count="days"), arrays)
    same(pf.Past.from_frame(Frame(frame), **NAMES, count="days"), arrays)
    same(pf.Past.from_frame(frame.astype({"days": "Int64"}), **NAMES, count="days"), arrays)
    one = pf.Past.from_frame(frame, decisions="p1", data="a")
    assert (one.decisions.shape, one.means.shape) == ((3, 1), (3, 1))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            (np.zeros((3, 2)), np.zeros((2, 1))),
            "must have the same number of rows, at least one, but got (3, 2) and (2, 1)",
        ),
        (
            (np.zeros((0, 2)), np.zeros((0, 1))),
            "must have the same number of rows, at least one, but got (0, 2) and (0, 1)",
        ),
        (([[1.0], [np.inf]], [[1.0], [2.0]]), "`decisions` must be finite, but got inf at index [1, 0]"),
        (([[1.0], [2.0]], [[1.0], [np.nan]]), "`samples` must be finite, but got nan at index [1, 0]"),
        (([1.0, 2.0], [1.0, 2.0], [1, 0]), "`counts` must hold whole numbers >= 1, but got 0 in row 1, counted from 0"),
        (
            ([1.0, 2.0], [1.0, 2.0], [1.5, 1]),
            "`counts` must hold whole numbers >= 1, but got 1.5 in row 0, counted from 0",
        ),
        (([1.0, 2.0], [1.0, 2.0], [1]), "`counts` must hold 2 numbers, one for each row, but got shape (1,)"),
    ],
)
def test_arrays_that_make_no_sense_are_refused(given, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        pf.Past.of(*given)


FULL = weeks(DAYS)


@pytest.mark.parametrize(
    ("frame", "names", "message"),
    [
        (
            FULL,
            {"decisions": ["p1", "p3"], "data": ["a"]},
            "`decisions` must name columns of SOURCE, but ['p3'] are not among ['p1', 'p2', 'a', 'b', 'c', 'days']",
        ),
        (
            FULL,
            {"decisions": ["p1"], "data": ["z"]},
            "`data` must name columns of SOURCE, but ['z'] are not among ['p1'",
        ),
        (
            FULL,
            {"decisions": ["p1"], "data": ["a"], "count": "n"},
            "`count` must name columns of SOURCE, but ['n'] are not among ['p1'",
        ),
        (
            FULL.rename(columns={"b": "a"}),
            {"decisions": ["p1"], "data": ["a"]},
            "columns of SOURCE must have different names, but ['a'] occur twice among ['p1', 'p2', 'a', 'a', 'c', 'days']",
        ),
        (
            FULL,
            {"decisions": ["p1", "p1"], "data": ["a"]},
            "each column must be named once in `decisions`, `data` and `count`, but got ['p1'] twice",
        ),
        (FULL, {"decisions": [], "data": ["a"]}, "`decisions` must name at least one column, but got []"),
        (
            FULL.assign(b=[1.0, 2.0, np.nan, 4.0]),
            {"decisions": ["p1"], "data": ["a", "b"]},
            "column 'b' of SOURCE must be finite, but got nan in row 2, counted from 0; fill or drop it",
        ),
        (
            FULL.assign(p1=[1.0, np.inf, 2.0, 4.0]),
            {"decisions": ["p1"], "data": ["a", "b"]},
            "column 'p1' of SOURCE must be finite, but got inf in row 1, counted from 0",
        ),
        (
            FULL.assign(b=["x", "few", "y", "z"]),
            {"decisions": ["p1"], "data": ["a", "b"]},
            "column 'b' of SOURCE must hold numbers, but got 'x' in row 0, counted from 0; encode it",
        ),
        (
            FULL.assign(days=[3, -1, 2, 1]),
            {"decisions": ["p1"], "data": ["a"], "count": "days"},
            "column 'days' of SOURCE must hold whole numbers >= 1, but got -1 in row 1, counted from 0",
        ),
        (FULL[:0], {"decisions": ["p1"], "data": ["a"]}, "SOURCE must hold at least one row, but has none"),
    ],
    ids=["decision", "data", "count", "column twice", "name twice", "none", "nan", "inf", "word", "negative", "empty"],
)
def test_tables_that_make_no_sense_are_refused_by_name(frame, names, message, tmp_path):
    path = tmp_path / "past.csv"
    frame.to_csv(path, index=False)
    with pytest.raises(ValueError, match=re.escape(message.replace("SOURCE", "the data frame"))):
        pf.Past.from_frame(frame, **names)
    with pytest.raises(ValueError, match=re.escape(message.replace("SOURCE", repr(str(path))))):
        pf.Past.from_csv(path, **names)


def test_what_is_no_table_is_refused(tmp_path):
    with pytest.raises(TypeError, match=r"`frame` must be a data frame, but got \[1, 2\]; Past.of takes arrays"):
        pf.Past.from_frame([1, 2], ["a"], ["b"])
    with pytest.raises(ValueError, match=r"`path` must end in \.csv or \.csv\.gz"):
        pf.Past.from_csv(tmp_path / "past.xlsx", ["a"], ["b"])
    with pytest.raises(FileNotFoundError):
        pf.Past.from_csv(tmp_path / "past.csv", ["a"], ["b"])
