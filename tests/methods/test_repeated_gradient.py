"""Repeated gradient descent."""

import jax.numpy as jnp
import numpy as np
from scanning import scan

import performative as pf

EFFECT = np.array([[0.3, 0.1], [0.0, 0.2]])


def loss(theta, z):
    return 0.5 * jnp.sum((theta - z) ** 2)


def setting(bound=5.0, strength=1.0):
    """Mean estimation: PR = ½‖θ − m − Aθ‖² + const; the stable point solves (I − A)θ = m."""
    problem = pf.Problem(loss, pf.Ball(10.0), [pf.constraints.Linear([1.0, 1.0], bound)])
    environment = pf.LocationFamily(pf.Gaussian(np.array([1.0, 0.5]), 0.04 * np.ones(2)), strength * EFFECT)
    return problem, environment


def test_repeated_gradient_descent_diverges_where_the_reaction_is_stronger_than_the_curvature():
    """θ ← θ − η(θ − m − Aθ) grows if A has an eigenvalue above 1; the set stops it."""
    problem, environment = setting(bound=50.0, strength=5.0)
    runs = scan(pf.repeated_gradient(problem, step=0.05), environment, 1_000, runs=3)
    np.testing.assert_allclose(np.linalg.norm(runs.decisions[:, -1], axis=-1), 10.0, rtol=1e-6)
