import jax
import numpy as np
import pytest

import performative as pf

PROBLEM = pf.Problem(lambda price, demand: -price[0] * demand[0], pf.Box([0.0], [5.0]))
MARKET = pf.LocationFamily(pf.Gaussian([4.0], [0.25]), effect=[[-1.0]])


class OnlySamples:
    def sample(self, key, theta, n):
        return 4.0 - theta[0] + 0.5 * jax.random.normal(key, (n, 1))


def test_a_problem_and_a_world_are_compared_directly():
    compared = pf.compare(PROBLEM, MARKET, ["rgd", "oracle"], deployments=200, realizations=3)
    results = compared.results["problem"]
    assert not compared.skipped
    assert list(results.algorithm.values) == ["rgd", "oracle"]
    last = results.isel(point=-1).mean("realization")
    assert float(last.deployed_regret.sel(algorithm="oracle")) < float(last.deployed_regret.sel(algorithm="rgd"))
    assert float(last.stable_distance.sel(algorithm="rgd")) < 0.2  # retraining ends at the stable point
    assert results.optimum.values == pytest.approx([2.0])
    assert float(results.optimum_risk) == pytest.approx(-4.0)
    assert int(results.optimum_local) == 0


@pytest.mark.filterwarnings("ignore::performative.errors.LocalOptimumWarning")
@pytest.mark.slow
def test_a_world_that_only_samples_is_compared_too():
    compared = pf.compare(PROBLEM, OnlySamples(), {"rgd": "rgd", "oracle": "oracle"}, deployments=100, realizations=3)
    results = compared.results["problem"]
    assert np.all(np.isfinite(results.deployed_regret))
    assert [item.method for item in compared.skipped] == ["oracle"]  # nobody knows its effect


@pytest.mark.slow
def test_a_resumed_comparison_runs_what_is_missing_and_no_more(tmp_path, monkeypatch):
    first = pf.compare(PROBLEM, MARKET, ["rgd"], deployments=50, realizations=2, checkpoint=tmp_path)
    from performative.comparison import comparison

    ran = []
    real = comparison._run

    def recorded(task, *rest):
        ran.append(task.name)
        return real(task, *rest)

    monkeypatch.setattr(comparison, "_run", recorded)
    both = pf.compare(PROBLEM, MARKET, ["rgd", "rrm"], deployments=50, realizations=2, checkpoint=tmp_path)
    assert ran == ["rrm"]
    np.testing.assert_array_equal(
        first.results["problem"].regret.values[0], both.results["problem"].regret.sel(algorithm="rgd").values
    )
    pf.compare(PROBLEM, MARKET, ["rgd"], deployments=50, realizations=2, seed=1, checkpoint=tmp_path)
    assert ran == ["rrm", "rgd"]  # another seed is another run


def test_methods_may_be_given_as_for_a_simulation():
    methods = {"own": pf.repeated_gradient(PROBLEM, step=0.5), "rgd": "rgd"}
    compared = pf.compare(PROBLEM, MARKET, methods, deployments=50, realizations=2)
    assert list(compared.results["problem"].algorithm.values) == ["own", "rgd"]
    with pytest.raises(TypeError, match=r'names or functions.*write \{"name": method\}'):
        pf.compare(PROBLEM, MARKET, [methods["own"]])


@pytest.mark.slow
def test_a_drifting_world_is_compared_over_equal_rounds():
    drifting = pf.Drifting(MARKET, lambda t: {"base.mean": 4.0 + 0.1 * t[None]})
    with pytest.raises(ValueError, match=r"equal rounds.*`rounds=`"):
        pf.compare(PROBLEM, drifting, ["rgd", "apda"])
    methods = {
        f"{count} samples": lambda problem, n=count: pf.repeated_gradient(problem, step=1e-9, samples=n)
        for count in (1, 4)
    }
    results = pf.compare(PROBLEM, drifting, methods, rounds=20, realizations=2).results["problem"]
    regret = results.deployed_regret.isel(point=-1, realization=0).values
    assert regret[0] == pytest.approx(regret[1], abs=1e-6)  # both stay where they are
    assert results.optimum.values == pytest.approx([0.5 * (4.0 + 0.1 * 10.5)])  # half the mean of the intercepts


def test_what_does_not_go_together_is_refused():
    with pytest.raises(TypeError, match=r"compare\(problem, world, methods\)"):
        pf.compare(PROBLEM, methods=["rgd"])
    with pytest.raises(TypeError, match="methods="):
        pf.compare("revenue", ["rgd"])

    class Remembers:
        def init(self, key):
            return 0.0

        def sample(self, key, theta, n, state):
            return 4.0 - theta[0] + jax.random.normal(key, (n, 1)), state

    with pytest.raises(TypeError, match="world with a state"):
        pf.compare(PROBLEM, Remembers(), ["rgd"])
