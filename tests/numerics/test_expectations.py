"""Sparsity of Hessians, and averages that are exact where they claim to be."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.tree_util import Partial

import performative as pf
from performative.numerics import expectations
from performative.numerics.precision import precise
from performative.problem import LossInData
from performative.problems import regression

K = 4
FIXED = np.random.default_rng(0).normal(size=(K, K))


LOSSES = {
    "linear": (lambda z, theta: jnp.sum(theta * z), 0),
    "separable": (lambda z, theta: 0.5 * jnp.sum((z - theta) ** 2), 1),
    "dense": (lambda z, theta: z @ FIXED @ FIXED.T @ z + theta @ z, K),
    "dense through the decision": (lambda z, theta: (z @ theta) ** 2, K),
    "tridiagonal": (lambda z, theta: jnp.sum(z[1:] * z[:-1]) + jnp.sum(theta * z), None),
    "one entry": (lambda z, theta: z[2] ** 2 + jnp.sum(z), 1),
    "two blocks": (lambda z, theta: jnp.sum(z.reshape(2, 2) @ np.array([1.0, 2.0])) ** 2, K),
    "blocks of two": (lambda z, theta: jnp.sum((z.reshape(2, 2) @ np.array([1.0, 2.0])) ** 2), 2),
    "switched by the decision": (lambda z, theta: jnp.where(theta[0] > 0, jnp.sum(z**2), z[0] * z[1]), None),
    "absolute decision": (lambda z, theta: jnp.sum(jnp.abs(theta) * z * z), None),
    "gather": (lambda z, theta: jnp.sum(z[np.array([0, 1])] * z[np.array([2, 3])] * theta[:2]), None),
}


def pattern_of(name):
    return expectations.hessian_pattern(Partial(LOSSES[name][0]), K, np.zeros(K))


@pytest.mark.parametrize("name", [name for name in LOSSES if LOSSES[name][1] is not None])
def test_a_quadratic_loss_needs_as_many_colors_as_its_blocks_are_wide(name):
    assert pattern_of(name).colors == LOSSES[name][1]


def test_ten_tasks_of_four_numbers_need_four_colors():
    theta = np.zeros(regression.TASKS * regression.FEATURES)
    width = regression.TASKS * (regression.FEATURES + 1)
    pattern = expectations.hessian_pattern(LossInData(Partial(regression.loss)), width, theta)
    assert pattern is not None
    assert pattern.colors == regression.FEATURES + 1


@pytest.mark.parametrize(
    "function",
    [
        lambda z, theta: jnp.sum(jnp.logaddexp(0.0, theta * z)),
        lambda z, theta: jnp.sum(z**3),
        lambda z, theta: jnp.sum(jnp.maximum(z, theta)),
    ],
    ids=["logistic", "cubic", "pinball"],
)
def test_losses_of_higher_degree_have_no_pattern(function):
    assert expectations.hessian_pattern(Partial(function), K, np.zeros(K)) is None


def test_moments_average_like_the_samples_they_came_from():
    random = np.random.default_rng(1)
    points, theta = 3.0 + random.normal(size=(50, K)) @ FIXED, random.normal(size=K)
    with precise():
        moments = {name: expectations.from_samples(jnp.asarray(points), pattern_of(name)) for name in LOSSES}
        samples = expectations.Samples(jnp.asarray(points))

        def both(theta):
            return {
                name: jnp.stack([over.mean(lambda z, name=name: LOSSES[name][0](z, theta)) for over in (each, samples)])
                for name, each in moments.items()
            }

        values, gradients = jax.jit(lambda theta: (both(theta), jax.jacobian(both)(theta)))(theta)
    for name in LOSSES:
        assert isinstance(moments[name], expectations.Moments), name
        # Averages of 50 numbers of order 100: rounding relative to their size.
        np.testing.assert_allclose(*values[name], rtol=1e-12, atol=1e-12, err_msg=name)
        np.testing.assert_allclose(*gradients[name], rtol=1e-12, atol=1e-11, err_msg=name)


def test_moments_average_the_regression_loss_like_samples():
    random = np.random.default_rng(2)
    width, size = regression.TASKS * (regression.FEATURES + 1), regression.TASKS * regression.FEATURES
    points, theta = random.normal(size=(60, width)), random.normal(size=size)
    with precise():
        loss = LossInData(Partial(regression.loss))
        moments = expectations.from_samples(jnp.asarray(points), expectations.hessian_pattern(loss, width, theta))
        samples = expectations.Samples(jnp.asarray(points))
        assert isinstance(moments, expectations.Moments)
        (a, da), (b, db) = (
            jax.jit(jax.value_and_grad(lambda theta, over=over: over.mean(lambda z: loss(z, theta))))(theta)
            for over in (moments, samples)
        )
    np.testing.assert_allclose(a, b, rtol=1e-12)
    np.testing.assert_allclose(da, db, rtol=1e-12, atol=1e-12)


def test_moments_average_a_loss_whose_derivative_in_the_data_is_stopped():
    # The value is quadratic in z though no derivative shows it.
    function = lambda z: jnp.sum(lax.stop_gradient(z) ** 2)  # noqa: E731
    points = np.random.default_rng(3).normal(size=(50, K))
    with precise():
        over = expectations.from_samples(jnp.asarray(points), expectations.hessian_pattern(Partial(function), K))
        got = float(over.mean(function))
    assert got == pytest.approx(np.mean(np.sum(points**2, axis=1)), rel=1e-12)


def test_few_samples_stay_samples_where_moments_do_not_pay():
    with precise():
        dense = expectations.hessian_pattern(Partial(LOSSES["dense"][0]), K, np.zeros(K))
        assert isinstance(expectations.from_samples(jnp.ones((2 * K, K)), dense), expectations.Samples)
        assert isinstance(expectations.from_samples(jnp.ones((2 * K + 1, K)), dense), expectations.Moments)
        assert isinstance(expectations.from_samples(jnp.ones((100, K)), None), expectations.Samples)


def test_patterns_are_equal_by_what_they_hold():
    one, two = (expectations.Pattern(np.eye(3, dtype=bool)) for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)
    assert one != expectations.Pattern(np.ones((3, 3), dtype=bool))


def test_weighted_samples_average_with_their_weights():
    with precise():
        over = expectations.Samples(jnp.asarray([[1.0], [2.0], [4.0]]), jnp.asarray([0.5, 0.25, 0.25]))
        assert float(over.mean(lambda z: z[0] ** 2)) == 0.5 + 1.0 + 4.0


COVARIANCE = FIXED @ FIXED.T
BLOCKS = np.stack([np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([[1.0, -0.3], [-0.3, 0.7]])])
COVARIANCES = {
    "full": (COVARIANCE, COVARIANCE),
    "variances": (np.diag(COVARIANCE), np.diag(np.diag(COVARIANCE))),
    "blocks": (BLOCKS, np.block([[BLOCKS[0], np.zeros((2, 2))], [np.zeros((2, 2)), BLOCKS[1]]])),
    "singular": (np.outer(FIXED[0], FIXED[0]), np.outer(FIXED[0], FIXED[0])),
}


@pytest.mark.parametrize("kind", COVARIANCES)
def test_gaussian_averages_of_quadratics_are_the_closed_form(kind):
    covariance, full = COVARIANCES[kind]
    mean, theta = np.arange(1.0, K + 1), np.array([0.5, -1.0, 2.0, 0.3])

    @jax.jit
    def averages_and_closed_forms():
        base, answers = pf.Gaussian(mean, covariance), {}
        for name, (function, _) in LOSSES.items():
            average = base.expectation(pattern_of(name), True).mean(lambda z, f=function: f(z, theta))
            hessian = jax.hessian(function)(jnp.asarray(mean), theta)
            answers[name] = average, function(jnp.asarray(mean), theta) + 0.5 * jnp.sum(hessian * full)
        return answers

    with precise():
        answers = averages_and_closed_forms()
    for name, (average, closed) in answers.items():
        np.testing.assert_allclose(average, closed, rtol=1e-13, atol=1e-13, err_msg=name)


def test_a_norm_is_not_taken_for_smooth():
    """√(θ²) − θ vanishes for positive θ: no probe may conclude that the data's covariance does not matter."""
    world = pf.LocationFamily(pf.Gaussian([0.0, 0.0], [[1.0, 0.5], [0.5, 1.0]]), np.zeros((2, 1)))
    problem = pf.Problem(lambda t, z: z[0] * z[1] * (jnp.linalg.norm(t) - t[0]) + z[0], pf.Box([-2.0], [2.0]))
    assert pf.performative_risk(problem, world, [-1.0]) == pytest.approx(1.0)
