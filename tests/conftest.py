"""Small problems that several tests share."""

import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf


def return_loss(theta, z):
    return -jnp.sum(z * theta) + jnp.sum(theta**2)


@pytest.fixture(scope="session")
def small():
    """Three assets, a budget that binds: problem, environment and effect."""
    effect = np.array([[0.3, -0.1, 0.0], [0.2, 0.1, -0.2], [0.0, 0.3, -0.1]])
    problem = pf.Problem(
        return_loss,
        pf.Box(np.zeros(3), np.ones(3)),
        [
            pf.constraints.Linear(np.ones(3), 0.8, name="budget"),
            pf.constraints.Quadratic(np.diag([1.0, 2.0, 3.0]), 0.5, name="risk"),
        ],
    )
    environment = pf.LocationFamily(pf.Gaussian([1.0, 1.2, 0.8], 0.1 * np.eye(3) + 0.02), effect)
    return problem, environment, effect
