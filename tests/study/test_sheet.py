"""CSV files as people have them: names, separators, decimal signs, columns to leave out; and what is refused."""

import gzip

import numpy as np
import pandas as pd
import pytest

from performative.study.sheet import read_sheet, sheet_of


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
        ("a,b\n1,2\n3\n", {}, "2 numbers in each line, but line 3 has 1"),
        ("a,b\n1,x\n", {}, "column 'b' of .* must hold numbers .* but line 2 has 'x'"),
        ("a\n1,5\n", {"sep": ";"}, "column 'a' of .* decimal sign '.', but line 2 has '1,5'"),
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
