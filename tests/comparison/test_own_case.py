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


@pytest.mark.filterwarnings("ignore::performative.errors.LocalOptimumWarning")
def test_a_world_that_only_samples_is_compared_too():
    compared = pf.compare(PROBLEM, OnlySamples(), {"rgd": "rgd", "oracle": "oracle"}, deployments=100, realizations=3)
    results = compared.results["problem"]
    assert np.all(np.isfinite(results.deployed_regret))
    assert [item.method for item in compared.skipped] == ["oracle"]  # nobody knows its effect


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
