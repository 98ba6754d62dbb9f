"""Runs that leave the finite numbers are reported."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative import constraints


def loss(theta, z):
    return 0.5 * jnp.sum((z - theta) ** 2)


BASE = pf.Gaussian([0.0, 0.0], [1.0, 1.0])


WORLD = pf.LocationFamily(BASE, 0.1 * np.eye(2))


@pytest.fixture(scope="module")
def wild_run():
    """A step of a million on an unbounded set, next to a sane one."""
    unbounded = pf.Problem(loss, pf.Reals(2), [constraints.Linear([1.0, 0.0], 5.0, name="cap")])
    methods = {"wild": pf.apda(unbounded, step=1e6, warmup=5), "tame": pf.apda(unbounded, warmup=5)}
    with pytest.warns(pf.NonFiniteWarning) as caught:
        data = pf.simulate(methods, WORLD, rounds=80, realizations=3, record=list(range(1, 81)))
    return data, caught


@pytest.mark.slow
def test_a_step_that_is_too_large_is_reported_by_method_and_round(wild_run):
    data, caught = wild_run
    first = int(data.failed.sel({"algorithm": "wild"}).min())
    assert len(caught) == 1
    message = str(caught[0].message)
    assert message.startswith("method 'wild': iterates became non-finite in 3 of 3 runs")
    assert f"first seen in round {first}." in message
    assert "(step=1e+06)" in message
    assert caught[0].filename == __file__


def test_records_before_a_failure_are_kept(wild_run):
    data, _ = wild_run
    wild, tame = data.sel({"algorithm": "wild"}), data.sel({"algorithm": "tame"})
    assert np.all(tame.failed == 0)
    assert np.all(np.isfinite(tame.regret))
    for realization in data.realization.values:
        run = wild.sel({"realization": realization})
        failed = int(run.failed)
        assert failed > 10  # a factor of 1e6 a round takes some fifty rounds to overflow
        assert np.all(np.isfinite(run.decision.sel({"t": slice(1, failed - 1)})))
        assert not np.all(np.isfinite(run.decision.sel({"t": slice(failed, None)})))
        # The risk is quadratic in the decision and overflows in half as many rounds.
        assert np.all(np.isfinite(run.regret.sel({"t": slice(1, failed // 2 - 2)})))


def test_the_step_named_is_that_of_the_run_that_failed():
    """The first variant is sane and so is the second one's first instance; what went wild is the other one."""
    unbounded = pf.Problem(loss, pf.Reals(2))
    tame, wild = (pf.repeated_gradient(unbounded, step=step) for step in (0.1, 1e30))
    with pytest.warns(
        pf.NonFiniteWarning, match=r"non-finite in 1 of 4 runs, first seen in round .* a step \(step=1e\+30\)"
    ):
        data = pf.simulate({"descent": {"x": [tame, tame], "y": [tame, wild]}}, WORLD, rounds=30)
    assert (data.failed > 0).values.reshape(2, 2).tolist() == [[False, False], [False, True]]


@pytest.mark.filterwarnings("ignore::performative.errors.LocalOptimumWarning")  # a risk is not convex
@pytest.mark.slow
def test_probes_that_leave_the_set_are_measured_and_named():
    """√θ is not defined below 0, where the probes of the paper go."""
    problem = pf.Problem(lambda theta, z: 0.5 * jnp.sum((z - theta) ** 2), pf.Box([0.0], [4.0]))
    world = pf.ParametricFamily(pf.Normal(0.01), lambda theta: jnp.sqrt(theta))
    methods = {
        "anywhere": pf.apda(problem, warmup=5),
        "inside": pf.apda(problem, warmup=5, probes="inside"),
        "alone": pf.oracle(problem, effect=[[0.5]], warmup=5),
    }
    with pytest.warns(pf.NonFiniteWarning) as warned:
        data = pf.simulate(methods, world, rounds=60, realizations=3)
    caught = [one for one in warned if one.category is pf.NonFiniteWarning]
    assert len(caught) == 1
    message = str(caught[0].message)
    outside = data.outside.isel(t=-1)
    farthest = float(outside.sel(algorithm="anywhere").max())
    assert "method 'anywhere': iterates became non-finite in 3 of 3 runs" in message
    assert f"Likely causes: probes that left Θ, by up to {farthest:.3g}, where the world may not be defined" in message
    assert 'probes="inside"' in message
    assert np.all(outside.sel(algorithm="anywhere") > 0)
    for name in ("inside", "alone"):
        assert np.all(outside.sel(algorithm=name) == 0)
        assert np.all(data.failed.sel(algorithm=name) == 0)


def test_a_step_is_blamed_alone_where_no_probe_left_the_set(wild_run):
    _, caught = wild_run
    assert "probes" not in str(caught[0].message)
