"""The year of a shop, typed command by command: what went wrong in it is mended, and it ends verified to the bit."""

import importlib.util
import re
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

import performative as pf
from performative.cli import app

ROOT = Path(__file__).parents[2]


def in_this_process(words):
    """The command without a process of its own."""
    result = CliRunner().invoke(app, ["study", *words], env={"COLUMNS": "100"})
    return result.exit_code, result.output


def test_a_year_from_the_terminal_ends_verified_to_the_bit(tmp_path):
    spec = importlib.util.spec_from_file_location("season", ROOT / "examples" / "season" / "run.py")
    run = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run)
    season = run.Season(tmp_path, in_this_process)
    status = season.play()
    printed = {words[0]: text for words, text in season.log}  # the last of each kind
    assert status.startswith("study shop: 52 weeks reported\n")
    # the screen in the documentation, up to what depends on how the planner rounds
    shown = status.split("\nwhy: ")[0]
    assert shown in (ROOT / "docs" / "study.md").read_text()
    assert "reports: 52" in printed["verify"]
    assert "verified bit for bit" in printed["verify"]
    assert "signed with the key" in printed["verify"]
    held = next(text for words, text in season.log if words[0] == "tell" and "error" in text)
    assert "bread: 3e+09 in line 5 of" in held
    kinds = re.findall(r"^ *\d+  \S+ \S+  (\w+)", printed["log"], re.MULTILINE)
    counts = {kind: kinds.count(kind) for kind in set(kinds)}
    # two proposals were declined, and one report was taken back and told again
    expected = {"create": 1, "ask": 54, "approve": 52, "decline": 2, "tell": 53, "retract": 1, "amend": 2, "note": 1}
    assert counts == expected | {"sign": 1}
    with pf.Study.open(tmp_path / "shop.db", "shop", readonly=True) as study:
        assert study.verify().told == 52
        past = study.history()
        assert past["slack"].values.min() >= 0.0  # a basket of 14 until week 34, of 12.50 afterward, on the shelf
        deployed = past["deployed"].values[:, 0]
        np.testing.assert_allclose(deployed / 0.05, np.round(deployed / 0.05), atol=1e-6)
        assert deployed[10:25, 0].max() <= 3.0  # milk, from the first decline to the second
        assert deployed[25:, 2].max() <= 6.5
        assert len(np.unique(past["basis"])) == 3  # the new cap is another method
        assert len(np.unique(past["loss_since"])) == 2  # with the same loss
        assert past["data"].values.max() < 200.0  # neither the typo nor the other branch was learned
        assert study.status().gain.low > 0.0
