"""What is expected of an effect before the data say more, and what the user knows of it."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial
from playing import EFFECT, small
from scanning import regret, scan

import performative as pf
from performative.estimators.regression import Regression
from performative.losses import Revenue
from performative.methods.prior import ALIKE, GREATEST, WEAK
from performative.numerics.precision import precise
from performative.numerics.randomness import new_key

PROBLEM = pf.Problem(Revenue(), pf.Box([0.0, 0.0], [5.0, 50.0]))


def told(method, samples):
    return method.tell(method.init(new_key(0)), np.array([[1.0, 10.0]]), samples)


def samples():
    return np.random.default_rng(0).normal([8.0, 80.0], [1.0, 10.0], size=(1, 20, 2))


def test_the_loss_says_which_effects_are_large():
    """Revenue weighs each demand with its own price; all is in units of the data and of the ranges.

    Raised by its own size, a price of which demand loses as much brings no more: the start may be right, and that effect is 1.5
    times the size across the range.
    """
    method = pf.safe_apda(PROBLEM, start=[1.0, 10.0], samples=20)
    state = told(method, samples())
    np.testing.assert_array_equal(np.asarray(state.prior.own), np.eye(2))
    with precise():
        deviations = np.sqrt(np.asarray(state.prior.variances(method.learner, state.belief)))
        size = np.sqrt(np.asarray(state.belief.size))
        means = np.asarray(state.belief.data)
    shares = deviations / size[:, None] * [1.5, 15.0]  # the ranges are 1.5 times the start
    np.testing.assert_allclose(np.diag(shares), 1.5 * means / size, rtol=1e-6)
    np.testing.assert_allclose(shares[[0, 1], [1, 0]], 0.6, rtol=1e-6)  # 0.6 for all others together


def test_what_the_user_knows_takes_the_place_of_the_prior():
    error, signs = [[0.1, np.nan], [np.nan, 0.2]], [[-1, 0], [np.nan, -1]]
    method = pf.safe_apda(PROBLEM, start=[1.0, 10.0], samples=20, effect=-np.eye(2), effect_error=error, signs=signs)
    state = told(method, samples())
    with precise():
        variances = np.asarray(state.prior.variances(method.learner, state.belief))
    np.testing.assert_allclose(np.diag(variances), [0.01, 0.04], rtol=1e-9)
    assert float(state.belief.effect[0, 1]) == 0.0


def test_what_the_user_says_of_an_effect_has_no_rival():
    """Of weak effects, or of cross effects that are alike; these have the same size in all directions, and no word later on."""
    error, signs = [[np.nan, np.nan], [np.nan, 0.2]], [[-1, 0], [np.nan, -1]]
    method = pf.safe_apda(PROBLEM, start=[1.0, 10.0], samples=20, effect=-np.eye(2), effect_error=error, signs=signs)
    state = told(method, samples())
    with precise():
        rivals = state.prior.rivals(method.learner, state.belief, jnp.asarray(0.0))
        size = np.sqrt(np.asarray(state.belief.size))
        late = state.prior.rivals(method.learner, state.belief, jnp.asarray(256.0))
    shares = np.sqrt(np.asarray(rivals.weak)) / size[:, None] * [1.5, 15.0]
    np.testing.assert_allclose(shares, [[WEAK, np.inf], [WEAK, np.inf]], rtol=1e-6)
    np.testing.assert_allclose(rivals.share, [[0.0, 0.0], [ALIKE, 0.0]], rtol=1e-6)
    assert (float(rivals.credit), float(late.credit), np.asarray(late.share).sum()) == (1.0, 0.0, 0.0)


def outgrown(samples, decisions, theta, box):
    """Whether a regression on samples of mean 2 − x₁² at these decisions is outgrown at θ."""
    random, d = np.random.default_rng(0), len(theta)
    method = pf.safe_apda(pf.Problem(Revenue(), box), start=decisions[0], samples=samples)
    state = method.init(new_key(0))
    for x in decisions:
        rows = 2.0 - x[0] ** 2 + random.normal(size=(1, samples, d))
        state = method.tell(state, np.array([x]), rows)
    with precise():
        fit = method.learner.fit(state.belief, state.prior.variances(method.learner, state.belief))
        return bool(state.prior.outgrown(fit.regression, fit.known, np.asarray(theta)))


@pytest.mark.slow
def test_a_chord_says_little_of_the_slope_at_its_end():
    """Its middle has its slope; the end may not, once noise is small against that. One cluster at the end says it all."""
    chord, box = [[0.6], [1.0]], pf.Box([0.0], [5.0])
    assert outgrown(5_000, chord, [1.0], box)
    assert not outgrown(5_000, chord, [0.8], box)
    assert not outgrown(20, chord, [1.0], box)
    assert not outgrown(5_000, [[0.98], [1.02], [1.0]], [1.0], box)


def test_the_slope_of_a_line_is_off_by_the_third_moments():
    """z = x² without noise at decisions that are not symmetric: the error of least squares is that of the formula."""
    x = np.array([0.0, 0.9, 1.0, 1.3])
    slope = np.polyfit(x, x**2, 1)[0]
    apart = x - x.mean()
    off = (apart**3).sum() / (apart**2).sum() + 2 * (x.mean() - 1.2)
    np.testing.assert_allclose(slope - 2 * 1.2, off, rtol=1e-12)
    with precise():
        belief = Regression.of(x[:, None], (x**2)[:, None], np.ones(4), reservoir=None)
    np.testing.assert_allclose(belief.skew, (apart**3).sum(), rtol=1e-12)


@pytest.mark.slow
def test_decisions_on_one_line_and_fixed_coordinates_are_no_reason_to_fade_or_not_to():
    """On one line in two dimensions neither slope is known; a coordinate that cannot vary changes nothing."""
    line = [[0.6 + 0.1 * step, 0.6 + 0.1 * step] for step in range(5)]
    assert not outgrown(200, line, line[-1], pf.Box([0.0, 0.0], [5.0, 5.0]))
    fixed = [[0.6, 0.5], [1.0, 0.5]]
    assert outgrown(5_000, fixed, fixed[-1], pf.Box([0.0, 0.4], [5.0, 0.6]))


@pytest.mark.slow
def test_knowing_the_effect_helps_and_a_wrong_belief_is_unlearned():
    """Twenty runs of 30 deployments: an effect that is nearly known has less regret; with a wide error the data win."""
    problem, environment = small()
    plain, informed, misled = (
        scan(pf.safe_apda(problem, samples=5, **options), environment, 30, runs=20)
        for options in ({}, {"effect": EFFECT, "effect_error": 0.02}, {"effect": -EFFECT, "effect_error": 2.0})
    )
    assert regret(problem, environment, informed) < regret(problem, environment, plain)
    apart = np.abs(np.asarray(misled.states.belief.effect) - EFFECT).mean()
    assert apart < np.abs(2 * EFFECT).mean()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"effect_error": 0.0}, "`effect_error` must be positive, or nan where you cannot say"),
        ({"effect_error": [1.0, 1.0]}, r"`effect_error` must be a number or have shape \(k, 2\), but got \(2,\)"),
        ({"signs": [[-1, 0.5], [0, 1]]}, "`signs` must be -1, 0, 1, or nan where you cannot say"),
        ({"signs": -1}, r"`signs` must have shape \(k, 2\), but got \(\)"),
        ({"effect": np.zeros((2, 2)), "effect_error": np.ones((3, 2))}, r"must have the shape \(2, 2\) of `effect`"),
        (
            {"effect_error": np.ones((3, 2)), "signs": -np.eye(2)},
            r"`signs` must have the shape \(3, 2\) of `effect_error`",
        ),
        ({"signs": [[-1, 0], [0, -1]], "effect": np.eye(2)}, "`effect` must have the signs that `signs` says"),
        ({"signs": [[-1, 0], [0, -1]], "effect": -np.ones((2, 2))}, "`effect` must have the signs that `signs` says"),
    ],
)
def test_knowledge_that_makes_no_sense_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        pf.safe_apda(PROBLEM, **options)


def test_samples_must_have_the_width_of_what_is_known():
    method = pf.safe_apda(PROBLEM, start=[1.0, 10.0], signs=[[-1, 0], [0, -1], [0, 0]])
    with pytest.raises(ValueError, match="`samples` must hold 3 numbers each, like the effect's rows, but got 2"):
        told(method, samples())


def right_today(loss, start, upper=5.0, data=(8.0, 8.0)):
    """The effects (k, d) that would make a start right, in a box from 0 to `upper`."""
    problem = pf.Problem(loss, pf.Box(np.zeros(len(start)), np.full(len(start), upper)))
    method = pf.safe_apda(problem, start=start, samples=2)
    state = method.tell(method.init(new_key(0)), np.array([start]), np.array([[data, data]]))
    return np.asarray(state.prior.today)


def test_the_prior_expects_effects_that_make_the_start_right():
    """A margin m of a product that sells q: at −q/m for each unit of its price, no other price brings more."""
    margins = Revenue(cost=[1.0, 3.0])
    np.testing.assert_allclose(right_today(margins, [2.0, 4.0], data=(8.0, 5.0)), [[8.0, 0.0], [0.0, 5.0]], rtol=1e-9)
    np.testing.assert_allclose(right_today(margins, [2.0, 4.0], 500.0, (8.0, 5.0)), np.diag([8.0, 5.0]), rtol=1e-9)


@pytest.mark.parametrize(
    ("loss", "start"),
    [
        pytest.param(Revenue(), [0.0, 0.0], marks=pytest.mark.slow),  # data do not matter to a price of 0
        pytest.param(  # the data show that 8 is better: no reaction is needed
            lambda theta, z: jnp.sum((theta - z) ** 2), [1.0, 1.0], marks=pytest.mark.slow
        ),
        (
            lambda theta, z: jnp.sum(0.5 * theta - jnp.minimum(theta, z)),
            [0.5, 0.5],
        ),  # the data show that 8 pieces would be sold
    ],
    ids=["nothing", "target", "stock"],
)
def test_a_start_that_the_data_show_to_be_wrong_says_nothing_of_effects(loss, start):
    np.testing.assert_array_equal(right_today(loss, start, 20.0), np.zeros((2, 2)))


def test_units_do_not_change_which_effects_make_the_start_right():
    """Demand in thousands, prices in cents, several data of one price."""

    def loss(factors, theta, z):
        return -jnp.sum(theta / factors[0] * (z[0] / factors[1] + z[1] / factors[2]))

    plain, scaled = (
        right_today(
            Partial(loss, np.array(factors)), [2.0 * factors[0]], 5.0 * factors[0], (8.0 * factors[1], 3.0 * factors[2])
        )
        for factors in ([1.0, 1.0, 1.0], [100.0, 1e-3, 1e4])
    )
    np.testing.assert_allclose(scaled, plain * np.array([[1e-5], [100.0]]), rtol=1e-9)
    assert np.all(plain > 0)


@pytest.mark.parametrize(("scale", "share"), [(1e-3, 1 / 3), (30.0, GREATEST)])
def test_data_make_the_prior_smaller_or_larger_within_limits(scale, share):
    """Effects of nothing, or far larger than expected, seen without noise worth the name; the guess counts as one of three."""
    method = pf.safe_apda(PROBLEM, start=[1.0, 10.0], samples=20)
    state, random = told(method, samples()), np.random.default_rng(1)
    for _ in range(60):
        x = np.array([1.0, 10.0]) * random.uniform(0.5, 1.5, 2)
        means = 80.0 + scale * np.array([[8.0, 0.8], [8.0, 0.8]]) @ (x - [1.0, 10.0])
        state = method.tell(state, [x], means + 1e-3 * random.normal(size=(1, 20, 2)))
    shares = np.asarray(state.prior.squares) / np.array([1.0, 0.36])
    np.testing.assert_allclose(shares, share, rtol=0.01)
