"""Descent without derivatives."""

import jax.numpy as jnp
import numpy as np
import pytest
from scanning import scan

import performative as pf

EFFECT = np.array([[0.3, 0.1], [0.0, 0.2]])


def loss(theta, z):
    return 0.5 * jnp.sum((theta - z) ** 2)


def setting(bound=5.0, strength=1.0):
    """Mean estimation: PR = ½‖θ − m − Aθ‖² + const; the stable point solves (I − A)θ = m."""
    problem = pf.Problem(loss, pf.Ball(10.0), [pf.constraints.Linear([1.0, 1.0], bound)])
    environment = pf.LocationFamily(pf.Gaussian(np.array([1.0, 0.5]), 0.04 * np.ones(2)), strength * EFFECT)
    return problem, environment


@pytest.mark.parametrize(("bound", "best"), [(2.0, 0.5 / 0.7), (0.4, 0.4)])
def test_one_point_descent_ends_near_the_optimum(bound, best):
    """In one dimension, where its variance is least; with the constraint θ ≤ bound, which binds or does not."""
    problem = pf.Problem(loss, pf.Box([-2.0], [2.0]), [pf.constraints.Linear([1.0], bound)])
    environment = pf.LocationFamily(pf.Gaussian([0.5], [0.01]), [[0.3]])
    method = pf.one_point(problem, step=2e-3, exploration=0.3, start=[-1.0])
    assert scan(method, environment, 20_000, runs=10).final[0] == pytest.approx(best, abs=0.1)


def test_two_point_descent_ends_near_the_optimum_of_a_world_it_knows_nothing_of():
    problem, environment = setting(bound=1.0)
    optimum = pf.performative_optimum(problem, environment)
    method = pf.two_point(problem, step=2e-3, control=0.1, exploration=0.2)
    np.testing.assert_allclose(scan(method, environment, 20_000, runs=10).final, optimum.decision, atol=0.05)
