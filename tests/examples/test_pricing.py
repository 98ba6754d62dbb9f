"""The pricing example: a study from a description against a market in another process."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import performative as pf

PRICING = Path(__file__).parents[2] / "examples" / "pricing"


def loaded(name):
    """A file of the example as a module."""
    spec = importlib.util.spec_from_file_location(f"pricing_{name}", PRICING / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_pricing_example_resumes_where_it_stopped(tmp_path, monkeypatch, capsys):
    run, world = loaded("run"), loaded("world")
    monkeypatch.setattr(run, "ROUNDS", 15)
    run.main(tmp_path / "out")
    assert "15 weeks reported" in capsys.readouterr().out
    process = subprocess.run(
        [sys.executable, str(PRICING / "run.py"), "out"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    assert process.stderr == ""
    assert "40 weeks reported" in process.stdout
    assert "room left in mean price: " in process.stdout
    shown = process.stdout.split("\nwhy: ")[0]  # what comes after it depends on how the planner rounds
    assert shown in (PRICING.parents[1] / "docs" / "study.md").read_text()
    assert "\n".join(shown.splitlines()[7:17]) in (PRICING.parents[1] / "README.md").read_text()
    assert (tmp_path / "out" / "prices.png").read_bytes()[:4] == b"\x89PNG"
    monkeypatch.setattr(run, "ROUNDS", 40)
    run.main(tmp_path / "out")
    assert capsys.readouterr().out == process.stdout  # nothing is left to do
    with pf.Study.open(tmp_path / "out" / "prices.db", "prices") as study:
        past = study.history()
        assert past["slack"].values.min() >= 0.0  # no deployment broke a constraint
        assert study.verify().told == 40
        # The market's optimum, from its own numbers, and what the study makes of it.
        market = pf.LocationFamily(pf.Gaussian(world.BASE, np.full(3, world.NOISE**2)), world.EFFECT)
        best = pf.performative_optimum(study.method.problem, market)
        at_start = pf.performative_risk(study.method.problem, market, [2.0, 2.0, 2.0])
        reached = pf.performative_risk(study.method.problem, market, np.asarray(study.state.decision))
        assert reached - best.risk < 0.1 * (at_start - best.risk)
        status = study.status()
        assert np.all(np.abs(status.effect - world.EFFECT) < 3 * status.effect_error)  # of nine entries
        assert np.all(status.effect_error < 0.1)
