"""Explore, regress, optimize once."""

import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf


def last(runs, name):
    return runs["decision"].sel({"algorithm": name}).isel(t=-1).mean("realization").values


def slanted(theta, z):
    """½‖θ − z‖² + 0.3⟨θ, z⟩, so that the stable point is not the optimum."""
    return 0.5 * jnp.sum((theta - z) ** 2) + 0.3 * jnp.sum(theta * z)


@pytest.mark.slow
def test_two_stage_regresses_a_structured_effect():
    """A diagonal effect: two numbers, learnt to five standard errors, and none of the others."""
    problem = pf.Problem(slanted, pf.Ball(3.0), dimension=2)
    shift = lambda effect, theta: effect * theta  # noqa: E731
    environment = pf.LocationFamily(pf.Gaussian([1.0, 0.5], 0.04 * np.ones(2)), [0.4, -0.2], shift)
    method = pf.two_stage(problem, stage=1_000, shift=shift, effect=np.zeros(2))
    runs = pf.simulate({"two": method}, environment, rounds=1_200, realizations=10)
    assert float(runs["estimation_error"].isel({"t": -1}).max()) < 2 * (5 * 0.2 / np.sqrt(1_000)) ** 2
    best = pf.performative_optimum(problem, environment).decision
    np.testing.assert_allclose(last(runs, "two"), best, atol=0.01)
