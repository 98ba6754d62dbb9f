"""The reservoir holds a uniform sample of everything observed."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from playing import play
from scanning import scan

import performative as pf


@pytest.mark.slow
def test_a_loss_that_is_not_quadratic_keeps_a_reservoir():
    loss = lambda theta, z: jnp.logaddexp(0.0, -jnp.sum(theta * z)) + 0.1 * jnp.sum(theta**2)  # noqa: E731
    random = np.random.default_rng(0)
    environment = pf.LocationFamily(pf.Empirical(random.normal(size=(100, 2)) + 1.0), -0.2 * np.eye(2))
    problem = pf.Problem(loss, pf.Ball(4.0), [pf.constraints.Linear([1.0, 1.0], 1.0)])
    method = pf.safe_apda(problem, reservoir=64)
    runs = scan(method, environment, 3_000, runs=5)
    (first, first_samples), (later, samples) = runs.first, runs.later
    rows = np.concatenate([later[0, :, 0], samples[0, :, 0, 0]], axis=1)
    rows = np.concatenate([rows, np.concatenate([first[0, 0], first_samples[0, 0, 0]])[None]])
    reservoir = np.asarray(runs.state.belief.reservoir)
    assert all(np.any(np.all(np.isclose(row, rows), axis=1)) for row in reservoir)
    assert len(np.unique(reservoir.round(9), axis=0)) > 50
    best = pf.performative_optimum(problem, environment).decision
    assert np.mean(np.sum((runs.decisions[:, -1] - best) ** 2, axis=1)) < 0.05


@pytest.mark.slow
def test_many_samples_a_deployment_with_a_reservoir():
    loss = lambda theta, z: jnp.logaddexp(0.0, -jnp.sum(theta * z)) + 0.1 * jnp.sum(theta**2)  # noqa: E731
    problem = pf.Problem(loss, pf.Ball(4.0), dimension=2)
    environment = pf.LocationFamily(pf.Gaussian(np.ones(2), np.ones(2)), -0.2 * np.eye(2))
    states, _, samples = play(pf.safe_apda(problem, samples=300, reservoir=200), environment, 3)
    reservoir = np.asarray(states[-1].belief.reservoir)[:, 2:]
    everything = samples.reshape(-1, 2)
    assert all(np.any(np.all(np.isclose(row, everything), axis=1)) for row in reservoir)
    from_last = sum(np.any(np.all(np.isclose(row, samples[2]), axis=1)) for row in reservoir)
    assert 30 <= from_last <= 110  # a third of 200, within six standard deviations
