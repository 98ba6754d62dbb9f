"""`compare`: equal budgets, paired noise, and your own methods."""

import functools
import re
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import performative as pf
from performative import checks, problems
from performative.comparison import comparison, contenders
from performative.comparison.ranks import ranking
from performative.numerics.randomness import new_key

ROOT = Path(__file__).parent.parent.parent


# Every comparison here has four realizations, so that all share what is compiled.
@functools.cache
def small():
    return pf.compare("gaussian-mean", methods=["apda", "rgd", "rrm", "confidence"], deployments=900, realizations=4)


def test_all_methods_have_the_same_budget_and_spend_it():
    """Up to what is left of a round: 2 for the pairs of apda, 30 for the arms and the minimizations."""
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


@pytest.mark.slow
def test_processes_do_not_change_results(monkeypatch):
    monkeypatch.setattr(comparison, "QUICK", 0)
    apart = pf.compare("gaussian-mean", methods=["one-point", "rgd"], deployments=300, realizations=4, workers=2)
    here = pf.compare("gaussian-mean", methods=["one-point", "rgd"], deployments=300, realizations=4)
    one, other = apart.results["gaussian-mean"], here.results["gaussian-mean"]
    xr.testing.assert_identical(one.drop_vars("seconds"), other.drop_vars("seconds"))


@pytest.mark.slow
def test_methods_that_cannot_serve_a_problem_say_so_and_the_others_run():
    compared = pf.compare(["spam"], methods=["rgd", "oracle", "score", "perfgd"], deployments=50, realizations=4)
    assert list(compared.results["spam"].algorithm.values) == ["rgd"]
    reasons = {item.method: item.reason for item in compared.skipped}
    assert "location family" in reasons["oracle"]
    assert "it needs the density, which is unknown" in reasons["score"]
    assert "it needs the family of the data, which is unknown" in reasons["perfgd"]
    wide = pf.compare(["portfolio"], methods=["confidence"], deployments=10, realizations=4)
    assert [item.method for item in wide.skipped] == ["confidence"]
    assert "the dimension must be at most 3, but got dimension=10" in wide.skipped[0].reason
    tiny = pf.compare(["gaussian-mean"], methods=["rgd", "two-stage"], deployments=50, realizations=4)
    assert "`deployments` must cover a warm-up of 100" in tiny.skipped[0].reason


def test_a_mistake_in_ones_own_method_does_not_cost_the_others():
    makers = {
        "mine": pf.repeated_gradient,
        "rgd": "rgd",
        "none": lambda problem: None,
        "broken": lambda problem: problem.nothing,
        "grows": Grows,
        "flat": Flat,
    }
    compared = pf.compare("spam", methods=makers, deployments=20, realizations=4)
    assert list(compared.results["spam"].algorithm.values) == ["mine", "rgd"]
    reasons = {item.method: item.reason for item in compared.skipped}
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
    compared = pf.compare(case, methods=[pf.repeated_gradient, Away], deployments=20, realizations=4)
    rows = {row.method: row for row in ranking(compared.results["a/b"])}
    assert rows["Away"].deployed_regret[0] < 0
    assert rows["Away"].outside == pytest.approx(2.0)
    assert rows["Away"].broke
    assert not rows["repeated_gradient"].broke


def test_functions_may_be_compared_with_names():
    compared = pf.compare("gaussian-mean", methods=[pf.repeated_gradient, "rgd"], deployments=10, realizations=4)
    assert list(compared.results["gaussian-mean"].algorithm.values) == ["repeated_gradient", "rgd"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"problem": "nowhere"}, "`problem` must be one of"),
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
        ({"problem": "spam", "samples": 0}, "`samples` must be a whole number >= 1"),
        ({"problem": "spam", "start": "today"}, "`start` must be a decision or 'stable', but got 'today'"),
        ({"problem": "spam", "start": [1.0]}, r"`start` must have shape \(3,\), but got \(1,\)"),
        ({"problem": "spam", "start": [9.0, 0.0, 0.0]}, "`start` must lie in the decision set"),
    ],
)
def test_a_comparison_that_makes_no_sense_is_refused(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        pf.compare(**arguments)


def test_rounds_may_be_equal_instead():
    compared = pf.compare("gaussian-mean", methods=["apda", "rgd"], rounds=20, realizations=4)
    spent = compared.results["gaussian-mean"]["deployments"].isel(point=-1)
    assert float(spent.sel({"algorithm": "apda"})) == 5 + 2 * 20
    assert float(spent.sel({"algorithm": "rgd"})) == 20


@pytest.mark.slow
def test_with_samples_every_deployment_brings_as_many_and_counts_once():
    """Pairs are two deployments, a warm-up is one; rrm, which took √T samples by itself, takes as many as the others."""
    names = ["safe-apda", "apda", "rgd", "rrm", "two-stage", "confidence"]
    compared = pf.compare("gaussian-mean", methods=names, deployments=21, samples=20, realizations=4)
    dataset = compared.results["gaussian-mean"]
    spent = dataset["deployments"].isel(point=-1)
    assert dict(zip(names, spent.values.tolist(), strict=True)) == dict.fromkeys(names, 21.0)
    assert (dataset.attrs["samples"], dataset.attrs["start"].tolist()) == (20, [0.0, 0.0])
    case = problems.get("gaussian-mean")
    scale = contenders.scale_of(case, 21, 20)
    assert [contenders.CONTENDERS[name](case, scale).samples for name in names] == [20] * 6
    runs = pf.simulate({"rrm": contenders.CONTENDERS["rrm"](case, scale)}, case.environment, rounds=21, realizations=4)
    np.testing.assert_allclose(
        dataset["deployed_regret"].sel({"algorithm": "rrm"}).isel(point=-1),
        runs["deployed_regret"].isel({"algorithm": 0, "t": -1}),
        rtol=1e-9,
    )


def test_methods_of_ones_own_get_the_samples_and_the_start_if_they_take_them():
    makers = {
        "takes both": pf.repeated_gradient,
        "has fixed the start": functools.partial(pf.repeated_gradient, start=[0.5, 0.5]),
        "has fixed the samples": functools.partial(pf.repeated_gradient, samples=3),
        "asks for one": lambda problem: pf.repeated_gradient(problem),
        "as given": pf.repeated_gradient(problems.get("gaussian-mean").problem, start=[0.5, 0.5], samples=4),
    }
    compared = pf.compare("gaussian-mean", methods=makers, deployments=5, samples=4, start="stable", realizations=4)
    first = compared.results["gaussian-mean"].isel(point=0, realization=0)
    stable = problems.get("gaussian-mean").stable.decision
    np.testing.assert_allclose(first.attrs["start"], stable)
    apart = np.linalg.norm(stable - [0.5, 0.5])
    by_name = dict(zip(first.algorithm.values.tolist(), first["stable_distance"].values, strict=True))
    assert by_name == pytest.approx({"takes both": 0.0, "has fixed the start": apart, "as given": apart}, abs=1e-9)
    reasons = {item.method: item.reason for item in compared.skipped}
    assert reasons.keys() == {"has fixed the samples", "asks for one"}
    assert "every deployment must bring 4 samples, but it asks for 3" in reasons["has fixed the samples"]
    assert "but it asks for 1; give its function an argument `samples`" in reasons["asks for one"]


@pytest.mark.parametrize("start", [None, "stable", [0.25, 0.5]])
def test_all_methods_begin_at_the_same_decision(start):
    """Safe APDA too, whose own choice is the decision with the largest slack, at the far end of the ball."""
    case = problems.get("gaussian-mean")
    scale = contenders.scale_of(case, 100, 20, contenders.start_of(case, start))
    begin = {None: np.zeros(2), "stable": case.stable.decision}.get(str(start) if start else None, start)
    for name, make in contenders.CONTENDERS.items():
        if name == "confidence":
            continue  # at the arm nearest to it
        np.testing.assert_allclose(make(case, scale).init(new_key(0)).decision, begin, err_msg=name)


def test_the_method_of_the_documentation_keeps_all_rules():
    namespace = {}
    exec((ROOT / "examples" / "own_method.py").read_text(), namespace)
    case = problems.get("gaussian-mean")
    checks.require(namespace["SignDescent"](case.problem), case.environment)


def test_numbers_of_deployments_that_are_asked_for_are_recorded_as_a_shorter_comparison_ends():
    """A method that does not know how many deployments there will be is the same until each of them."""
    options = {"methods": ["thompson"], "samples": 2, "realizations": 2}
    longer = pf.compare("newsvendor", deployments=40, record=[7, 23], **options).results["newsvendor"]
    shorter = pf.compare("newsvendor", deployments=23, **options).results["newsvendor"]
    at = longer["deployments"].values[0].tolist()
    assert {7, 23} <= set(at)
    np.testing.assert_allclose(
        longer["deployed_regret"].values[..., at.index(23)], shorter["deployed_regret"].values[..., -1], rtol=1e-9
    )
