"""The framework and the paper's methods, by hand and against closed forms."""

import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative.numerics.randomness import new_key

D, K, N = 2, 3, 7


MATRIX = np.array([[1.0, 0.3], [0.3, 2.0]])


def loss(theta, z):
    """Quadratic in both, with a product: no term vanishes by accident."""
    return 0.5 * jnp.sum((z[:2] - theta) ** 2) + z[2] * theta[0] + 0.3 * jnp.sum(theta**2)


def gradient_by_hand(theta, base, effect, anticipate):
    z = base + effect @ theta
    in_theta = np.mean(theta - z[:, :2], axis=0) + np.array([np.mean(z[:, 2]), 0.0]) + 0.6 * theta
    in_z = np.mean(np.column_stack([z[:, :2] - theta, np.full(len(z), theta[0])]), axis=0)
    return in_theta + effect.T @ in_z if anticipate else in_theta


def g_by_hand(theta):
    return np.array([theta.sum() - 0.3, theta @ MATRIX @ theta - 0.2])


def jacobian_by_hand(theta):
    return np.stack([np.ones(2), 2 * MATRIX @ theta])


@pytest.fixture(scope="module")
def problem():
    return pf.Problem(
        loss,
        pf.Ball(0.6),
        [pf.constraints.Linear(np.ones(2), 0.3), pf.constraints.Quadratic(MATRIX, 0.2)],
    )


@pytest.mark.parametrize("name", ["apda", "pd_ps", "oracle"])
@pytest.mark.parametrize("samples", [1, 3])
def test_three_rounds_by_hand(problem, name, samples):
    random = np.random.default_rng(1)
    truth = random.normal(size=(K, D))
    eta, delta, start = 0.2, 0.7, np.array([0.3, 0.4])
    options = {"step": eta, "control": delta, "warmup": N, "start": start, "samples": samples}
    if name == "oracle":
        method = pf.oracle(problem, effect=truth, **options)
    else:
        method = getattr(pf, name)(problem, estimation_step=lambda t: 0.5 / (t + 1), **options)

    state = method.init(new_key(0))
    assert int(state.round) == 0
    warm = method.ask(state, new_key(1))
    assert np.array_equal(warm, np.zeros((1, D)))
    assert method.wanted(state) == N
    base = random.normal(size=(N, K))
    state = method.tell(state, warm, base[None])

    theta, lam, largest = start, np.zeros(2), 0.0
    effect = truth if name == "oracle" else np.zeros((K, D))
    for t in (1, 2, 3):
        assert int(state.round) == t
        decisions = np.asarray(method.ask(state, new_key(10 + t)))
        assert np.array_equal(decisions[0], np.asarray(state.decision))
        z = random.normal(size=(len(decisions), samples, K))
        state = method.tell(state, decisions, z)
        if name != "oracle":
            u, change = decisions[1] - decisions[0], z[1].mean(axis=0) - z[0].mean(axis=0)
            effect = effect + 0.5 / (t + 1) * np.outer(change - effect @ u, u)
        gradient = gradient_by_hand(theta, base, effect, anticipate=name != "pd_ps")
        moved = theta - eta * (gradient + jacobian_by_hand(theta).T @ lam)
        lam = np.maximum(lam + eta * (g_by_hand(theta) - delta * eta * lam), 0.0)
        theta = moved * min(1.0, 0.6 / np.linalg.norm(moved))
        np.testing.assert_allclose(state.decision, theta, rtol=0, atol=1e-12)
        np.testing.assert_allclose(state.multipliers, lam, rtol=0, atol=1e-12)
        np.testing.assert_allclose(state.belief.effect, effect, rtol=0, atol=1e-12)
        largest = max(largest, lam.max())
    assert largest > 0  # the dual step was exercised


@pytest.mark.parametrize("control", [1.0, 5.0])
def test_a_long_noiseless_run_ends_at_the_regularised_saddle_point(control):
    """Primal and dual against cvxpy: with no noise the iterates settle where PR + λg − ½δη‖λ‖² has its saddle.

    Maximising over λ ≥ 0 turns that into min PR(θ) + Σ (g_i⁺)²/(2δη), with λ = g⁺/(δη).
    """
    import cvxpy as cp

    effect = np.array([[0.3, -0.1], [0.2, 0.1]])
    mean, eta = np.array([2.0, 1.5]), 0.05
    constraints = [pf.constraints.Linear(np.ones(2), 0.5), pf.constraints.Quadratic(MATRIX, 0.2)]
    problem = pf.Problem(
        lambda theta, z: -jnp.sum(theta * z) + jnp.sum(theta**2), pf.Box(np.zeros(2), np.ones(2)), constraints
    )
    world = pf.LocationFamily(pf.Gaussian(mean, np.zeros(2)), effect)
    method = pf.oracle(problem, effect=effect, step=eta, control=control, warmup=1)
    run = pf.simulate({"oracle": method}, world, rounds=20_000, realizations=1, record=2)
    x = cp.Variable(2)
    hessian = np.eye(2) - (effect + effect.T) / 2
    risk = -mean @ x + cp.quad_form(x, hessian)
    penalties = [cp.square(cp.pos(cp.sum(x) - 0.5)), cp.square(cp.pos(cp.quad_form(x, MATRIX) - 0.2))]
    cp.Problem(cp.Minimize(risk + sum(penalties) / (2 * control * eta)), [x >= 0, x <= 1]).solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10
    )
    g = np.array([x.value.sum() - 0.5, x.value @ MATRIX @ x.value - 0.2])
    # A gap of 1e-10 leaves cvxpy's decision within sqrt(2e-10) = 1.5e-5, and g/(δη) within 1.5e-5·|∇g|/(δη) of the truth.
    np.testing.assert_allclose(run.decision[0, 0, -1], x.value, atol=1.5e-5)
    np.testing.assert_allclose(run.multipliers[0, 0, -1], np.maximum(g, 0) / (control * eta), atol=6e-4)
