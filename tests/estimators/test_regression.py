"""Least squares of the data on the decisions, in closed form and kept up to date."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from playing import EFFECT, play, small

import performative as pf
from performative.estimators.regression import JointMoments
from performative.numerics.precision import precise
from performative.numerics.randomness import new_key


def test_the_regression_is_least_squares_over_every_deployment():
    """Â, the mean and the residuals against numpy.linalg.lstsq with the ridge of one pseudo-observation."""
    problem, environment = small()
    method = pf.safe_apda(problem)
    states, decisions, samples = play(method, environment, 80)
    belief = states[-1].belief
    z, scale = samples[:, 0], float(states[1].scales.length)
    x, y = decisions - decisions.mean(axis=0), z - z.mean(axis=0)
    effect = np.linalg.solve(x.T @ x + scale**2 * np.eye(2), x.T @ y).T
    np.testing.assert_allclose(belief.effect, effect, rtol=1e-8)
    np.testing.assert_allclose(belief.data, z.mean(axis=0), rtol=1e-10)
    np.testing.assert_allclose(belief.decision, decisions.mean(axis=0), rtol=1e-10)
    np.testing.assert_allclose(belief.inverse, np.linalg.inv(x.T @ x + scale**2 * np.eye(2)), rtol=1e-8)


@pytest.mark.slow
def test_history_is_as_good_as_having_deployed_it():
    """Told 5,000 past deployments, the effect is known before the first own one."""
    problem, environment = small()
    random = np.random.default_rng(0)
    decisions = random.normal(size=(5_000, 2))
    samples = decisions @ EFFECT.T + random.normal(size=(5_000, 2)) * np.sqrt([0.3, 0.2]) + [0.5, 0.2]
    method = pf.safe_apda(problem, history=(decisions, samples))
    state = method.init(new_key(0))
    assert int(state.round) == 1
    np.testing.assert_allclose(state.belief.effect, EFFECT, atol=0.05)
    runs = pf.simulate({"informed": method, "fresh": pf.safe_apda(problem)}, environment, rounds=300, realizations=20)
    final = runs["deployed_regret"].isel(t=-1).mean("realization")
    assert float(final.sel({"algorithm": "informed"})) < float(final.sel({"algorithm": "fresh"}))
    with pytest.raises(ValueError, match="`history` must hold decisions"):
        pf.safe_apda(problem, history=(decisions[:, :1], samples))


def test_samples_may_be_several():
    problem, environment = small()
    states, _, _ = play(pf.safe_apda(problem, samples=5), environment, 50)
    assert float(states[-1].belief.count) == 250.0


@pytest.mark.parametrize("factor", [10.0, pytest.param(1.0, marks=pytest.mark.slow)])
def test_a_structured_effect_is_learned_whatever_its_scale(factor):
    """shift = c·a·θ: the same trajectory for every c, and standard errors that shrink with c."""
    problem, _ = small()
    environment = pf.LocationFamily(pf.Gaussian(np.array([0.5, 0.2]), np.array([0.3, 0.2])), np.diag([0.4, -0.3]))
    method = pf.safe_apda(problem, shift=lambda a, theta: factor * a * theta, effect=np.zeros(2), exploration=2.0)
    states, decisions, _ = play(method, environment, 120)
    plain = pf.safe_apda(problem, shift=lambda a, theta: a * theta, effect=np.zeros(2), exploration=2.0)
    others, expected, _ = play(plain, environment, 120)
    np.testing.assert_allclose(decisions, expected, rtol=1e-8)
    estimate, other = method.confidence(states[-1]), plain.confidence(others[-1])
    np.testing.assert_allclose(estimate.effect * factor, other.effect, rtol=1e-8)
    np.testing.assert_allclose(estimate.effect_error * factor, other.effect_error, rtol=1e-8)
    assert np.all(np.abs(other.effect - [0.4, -0.3]) <= 4 * other.effect_error)


def test_numbers_of_an_effect_that_do_the_same_are_refused():
    with pytest.raises(ValueError, match="must tell all numbers of the effect apart"):
        pf.safe_apda(small()[0], shift=lambda a, theta: (a[0] + a[1]) * theta, effect=np.zeros(2))


def test_data_that_the_effect_cannot_move_make_it_known_sooner():
    """y moves, x does not, and x explains most of y: the effect's standard error is that of what x leaves unexplained."""
    loss = lambda theta, z: 0.5 * (z[1] - theta[0]) ** 2 + 0.0 * z[0]  # noqa: E731
    problem = pf.Problem(loss, pf.Ball(5.0), dimension=1)
    covariance = np.array([[1.0, 1.0], [1.0, 1.01]])
    shift = lambda a, theta: jnp.concatenate([jnp.zeros(1), a * theta])  # noqa: E731
    environment = pf.LocationFamily(pf.Gaussian(np.array([0.0, 1.0]), covariance), np.array([0.5]), shift)
    method = pf.safe_apda(problem, shift=shift, effect=np.zeros(1))
    assert method.learner.unmoved == (0,)
    states, _, _ = play(method, environment, 120)
    estimate = method.confidence(states[-1])
    scatter, inverse = (np.asarray(part) for part in (states[-1].belief.scatter, states[-1].belief.inverse))
    naive = np.sqrt(scatter[1, 1] / 118 * inverse[0, 0])
    assert estimate.effect_error[0] < 0.2 * naive
    assert abs(estimate.effect[0] - 0.5) <= 4 * estimate.effect_error[0]


def test_the_closed_form_and_the_recursion_are_one_regression():
    """Rows at once, one deployment at a time, and recursively without the ridge: the same effect and the same means."""
    problem, environment = small()
    method = pf.safe_apda(problem, samples=3)
    states, decisions, samples = play(method, environment, 30)
    belief, ridge = states[-1].belief, states[1].scales.length ** 2
    rows = JointMoments.of(np.repeat(decisions, 3, axis=0), samples.reshape(-1, 2))
    with precise():
        one_by_one = JointMoments.at(jnp.asarray(decisions[0]), jnp.asarray(samples[0]))
        for x, z in zip(decisions[1:], samples[1:], strict=True):
            one_by_one = one_by_one.with_samples(jnp.asarray(x), jnp.asarray(z))
        recursive, _ = method.learner.without_ridge(belief, ridge)
        np.testing.assert_allclose(one_by_one.effect(0.0), rows.effect(0.0), rtol=1e-10)
        np.testing.assert_allclose(belief.effect, rows.effect(float(ridge)), rtol=1e-8)
    np.testing.assert_allclose(recursive, rows.effect(0.0), rtol=1e-6)
    for moments in (rows, one_by_one, belief):
        np.testing.assert_allclose(moments.data, samples.reshape(-1, 2).mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(moments.decision, decisions.mean(axis=0), rtol=1e-12)
        assert float(moments.count) == 90.0


def test_weights_are_as_good_as_repetition():
    random = np.random.default_rng(0)
    decisions, samples = random.normal(size=(20, 2)), random.normal(size=(20, 3))
    twice = JointMoments.of(np.repeat(decisions, 2, axis=0), np.repeat(samples, 2, axis=0))
    weighted = JointMoments.of(decisions, samples, np.full(20, 2.0))
    for part in ("count", "decision", "data", "scatter", "cross"):
        np.testing.assert_allclose(getattr(weighted, part), getattr(twice, part), rtol=1e-12)
    np.testing.assert_allclose(weighted.effect(1e-3), twice.effect(1e-3), rtol=1e-12)
