"""Formulas for the risk of one loss."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf


def test_a_formula_serves_its_own_loss_alone():
    world = pf.LocationFamily(pf.Gaussian([1.0], [1.0]), [[0.5]])
    half = jax.tree_util.Partial(lambda c, theta, z: c * jnp.sum(theta * z), 0.5)
    known = pf.ClosedForm(world, half, lambda theta, where: 0.5 * jnp.sum(theta * (1.0 + 0.5 * where)))
    problem = pf.Problem(half, pf.Box([0.0], [1.0]))
    theta = np.array([0.4])
    assert pf.performative_risk(problem, known, theta) == pytest.approx(pf.performative_risk(problem, world, theta))
    other = pf.Problem(jax.tree_util.Partial(half.func, 0.9), pf.Box([0.0], [1.0]))
    with pytest.raises(ValueError, match="must be the one that the formula is for"):
        pf.performative_risk(other, known, theta)
    with pytest.raises(TypeError, match=r"`world.sample` must be callable"):
        pf.ClosedForm(3, half, half)
