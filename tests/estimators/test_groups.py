from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative.estimators.groups import Groups
from performative.numerics.precision import precise
from performative.numerics.randomness import new_key

EFFECTS = np.array([[[0.5, 0.0], [0.0, 0.0]], [[-1.0, 0.3], [0.2, -2.0]]])
"""Of the group labeled 0, and of the one labeled 1."""


def loss(theta, z):
    """Logistic, of a score of two features; the third number is the label."""
    score = theta @ z[:2]
    return jnp.logaddexp(0.0, score) - z[2] * score + 0.05 * theta @ theta


PROBLEM = pf.Problem(loss, pf.Box([-2.0, -2.0], [2.0, 2.0]))


def people(random, theta, n, share=0.4, spread=1.0):
    """Features of two groups, each of which moves with its own effect, and labels."""
    y = (random.uniform(size=n) < share).astype(int)
    x = np.array([[0.0, 1.0], [2.0, -1.0]])[y] + EFFECTS[y] @ np.asarray(theta) + spread * random.normal(size=(n, 2))
    return np.column_stack([x, y])


def told(method, random, rounds, n, spread=1.0):
    state = method.init(new_key(0))
    for turn in range(rounds):
        theta = np.zeros(2) if turn == 0 else random.uniform(-1.0, 1.0, 2)
        state = method.tell(state, theta[None], people(random, theta, n, spread=spread)[None])
    return state


def test_each_group_has_its_own_effect():
    random = np.random.default_rng(0)
    method = pf.safe_apda(PROBLEM, start=[0.0, 0.0], samples=200)
    state = told(method, random, 40, 200)
    groups, effect = state.belief.groups, np.asarray(state.belief.effect)
    p = float(groups.share)
    mean, contrast = effect[:2], effect[3:5]
    # 80 samples of noise 1 in a group and deployment, decisions of variance 1/3: an entry has a standard error of
    # 1/√(80·40/3) = 0.03; four of them.
    np.testing.assert_allclose(mean + (1.0 - p) * contrast, EFFECTS[1], atol=0.12)
    np.testing.assert_allclose(mean - p * contrast, EFFECTS[0], atol=0.12)
    np.testing.assert_allclose(effect[5], 0.0, atol=1e-12)  # labels have no contrast


def test_predicted_data_move_with_their_group():
    """The risk that is predicted at another decision is that of new samples there."""
    random = np.random.default_rng(1)
    method = pf.safe_apda(PROBLEM, start=[0.0, 0.0], samples=200, reservoir=2_000)
    state = told(method, random, 40, 200)
    theta = np.array([1.0, 0.8])
    new = people(random, theta, 100_000)
    with precise():
        predicted = method.predicted_risk(state.belief, state.belief.effect, jnp.asarray(theta))
        true = jnp.mean(jax.vmap(lambda z: loss(jnp.asarray(theta), z))(jnp.asarray(new)))
        pooled = jnp.concatenate([state.belief.mean_effect, jnp.zeros((3, 2))])
        together = method.predicted_risk(state.belief, pooled, jnp.asarray(theta))
    assert float(predicted) == pytest.approx(float(true), rel=0.05)
    assert abs(float(together) - float(true)) > 0.1 * float(true)


@pytest.mark.parametrize(
    "samples",
    [
        np.random.default_rng(0).normal(size=(20, 2)),
        np.array([[0.0, 1.0], [1.0, 2.0]]),  # any two samples have two values
        np.column_stack([np.arange(20.0), np.arange(20) < 3]),  # too few of one value
    ],
)
def test_without_a_column_of_two_values_there_are_no_groups(samples):
    with precise():
        groups = Groups.of(jnp.asarray(samples))
        assert float(jnp.sum(groups.split)) == 0.0
        lifted = np.asarray(groups.lifted(jnp.asarray(samples)))
        weights = np.asarray(groups.weights(jnp.asarray(samples)))
    k = samples.shape[1]
    np.testing.assert_array_equal(lifted[:, :k], samples)
    np.testing.assert_array_equal(lifted[:, k:], 0.0)
    np.testing.assert_array_equal(weights[:, 0], 1.0)
    np.testing.assert_array_equal(weights[:, 1], 0.0)


@pytest.mark.parametrize("share", [0.4, 0.1, 0.0, 1.0])
def test_lifted_data_have_the_mean_and_the_contrast_of_the_groups_whatever_their_shares(share):
    random = np.random.default_rng(2)
    later = people(random, [0.5, -0.5], 100, share)
    with precise():
        groups = Groups.of(jnp.asarray(people(random, np.zeros(2), 100)))
        lifted = np.asarray(groups.lifted(jnp.asarray(later))).mean(axis=0)
    one, two = (
        later[later[:, 2] == label, :2].mean(axis=0)
        if np.any(later[:, 2] == label)
        else np.asarray(groups.means)[label, :2]
        for label in (0, 1)
    )
    p = float(groups.share)
    np.testing.assert_allclose(lifted[:2], p * two + (1.0 - p) * one)
    np.testing.assert_allclose(lifted[3:5], two - one)
    assert lifted[2] == pytest.approx(later[:, 2].mean())
    assert lifted[5] == 0.0


def test_a_history_is_learned_by_group_like_deployments():
    random = np.random.default_rng(3)
    decisions = np.repeat(random.uniform(-1.0, 1.0, (30, 2)), 100, axis=0)
    samples = np.concatenate([people(random, theta, 100) for theta in decisions[::100]])
    method = pf.safe_apda(PROBLEM, start=[0.0, 0.0], samples=100, history=(decisions, samples))
    belief = method.init(new_key(0)).belief
    p = float(belief.groups.share)
    effect = np.asarray(belief.effect)
    # 40 samples in the smaller group and deployment: 4/√(40·30/3) = 0.2.
    np.testing.assert_allclose(effect[:2] + (1.0 - p) * effect[3:5], EFFECTS[1], atol=0.2)
    np.testing.assert_allclose(effect[:2] - p * effect[3:5], EFFECTS[0], atol=0.2)
    assert belief.reservoir.shape[1] == 2 + 3


def test_what_is_known_of_the_effect_holds_for_the_mean_of_the_groups():
    random = np.random.default_rng(4)
    signs = [[-1, np.nan], [np.nan, -1], [0, 0]]
    method = pf.safe_apda(PROBLEM, start=[0.0, 0.0], samples=50, signs=signs)
    effect = np.asarray(told(method, random, 8, 50).belief.effect)
    assert effect[0, 0] <= 0.0
    assert effect[1, 1] <= 0.0
    assert effect[2].tolist() == [0.0, 0.0]
    assert np.all(np.abs(effect[3:5]) > 0.0)
