"""Explore, regress, optimize once."""

import jax.numpy as jnp
import numpy as np
import pytest
from scanning import scan

import performative as pf


def slanted(theta, z):
    """½‖θ − z‖² + 0.3⟨θ, z⟩, so that the stable point is not the optimum."""
    return 0.5 * jnp.sum((theta - z) ** 2) + 0.3 * jnp.sum(theta * z)


@pytest.mark.slow
def test_two_stage_regresses_a_structured_effect():
    """A diagonal effect: two numbers, learned to five standard errors."""
    problem = pf.Problem(slanted, pf.Ball(3.0), dimension=2)
    shift = lambda effect, theta: effect * theta  # noqa: E731
    environment = pf.LocationFamily(pf.Gaussian([1.0, 0.5], 0.04 * np.ones(2)), [0.4, -0.2], shift)
    method = pf.two_stage(problem, stage=1_000, shift=shift, effect=np.zeros(2))
    runs = scan(method, environment, 1_200, runs=10)
    errors = np.sum((np.asarray(runs.states.belief.effect) - [0.4, -0.2]) ** 2, axis=1)
    assert errors.max() < 2 * (5 * 0.2 / np.sqrt(1_000)) ** 2
    best = pf.performative_optimum(problem, environment).decision
    np.testing.assert_allclose(runs.final, best, atol=0.01)
