"""`performative reproduce`: its files, its table and its errors."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

from performative.cli import app
from performative.experiments import files
from performative.experiments.reproduce import reproduce


def test_the_command_writes_everything_and_the_summary_has_the_promised_form(tmp_path):
    result = CliRunner().invoke(
        app,
        ["reproduce", "portfolio", "--rounds", "30", "--realizations", "3", "--workers", "1", "--out", str(tmp_path)],
    )
    assert result.exit_code == 0, result.output
    assert "apda" in result.output
    directory = tmp_path / "portfolio"
    summary = json.loads((directory / "summary.json").read_text())
    assert {"experiment", "rounds", "realizations", "seed", "seconds", "settings"} <= set(summary)
    assert len(summary["settings"]) == 2 * 5
    for row in summary["settings"]:
        assert set(row["final"]) == set(files.SUMMARIZED)
        assert set(row["final"]["relative_regret"]) == {"mean", "std", "median"}
    with xr.open_dataset(directory / "results.nc") as stored:
        assert list(stored.sensitivity.values) == [1.0, 10.0]
        final = stored.relative_regret.sel({"algorithm": "apda", "sensitivity": 1.0}).isel(t=-1)
        assert float(final.mean()) == pytest.approx(summary["settings"][0]["final"]["relative_regret"]["mean"])
    assert (directory / "figure.png").stat().st_size > 10_000
    assert (directory / "figure.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "must be one of"),
        (["portfolio", "--rounds", "0"], "`rounds` must be a whole number >= 1"),
        (["portfolio", "--sensitivity", "-1"], "`sensitivity > 0` must hold"),
        (["portfolio", "--sensitivity", "1", "--sensitivity", "1"], "must be different numbers"),
        (["portfolio", "--methods", "apda,nobody"], "`methods` must be among"),
        (["portfolio", "--workers", "0"], "`workers` must be a whole number >= 1"),
        (["portfolio", "--cluster", "nowhere", "--rounds", "2", "--realizations", "1"], "dask://host:port"),
    ],
)
def test_bad_arguments_of_the_command_are_refused(tmp_path, arguments, message):
    result = CliRunner().invoke(app, ["reproduce", *arguments, "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())


def test_a_directory_that_cannot_be_written_to_is_refused_at_once(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    result = CliRunner().invoke(app, ["reproduce", "portfolio", "--out", str(tmp_path / "file")])
    assert result.exit_code == 2
    assert "cannot write to" in " ".join(result.output.replace("│", " ").split())


@pytest.mark.slow
def test_an_interrupted_command_leaves_a_readable_file_and_goes_on_to_the_same_bits(tmp_path):
    """A real process, a real Ctrl-C, started again; compared with one that was never interrupted."""
    arguments = ["reproduce", "portfolio", "--rounds", "100000", "--realizations", "2", "--workers", "1"]
    command = [
        sys.executable,
        "-c",
        "from performative.simulation import runner; runner.SAVE_EVERY = 0.2\nfrom performative.cli import app; app()",
    ]
    out = tmp_path / "run"
    checkpoint = out / "portfolio" / "checkpoints" / "batch-000000.npz"
    process = subprocess.Popen(
        [*command, *arguments, "--out", str(out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ}
    )
    deadline = time.monotonic() + 120
    while not has_records(checkpoint) and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors.decode()
    assert b"interrupted" in errors
    with xr.open_dataset(out / "portfolio" / "results.nc") as part:
        assert part.sizes["t"] > 1
        partial = part.relative_regret.load()
    assert subprocess.run([*command, *arguments, "--out", str(out)], capture_output=True, check=False).returncode == 0
    fresh = reproduce("portfolio", rounds=100_000, realizations=2)
    with xr.open_dataset(out / "portfolio" / "results.nc") as stored:
        assert all(np.array_equal(fresh[name], stored[name], equal_nan=True) for name in fresh.data_vars)
        assert partial.sizes["t"] <= stored.sizes["t"]
        assert np.array_equal(stored.relative_regret.sel(t=partial["t"]), partial)


def has_records(checkpoint):
    if not checkpoint.exists():
        return False
    with np.load(checkpoint) as stored:
        return any(name.startswith("recorded/9/") for name in stored)


@pytest.mark.slow
def test_methods_are_chosen_by_name_and_shown_in_the_order_of_the_paper(tmp_path):
    words = [
        "--methods",
        "oracle, apda",
        "--sensitivity",
        "1",
        "--rounds",
        "5",
        "--realizations",
        "2",
        "--workers",
        "1",
    ]
    result = CliRunner().invoke(app, ["reproduce", "portfolio", *words, "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    with xr.open_dataset(tmp_path / "portfolio" / "results.nc") as stored:
        assert list(stored.algorithm.values) == ["apda", "oracle"]
