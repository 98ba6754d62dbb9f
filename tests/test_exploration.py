"""Exploration: which decisions are deployed around θ_t."""

import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative.numerics.precision import precise

THETA = np.array([0.5, -0.2, 0.1])
NORMALS = np.random.default_rng(0).normal(size=(20, 3))
BOX = pf.Box(np.full(3, -1.0), np.ones(3))


def deployed(part):
    """The decisions (20, b, d) for twenty draws."""
    with precise():
        count = part.normals(3)
        return np.stack([part.decisions(jnp.asarray(row[:count]), jnp.asarray(THETA)) for row in NORMALS])


def test_a_pair_is_the_decision_and_its_probe():
    pairs = deployed(pf.Pair(0.3))
    np.testing.assert_array_equal(pairs[:, 0], np.tile(THETA, (20, 1)))
    np.testing.assert_allclose(pairs[:, 1], THETA + 0.3 * NORMALS, rtol=1e-14)


def test_alone_deploys_the_decision_itself():
    np.testing.assert_array_equal(deployed(pf.Alone()), np.tile(THETA, (20, 1, 1)))


def test_around_stays_in_the_set():
    probes = deployed(pf.Around(2.0, BOX))
    np.testing.assert_allclose(probes[:, 0], np.clip(THETA + 2.0 * NORMALS, -1.0, 1.0), rtol=1e-14)


@pytest.mark.parametrize("both", [False, True])
def test_a_sphere_has_its_radius_on_one_side_or_both(both):
    apart = deployed(pf.Sphere(0.3, both=both)) - THETA
    assert apart.shape == (20, 1 + both, 3)
    np.testing.assert_allclose(np.linalg.norm(apart, axis=-1), 0.3, rtol=1e-12)
    if both:
        np.testing.assert_allclose(apart[:, 0], -apart[:, 1], rtol=1e-9)
