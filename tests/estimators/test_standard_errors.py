"""Standard errors against the truth, over many runs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from playing import EFFECT, play, small, standard_errors
from scanning import scan

import performative as pf
from performative.estimators.prediction import Prediction
from performative.estimators.regression import LeastSquares, Regression
from performative.estimators.standard_errors import _estimated, confidence, errors_of_line
from performative.numerics.precision import precise
from performative.numerics.pytrees import callable_node
from performative.shifts import apply_effect


def estimates(method, runs, reference, draws):
    """Effect, risk and gain over `reference` with their standard errors, of each run."""

    def estimated(state):
        at = (state.belief, state.decision, jnp.asarray(reference))
        return _estimated(method.learner, method.prediction, *at, draws)

    with precise():
        return [np.asarray(part) for part in jax.jit(jax.vmap(estimated))(runs.states)]


@pytest.mark.slow
def test_standard_errors_cover_the_truth_across_a_constraint_that_binds():
    """There little is explored, and the prior lasts; 200 runs, 9 entries each, so that 95% are known to about 1%."""
    effect = np.array([[-1.6, 0.3, 0.2], [0.3, -1.4, 0.2], [0.2, 0.2, -1.2]])
    market = pf.LocationFamily(pf.Gaussian([9.0, 8.0, 7.0], np.full(3, 0.25)), effect)
    budget = pf.constraints.Linear(np.ones(3), 9.0)
    problem = pf.Problem(lambda theta, z: -jnp.sum((theta - 1.0) * z), pf.Box(np.ones(3), np.full(3, 6.0)), [budget])
    method = pf.safe_apda(problem, start=[2.0, 2.0, 2.0], samples=20)
    estimate, error, *_ = estimates(method, scan(method, market, 60, runs=200), method.start, draws=10)
    apart = (estimate - effect) / error
    assert 0.92 <= np.mean(np.abs(apart) <= 1.96) <= 0.98
    assert np.all(np.abs(apart.mean(axis=0)) < 0.35)  # of 200 runs: five standard errors


@pytest.mark.slow
def test_standard_errors_cover_the_truth():
    """Nominal 95% intervals of the effect, the risk at θ_t and the gain, over 200 runs: 88 to 99% hold it.

    With 200 runs the standard error of a coverage of 95% is 1.5%; learning moves decisions, which costs a little more.
    """
    problem, environment = small()
    method = pf.safe_apda(problem, exploration=2.0)
    runs = scan(method, environment, 300, runs=200)
    effect, effect_error, risk, risk_error, gain, gain_error = estimates(method, runs, method.start, draws=300)
    with precise():
        true_risk = environment.risk(problem)
        risks = np.asarray(jax.vmap(true_risk)(runs.states.decision))
        gains = float(true_risk(jnp.asarray(method.start))) - risks
    for name, value, error, true in (
        ("effect", effect, effect_error, EFFECT),
        ("risk", risk, risk_error, risks),
        ("gain", gain, gain_error, gains),
    ):
        covered = np.mean(np.abs(value - true) <= 1.96 * error)
        assert 0.88 <= covered <= 0.99, (name, covered)


@pytest.mark.slow
def test_a_reservoir_is_as_sure_as_what_it_holds():
    """The risk averaged over a reservoir of 50 samples has the error of 50, not of all samples."""
    loss = lambda theta, z: jnp.sum((theta - z) ** 2) + 1e-3 * jnp.sum(z**4)  # noqa: E731
    problem = pf.Problem(loss, pf.Ball(4.0), dimension=1)
    environment = pf.LocationFamily(pf.Gaussian([1.0], [0.5]), [[0.3]])
    method = pf.safe_apda(problem, reservoir=50)
    state = scan(method, environment, 150).state
    estimate = standard_errors(method, state)
    rows, effect, theta = (
        np.asarray(part) for part in (state.belief.reservoir, state.belief.mean_effect, state.decision)
    )
    losses = [loss(theta, row[1:] + effect @ (theta - row[:1])) for row in rows]
    assert estimate.risk_error >= np.std(losses) / np.sqrt(50)
    assert estimate.risk_error <= 1.5 * np.std(losses) / np.sqrt(50)


def test_confidence_needs_enough_samples():
    problem, environment = small()
    states, _, _ = play(pf.safe_apda(problem), environment, 2)
    with pytest.raises(ValueError, match="standard errors need more than 4 samples"):
        standard_errors(pf.safe_apda(problem), states[-1])


@pytest.mark.parametrize("never", [False, True], ids=["all varied", "one coordinate never did"])
def test_errors_of_a_line_alone_are_those_of_a_program(never):
    random = np.random.default_rng(0)
    x = random.normal(size=(60, 3)) * [1.0, 1e3, 1e-3]
    x[:, 2] = 5.0 if never else x[:, 2]
    z = 7.0 + x @ random.normal(size=(3, 2)) + random.normal(size=(60, 2)) * [1.0, 30.0]
    belief = Regression.of(x, z, random.uniform(0.5, 1.0, size=60), None)
    learner = LeastSquares(callable_node(apply_effect), None, None, None, None, (), 10, None)
    prediction = Prediction(callable_node(lambda theta, z: jnp.sum(theta) * jnp.sum(z)), learner.shift)
    whole = confidence(learner, prediction, belief, belief.decision, belief.decision, draws=10)
    effect, error = errors_of_line(belief)
    np.testing.assert_allclose(effect, whole.effect, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(error, whole.effect_error, rtol=1e-7)
