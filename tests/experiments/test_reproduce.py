"""The experiments of the paper: instances, relative quantities, workers and a cluster."""

import os
import signal
import time

import distributed
import numpy as np
import pytest

from performative.experiments.reproduce import reproduce
from performative.experiments.settings import cast_of
from performative.problems import portfolio, regression
from performative.problems.instance import WARMUP
from performative.simulation import simulate as simulating
from performative.simulation.worlds import make_worlds

SMALL = {"rounds": 40, "realizations": 4, "methods": ("apda", "oracle")}


@pytest.fixture(scope="module")
def small_run():
    return reproduce("portfolio", **SMALL)


def same_bits(one, other):
    return all(np.array_equal(one[name].values, other[name].values, equal_nan=True) for name in one.data_vars)


def in_batches(monkeypatch, size):
    """Runs of the experiment come in batches of so many realizations."""
    make = simulating.make_jobs
    monkeypatch.setattr(simulating, "make_jobs", lambda *parts: make(*parts[:4], size, *parts[5:]))


def test_first_round_is_one_and_worst_violation_is_the_largest(small_run):
    np.testing.assert_allclose(small_run.relative_regret.isel(t=0), 1.0)
    np.testing.assert_allclose(abs(small_run.relative_violation.isel(t=0)).max("algorithm"), 1.0)
    assert np.array_equal(small_run.worst_violation, small_run.violation.max("constraint"))


def test_the_investor_estimates_the_risk_from_the_very_samples_of_the_warm_up():
    """Ψ̂ is the covariance of round 0's samples: the method's problem and its belief hold the same numbers."""
    from performative.numerics.precision import precise
    from performative.simulation.engine import Batch, first_answer

    instance = portfolio.instance(5, 2, 1.0, WARMUP)
    with precise():
        ((world,),) = make_worlds(cast_of({1.0: [instance]}, ["apda-recycle"]))
        batch = Batch([[world]], [2], 5)
        observed = batch.runs["apda-recycle"].state.belief.base.observed.joint
        drawn = first_answer(instance.environment, np.zeros(portfolio.ASSETS), 5, 2, WARMUP)
    center = np.asarray(observed.center)[: portfolio.ASSETS, 0]
    np.testing.assert_allclose(center, np.mean(np.asarray(drawn), axis=0), rtol=1e-12)
    np.testing.assert_allclose(instance.problem.constraints[2].matrix, np.cov(np.asarray(drawn).T), rtol=1e-12)
    assert np.any(instance.problem.constraints[2].matrix != instance.truth.constraints[2].matrix)


def test_sensitivities_of_an_experiment_share_everything_but_the_effect():
    one, ten = (regression.instance(3, 1, eps, 1000) for eps in (1.0, 10.0))
    np.testing.assert_allclose(10 * one.environment.effect, ten.environment.effect)
    assert np.linalg.norm(ten.environment.effect) == pytest.approx(10.0)
    np.testing.assert_array_equal(one.environment.base.covariance, ten.environment.base.covariance)
    np.testing.assert_array_equal(one.problem.constraints[0].active, ten.problem.constraints[0].active)
    assert one.optimum.kkt_residual < 1e-12


def test_a_cluster_that_does_not_answer_is_named(monkeypatch):
    def refuse(address, **_):
        raise OSError(f"timed out trying to connect to {address}")

    monkeypatch.setattr(distributed, "Client", refuse)
    with pytest.raises(ValueError, match=r"`cluster` must be reachable, but dask://127\.0\.0\.1:9 is not: timed out"):
        reproduce("portfolio", rounds=2, realizations=1, cluster="dask://127.0.0.1:9", methods=["oracle"])


@pytest.mark.slow
def test_workers_give_the_same_bits(small_run, monkeypatch):
    in_batches(monkeypatch, 2)
    alone = reproduce("portfolio", **SMALL)
    assert same_bits(alone, reproduce("portfolio", **SMALL, workers=2))
    for name in ("relative_regret", "deviation"):
        np.testing.assert_allclose(alone[name], small_run[name], rtol=1e-9)


@pytest.mark.slow
def test_a_dask_cluster_that_loses_a_worker_gives_the_same_bits(small_run, monkeypatch):
    """Two workers of a local cluster; one is killed on the way, its batches run again elsewhere."""
    from threading import Thread

    in_batches(monkeypatch, 1)
    alone = reproduce("portfolio", **SMALL)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        victim = next(iter(client.scheduler_info()["workers"].values()))["id"]

        def kill():
            time.sleep(6)
            os.kill(client.run(os.getpid, workers=None)[_address(client, victim)], signal.SIGKILL)

        killer = Thread(target=kill)
        killer.start()
        spread = reproduce("portfolio", **SMALL, cluster=cluster.scheduler_address.replace("tcp://", "dask://"))
        killer.join()
    assert same_bits(alone, spread)


def _address(client, worker):
    return next(address for address, info in client.scheduler_info()["workers"].items() if info["id"] == worker)


def test_instances_that_the_seed_settles_are_not_described(monkeypatch):
    """Their attributes would be thrown away."""

    def never(cast):
        raise AssertionError("instances were described")

    monkeypatch.setattr(simulating, "_provenance", never)
    runs = reproduce("portfolio", rounds=10, realizations=2, sensitivities=[1.0], methods=["oracle"])
    assert {"seed", "experiment", "warmup", "performative"} <= runs.attrs.keys()
    assert not {"methods", "environment", "problem", "optimum", "record"} & runs.attrs.keys()
