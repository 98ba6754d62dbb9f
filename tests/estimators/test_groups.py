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


def by_group(belief):
    """The effects of the two groups on the features."""
    effect = np.asarray(belief.effect)
    p = float(belief.data[2])
    return effect[:2] - p * effect[3:5], effect[:2] + (1.0 - p) * effect[3:5]


def test_each_group_has_its_own_effect():
    method = pf.safe_apda(PROBLEM, start=[0.0, 0.0], samples=200)
    belief = told(method, np.random.default_rng(0), 40, 200).belief
    # 80 samples of noise 1 in a group and deployment, decisions of variance 1/3: an entry has a standard error of
    # 1/√(80·40/3) = 0.03. What changes of the shares make of the mean adds a third.
    for found, true in zip(by_group(belief), EFFECTS, strict=True):
        np.testing.assert_allclose(found, true, atol=0.16)
    np.testing.assert_allclose(belief.effect[5], 0.0, atol=1e-12)  # labels have no contrast


@pytest.mark.slow
def test_deployments_that_lack_a_group_teach_the_other_one_alone():
    """One in two has no sample of the second group: what was known at first of it stands in, and fades."""
    method = pf.safe_apda(PROBLEM, start=[0.0, 0.0], samples=200)
    random = np.random.default_rng(5)
    state = method.init(new_key(0))
    for turn in range(80):
        theta = np.zeros(2) if turn == 0 else random.uniform(-1.0, 1.0, 2)
        state = method.tell(state, theta[None], people(random, theta, 200, 0.0 if turn % 2 else 0.4)[None])
    contrast = np.asarray(state.belief.effect)[3:5]
    np.testing.assert_allclose(contrast, EFFECTS[1] - EFFECTS[0], atol=0.6)


@pytest.mark.slow
def test_an_effect_on_the_label_itself_moves_the_mean_of_the_others():
    """Who buys, buys five; how many buy falls with the price."""
    random = np.random.default_rng(6)

    def day(price, n):
        bought = (random.uniform(size=n) < 0.6 - 0.2 * price[0]).astype(float)
        return np.column_stack([bought, 5.0 * bought + 0.1 * random.normal(size=n)])

    problem = pf.Problem(lambda theta, z: -theta[0] * z[1] + 1e-3 * z[1] ** 4, pf.Box([0.0], [2.0]), dimension=1)
    method = pf.safe_apda(problem, start=[1.0], samples=200)
    state = method.init(new_key(0))
    for turn in range(30):
        price = np.ones(1) if turn == 0 else random.uniform(0.5, 1.5, 1)
        state = method.tell(state, price[None], day(price, 200)[None])
    # −1 = 5·(−0.2); noise 5·0.49, 30 deployments of 200, prices of variance 1/12: 2.45/√(6,000/12) = 0.11.
    assert float(state.belief.mean_effect[1, 0]) == pytest.approx(-1.0, abs=0.4)


@pytest.mark.slow
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
        pooled = jnp.concatenate([state.belief.mean_effect, jnp.zeros((3, 2))])  # no contrasts
        together = method.predicted_risk(state.belief, pooled, jnp.asarray(theta))
    assert float(predicted) == pytest.approx(float(true), rel=0.05)
    assert abs(float(together) - float(true)) > 0.1 * float(true)


def test_without_a_column_of_two_values_there_are_no_groups():
    with precise():
        for samples in (
            np.random.default_rng(0).normal(size=(20, 2)),
            np.column_stack([np.arange(20.0), np.arange(20) < 3]),  # too few of one value
        ):
            groups = Groups.of(jnp.asarray(samples))
            lifted = np.asarray(groups.lifted(jnp.asarray(samples), jnp.ones(2)))
            weights = np.asarray(groups.weights(jnp.asarray(samples), jnp.ones(2)))
            np.testing.assert_array_equal(lifted, np.hstack([samples, np.zeros((20, 2))]))
            np.testing.assert_array_equal(weights, np.stack([np.ones((20, 2)), np.zeros((20, 2))], axis=1))
        assert Groups.of(jnp.array([[0.0, 1.0], [1.0, 2.0]])) is None  # any two samples have two values
        assert Groups.of(jnp.array([[0.0], [1.0]] * 10)) is None  # nothing to split


@pytest.mark.parametrize("share", [0.4, 0.1, 0.0, 1.0])
def test_lifted_data_have_the_mean_and_the_contrast_of_the_groups(share):
    random = np.random.default_rng(2)
    later, expected = people(random, [0.5, -0.5], 100, share), np.array([7.0, 8.0, 0.0])
    with precise():
        groups = Groups.of(jnp.asarray(people(random, np.zeros(2), 100)))
        lifted = np.asarray(groups.lifted(jnp.asarray(later), jnp.asarray(expected)))
    contrast = expected[:2]
    if 0.0 < share < 1.0:
        contrast = np.subtract(*(later[later[:, 2] == label, :2].mean(axis=0) for label in (1, 0)))
    np.testing.assert_allclose(lifted[:, :3], later)
    np.testing.assert_allclose(lifted[:, 3:].mean(axis=0), [*contrast, 0.0], atol=1e-12)


def test_the_noise_of_a_contrast_is_that_of_two_means():
    """Of groups of 3 and 17 samples: v(1/3 + 1/17), v = 1, on average over 4,000 deployments."""
    random = np.random.default_rng(7)
    y = (np.arange(20) < 3).astype(float)
    draws = np.concatenate([random.normal(size=(4_000, 20, 2)), np.broadcast_to(y[:, None], (4_000, 20, 1))], axis=2)
    with precise():
        groups = Groups.of(jnp.asarray(people(random, np.zeros(2), 100)))
        lifted = np.asarray(jax.vmap(lambda z: groups.lifted(z, jnp.zeros(3)))(jnp.asarray(draws)))[:, :, 3:5]
    means = lifted.mean(axis=1)
    shown = lifted.var(axis=1, ddof=1).mean() / 20
    assert means.var() == pytest.approx(1 / 3 + 1 / 17, rel=0.05)  # 8,000 squares: 1.6 %, three of them
    assert shown == pytest.approx(1 / 3 + 1 / 17, rel=0.1)  # and n/(n − 1)


@pytest.mark.slow
def test_what_is_known_of_the_effect_holds_for_the_mean_of_the_groups():
    random = np.random.default_rng(4)
    signs = [[-1, np.nan], [np.nan, -1], [0, 0]]
    method = pf.safe_apda(PROBLEM, start=[0.0, 0.0], samples=50, signs=signs)
    effect = np.asarray(told(method, random, 8, 50).belief.effect)
    assert effect[0, 0] <= 0.0
    assert effect[1, 1] <= 0.0
    assert effect[2].tolist() == [0.0, 0.0]
    assert np.all(np.abs(effect[3:5]) > 0.0)
    assert effect[5].tolist() == [0.0, 0.0]


@pytest.mark.slow
def test_an_error_for_all_entries_says_nothing_of_contrasts():
    method = pf.safe_apda(PROBLEM, start=[0.0, 0.0], samples=200, effect_error=0.01)
    effect = np.asarray(told(method, np.random.default_rng(8), 30, 200).belief.effect)
    assert np.max(np.abs(effect[:2])) < 0.2
    np.testing.assert_allclose(effect[3:5], EFFECTS[1] - EFFECTS[0], atol=0.25)


@pytest.mark.slow
def test_a_history_has_no_groups():
    random = np.random.default_rng(3)
    decisions = random.uniform(-1.0, 1.0, (60, 2))
    samples = np.concatenate([people(random, theta, 1) for theta in decisions])
    method = pf.safe_apda(PROBLEM, start=[0.0, 0.0], samples=100, history=(decisions, samples))
    assert method.init(new_key(0)).belief.groups is None
