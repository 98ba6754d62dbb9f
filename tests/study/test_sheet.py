"""CSV files as people have them: names, separators, decimal signs, columns to leave out; and what is refused."""

import gzip
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import performative as pf
from performative.study.sheet import Sheet, normal, read_sheet, sheet_of


@pytest.fixture
def file(tmp_path):
    def write(text, name="sales.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        return path

    return write


def test_cells_are_numbers_in_named_columns(file):
    sheet = read_sheet(file("milk, bread\n1,2.5\n\n-3e2, 4\n"))
    assert sheet.names == ["milk", "bread"]
    np.testing.assert_array_equal(sheet.values, [[1.0, 2.5], [-300.0, 4.0]])


def test_a_file_of_a_spreadsheet_with_commas_for_points_and_a_date(file):
    text = "Datum;Milch;Br\u00f6tchen\n01.03.2026;1,5;2\n02.03.2026;0,25;-3\n"
    sheet = read_sheet(file(text, encoding="utf-8-sig"), sep=";", decimal=",", ignore=["Datum"])
    assert sheet.names == ["Milch", "Br\u00f6tchen"]
    np.testing.assert_array_equal(sheet.values, [[1.5, 2.0], [0.25, -3.0]])


def test_a_compressed_file(tmp_path):
    path = tmp_path / "sales.csv.gz"
    path.write_bytes(gzip.compress(b"a\n1\n2\n"))
    np.testing.assert_array_equal(read_sheet(path).values, [[1.0], [2.0]])


def test_letters_with_accents_are_compared_however_they_are_written(file):
    apart = read_sheet(file("caf\u0065\u0301,tea\n1,2\n"))
    whole = sheet_of(pd.DataFrame({"tea": [2.0], "caf\u00e9": [1.0]}))
    np.testing.assert_array_equal(whole.arranged(apart.names).values, apart.values)


@pytest.mark.parametrize(
    ("text", "options", "match"),
    [
        ("", {}, "must begin with the names of its columns, but is empty"),
        ("1,2\n3,4\n", {}, "the first line of .* must name every column"),
        ("a,,b\n1,2,3\n", {}, "the first line of .* must name every column"),
        ("milk,milk\n1,2\n", {}, "columns of different names, but has milk more than once"),
        ("a,b\n1,2\n3\n", {}, "2 cells in each line, but line 3 has 1"),
        (
            "a,b\n\n1,5,2,5\n",
            {},
            "line 3 has 4; where commas are decimal signs, cells must be separated by something else",
        ),
        ("a,b\n1,x\n", {}, "column 'b' of .* must hold numbers .* but line 2 has 'x'"),
        (
            "a\n1,5\n",
            {"sep": ";"},
            "column 'a' of .* decimal sign '.', but line 2 has '1,5'; did you mean --decimal ','",
        ),
        ('a,b\n"1,234.5",2\n', {}, "line 2 has '1,234.5'; write numbers without separators of thousands"),
        ("a,b\n1 234,2\n", {}, "line 2 has '1 234'; write numbers without separators of thousands"),
        ("a\n1'234\n", {}, "without separators of thousands"),
        ("a,b\n1,\n", {}, "column 'b' of .* line 2 has ''; fill the cell or leave out the line"),
        ("a;b\n1;2\n", {}, "separated by ',', but its first line is 'a;b'; did you mean --sep ';'"),
        ("a,b\n1,2\n", {"sep": ";"}, "separated by ';', but its first line is 'a,b'; did you mean --sep ','"),
        ("a\tb\n1\t2\n", {}, "did you mean --sep "),
        ('a,b\n1,"2"3\n', {}, "must be a CSV file, but line 2 is not one of it"),
        ("a,b\n1,2\n3,4,5\n", {}, "2 cells in each line, but line 3 has 3"),
        ("a,b,\n1,2,3\n", {}, "the first line of .* must name every column"),
        ("a\n1.000,5\n", {"sep": ";", "decimal": ","}, "column 'a' of .* but line 2 has '1.000,5'"),
        ("a\n1_000\n", {}, "column 'a' of .* but line 2 has '1_000'"),
        ("a\nnan\n", {}, "column 'a' of .* must be finite, but line 2 has 'nan'"),
        ("a,b\n1,2\n", {"ignore": ["date"]}, "`ignore` must name columns of .* date are not among"),
        ("a,b\n1,2\n", {"decimal": ","}, "`sep` and `decimal` must be two different characters"),
    ],
)
def test_what_cannot_be_meant_is_refused(file, text, options, match):
    with pytest.raises(ValueError, match=match):
        read_sheet(file(text), **options)


def test_lines_are_those_of_the_file(file):
    sheet = read_sheet(file('a,b\r\n1,2\r\n\r\n,\r\n3,"4"\r\n'))
    np.testing.assert_array_equal(sheet.values, [[1.0, 2.0], [3.0, 4.0]])
    assert sheet.lines == (2, 5)
    assert sheet.rows([False, True]).lines == (5,)


def test_what_a_spreadsheet_adds_on_the_right_is_left_out(file):
    sheet = read_sheet(file("a;b;;\n1;2;;\n3;4;;\n"), sep=";")
    assert sheet.names == ["a", "b"]
    np.testing.assert_array_equal(sheet.values, [[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    ("encoding", "byte"), [("latin-1", "line 2 has the byte 0xf6"), ("utf-16", "line 1 has the byte")]
)
def test_other_encodings_are_named(file, encoding, byte):
    with pytest.raises(ValueError, match=f"must be text in UTF-8, but {byte}.* save the file as "):
        read_sheet(file("a,b\n1,Br\u00f6t\n", encoding=encoding))


def test_columns_are_matched_by_name_and_the_lists_of_what_does_not_match_are_shown(file):
    sheet = read_sheet(file("bread,Milk,date\n1,2,3\n"))
    with pytest.raises(
        ValueError,
        match=r"must have the columns milk, bread, in any order, but missing: milk; unknown: Milk, date; did you mean 'milk'",
    ):
        sheet.arranged(["milk", "bread"])
    with pytest.raises(ValueError, match="but unknown: date; `ignore` leaves out columns"):
        sheet.arranged(["Milk", "bread"])


@pytest.mark.parametrize(
    ("names", "match"),
    [
        (["milk", "milk"], "columns of different names, but has milk more than once"),
        (["caf\u0065\u0301", "caf\u00e9"], "columns of different names"),
        ([1, 0], r"whose names are strings, or none at all, but has \[1, 0\]"),
        ([1001, "milk"], r"names are strings, or none at all, but has \[1001\]"),
    ],
)
def test_frames_whose_names_say_nothing_are_refused(names, match):
    with pytest.raises(ValueError, match=match):
        sheet_of(pd.DataFrame([[1.0, 2.0]], columns=names))


@given(
    st.lists(st.text(min_size=1, max_size=8).filter(lambda name: name.strip() == name), min_size=1, max_size=6),
    st.randoms(use_true_random=False),
)
def test_any_order_of_the_columns_is_the_same_to_the_bit(names, random):
    names = list(dict.fromkeys(map(normal, names)))
    values = np.array([[random.gauss(0.0, 10.0 ** random.randint(-9, 9)) for _ in names] for _ in range(3)])
    order = random.sample(range(len(names)), len(names))
    turned = Sheet([names[place] for place in order], values[:, order])
    assert turned.arranged(names).values.tobytes() == values.tobytes()


@given(
    st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=5),
    st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=4, unique=True),
)
def test_a_frame_is_arranged_exactly_if_it_has_these_columns_once(names, wanted):
    frame = pd.DataFrame(np.arange(len(names), dtype=float)[None], columns=names)
    if sorted(names) == sorted(wanted):
        arranged = sheet_of(frame).arranged(wanted)
        assert arranged.names == wanted
        assert arranged.values[0].tolist() == [names.index(name) for name in wanted]
    else:
        with pytest.raises(ValueError, match=r"more than once|in any order, but"):
            sheet_of(frame).arranged(wanted)


@settings(deadline=None)
@given(st.text(max_size=60), st.sampled_from(",;\t"), st.sampled_from(".,"))
def test_any_text_is_read_or_refused(tmp_path_factory, text, sep, decimal):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        sheet = read_sheet(path, sep, decimal)
    except ValueError:
        return
    assert sheet.values.shape == (len(sheet.lines), len(sheet.names))
    assert np.isfinite(sheet.values).all()


PIECES = st.sampled_from(
    [
        *'a|b|1|2.5|,|;|\n|\r|\r\n|"|\x00|\ufeff|nan|1e400|_|-|é|é| |\t|a,b\n|1,2\n|a,b\n1,2\n'.encode().split(b"|"),
        b"\xff",
    ]
)
FILES = st.one_of(st.binary(max_size=40), st.lists(PIECES, max_size=12).map(b"".join))
SIGNS = st.sampled_from(",;\t. '\"\n\r\0é")


def require_numbers_or_refused(read):
    """What is read is finite, or the error says why it is not read."""
    try:
        numbers, said = read(), "finite numbers"
    except ValueError as error:
        numbers, said = np.zeros((0, 0)), str(error)
    assert np.isfinite(numbers).all()
    assert said


@given(content=FILES, sep=SIGNS, decimal=SIGNS, ignore=st.lists(st.sampled_from("ab"), max_size=2), usual=st.booleans())
@settings(max_examples=150, deadline=None)
def test_whatever_a_csv_file_holds_it_is_numbers_or_refused(content, sep, decimal, ignore, usual):
    form = {} if usual else {"sep": sep, "decimal": decimal, "ignore": ignore}
    packed = bytearray(gzip.compress(content, mtime=0))
    packed[len(content) % len(packed)] ^= len(content) % 3  # some of them broken
    with tempfile.TemporaryDirectory() as folder:
        for name, written in (("a.csv", content), ("a.csv.gz", content), ("b.csv.gz", bytes(packed))):
            path = Path(folder) / name
            path.write_bytes(written)
            require_numbers_or_refused(lambda path=path: read_sheet(path, **form).values)


@given(FILES)
@settings(max_examples=60, deadline=None)
def test_whatever_a_csv_file_of_the_past_holds_it_is_numbers_or_refused(content):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "past.csv"
        path.write_bytes(content)
        require_numbers_or_refused(lambda: pf.Past.from_csv(path, decisions=["a"], data=["b"]).means)


@pytest.mark.parametrize("content", [b'a,b\n1,"2\n', b'a,b\n1,"2"3\n'])
def test_quotes_that_do_not_match_are_refused(tmp_path, content):
    path = tmp_path / "observed.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"observed\.csv must be a CSV file, but line 2 is not one of it"):
        read_sheet(path)


def test_a_compressed_file_that_is_broken_is_refused(tmp_path):
    path = tmp_path / "observed.csv.gz"
    packed = bytearray(gzip.compress(b"a,b\n1,2\n" * 50))
    packed[12] ^= 255
    path.write_bytes(packed)
    with pytest.raises(ValueError, match="reading failed"):
        read_sheet(path)
