"""Base distributions."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative.numerics.precision import precise


def test_blocks_of_three_by_three_fill_the_full_covariance():
    blocks = np.stack([np.eye(3) * (i + 1) for i in range(2)])
    with precise():
        full = np.asarray(pf.Gaussian(np.zeros(6), blocks).full_covariance())
    np.testing.assert_array_equal(full, np.diag([1.0, 1.0, 1.0, 2.0, 2.0, 2.0]))


def test_an_empirical_base_is_averaged_exactly_for_any_loss():
    samples = np.random.default_rng(4).normal(size=(30, 1))
    problem = pf.Problem(lambda theta, z: jnp.logaddexp(0.0, -z[0] * theta[0]), pf.Box([-5.0], [5.0]))
    environment = pf.LocationFamily(pf.Empirical(samples), [[0.5]])
    expected = np.mean(np.logaddexp(0.0, -(samples + 0.5 * 0.7) * 0.7))
    assert pf.performative_risk(problem, environment, [0.7]) == pytest.approx(expected, rel=1e-13)
