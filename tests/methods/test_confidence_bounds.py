"""Performative confidence bounds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scanning import scan

import performative as pf
from performative.numerics.precision import precise
from performative.numerics.randomness import new_key


def loss(theta, z):
    return 0.5 * jnp.sum((theta - z) ** 2)


def test_confidence_bounds_find_the_best_arm_of_a_risk_that_is_not_convex():
    """PR(θ) = θf(θ) with two valleys on [−1, 1]; L is the steepest slope of the mean in θ."""
    problem = pf.Problem(lambda theta, z: jnp.sum(theta * z), pf.Box([-1.0], [1.0]), lambda theta: theta[0] - 0.9)
    environment = pf.ParametricFamily(pf.Normal(0.01), lambda theta: jnp.sin(6.0 * theta))
    method = pf.confidence_bounds(problem, sensitivity=6.0, arms=41, samples=2)
    runs = scan(method, environment, 3_000, runs=5)
    assert np.max(method.arms) <= 0.9
    assert np.max(runs.every) <= 0.9
    arms = method.arms[:, 0]
    excess = runs.decisions[..., 0] * np.sin(6 * runs.decisions[..., 0]) - np.min(arms * np.sin(6 * arms))
    assert np.all(excess[:, -1] <= 0.02), runs.decisions[:, -1]
    assert excess.mean() < 0.2 * excess[:, :100].mean()


def test_confidence_bounds_hold_where_losses_are_noisy_and_one_arm_has_none():
    """ℓ = 10θz with z ∼ N(−0.2, 1): at θ = 0 the loss is constant, and must not lend its certainty to the others.

    50 realizations × 300 rounds; the optimum θ = 1 is ruled out for good in none, and its bound lies above its risk in at
    most 5% of all rounds.
    """
    problem = pf.Problem(lambda theta, z: 10.0 * jnp.sum(theta * z), pf.Box([0.0], [1.0]))
    environment = pf.LocationFamily(pf.Gaussian([-0.2], [1.0]), [[0.0]])
    method = pf.confidence_bounds(problem, sensitivity=0.1, arms=11, samples=2)
    with precise():

        def one(key):
            def turn(state, key):
                z = environment.sample(key, state.decision, 2)
                state = method.tell(state, state.decision[None], z[None])
                return state, (method.lower_bounds(state.belief, state.round), state.decision[0])

            return jax.lax.scan(turn, method.init(key), jax.random.split(key, 300))[1]

        bounds, decisions = jax.jit(jax.vmap(one))(jax.random.split(new_key(5), 50))
    truth = -2.0 * method.arms[:, 0]
    assert np.mean(np.asarray(bounds)[:, :, -1] > truth[-1]) <= 0.05
    assert np.all(np.max(np.asarray(decisions)[:, -100:], axis=1) > 0.5)


@pytest.mark.parametrize(
    ("decisions", "low", "high"),
    [
        (pf.Ball(0.1, [1.0, 1.0]), 0.9, 1.1),
        (pf.Simplex(2), 0.0, 1.0),
        (pf.Box([10.0, 10.0], [11.0, 11.0]), 10.0, 11.0),
    ],
)
def test_the_arms_cover_any_bounded_set(decisions, low, high):
    arms = pf.confidence_bounds(pf.Problem(loss, decisions), sensitivity=1.0, arms=10).arms
    assert len(arms) >= 10
    assert all(decisions.contains(arm) for arm in arms)
    np.testing.assert_allclose([arms.min(), arms.max()], [low, high], atol=1e-3)
