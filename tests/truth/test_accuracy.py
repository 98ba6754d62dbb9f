"""What quadrature costs a solution: nothing where kinks can be read, an honest estimate and a warning where not."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

import performative as pf


def newsvendor(theta, z):
    return 5 * jnp.maximum(z[0] - theta[0], 0) + 2 * jnp.maximum(theta[0] - z[0], 0) + theta[0]


PROBLEM = pf.Problem(newsvendor, pf.Box([0.0], [400.0]))
WORLD = pf.LocationFamily(pf.Gaussian([100.0], [400.0]), [[0.3]])


@pytest.mark.slow
def test_the_optimum_and_the_stable_point_of_a_newsvendor():
    """PR' = 1 + 0.7(7Φ(k) − 5) and, on frozen data, 1 + 7Φ(k) − 5, with k = (0.7θ − 100)/20."""
    best, stable = pf.performative_optimum(PROBLEM, WORLD), pf.stable_point(PROBLEM, WORLD)
    assert best.decision[0] == pytest.approx((100 + 20 * stats.norm.ppf((5 - 1 / 0.7) / 7)) / 0.7, abs=1e-7)
    assert stable.decision[0] == pytest.approx((100 + 20 * stats.norm.ppf(4 / 7)) / 0.7, abs=1e-7)
    for solution in (best, stable):
        assert solution.scope == "global"
        assert solution.error.decision < 1e-9
        assert solution.error.risk < 1e-9


@pytest.mark.slow
def test_two_newsvendors_whose_demands_are_correlated():
    """Each stock is the quantile of its own demand, m + 0.3 θ."""
    levels, mean, deviation = np.array([0.8, 0.6]), np.array([1.0, 2.0]), np.sqrt([1.0, 2.0])

    def loss(theta, z):
        return jnp.sum(jnp.maximum(levels * (z - theta), (levels - 1) * (z - theta)))

    world = pf.LocationFamily(pf.Gaussian(mean, [[1.0, 0.5], [0.5, 2.0]]), 0.3 * np.eye(2))
    best = pf.performative_optimum(pf.Problem(loss, pf.Box([-9.0, -9.0], [9.0, 9.0])), world)
    np.testing.assert_allclose(best.decision, (mean + deviation * stats.norm.ppf(levels)) / 0.7, atol=1e-8)
    assert best.scope == "global"


def test_a_hinge_loss_along_an_oblique_direction():
    mean, covariance = np.array([1.0, 0.5]), np.array([[1.0, 0.3], [0.3, 2.0]])

    def risk(theta):
        center, deviation = 1 - theta @ mean, np.sqrt(theta @ covariance @ theta)
        ramp = deviation * stats.norm.pdf(center / deviation) + center * stats.norm.cdf(center / deviation)
        return ramp + 0.1 * theta @ theta

    found = optimize.minimize(risk, [0.5, 0.1], tol=1e-14)
    problem = pf.Problem(lambda t, z: jnp.maximum(0.0, 1 - t @ z) + 0.1 * t @ t, pf.Box([-3.0, -3.0], [3.0, 3.0]))
    best = pf.performative_optimum(problem, pf.LocationFamily(pf.Gaussian(mean, covariance), np.zeros((2, 2))))
    np.testing.assert_allclose(best.decision, found.x, atol=1e-5)
    assert best.risk <= found.fun + 1e-12


@pytest.mark.slow
def test_kinks_that_cannot_be_read_have_an_honest_error():
    """E max(|Z₁ − θ₁|, |Z₂ − θ₂|) is least where both are centered, by symmetry.

    A point is found with the usual rounding; with that of quickly compiled programs the solver gives up, and says so.
    """
    world = pf.LocationFamily(pf.Gaussian([1.0, 0.5], [1.0, 2.0]), np.zeros((2, 2)))
    problem = pf.Problem(lambda t, z: jnp.max(jnp.abs(z - t)), pf.Box([-3.0, -3.0], [3.0, 3.0]))
    with pytest.warns(pf.QuadratureWarning, match="the decision must not depend on the nodes") as caught:
        best = pf.performative_optimum(problem, world)
    assert caught[0].filename == __file__
    off = np.linalg.norm(np.asarray(best.decision) - [1.0, 0.5])
    assert 1e-4 < off < 5 * float(best.error.decision)
    assert best.error.decision < 0.1


def test_exact_averages_have_no_error():
    world = pf.LocationFamily(pf.Empirical(np.arange(11.0)), [[0.2]])
    best = pf.performative_optimum(PROBLEM, world)
    assert (float(best.error.decision), float(best.error.risk)) == (0.0, 0.0)
