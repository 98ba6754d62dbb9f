"""The metrics of a run, against sums by hand."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative.numerics.precision import precise
from performative.numerics.randomness import new_key
from performative.truth.metrics import Tally, Truth


def test_feasible_rounds_do_not_cancel_infeasible_ones_in_the_positive_violation():
    """g(θ) = θ at θ = 1, −1, 0.5, −2: Σg = −1.5, but Σg⁺ = 1.5; the warm-up, round 0, counts in neither."""
    problem = pf.Problem(
        lambda theta, z: jnp.sum(theta * z), pf.Ball(5.0), [pf.constraints.Linear([1.0], 0.0)], dimension=1
    )
    with precise():
        truth = Truth(problem, None, None)
        tally = Tally.empty(truth, jnp.zeros(1))
        for t, theta in enumerate([3.0, 1.0, -1.0, 0.5, -2.0]):
            tally = tally.after_round(
                truth, jnp.array([theta]), jnp.array([[theta]]), jnp.zeros((1, 1, 1)), jnp.asarray(t), new_key(0)
            )
        assert tally.violation.tolist() == [-1.5]
        assert tally.violation_positive.tolist() == [1.5]


def test_simulations_record_the_positive_violation():
    """The mean of g⁺, from decisions recorded in every round."""
    problem = pf.Problem(
        lambda theta, z: 0.5 * jnp.sum((theta - z) ** 2),
        pf.Ball(2.0),
        [pf.constraints.Linear([[1.0, 0.0], [0.0, 1.0]], 0.5)],
    )
    world = pf.LocationFamily(pf.Gaussian([1.0, 0.4], [0.1, 0.1]), 0.1 * np.eye(2))
    runs = pf.simulate({"rgd": pf.repeated_gradient(problem, step=0.3)}, world, rounds=30, record=list(range(1, 31)))
    g = runs.decision.values - 0.5
    count = runs.t.values[:, None]
    assert np.any(g > 0)
    assert np.any(g < 0)
    np.testing.assert_allclose(runs.violation_positive, np.cumsum(np.maximum(g, 0), axis=2) / count, rtol=1e-12)
    np.testing.assert_allclose(runs.violation, np.cumsum(g, axis=2) / count, rtol=1e-12, atol=1e-15)
    assert runs.violation_positive.attrs["long_name"] == "positive violation Σ g(θ_s)⁺/t"


@pytest.mark.filterwarnings("ignore::performative.errors.LocalOptimumWarning")  # a risk is not convex
@pytest.mark.slow
def test_instances_that_are_convex_or_not_run_together():
    problem = pf.Problem(lambda t, z: jnp.sum(t**2) - jnp.sum(t * z), pf.Box([-1.0], [1.0]))
    worlds = [pf.LocationFamily(pf.Gaussian([0.3], [1.0]), [[strength]]) for strength in (0.5, 1.5, 1.6)]
    messages = {pf.performative_optimum(problem, world).message for world in worlds}
    assert len(messages) == 3
    data = pf.simulate({"a": pf.repeated_gradient(problem)}, worlds, rounds=3)
    assert np.all(np.isfinite(data.regret))
