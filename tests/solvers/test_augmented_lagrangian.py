"""The solver inside compiled loops, against cvxpy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative.numerics.precision import precise
from performative.solvers import augmented_lagrangian as solver


def loss(theta, z):
    return 0.5 * jnp.sum((theta - z) ** 2)


@pytest.mark.parametrize("scales", [(1.0, 1.0, 1.0), (1.0, 100.0, 1.0), (1e-3, 1.0, 1e3)])
@pytest.mark.parametrize("decisions", [pf.Box(-5.0 * np.ones(3), 5.0 * np.ones(3)), pf.Ball(2.0, np.zeros(3))])
def test_the_solver_of_the_loop_agrees_with_cvxpy(scales, decisions):
    """Random quadratics under three rows of unlike units, from a cold start and from its own answer."""
    import cvxpy as cp

    random = np.random.default_rng(0)
    solve = jax.jit(
        lambda problem, c, p, theta, lam: solver.minimize(
            problem, lambda theta: 0.5 * theta @ (c @ theta) - p @ theta, theta, lam, 5.0
        )
    )
    for _ in range(4):
        root = random.normal(size=(3, 3))
        curvature, pull = root @ root.T + 0.3 * np.eye(3), 3.0 * random.normal(size=3)
        rows = random.normal(size=(3, 3)) * np.asarray(scales)[:, None]
        bounds = 0.3 * np.abs(random.normal(size=3)) * scales
        problem = pf.Problem(loss, decisions, [pf.constraints.Linear(rows, bounds)])
        variable = cp.Variable(3)
        objective = 0.5 * cp.quad_form(variable, cp.psd_wrap(curvature)) - pull @ variable
        cp.Problem(cp.Minimize(objective), [*decisions.declare(variable), rows @ variable <= bounds]).solve(
            solver="CLARABEL"
        )
        with precise():
            cold = solve(problem, curvature, pull, jnp.zeros(3), jnp.zeros(3))
            warm = solve(problem, curvature, pull, *cold)
        np.testing.assert_allclose(cold.decision, variable.value, atol=1e-4)
        np.testing.assert_allclose(warm.decision, variable.value, atol=1e-4)
