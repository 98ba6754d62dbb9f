"""Problems that are not convex are recognized as such."""

import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf


def mean_estimation(theta, z):
    return 0.5 * jnp.sum((z - theta) ** 2)


@pytest.mark.slow
def test_a_non_convex_problem_says_so():
    world = pf.LocationFamily(pf.Gaussian([1.0, 0.5], [0.1, 0.1]), 3.0 * np.eye(2))
    problem = pf.Problem(lambda t, z: -jnp.sum(z * t) + jnp.sum(t**2), pf.Box(np.zeros(2), np.ones(2)))
    optimum = pf.performative_optimum(problem, world)  # Hessian 2I − 2·3I
    assert optimum.local
    assert "not convex" in optimum.message
    bent = pf.Problem(mean_estimation, pf.Ball(2.0), lambda theta: 0.25 - jnp.sum(theta**2), dimension=2)
    optimum = pf.performative_optimum(
        bent, pf.LocationFamily(pf.Gaussian([0.1, 0.0], [1.0, 1.0]), np.zeros((2, 2))), start=[0.6, 0.1]
    )
    assert optimum.local
    assert "constraint g1 is not convex" in optimum.message


def test_a_risk_with_downward_kinks_is_not_convex_and_solved_from_several_starts():
    """E of −|θ − z| has no curvature anywhere; its least value on [−3, 3] is at −3."""
    world = pf.LocationFamily(pf.Empirical([-0.5, -0.4, 5.0]), [[0.0]])
    problem = pf.Problem(lambda t, z: -jnp.sum(jnp.abs(t - z)), pf.Box([-3.0], [3.0]))
    for start in (None, [3.0], [1.0]):
        optimum = pf.performative_optimum(problem, world, start=start)
        np.testing.assert_allclose(optimum.decision, [-3.0], atol=1e-9)
        assert optimum.risk == pytest.approx(-13.1 / 3)
        assert optimum.local
        assert "not convex" in optimum.message
        assert "9 starts" in optimum.message


def test_a_constraint_with_downward_kinks_is_not_convex():
    problem = pf.Problem(mean_estimation, pf.Box([-3.0, -3.0], [3.0, 3.0]), lambda t: 1 - jnp.sum(jnp.abs(t)))
    world = pf.LocationFamily(pf.Gaussian([0.1, 0.3], np.eye(2)), np.zeros((2, 2)))
    optimum = pf.performative_optimum(problem, world)
    assert optimum.local
    assert "constraint g1 is not convex" in optimum.message
    np.testing.assert_allclose(optimum.decision, [0.4, 0.6], atol=1e-6)  # the nearest point of |θ₁| + |θ₂| = 1
    kinked = pf.Problem(mean_estimation, pf.Box([-3.0, -3.0], [3.0, 3.0]), lambda t: jnp.sum(jnp.abs(t)) - 1)
    assert not pf.performative_optimum(kinked, world).local


@pytest.mark.slow
def test_a_large_unit_hides_no_small_curvature():
    """1e6·θ₁² − 1e-4·θ₂² + θ₂/10 is −38000 at (0, 20000), and −11000 at (0, −10000), which is a KKT point too."""
    problem = pf.Problem(
        lambda t, z: 1e6 * t[0] ** 2 - 1e-4 * t[1] ** 2 + 0.1 * t[1] + z[0], pf.Box([-1e4, -1e4], [1e4, 2e4])
    )
    world = pf.LocationFamily(pf.Gaussian([0.0, 0.0], np.eye(2)), np.zeros((2, 2)))
    assert pf.performative_optimum(problem, world, start=[0.0, 15000.0]).risk == pytest.approx(-38000.0)
    for start in (None, [0.0, 15000.0]):
        optimum = pf.performative_optimum(problem, world, start=start)
        assert optimum.local
        assert "not convex: its Hessian has the eigenvalue -0.0002" in optimum.message
    bent = pf.Problem(mean_estimation, pf.Ball(2.0), lambda t: 1e12 * t[0] ** 2 - 1e-2 * t[1] ** 2 - 1.0, dimension=2)
    assert "constraint g1 is not convex" in pf.performative_optimum(bent, world).message


def test_curvature_that_cancels_up_to_rounding_proves_and_refutes_nothing():
    """−θᵀ(z + Aθ) + θᵀAθ = −θᵀz is linear, though its Hessian, averaged over nodes, has eigenvalues like −1e-17."""
    effect = 0.2 * np.random.default_rng(0).normal(size=(4, 4))
    world = pf.LocationFamily(pf.Gaussian(np.ones(4), np.eye(4)), effect)
    problem = pf.Problem(lambda t, z: -t @ z + t @ jnp.asarray(effect) @ t, pf.Ball(2.0))
    optimum = pf.performative_optimum(problem, world)
    np.testing.assert_allclose(optimum.decision, np.ones(4), atol=1e-9)
    assert optimum.message.startswith("global")
