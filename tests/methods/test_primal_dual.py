"""The framework against closed forms."""

import cvxpy as cp
import jax.numpy as jnp
import numpy as np
import pytest
from scanning import scan

import performative as pf

MATRIX = np.array([[1.0, 0.3], [0.3, 2.0]])


@pytest.mark.parametrize("control", [1.0, 5.0])
def test_a_long_noiseless_run_ends_at_the_regularized_saddle_point(control):
    """Primal and dual against cvxpy: with no noise the iterates settle where PR + λg − ½δη‖λ‖² has its saddle.

    Maximizing over λ ≥ 0 turns that into min PR(θ) + Σ (g_i⁺)²/(2δη), with λ = g⁺/(δη).
    """
    effect = np.array([[0.3, -0.1], [0.2, 0.1]])
    mean, eta = np.array([2.0, 1.5]), 0.05
    constraints = [pf.constraints.Linear(np.ones(2), 0.5), pf.constraints.Quadratic(MATRIX, 0.2)]
    problem = pf.Problem(
        lambda theta, z: -jnp.sum(theta * z) + jnp.sum(theta**2), pf.Box(np.zeros(2), np.ones(2)), constraints
    )
    world = pf.LocationFamily(pf.Gaussian(mean, np.zeros(2)), effect)
    method = pf.oracle(problem, effect=effect, step=eta, control=control, warmup=1)
    run = scan(method, world, 8_000)  # the dual contracts by δη² ≥ 0.0025 a round: 20 times over
    x = cp.Variable(2)
    hessian = np.eye(2) - (effect + effect.T) / 2
    risk = -mean @ x + cp.quad_form(x, hessian)
    penalties = [cp.square(cp.pos(cp.sum(x) - 0.5)), cp.square(cp.pos(cp.quad_form(x, MATRIX) - 0.2))]
    cp.Problem(cp.Minimize(risk + sum(penalties) / (2 * control * eta)), [x >= 0, x <= 1]).solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10
    )
    g = np.array([x.value.sum() - 0.5, x.value @ MATRIX @ x.value - 0.2])
    # A gap of 1e-10 leaves cvxpy's decision within sqrt(2e-10) = 1.5e-5, and g/(δη) within 1.5e-5·|∇g|/(δη) of the truth.
    np.testing.assert_allclose(run.decisions[0, -1], x.value, atol=1.5e-5)
    np.testing.assert_allclose(run.states.multipliers[0], np.maximum(g, 0) / (control * eta), atol=6e-4)
