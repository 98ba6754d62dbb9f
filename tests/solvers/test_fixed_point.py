"""Stable points where Newton's method stalls on the way from the last one."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

import performative as pf
from performative.solvers import fixed_point as module
from performative.solvers.fixed_point import fixed_point

PROBLEM = pf.Problem(lambda theta, z: theta[0] * z[0], pf.Box([0.0], [4.0]))
FLAT = 3.0 - (4.0 - 14.8**0.5) / 6.0
"""Where the first slope below is closest to zero without being zero, so that steps toward a zero go nowhere."""


def risk(slope):
    """A risk whose slope at θ is `slope`(θ) on the data of θ."""
    return Partial(lambda theta, where: jnp.sum(0.5 * (theta - where) ** 2 + theta * slope(where[0])))


def test_newton_begins_elsewhere_before_anything_is_repeated(monkeypatch):
    def repeated(*_):
        raise AssertionError("repeated")

    monkeypatch.setattr(module, "repeated", repeated)
    once = risk(lambda where: 0.1 * ((where - 3.0) ** 2 + 0.1) * (where - 1.0))
    stable = fixed_point(PROBLEM, once, np.array([FLAT]), near=True)
    np.testing.assert_allclose(stable.decision, [1.0], atol=1e-6)
    with pytest.raises(AssertionError, match="repeated"):
        fixed_point(PROBLEM, once, np.array([FLAT]))


def test_of_several_stable_points_the_one_at_the_start_is_found():
    thrice = risk(lambda where: (where - 1.0) * (where - 2.0) * (where - 3.0))
    for start in (1.01, 2.99):
        found = fixed_point(PROBLEM, thrice, np.array([start]), near=True)
        np.testing.assert_allclose(found.decision, [round(start)], atol=1e-6)
