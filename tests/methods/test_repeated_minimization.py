"""Repeated risk minimization."""

import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf


def loss(theta, z):
    return 0.5 * jnp.sum((theta - z) ** 2)


def last(runs, name):
    return runs["decision"].sel({"algorithm": name}).isel(t=-1).mean("realization").values


def test_repeated_minimization_circles_where_the_reaction_is_strong():
    """θ ← m + aθ with a = −1.5 jumps from end to end of Θ though the stable point m/(1 − a) is there; the optimum is missed."""
    problem = pf.Problem(loss, pf.Box([-2.0], [2.0]))
    environment = pf.LocationFamily(pf.Gaussian([0.5], [0.01]), [[-1.5]])
    method = pf.repeated_minimization(problem, environment=environment, start=[0.3])
    runs = pf.simulate({"rrm": method}, environment, rounds=60, realizations=1, record=range(1, 61))
    path = runs["decision"].isel({"algorithm": 0, "realization": 0, "coordinate": 0}).values
    np.testing.assert_allclose(path[:3], [0.3, 0.5 - 1.5 * 0.3, 0.5 - 1.5 * 0.05], atol=1e-6)
    np.testing.assert_allclose(np.abs(path[-6:]), 2.0, atol=1e-6)
    assert np.all(path[-6:-1] * path[-5:] < 0)
    assert float(pf.stable_point(problem, environment).decision[0]) == pytest.approx(0.2, abs=1e-6)
    weak = pf.LocationFamily(pf.Gaussian([0.5], [0.01]), [[-0.5]])
    calm = pf.simulate({"rrm": pf.repeated_minimization(problem, environment=weak)}, weak, rounds=40)
    assert last(calm, "rrm")[0] == pytest.approx(0.5 / 1.5, abs=1e-5)
