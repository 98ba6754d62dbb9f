"""`performative plot`: the figure of a file."""

import pytest
import xarray as xr
from typer.testing import CliRunner

import performative as pf
from performative.cli import app


@pytest.fixture(scope="module")
def results(small, tmp_path_factory):
    problem, world, _ = small
    path = tmp_path_factory.mktemp("runs") / "results.nc"
    pf.simulate({"apda": pf.apda(problem, warmup=20)}, world, rounds=10, realizations=2).to_netcdf(path)
    return path


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_a_file_is_drawn_in_the_format_of_its_ending(results, tmp_path, suffix, start):
    out = tmp_path / f"figure.{suffix}"
    result = CliRunner().invoke(app, ["plot", str(results), "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert out.read_bytes().startswith(start)


def test_files_and_endings_that_cannot_be_drawn_are_refused(results, tmp_path):
    def refused(*words):
        result = CliRunner().invoke(app, ["plot", *map(str, words)], env={"COLUMNS": "200"})
        assert result.exit_code == 2
        return " ".join(result.output.replace("│", " ").split())

    assert "must end in .png, .pdf or .svg" in refused(results, "--out", tmp_path / "figure.doc")
    assert "does not exist or is not a file" in refused(tmp_path / "nothing.nc", "--out", tmp_path / "figure.png")
    (tmp_path / "text.nc").write_text("not a dataset")
    assert "is not a valid netCDF file" in refused(tmp_path / "text.nc", "--out", tmp_path / "figure.png")
    assert "the directory of `--out` does not exist" in refused(results, "--out", tmp_path / "nowhere" / "figure.png")
    xr.Dataset({"a": ("x", [1.0])}).to_netcdf(tmp_path / "other.nc")
    assert "`dataset` must be a dataset of" in refused(tmp_path / "other.nc", "--out", tmp_path / "figure.png")
    assert not (tmp_path / "figure.png").exists()
