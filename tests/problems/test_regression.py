"""The optimum, risk and constraints of the paper's first problem, against cvxpy."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from numpy_experiments import WARMUP, Regression

import performative as pf
from performative.numerics.precision import precise
from performative.problems import regression


@pytest.mark.parametrize("sensitivity", [1.0, 10.0])
@pytest.mark.parametrize("realization", [0, 1])
def test_regression_optimum_risk_and_constraints_agree_with_cvxpy(realization, sensitivity):
    instance = regression.instance(0, realization, sensitivity, WARMUP)
    world = Regression([instance])
    sigma, beta, mu, bound, active = world.sigma[0], world.beta[0], world.mu[0], world.bound[0], world.active[0]
    assert np.linalg.norm(mu) == pytest.approx(sensitivity, rel=1e-12)
    theta = cp.Variable((10, 3))
    residuals = [cp.sum_squares(np.linalg.cholesky(sigma[i]).T @ (beta[i] - theta[i])) for i in range(10)]
    risk = 0.5 * (sum(residuals) + cp.sum_squares(cp.sum(cp.multiply(mu, theta), axis=1)) + 10)
    pairs = list(zip(world.left, world.right, strict=True))
    close = [cp.sum_squares(theta[i] - theta[j]) - b for (i, j), b in zip(pairs, bound, strict=True)]
    constraints = [g <= 0 for g, on in zip(close, active, strict=True) if on]
    program = cp.Problem(cp.Minimize(risk), constraints)
    program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    best = np.asarray(instance.optimum.decision)
    assert np.allclose(best, world.best.reshape(-1), atol=1e-12)
    assert np.allclose(best, theta.value.reshape(-1), atol=1e-4)
    assert float(instance.optimum.risk) == pytest.approx(program.value, abs=1e-7)

    assert np.all(_values(instance.truth, best) <= 0)
    for point in (best, np.random.default_rng(realization).normal(size=30)):
        theta.value = point.reshape(10, 3)
        assert pf.performative_risk(instance.truth, instance.environment, point) == pytest.approx(risk.value, rel=1e-9)
        expected = [g.value if on else -1.0 for g, on in zip(close, active, strict=True)]
        assert np.allclose(_values(instance.truth, point), expected, atol=1e-12)


def _values(problem, theta):
    with precise():
        return np.asarray(problem.g(theta))
