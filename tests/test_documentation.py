"""The documentation check: examples run, names and files exist, and tables show the committed results they come from."""

import functools
import importlib
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import performative as pf
from performative.comparison.contenders import scale_of

ROOT = Path(__file__).parent.parent


def test_the_examples_of_the_readme_run_and_print_what_it_says(tmp_path):
    text = (ROOT / "README.md").read_text()
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    printed = re.search(r"It prints\n\n```\n(.*?)```", text, re.DOTALL).group(1)
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(printed)


def test_the_example_of_limits_on_what_a_decision_causes_prints_what_it_says(capsys):
    code, shown = re.findall(r"```(?:python)?\n(.*?)```", (ROOT / "docs" / "caused.md").read_text(), re.DOTALL)
    exec(code, {})
    assert capsys.readouterr().out == shown


@pytest.mark.slow
def test_the_examples_of_worlds_run(tmp_path):
    text = (ROOT / "docs" / "worlds.md").read_text()
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    quiet = "import warnings, performative\nwarnings.simplefilter('ignore', performative.LocalOptimumWarning)\n"
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", quiet + code], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert ran.returncode == 0, ran.stderr
    risk, optimum, message, known, stable = ran.stdout.splitlines()[:5]
    assert abs(float(risk.split()[1]) + 24.0) < 0.2  # −4 · 6, five standard errors
    assert abs(float(optimum.split("[")[1].rstrip("]")) - 5.0) < 0.1
    assert "with derivatives" in message
    assert (known, stable) == ("[5.]", "[9.]")


def resolved(name):
    """What a dotted name such as `methods.paper.apda` stands for in the library."""
    owner, parts = importlib.import_module("performative"), name.split(".")
    for place, part in enumerate(parts):
        path = ".".join(["performative", *parts[: place + 1]])
        owner = getattr(owner, part) if hasattr(owner, part) else importlib.import_module(path)
    return owner


def public_names():
    """Every class and function that the package or a module it names lends, by its path."""
    package = importlib.import_module("performative")
    for path in ("", *package._MODULES):
        module = resolved(path) if path else package
        own = [name for name, part in vars(module).items() if getattr(part, "__module__", None) == module.__name__]
        for name in getattr(module, "__all__", [name for name in own if not name.startswith("_")]):
            part = getattr(module, name)
            if inspect.isclass(part) or inspect.isfunction(part):
                yield f"{path}.{name}".strip("."), part


def test_every_public_name_has_an_example():
    names = dict(public_names())
    assert {"apda", "constraints.Linear", "study.Asked", "theory.Constants"} <= names.keys()
    assert [name for name, part in names.items() if ">>> " not in (part.__doc__ or "")] == []


def test_every_name_in_the_algorithm_table_exists():
    table = (ROOT / "docs" / "algorithm.md").read_text().split("\n\n")[1]
    names = re.findall(r"`([a-z_]+(?:\.[A-Za-z_]+)+)`", table)
    assert len(names) > 8
    for name in names:
        assert resolved(name) is not None


def test_every_name_and_test_in_the_map_of_the_paper_exists():
    text = (ROOT / "docs" / "paper.md").read_text()
    names = re.findall(r"`([a-z_]+(?:\.[A-Za-z_]+)+)`", text)
    tests = re.findall(r"`(test_[a-z0-9_]+)`", text)
    written = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(names) > 30
    assert len(tests) > 25
    assert [name for name in tests if f"def {name}(" not in written] == []
    for name in names:
        assert resolved(name) is not None


def test_every_file_that_the_documentation_names_exists():
    """Paths in backquotes or links: of the repository, of the sources, or beside the page."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    roots = (ROOT, ROOT / "src" / "performative")
    missing = []
    for page in pages:
        text = page.read_text()
        paths = re.findall(r"`([a-z_]+/[\w/.-]*)`", text) + re.findall(r"\]\((?!http)([^)#]+)\)", text)
        paths = [path for path in paths if not path.startswith(("runs/", "out/"))]
        missing += [
            f"{page.name}: {path}"
            for path in paths
            if not any((root / path).exists() for root in (*roots, page.parent))
        ]
    assert missing == []


# What follows reads committed results: it fails when a document and its results part, not when code changes.


METHODS_SHOWN = ("apda", "oracle", "pd-ps", "apda-recycle", "safe-apda")


@functools.cache
def full_scale(experiment):
    summary = json.loads((ROOT / "docs" / "reproduction" / experiment / "summary.json").read_text())
    assert (summary["rounds"], summary["realizations"]) == (1_000_000, 100)
    return {(row["sensitivity"], row["method"]): row["final"]["relative_regret"]["mean"] for row in summary["settings"]}


@pytest.mark.parametrize("experiment", ["regression", "portfolio"])
def test_tables_of_the_full_run_show_its_summary(experiment):
    regret = full_scale(experiment)
    text = (ROOT / "docs" / "reproduction" / "README.md").read_text()
    for (sensitivity, method), value in regret.items():
        assert f"| {sensitivity:g} | `{method}` | {value:.3g} (" in text
    for sensitivity in (1.0, 10.0):
        shown = [regret[sensitivity, method] for method in METHODS_SHOWN]
        row = f"| {experiment} | {sensitivity:g} | " + " | ".join(f"{value:.3g}" for value in shown) + " |"
        assert row in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("experiment", ["regression", "portfolio"])
def test_at_full_scale_apda_ends_within_ten_per_cent_of_the_oracle(experiment):
    regret = full_scale(experiment)
    assert regret[1.0, "apda"] == pytest.approx(regret[1.0, "oracle"], rel=0.1)


def test_at_full_scale_the_stable_method_does_not_converge_where_the_reaction_is_strong():
    assert full_scale("regression")[10.0, "pd-ps"] > 1


def test_tables_of_safe_apda_show_what_its_benchmark_wrote(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import safe

    written = {name: safe.written(name) for name in ("main", "others", "probes")}
    text = (ROOT / "docs" / "safe.md").read_text()
    assert safe.table(written["main"], written["probes"]) in text
    assert safe.table(written["main"], written["probes"]) in (ROOT / "README.md").read_text()
    assert safe.table(written["others"], written["probes"]) in text
    for name, row in written["main"].items():
        assert row["ratio"] >= safe.TARGETS[name.split(",")[0]]
        assert row["violation"] <= 1e-12
        assert row["exponent"] <= -0.45
        assert written["probes"][name]["deployments"] == row["deployments"]


def test_scaled_probes_are_those_of_the_comparison(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import safe

    case = pf.problems.get("portfolio")
    method = safe.scaled(pf.apda(case.problem, shift=case.shift, effect=case.prior))
    assert (
        float(method.exploration.scale)
        == scale_of(case, 1000).reach
        == safe.written("probes")["portfolio, ε = 1"]["exploration"]
    )
    assert method.estimator.effects.probe == float(method.exploration.scale)


def test_the_results_of_the_comparison_are_those_that_were_printed(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks.compare import table

    text = (ROOT / "docs" / "compare.md").read_text()
    assert table(json.loads((ROOT / "docs" / "compare" / "summary.json").read_text())) in text


def test_the_first_deployments_are_those_that_were_printed(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import first_hundred

    text = (ROOT / "docs" / "first_hundred.md").read_text()
    cells = first_hundred.read()
    for start in first_hundred.STARTS:
        assert first_hundred.table(cells, start) in text
        assert first_hundred.table(cells, start, first_hundred.gained) in text
        assert first_hundred.unbeaten(cells, start) in text
    assert first_hundred.search_table(cells) in text
    assert first_hundred.most_lost(cells) in text


def test_the_cells_of_the_first_deployments_say_what_was_lost_against_staying(monkeypatch, tmp_path):
    """One deployment at the start loses 2. The cheat is best and breaks a constraint; the learner was behind by 3 at first."""
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import first_hundred

    paths = {"stay": [2.0, 2.0], "safe-apda": [8.0, 1.0], "rgd": [0.5, 0.25], "oracle": [0.1, 0.1]}  # after 1 and 10
    jitter = np.array([-1e-3, 0.0, 1e-3])[:, None]
    regret = np.stack([np.asarray(path) + place * jitter for place, path in enumerate(paths.values())])
    values = dict.fromkeys(("regret", "distance", "stable_distance", "outside"), np.zeros_like(regret))
    values |= {"deployed_regret": regret, "deployed_violation": np.zeros_like(regret)}
    values["deployed_violation"][2] = 0.1
    whole = {name: (("algorithm", "realization", "point"), value) for name, value in values.items()}
    whole["deployments"] = (("algorithm", "point"), np.tile([1.0, 10.0], (4, 1)))
    whole["seconds"] = (("algorithm",), np.zeros(4))
    line = ("revenue", 20, first_hundred.STARTS[0], 10)
    cells = {cell.method: cell for cell in first_hundred.cells_of(xr.Dataset(whole, {"algorithm": list(paths)}), *line)}
    assert cells["safe-apda"].against_staying == pytest.approx(-5.0)
    assert cells["safe-apda"].furthest_behind == pytest.approx(3.0)
    assert {name: (cell.unbeaten, cell.bold) for name, cell in cells.items()} == {
        "oracle": (False, False), "rgd": (True, False), "safe-apda": (False, True), "stay": (False, False),
    }  # fmt: skip
    assert first_hundred.shown(cells["safe-apda"]) == "**1**"
    assert first_hundred.shown(cells["rgd"]) == "0.25†"
    assert first_hundred.gained(cells["safe-apda"]) == "-5 (3)"
    monkeypatch.setattr(first_hundred, "PATH", tmp_path / "cells.json")
    first_hundred.write(cells.values())
    assert set(first_hundred.read()) == set(cells.values())


def test_a_long_run_of_the_first_deployments_stands_for_a_shorter_one(monkeypatch):
    """Of methods that do not know how many deployments there will be, the part until then is joined with the others' whole."""
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import first_hundred

    def runs(name, deployments):
        count = len(deployments)
        regret = np.arange(count, dtype=float) + np.zeros((1, 3, count))
        parts = {"deployed_regret": (("algorithm", "realization", "point"), regret), "optimum_risk": ((), 1.0)}
        parts["deployments"] = (("algorithm", "point"), np.array([deployments], float))
        return xr.Dataset(parts, {"algorithm": [name]})

    longest, others = runs("stay", [1, 10, 30, 100]), runs("rgd", [1, 2, 5, 10, 30])
    joined = first_hundred.joined(longest, others, 30, ("stay", "rgd", "missing"))
    assert joined.algorithm.values.tolist() == ["stay", "rgd"]
    np.testing.assert_array_equal(joined["deployments"][0], [np.nan, np.nan, 1, 10, 30])
    np.testing.assert_array_equal(joined["deployed_regret"][:, 0, -1], [2.0, 4.0])


def test_every_part_of_the_ablation_can_be_taken_away(monkeypatch):
    """The constants are where they are looked for, and the options are those of the method."""
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import ablation

    for name, part in ablation.PARTS.items():
        now = {key: getattr(module, key) for key in part.constants for module in ablation.holders(key)}
        assert now != part.constants or not part.constants, name
        pf.safe_apda(pf.Problem(pf.losses.Revenue(), pf.Box([0.0], [1.0])), **part.options)
    with pytest.raises(AttributeError, match="`NOWHERE` must be a constant of one of performative"):
        ablation.holders("NOWHERE")


def test_the_solution_shown_is_the_one_that_is_found():
    code, shown = re.findall(r"```(?:python)?\n(.*?)```", (ROOT / "docs" / "solutions.md").read_text(), re.DOTALL)[:2]
    names = {}
    exec(code, names)
    found = str(names["best"]).splitlines()
    expected = shown.splitlines()
    assert [line[:15] for line in found] == [line[:15] for line in expected]
    for same in (0, 1, 2, -1):
        assert found[same] == expected[same]
