"""`performative compare`: its table, its files and its errors."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from performative.cli import app

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.slow
def test_the_command_ranks_your_own_method_and_writes_its_files(tmp_path):
    """The method of docs/compare.md, by the command it gives."""
    text = (ROOT / "docs" / "compare.md").read_text()
    assert (ROOT / "examples" / "own_method.py").read_text() in text
    (tmp_path / "own_method.py").write_text((ROOT / "examples" / "own_method.py").read_text())
    assert "PYTHONPATH=. performative compare gaussian-mean --methods own_method:SignDescent,rgd" in text
    options = {
        "--methods": "own_method:SignDescent,rgd",
        "--deployments": "400",
        "--realizations": "3",
        "--workers": "1",
    }
    words = [word for pair in options.items() for word in pair]
    command = [sys.executable, "-c", "from performative.cli import app; app()", "compare", "gaussian-mean", *words]
    ran = subprocess.run([*command, "--out", "out"], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert ran.returncode == 0, ran.stderr
    assert re.search(r"\d.? +SignDescent +[-\d.e]+±[-\d.e]+ +[-\d.e]+±", ran.stdout)
    assert max(len(line) for line in ran.stdout.splitlines()) <= 80
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert {row["method"] for row in summary["problems"]["gaussian-mean"]} == {"own_method:SignDescent", "rgd"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "gaussian-mean.nc", "summary.json", "figure.png", "figure.pdf",
    }  # fmt: skip


def test_the_command_says_what_is_wrong_before_it_computes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "fails_on_import.py").write_text("nothing_of_this_name")
    refused = CliRunner().invoke(app, ["compare", "spam", "--out", "file"], env={"COLUMNS": "200"})
    assert refused.exit_code == 2
    assert "cannot write to file: File exists" in refused.output
    refused = CliRunner().invoke(app, ["compare", "spam", "--methods", "fails_on_import:x"], env={"COLUMNS": "200"})
    assert refused.exit_code == 2
    assert "NameError" in refused.output
    words = ["compare", "credit", "--methods", "confidence, oracle ", "--deployments", "10", "--realizations", "2"]
    nobody = CliRunner().invoke(app, [*words, "--workers", "1"], env={"COLUMNS": "200"})
    assert nobody.exit_code == 1
    assert "confidence does not run on credit" in nobody.output
    assert "oracle does not run on credit: it needs the effect" in nobody.output


def test_the_command_takes_samples_and_a_start(tmp_path):
    words = [
        "compare",
        "gaussian-mean",
        "--methods",
        "rgd",
        "--deployments",
        "10",
        "--samples",
        "4",
        "--realizations",
        "2",
    ]
    out = ["--workers", "1", "--out", str(tmp_path / "out")]
    ran = CliRunner().invoke(app, [*words, "--start", "0.5,0.25", *out], env={"COLUMNS": "200"})
    assert ran.exit_code == 0, ran.output
    assert "gaussian-mean: 10 deployments of 4 samples" in ran.output
    for start, error in {
        "1;2": "must be numbers with commas or 'stable'",
        "today": "must be a decision or 'stable'",
    }.items():
        refused = CliRunner().invoke(app, [*words, "--start", start, *out], env={"COLUMNS": "200"})
        assert refused.exit_code == 2
        assert error in refused.output
