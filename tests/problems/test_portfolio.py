"""The optimum, risk and constraints of the paper's second problem, against cvxpy."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from numpy_experiments import WARMUP, Portfolio

import performative as pf
from performative.numerics.precision import precise
from performative.problems import portfolio


@pytest.mark.parametrize("sensitivity", [1.0, 10.0])
@pytest.mark.parametrize("realization", [0, 1])
def test_portfolio_optimum_risk_and_constraints_agree_with_cvxpy(realization, sensitivity):
    instance = portfolio.instance(0, realization, sensitivity, WARMUP)
    world = Portfolio([instance])
    effect, mean, covariance = world.effect[0], world.mean[0], world.covariance[0]
    assert np.linalg.norm(effect, 2) == pytest.approx(sensitivity, rel=1e-12)
    theta = cp.Variable(10)
    # −(z̄ + Aθ)ᵀθ + ξ‖θ‖², whose curvature ξI − (A + Aᵀ)/2 is positive semidefinite since ξ = ‖A‖.
    curvature = sensitivity * np.eye(10) - (effect + effect.T) / 2
    risk = -mean @ theta + cp.quad_form(theta, cp.psd_wrap(curvature))

    def g(covariance):
        variance = cp.sum_squares(np.linalg.cholesky(covariance).T @ theta)
        return cp.hstack([cp.sum(theta) - 1, world.spread[0] @ theta - 2, variance - 0.01])

    program = cp.Problem(cp.Minimize(risk), [theta >= 0, theta <= 0.3, g(covariance) <= 0])
    program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    best = np.asarray(instance.optimum.decision)
    assert np.allclose(best, theta.value, atol=1e-5)
    assert float(instance.optimum.risk) == pytest.approx(program.value, abs=1e-7)
    theta.value = instance.start
    assert np.all(g(world.estimated[0]).value <= 1e-12)

    for point in (best, np.random.default_rng(realization).uniform(0, 0.3, size=10)):
        theta.value = point
        assert pf.performative_risk(instance.truth, instance.environment, point) == pytest.approx(risk.value, rel=1e-9)
        assert np.allclose(_values(instance.truth, point), g(covariance).value, atol=1e-12)
        assert np.allclose(_values(instance.problem, point), g(world.estimated[0]).value, atol=1e-12)


def _values(problem, theta):
    with precise():
        return np.asarray(problem.g(theta))
