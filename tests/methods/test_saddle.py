"""Descent and ascent to an equilibrium."""

import jax.numpy as jnp
import numpy as np
from scanning import scan

import performative as pf


def saddle_setting(constraints=None):
    """φ = ½x² − ½y² + xy + z₁x + z₂y with z = m + A(x, y): ∇φ frozen is linear, and its root a linear system."""
    effect, mean = np.array([[0.2, -0.1], [0.3, 0.1]]), np.array([0.5, -0.4])
    problem = pf.Problem(
        lambda theta, z: 0.5 * theta[0] ** 2 - 0.5 * theta[1] ** 2 + theta[0] * theta[1] + jnp.sum(z * theta),
        pf.Box([-5.0, -5.0], [5.0, 5.0]),
        constraints,
    )
    environment = pf.LocationFamily(pf.Gaussian(mean, 0.01 * np.ones(2)), effect)
    return problem, environment, np.linalg.solve(np.array([[1.0, 1.0], [1.0, -1.0]]) + effect, -mean)


def test_a_constraint_on_the_maximizer_moves_the_equilibrium():
    """y ≥ −0.3 binds, as the equilibrium has y = −0.502; then ∂φ/∂x = 0 gives x = −(m₁ + (1 + A₁₂)y)/(1 + A₁₁)."""
    problem, environment, root = saddle_setting([pf.constraints.Linear([0.0, -1.0], 0.3)])
    assert root[1] < -0.5
    runs = scan(pf.saddle(problem, ascending=[1], step=0.01, samples=10), environment, 1_500, runs=5)
    np.testing.assert_allclose(runs.final, [-(0.5 - 0.9 * 0.3) / 1.2, -0.3], atol=0.02)


def test_saddle_descent_and_ascent_meet_at_the_equilibrium():
    problem, environment, root = saddle_setting()
    runs = scan(pf.saddle(problem, ascending=[1], step=0.01, samples=10), environment, 1_500, runs=5)
    np.testing.assert_allclose(runs.final, root, atol=0.02)
    descent = scan(pf.repeated_gradient(problem, step=0.01), environment, 1_000)
    assert np.linalg.norm(descent.final - root) > 1.0  # descending in both runs away
