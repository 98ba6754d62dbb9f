"""Lemmas 1 and 2, pointwise."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from scipy.stats import wasserstein_distance
from theorem_model import ACTIVE, model

from performative import theory
from performative.numerics.precision import precise
from performative.problems import regression

seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=40, deadline=None)


@few
@given(seeds)
def test_lemma_1_the_distance_of_two_answers(seed):
    """W₁ of two samples of a location family on the line is the shift, at most σ_max(A)‖θ − θ'‖."""
    random = np.random.default_rng(seed)
    effect, base = random.normal(size=(1, 3)), random.normal(size=500)
    one, other = random.normal(size=(2, 3))
    distance = wasserstein_distance(base + effect[0] @ one, base + effect[0] @ other)
    epsilon = theory.sensitivity(effect)
    assert distance == pytest.approx(abs(effect[0] @ (one - other)), rel=1e-9, abs=1e-12)
    assert distance <= epsilon * np.linalg.norm(one - other) * (1 + 1e-12)


def test_lemma_a1_the_distance_is_the_shift():
    """W₁ of two answers in the plane, by an optimal assignment of 60 samples, is ‖A(θ − θ')‖."""
    random = np.random.default_rng(0)
    effect, base = random.normal(size=(2, 3)), random.normal(size=(60, 2))
    for _ in range(5):
        one, other = random.normal(size=(2, 3))
        costs = np.linalg.norm((base + effect @ one)[:, None] - (base + effect @ other)[None], axis=2)
        distance = costs[linear_sum_assignment(costs)].mean()
        assert distance == pytest.approx(theory.distance(effect, one, other), rel=1e-9)
        assert distance <= theory.sensitivity(effect) * np.linalg.norm(one - other) * (1 + 1e-12)
    mu, shift = np.array([[3.0, 4.0]]), lambda mu, theta: jnp.sum(mu * theta.reshape(1, 2), axis=1)
    assert theory.distance(mu, [1.0, 0.0], [0.0, 0.0], shift) == pytest.approx(3.0)


def test_sensitivity_of_a_structured_effect():
    mu = np.array([[3.0, 4.0], [1.0, 0.0]])
    shift = lambda mu, theta: jnp.sum(mu * theta.reshape(2, 2), axis=1)  # noqa: E731
    assert theory.sensitivity(mu, shift, 4) == pytest.approx(5.0)


def test_the_sensitivity_of_the_regression_is_its_largest_block():
    """Slip 9: the concatenation of the μ_i has norm ε, the map θ ↦ (μ_iᵀθ_i) the norm max‖μ_i‖."""
    environment = regression.instance(0, 0, 10.0, 1000).environment
    mu = np.asarray(environment.effect)
    assert np.linalg.norm(mu) == pytest.approx(10.0)
    largest = np.max(np.linalg.norm(mu, axis=1))
    assert theory.sensitivity(mu, environment.shift, 30) == pytest.approx(largest)


def test_the_regression_loss_is_not_strongly_convex():
    """Slip 14: the Hessian of one task's ½(y − θᵀx)² has rank one in θ and in z."""
    with precise():
        theta, z = (jnp.asarray(np.random.default_rng(0).normal(size=n)) for n in (30, 40))
        for position in (0, 1):
            hessian = np.asarray(jax.jit(jax.hessian(regression.loss, position))(theta, z))
            assert np.linalg.matrix_rank(hessian, tol=1e-9) == regression.TASKS < len(hessian)


@few
@given(seeds)
def test_lemma_2_strong_convexity_of_the_risk(seed):
    """ℓ = ½θᵀPθ + θᵀBz + ½zᵀQz: the Hessian of PR has no eigenvalue below the bound, nor the bound below the printed one."""
    random = np.random.default_rng(seed)
    d, k = random.integers(1, 5, size=2)
    p, q = ((lambda m: m @ m.T + 0.5 * np.eye(len(m)))(random.normal(size=(n, n))) for n in (d, k))
    mixed, effect = random.normal(size=(d, k)), random.normal(size=(k, d))
    hessian = p + mixed @ effect + effect.T @ mixed.T + effect.T @ q @ effect
    values = np.linalg.svd(effect, compute_uv=False)
    least = 0.0 if k < d else values[-1]
    arguments = (np.linalg.eigvalsh(p)[0], np.linalg.eigvalsh(q)[0], np.linalg.norm(mixed, 2), values[0], least)
    bound, printed = theory.risk_convexity(*arguments), theory.risk_convexity(*arguments, as_printed=True)
    assert np.linalg.eigvalsh(hessian)[0] >= bound - 1e-9 * abs(bound)
    assert bound >= printed - 1e-9 * abs(printed)


def test_lemma_2_smoothness_of_the_whole_loss_leaves_nothing():
    """γ_θ − β²/γ_Z > 0 is impossible if β bounds all second derivatives, as then γ_θ, γ_Z ≤ β."""
    random = np.random.default_rng(0)
    for _ in range(100):
        matrix = random.normal(size=(4, 4))
        whole = matrix @ matrix.T + 0.1 * np.eye(4)
        beta = np.linalg.eigvalsh(whole)[-1]
        in_theta, in_data = np.linalg.eigvalsh(whole[:2, :2])[0], np.linalg.eigvalsh(whole[2:, 2:])[0]
        assert in_theta - beta**2 / in_data <= 0


def test_assumption_1_can_be_met_with_the_smoothness_of_one_gradient():
    """Slip 18: ½θ² + 0.3θz + 2z² has γ_θ = 1, γ_Z = 4 and ∇_θℓ = θ + 0.3z, whose β is √1.09."""
    hessian = np.array([[1.0, 0.3], [0.3, 4.0]])
    of_decisions = np.linalg.norm(hessian[0])
    assert of_decisions < 1.05
    assert hessian[0, 0] - of_decisions**2 / hessian[1, 1] > 0
    assert hessian[0, 0] - np.linalg.norm(hessian, 2) ** 2 / hessian[1, 1] < 0  # of the whole loss


@pytest.fixture(scope="module")
def risk():
    """PR of the model, compiled once."""
    problem, environment, _ = model(ACTIVE)
    with precise():
        return jax.jit(environment.risk(problem))


@few
@given(seeds)
def test_lemma_2_lipschitz_risk(risk, seed):
    constants = model(ACTIVE)[2]
    random = np.random.default_rng(seed)
    one, other = (point / max(1.0, np.linalg.norm(point)) for point in random.normal(size=(2, 3)))
    with precise():
        apart = abs(float(risk(one)) - float(risk(other)))
    composed = theory.risk_lipschitz(constants.loss_lipschitz, constants.data_lipschitz, constants.sensitivity)
    assert apart <= constants.lipschitz * np.linalg.norm(one - other) * (1 + 1e-9)
    assert constants.lipschitz <= composed
