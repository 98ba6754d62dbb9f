"""`compare`: equal budgets, paired noise, rankings that say when they cannot tell, and methods of the user's own."""

import functools
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import performative as pf
from performative import checks, comparison, problems
from performative.comparison import contenders

ROOT = Path(__file__).parent.parent


@functools.cache
def small():
    return pf.compare("gaussian-mean", ["apda", "rgd", "rrm", "confidence"], deployments=900, realizations=4)


def test_all_methods_have_the_same_budget_and_spend_it():
    """Up to what is left of a round: 2 for the pairs of apda, 30 for the arms and the minimisations."""
    dataset = small().results["gaussian-mean"]
    spent = dataset["deployments"].isel(point=-1)
    for name, each in {"apda": 2, "rgd": 1, "rrm": 30, "confidence": 30}.items():
        assert 900 - each < float(spent.sel({"algorithm": name})) <= 900


def test_what_is_measured_is_what_a_simulation_measures():
    case = problems.get("gaussian-mean")
    scale = contenders.scale_of(case, 900)
    method = contenders.CONTENDERS["apda"](case, scale)
    runs = pf.simulate({"apda": method}, case.environment, rounds=(900 - 30) // 2, realizations=4)
    last = runs.isel({"algorithm": 0, "t": -1})
    final = small().results["gaussian-mean"].sel({"algorithm": "apda"}).isel(point=-1)
    for name in ("regret", "deployed_regret", "deployed_violation"):
        np.testing.assert_allclose(final[name].values, last[name].values, rtol=1e-9)
    apart = np.linalg.norm(last["decision"].values - case.optimum.decision, axis=-1)
    np.testing.assert_allclose(final["distance"].values, apart, rtol=1e-9)
    assert float(final["deployments"]) == float(last["deployments"].isel(realization=0))


def test_processes_do_not_change_results():
    apart = pf.compare("gaussian-mean", ["one-point", "rgd"], deployments=300, realizations=3, workers=2)
    here = pf.compare("gaussian-mean", ["one-point", "rgd"], deployments=300, realizations=3)
    one, other = apart.results["gaussian-mean"], here.results["gaussian-mean"]
    xr.testing.assert_identical(one.drop_vars("seconds"), other.drop_vars("seconds"))


def test_methods_that_cannot_serve_a_problem_say_so_and_the_others_run():
    found = pf.compare(["spam"], ["rgd", "oracle", "score", "perfgd"], deployments=50, realizations=2)
    assert list(found.results["spam"].method.values) == ["rgd"]
    reasons = {item.method: item.reason for item in found.skipped}
    assert "location family" in reasons["oracle"]
    assert "density must be known" in reasons["score"]
    assert "family of the data must be known" in reasons["perfgd"]
    wide = pf.compare(["portfolio"], ["confidence", "rgd"], deployments=10, realizations=2)
    assert [item.method for item in wide.skipped] == ["confidence"]
    assert "the dimension must be at most 3, but it is 10" in wide.skipped[0].reason
    tiny = pf.compare(["gaussian-mean"], ["rgd", "two-stage"], deployments=50, realizations=2)
    assert "`deployments` must pay for a warm-up of 100" in tiny.skipped[0].reason


def test_a_mistake_in_ones_own_method_does_not_cost_the_others():
    makers = {
        "mine": pf.repeated_gradient,
        "rgd": "rgd",
        "none": lambda problem: None,
        "broken": lambda problem: problem.nothing,
        "grows": Grows,
        "flat": Flat,
    }
    found = pf.compare("spam", makers, deployments=20, realizations=2)
    assert list(found.results["spam"].method.values) == ["mine", "rgd"]
    reasons = {item.method: item.reason for item in found.skipped}
    assert "must be a method such as" in reasons["none"]
    assert re.match(r"it failed with AttributeError at test_comparison.py:\d+: ", reasons["broken"])
    assert "equal types" in reasons["grows"]
    assert "`ask` must return decisions (b, 3), but returned (3,)" in reasons["flat"]


class Grows:
    """A state that is longer after every round."""

    def __init__(self, problem):
        self.problem = problem

    def init(self, key):
        return Grown(jnp.asarray(1), jnp.zeros(self.problem.dimension), jnp.zeros(0), jnp.zeros(1))

    def ask(self, state, key):
        return state.decision[None]

    def wanted(self, state):
        return 1

    def tell(self, state, decisions, samples):
        return state._replace(round=state.round + 1, seen=jnp.concatenate([state.seen, jnp.zeros(1)]))


class Flat(Grows):
    def ask(self, state, key):
        return state.decision


class Grown(NamedTuple):
    round: Any
    decision: Any
    multipliers: Any
    seen: Any


class Away(Grows):
    """Deploys what is not in Θ, where the risk is lower."""

    def ask(self, state, key):
        return state.decision[None] - 2.0

    def tell(self, state, decisions, samples):
        return state._replace(round=state.round + 1)


def test_what_leaves_the_decision_set_is_marked():
    """PR = E(θ + 3 − z)² on [0, 1] is least at 0, and lower yet at −2."""
    problem = pf.Problem(lambda theta, z: jnp.sum((theta + 3.0 - z) ** 2), pf.Box([0.0], [1.0]))
    environment = pf.LocationFamily(pf.Gaussian([0.0], [0.01]), [[0.0]])
    case = problems.Case(
        name="a/b",
        title="",
        reference="",
        problem=problem,
        environment=environment,
        risk=lambda theta: float(theta[0] + 3.0) ** 2 + 0.01,
        optimum=pf.performative_optimum(problem, environment),
        stable=pf.stable_point(problem, environment),
    )
    found = pf.compare(case, [pf.repeated_gradient, Away], deployments=20, realizations=2)
    rows = {row.method: row for row in comparison.ranking(found.results["a/b"])}
    assert rows["Away"].deployed_regret[0] < 0
    assert rows["Away"].outside == pytest.approx(2.0)
    assert rows["Away"].broke
    assert not rows["repeated_gradient"].broke


def test_functions_may_be_compared_with_names():
    found = pf.compare("gaussian-mean", [pf.repeated_gradient, "rgd"], deployments=10, realizations=2)
    assert list(found.results["gaussian-mean"].method.values) == ["repeated_gradient", "rgd"]


def drawn(values):
    """A dataset of one problem with these deployed regrets (method, realization)."""
    variables = {
        name: (
            ("algorithm", "realization", "point"),
            values[:, :, None] if name == "deployed_regret" else np.zeros((*values.shape, 1)),
        )
        for name in comparison.VARIABLES
    }
    variables["deployments"] = (("algorithm", "point"), np.full((len(values), 1), 7.0))
    variables["seconds"] = (("algorithm",), np.zeros(len(values)))
    return xr.Dataset(variables, {"algorithm": list("abcd"[: len(values)])})


def test_the_ranking_pairs_realisations_and_says_what_cannot_be_told_apart():
    """b is better than a in every realisation by far less than they vary; c cannot be told from b; d is far worse."""
    random = np.random.default_rng(0)
    shared = random.normal(size=30)
    noise = random.normal(size=(4, 30))
    values = np.stack([shared + 0.1 + 0.01 * noise[0], shared, shared + 0.5 * noise[2], shared + 9.0 + noise[3]])
    rows = {row.method: row for row in comparison.ranking(drawn(values))}
    assert rows["b"].rank < rows["a"].rank
    assert "b" not in rows["a"].alike
    assert "c" in rows["b"].alike
    assert rows["d"].rank == 4
    assert rows["d"].alike == ()
    mean, half = rows["d"].deployed_regret
    assert half == pytest.approx(2.045 * values[3].std(ddof=1) / np.sqrt(30), rel=1e-3)  # t quantile, 29 degrees
    assert mean == pytest.approx(values[3].mean())


def test_equal_methods_are_told_apart_in_at_most_a_twentieth_of_all_rankings():
    """Holm's promise, for four equal methods at a time; 0.05 and three standard errors over 400 rankings is 0.083."""
    random = np.random.default_rng(1)
    wrong = [any(row.rank > 1 for row in comparison.ranking(drawn(random.normal(size=(4, 8))))) for _ in range(400)]
    assert np.mean(wrong) <= 0.083


def test_what_is_finite_and_immense_comes_last():
    """Its variance is not finite, and no test could tell it from the others."""
    random = np.random.default_rng(0)
    values = np.stack([k + 0.1 * random.normal(size=20) for k in (1.0, 2.0, 1e200, 3.0)])
    rows = comparison.ranking(drawn(values))
    assert [row.method for row in rows] == ["a", "b", "d", "c"]
    assert rows[0].rank == 1
    assert rows[-1].rank == 4


def test_methods_that_left_the_finite_numbers_come_last():
    values = np.array([[1.0, 2.0, 1.5], [np.inf, 1.0, np.nan], [0.1, 0.2, 0.15]])
    rows = comparison.ranking(drawn(values))
    assert [row.method for row in rows][-1] == "b"
    assert comparison._finite({"a": (float("nan"), 1.0)}) == {"a": [None, 1.0]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"problem": "nowhere"}, "`name` must be one of"),
        ({"problem": [3]}, "`problem` must be names or Cases"),
        ({"problem": ["spam", "spam"]}, "`problems` must have different names"),
        ({"problem": "spam", "methods": ["nobody"]}, "`methods` must be among"),
        ({"problem": "spam", "methods": ["no_module_of_mine:thing"]}, "cannot be imported"),
        ({"problem": "spam", "methods": ["math:nothing"]}, "cannot be imported"),
        ({"problem": "spam", "methods": [":nothing"]}, "`methods` must be among"),
        ({"problem": "spam", "methods": {"mine": 3}}, "`methods` must be names or functions"),
        ({"problem": "spam", "methods": ["math:pi"]}, "must be a function, but is 3.14"),
        ({"problem": "spam", "methods": ["rgd", "rgd"]}, "`methods` must have different names"),
        ({"problem": "spam", "deployments": 0}, "`deployments` must be a whole number >= 1"),
        ({"problem": "spam", "realizations": 1}, "`realizations` must be a whole number >= 2"),
        ({"problem": "spam", "rounds": 0}, "`rounds` must be a whole number >= 1"),
    ],
)
def test_a_comparison_that_makes_no_sense_is_refused(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        pf.compare(**arguments)


def test_rounds_may_be_equal_instead():
    found = pf.compare("gaussian-mean", ["apda", "rgd"], rounds=20, realizations=2)
    spent = found.results["gaussian-mean"]["deployments"].isel(point=-1)
    assert float(spent.sel({"algorithm": "apda"})) == 5 + 2 * 20
    assert float(spent.sel({"algorithm": "rgd"})) == 20


def test_the_command_ranks_a_method_of_ones_own_and_writes_its_files(tmp_path):
    """The method of docs/compare.md, by the command it gives."""
    text = (ROOT / "docs" / "compare.md").read_text()
    assert (ROOT / "examples" / "own_method.py").read_text() in text
    (tmp_path / "own_method.py").write_text((ROOT / "examples" / "own_method.py").read_text())
    assert "performative compare gaussian-mean --methods own_method:SignDescent,rgd" in text
    options = {
        "--methods": "own_method:SignDescent,rgd",
        "--deployments": "400",
        "--realizations": "3",
        "--workers": "1",
    }
    words = [word for pair in options.items() for word in pair]
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            "from performative.cli import app; app()",
            "compare",
            "gaussian-mean",
            *words,
            "--out",
            "out",
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert re.search(r"\d.? +SignDescent +[-\d.e]+±[-\d.e]+ +[-\d.e]+±", ran.stdout)
    assert max(len(line) for line in ran.stdout.splitlines()) <= 80
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert {row["method"] for row in summary["problems"]["gaussian-mean"]} == {"own_method:SignDescent", "rgd"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "gaussian-mean.nc", "summary.json", "figure.png", "figure.pdf",
    }  # fmt: skip


def test_the_command_says_what_is_wrong_before_it_computes(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from performative.cli import app

    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "fails_on_import.py").write_text("nothing_of_this_name")
    refused = CliRunner().invoke(app, ["compare", "spam", "--out", "file"], env={"COLUMNS": "200"})
    assert refused.exit_code == 2
    assert "`--out` must be a directory" in refused.output
    refused = CliRunner().invoke(app, ["compare", "spam", "--methods", "fails_on_import:x"], env={"COLUMNS": "200"})
    assert refused.exit_code == 2
    assert "NameError" in refused.output
    words = ["compare", "portfolio", "--methods", "confidence", "--deployments", "10", "--realizations", "2"]
    nobody = CliRunner().invoke(app, [*words, "--workers", "1"], env={"COLUMNS": "200"})
    assert nobody.exit_code == 1
    assert "confidence does not run on portfolio" in nobody.output


def test_the_method_of_the_documentation_keeps_all_rules():
    namespace = {}
    exec((ROOT / "examples" / "own_method.py").read_text(), namespace)
    case = problems.get("gaussian-mean")
    checks.require(namespace["SignDescent"](case.problem), case.environment)
