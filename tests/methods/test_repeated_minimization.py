"""Repeated risk minimization."""

import jax.numpy as jnp
import numpy as np
import pytest
from scanning import scan

import performative as pf


def loss(theta, z):
    return 0.5 * jnp.sum((theta - z) ** 2)


def test_repeated_minimization_circles_where_the_reaction_is_strong():
    """θ ← m + aθ with a = −1.5 jumps from end to end of Θ though the stable point m/(1 − a) is there; the optimum is missed."""
    problem = pf.Problem(loss, pf.Box([-2.0], [2.0]))
    environment = pf.LocationFamily(pf.Gaussian([0.5], [0.01]), [[-1.5]])
    method = pf.repeated_minimization(problem, environment=environment, start=[0.3])
    path = scan(method, environment, 60).decisions[0, :, 0]
    np.testing.assert_allclose(path[:3], [0.3, 0.5 - 1.5 * 0.3, 0.5 - 1.5 * 0.05], atol=1e-6)
    np.testing.assert_allclose(np.abs(path[-6:]), 2.0, atol=1e-6)
    assert np.all(path[-6:-1] * path[-5:] < 0)
    assert float(pf.stable_point(problem, environment).decision[0]) == pytest.approx(0.2, abs=1e-6)
    weak = pf.LocationFamily(pf.Gaussian([0.5], [0.01]), [[-0.5]])
    calm = scan(pf.repeated_minimization(problem, environment=weak, start=[0.3]), weak, 60)
    assert calm.final[0] == pytest.approx(0.5 / 1.5, abs=1e-5)
