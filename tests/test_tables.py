"""A user's own table as a base: from pandas, parquet and CSV the same bit for bit as from NumPy, or refused by name."""

from __future__ import annotations

import gzip
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import performative as pf

NAN, INF = float("nan"), float("inf")
NAMES = ["price", "sold", "holiday"]
RANDOM = np.random.default_rng(3)
TABLE = pd.DataFrame(
    {
        "price": RANDOM.normal(size=40) / 3,
        "sold": RANDOM.integers(0, 50, size=40),
        "holiday": RANDOM.random(40) < 0.3,
    },
    index=pd.Index([f"day {day}" for day in range(40)], name="day"),
)
ARRAY = np.column_stack([TABLE[name].to_numpy() for name in NAMES]).astype(np.float64)
EFFECT = np.array([[0.3, -0.1], [0.2, 0.1], [0.0, 0.3]])


def loss(theta, z):
    return jnp.sum(jnp.cos(z)) * theta[0] + jnp.sum(z**2) * theta[1] ** 2


PROBLEM = pf.Problem(loss, pf.Box([-1.0, -1.0], [1.0, 1.0]))


def same(base, array):
    """The samples, what is drawn of them and the risk are those of the NumPy array."""
    known = pf.Empirical(array)
    assert base.samples.dtype == np.float64
    assert base.samples.flags.c_contiguous
    assert not base.samples.flags.writeable
    assert base.samples.shape == known.samples.shape
    assert base.samples.tobytes() == known.samples.tobytes()
    worlds = [pf.LocationFamily(each, EFFECT[: known.width]) for each in (base, known)]
    theta = np.array([0.4, -0.7])
    drawn = [np.asarray(world.sample(jax.random.key(1), theta, 16)) for world in worlds]
    assert drawn[0].tobytes() == drawn[1].tobytes()
    risks = [np.asarray(pf.performative_risk(PROBLEM, world, theta)) for world in worlds]
    assert risks[0].tobytes() == risks[1].tobytes()
    z = known.samples + EFFECT[: known.width] @ theta
    by_hand = np.mean(np.sum(np.cos(z), axis=1) * 0.4 + np.sum(z**2, axis=1) * 0.7**2)
    np.testing.assert_allclose(risks[0], by_hand, rtol=1e-12)


def refused(message, call, kind=ValueError):
    """`call` raises `kind` with `message`, literally, in it."""
    with pytest.raises(kind, match=re.escape(message)):
        call()


def written(path, table=TABLE):
    if path.suffix in (".parquet", ".pq"):
        table.to_parquet(path)
    else:
        table.to_csv(path, index=False)
    return path


def test_a_frame_is_its_array():
    same(pf.Empirical(TABLE), ARRAY)


def test_a_series_is_one_column():
    same(pf.Empirical(TABLE["price"]), ARRAY[:, :1])
    same(pf.Empirical(TABLE["holiday"]), ARRAY[:, 2])


def test_subclasses_of_a_frame_are_frames():
    class Mine(pd.DataFrame):
        pass

    same(pf.Empirical(Mine(TABLE)), ARRAY)


@pytest.mark.parametrize(
    "kind", ["float32", "int8", "uint16", "Int64", "Float64", "boolean", "Sparse[int]", "int64[pyarrow]"]
)
def test_every_kind_of_number_is_converted(kind):
    column = pd.Series([1, 0, 1, 1]).astype(kind)
    samples = pf.Empirical(pd.DataFrame({"a": column, "b": [0.5, 1.5, 2.5, 3.5]})).samples
    np.testing.assert_array_equal(samples, [[1.0, 0.5], [0.0, 1.5], [1.0, 2.5], [1.0, 3.5]])


def test_names_may_repeat_in_a_frame():
    twice = pd.DataFrame(ARRAY, columns=["a", "b", "a"])
    assert pf.Empirical(twice).samples.tobytes() == ARRAY.tobytes()


def test_the_base_does_not_change_with_the_frame():
    table = TABLE.astype(np.float64)
    base = pf.Empirical(table)
    table.iloc[0, 0] = 7.0
    assert base.samples.tobytes() == ARRAY.tobytes()


@pytest.mark.parametrize("ending", [".parquet", ".pq", ".csv", ".csv.gz", ".PARQUET", ".CSV"])
@pytest.mark.parametrize("columns", [None, ["holiday", "price"], ("sold",)])
def test_files_are_their_arrays(tmp_path, ending, columns):
    path = written(tmp_path / ("table" + ending.lower())).rename(tmp_path / f"table{ending}")
    chosen = ARRAY if columns is None else ARRAY[:, [NAMES.index(name) for name in columns]]
    same(pf.Empirical.read(path, columns), chosen)
    assert pf.Empirical.read(str(path), columns).samples.tobytes() == chosen.tobytes()


def test_columns_that_are_not_read_may_be_of_any_kind(tmp_path):
    table = TABLE.assign(city="Oslo", missing=NAN)
    for ending in (".parquet", ".csv"):
        path = written(tmp_path / f"table{ending}", table)
        assert pf.Empirical.read(path, NAMES).samples.tobytes() == ARRAY.tobytes()


def test_numbered_columns(tmp_path):
    table = pd.DataFrame(ARRAY)
    for path, columns in ((tmp_path / "a.parquet", [2, 0]), (tmp_path / "a.csv", ["2", "0"])):
        written(path, table)
        assert pf.Empirical.read(path).samples.tobytes() == ARRAY.tobytes()
        assert pf.Empirical.read(path, columns).samples.tobytes() == ARRAY[:, [2, 0]].tobytes()


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=8))
def test_every_number_survives_a_csv_file(tmp_path, numbers):
    path = written(tmp_path / "numbers.csv", pd.DataFrame({"x": numbers}))
    assert pf.Empirical.read(path).samples.tobytes() == np.array(numbers).tobytes()


def test_a_long_column_that_changes_its_kind_is_refused(tmp_path):
    path = tmp_path / "mixed.csv"
    path.write_text("x\n" + "1\n" * 1_500_000 + "word\n")  # pandas would guess the dtype of each chunk, and warn
    refused("only numeric or boolean columns, but got 'x' of dtype", lambda: pf.Empirical.read(path))


FRAMES = {
    "words": (TABLE.assign(city="Oslo"), f"but got 'city' of dtype {TABLE.assign(city='Oslo')['city'].dtype}"),
    "dates": (
        TABLE.assign(when=pd.date_range("2024-01-01", periods=40, unit="s")),
        "`samples` must have only numeric or boolean columns, but got 'when' of dtype datetime64[s]",
    ),
    "several": (
        TABLE.assign(a=pd.Categorical([1] * 40), b=1j),
        "but got 'a' of dtype category, 'b' of dtype complex128",
    ),
    "objects": (pd.Series([1, 2], dtype=object, name="x"), "but got 'x' of dtype object"),
    "unnamed series": (pd.Series(["a"], dtype=object), "but got 0 of dtype object"),
    "kinds come first": (pd.DataFrame({"x": [NAN], "y": pd.Categorical(["a"])}), "but got 'y' of dtype category"),
    "nan": (
        TABLE.assign(price=TABLE["price"].where(TABLE.index != "day 7")),
        "`samples` must be finite, but got nan in column 'price', row 'day 7'",
    ),
    "inf": (pd.DataFrame({"a": [1.0, 2.0], "b": [0.0, -INF]}, index=[5, 6]), "but got -inf in column 'b', row 6"),
    "missing": (pd.Series([1, None], dtype="Int64", name="n"), "but got nan in column 'n', row 1"),
    "repeated": (pd.DataFrame([[1.0, NAN]], columns=["a", "a"]), "but got nan in column 'a', row 0"),
    "no rows": (TABLE.iloc[:0], "`samples` must hold at least one row of at least one number, but got (0, 3)"),
    "no columns": (TABLE[[]], "`samples` must hold at least one row of at least one number, but got (40, 0)"),
}


@pytest.mark.parametrize("case", FRAMES)
def test_bad_frames_are_refused(case):
    table, message = FRAMES[case]
    refused(message, lambda: pf.Empirical(table))


def test_a_gap_in_a_file_is_named(tmp_path):
    table = TABLE.assign(price=TABLE["price"].where(TABLE.index != "day 7"))
    for ending, row in ((".parquet", "'day 7'"), (".csv", "7")):  # a CSV file has no labels
        path = written(tmp_path / f"table{ending}", table)
        refused(f"but got nan in column 'price', row {row}", lambda p=path: pf.Empirical.read(p, ["sold", "price"]))


@pytest.mark.parametrize("name", ["table.xlsx", "table", "table.gz", "table.parquet.gz", "csv"])
def test_other_endings_are_refused(tmp_path, name):
    refused(
        f"`path` must end in .parquet, .pq, .csv or .csv.gz, but got {str(tmp_path / name)!r}",
        lambda: pf.Empirical.read(tmp_path / name),
    )


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".csv.gz"])
def test_files_that_are_not_there(tmp_path, ending):
    path = tmp_path / f"nowhere{ending}"
    refused(str(path), lambda: pf.Empirical.read(path), FileNotFoundError)


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".csv.gz"])
def test_columns_that_are_not_there(tmp_path, ending):
    path = written(tmp_path / f"table{ending}")
    refused(
        f"`columns` must be in {str(path)!r}, but ['cost', 'day'] are not among {NAMES}",
        lambda: pf.Empirical.read(path, ["cost", "price", "day"]),
    )


@pytest.mark.parametrize("columns", ["price", [], ["price", "price"]])
def test_columns_are_different_names(tmp_path, columns):
    path = written(tmp_path / "table.csv")
    refused(
        f"`columns` must be a list of different names, but got {columns!r}",
        lambda: pf.Empirical.read(path, columns),
    )


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (TABLE.to_csv(index_label=""), ["Unnamed: 0", *NAMES]),
        ("1.5,2\n3,4\n", ["1.5", "2"]),
        ("a,b\n1,2,3\n4,5,6\n", ["a", "b"]),
    ],
    ids=["row labels", "numbers alone", "lines longer than the first"],
)
def test_every_column_of_a_csv_file_has_a_name(tmp_path, text, names):
    path = tmp_path / "table.csv"
    path.write_text(text)
    refused(
        f"the first line of {str(path)!r} must name every column, but got {names}; `columns` selects",
        lambda: pf.Empirical.read(path),
    )


def test_columns_pick_past_row_labels_and_odd_names(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(TABLE.to_csv(index_label=""))
    assert pf.Empirical.read(path, NAMES).samples.tobytes() == ARRAY.tobytes()
    path.write_text("2023,inf\n1,2\n")
    np.testing.assert_array_equal(pf.Empirical.read(path, ["2023", "inf"]).samples, [[1.0, 2.0]])


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.parquet", b"price\n1\n", "Parquet"),
        ("a.csv", b"", "No columns to parse from file"),
        ("a.csv", b"a,b\n1,2\n1,2,3\n", "Expected 2 fields in line 3, saw 3"),
        ("a.csv", b"a\xff,b\n1,2\n", "can't decode byte 0xff"),
        ("a.csv.gz", b"a,b\n1,2\n", "Not a gzipped file"),
        ("a.csv.gz", gzip.compress(b"a,b\n1,2\n" * 1000, mtime=0)[:40], "Compressed file ended"),
    ],
)
def test_broken_files_are_named(tmp_path, name, content, reason):
    path = tmp_path / name
    path.write_bytes(content)
    message = f"{str(path)!r} must have the format that its name says, but reading failed: "
    with pytest.raises(ValueError, match=re.escape(message) + ".*" + re.escape(reason)):
        pf.Empirical.read(path)


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    path = written(tmp_path / "table.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    refused(
        f"reading {str(path)!r} needs pyarrow: pip install performative[tables]",
        lambda: pf.Empirical.read(path),
        ImportError,
    )


def test_a_csv_file_needs_no_pyarrow(tmp_path, monkeypatch):
    path = written(tmp_path / "table.csv")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert pf.Empirical.read(path).samples.tobytes() == ARRAY.tobytes()


def test_pandas_is_not_imported_for_arrays_and_frames(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)  # importing it would fail
    assert pf.Empirical(ARRAY).samples.tobytes() == ARRAY.tobytes()
    assert pf.Empirical(TABLE).samples.tobytes() == ARRAY.tobytes()
