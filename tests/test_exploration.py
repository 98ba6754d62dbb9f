"""Exploration: which decisions are deployed around θ_t."""

import jax
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


@pytest.mark.parametrize("within", [pf.Box([0.0, 0.0], [1.0, 1.0]), pf.Ball(1.0), pf.Simplex()])
def test_probes_inside_never_leave_the_set(within):
    random = np.random.default_rng(0)
    inside = pf.PairInside(scale=0.7, within=within)
    for _ in range(20):
        theta = np.asarray(within.project(random.normal(size=2)))
        with precise():
            decisions = np.asarray(inside.decisions(jnp.asarray(random.normal(size=2)), jnp.asarray(theta)))
        np.testing.assert_array_equal(decisions[0], theta)
        assert within.contains(decisions[1])


def test_probes_inside_teach_as_much_as_those_of_the_paper_at_a_face():
    """E[uuᵀ] is that of the paper wherever θ + u or θ − u lies in Θ."""
    normals = np.random.default_rng(0).normal(size=(4000, 2))
    inside = pf.PairInside(scale=0.1, within=pf.HalfSpace([1.0, 0.0], 0.0))
    with precise():
        probes = np.asarray(jax.vmap(lambda u: inside.decisions(u, jnp.zeros(2))[1])(jnp.asarray(normals)))
    np.testing.assert_allclose(probes.T @ probes, 0.01 * normals.T @ normals, rtol=1e-12)
    assert np.all(probes[:, 0] <= 1e-15)


@pytest.mark.slow
def test_apda_learns_the_effect_from_probes_inside():
    problem = pf.Problem(lambda theta, z: 0.5 * jnp.sum((theta - z) ** 2), pf.Box([0.0, 0.0], [1.0, 1.0]))
    world = pf.LocationFamily(pf.Gaussian([2.0, 0.5], [0.01, 0.01]), [[0.3, 0.1], [-0.2, 0.4]])
    method = pf.apda(problem, warmup=20, probes="inside", exploration=0.5)
    runs = pf.simulate({"apda": method}, world, rounds=3000, realizations=4)
    assert float(runs.outside.max()) == 0.0
    assert float(runs.estimation_error.isel(t=-1).max()) < 1e-2  # 0.3 before the first round


def test_probes_are_said_by_one_of_two_words():
    problem = pf.Problem(lambda theta, z: 0.5 * jnp.sum((theta - z) ** 2), pf.Box([0.0], [1.0]))
    with pytest.raises(ValueError, match="`probes` must be 'anywhere' or 'inside', but got 'in'"):
        pf.apda(problem, probes="in")
    with pytest.raises(ValueError, match=r"needs a number as `exploration`, but got .*; give performative.PairInside"):
        pf.apda(problem, probes="inside", exploration=pf.Pair(1.0))
