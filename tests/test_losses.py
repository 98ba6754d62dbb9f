"""Losses by name: what they compute, and what they refuse."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative import losses
from performative.numerics.precision import precise

THETA, X = np.array([0.5, -1.0]), np.array([2.0, 3.0])
SCORE = THETA @ X
BY_HAND = {
    "squared error": (losses.SquaredError(0.4), [*X, 1.0], 0.5 * (1 - SCORE) ** 2 + 0.2 * (THETA @ THETA)),
    "revenue": (losses.Revenue([1.0, 2.0]), X, -(THETA - [1.0, 2.0]) @ X),
    "portfolio": (losses.PortfolioReturn(2.0), X, -SCORE + 2.0 * (THETA @ THETA)),
    "logistic": (losses.Logistic(0.4), [*X, 1.0], np.log(1 + np.exp(-SCORE)) + 0.2 * (THETA @ THETA)),
    "pinball": (losses.Pinball(0.7), X, 0.7 * (1.5 + 4.0)),
    "smooth pinball": (losses.Pinball(0.7, smoothing=1e-3), X, 0.7 * (1.5 + 4.0)),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_losses_by_hand(name):
    loss, sample, expected = BY_HAND[name]
    with precise():
        np.testing.assert_allclose(loss(jnp.asarray(THETA), jnp.asarray(sample)), expected, rtol=1e-12)


@pytest.mark.parametrize("name", BY_HAND)
def test_samples_of_another_length_are_refused(name):
    loss, sample, _ = BY_HAND[name]
    with pytest.raises(ValueError, match=rf"a sample must have shape \({len(sample)},\), .*, but got shape"):
        jax.eval_shape(loss, jnp.zeros(2), jnp.zeros(len(sample) + 1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: losses.SquaredError(-1.0), "`ridge >= 0` must hold, but got ridge=-1.0"),
        (lambda: losses.Logistic(-1.0), "`ridge >= 0` must hold, but got ridge=-1.0"),
        (lambda: losses.PortfolioReturn(-1.0), "`aversion >= 0` must hold"),
        (lambda: losses.Pinball(1.0), "`0 < level < 1` must hold, but got level=1.0"),
        (lambda: losses.Pinball(smoothing=-1.0), "`smoothing >= 0` must hold"),
        (lambda: losses.Revenue(float("nan")), "`cost` must be finite"),
    ],
)
def test_bad_numbers_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_smooth_pinball_loss_approaches_the_sharp_one_from_above():
    with precise():
        theta, z = jnp.asarray([1.0]), jnp.asarray([1.3])
        sharp = float(losses.Pinball(0.7)(theta, z))
        smooth = [float(losses.Pinball(0.7, smoothing=s)(theta, z)) for s in (0.1, 0.01)]
        assert smooth[0] > smooth[1] >= sharp
        assert smooth[1] == pytest.approx(sharp, abs=1e-12)


@pytest.mark.parametrize(
    "loss",
    [
        losses.Pinball(0.8, smoothing=0.05),
        pytest.param(losses.SquaredError(0.1), marks=pytest.mark.slow),
        pytest.param(losses.Logistic(0.1), marks=pytest.mark.slow),
    ],
)
@pytest.mark.slow
def test_smooth_losses_suit_safe_apda(loss):
    width = 1 if isinstance(loss, losses.Pinball) else 2
    method = pf.safe_apda(pf.Problem(loss, pf.Ball(2.0), dimension=1))
    state = method.init(jax.random.key(0))
    for t in range(3):
        decisions = method.ask(state, jax.random.key(t))
        state = method.tell(state, decisions, np.full((1, 1, width), 0.5 + t))
    assert np.all(np.isfinite(state.decision))
