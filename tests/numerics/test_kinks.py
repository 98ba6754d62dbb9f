"""Averages over a standard normal of functions with kinks and jumps, and their derivatives, against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from performative.numerics.kinks import TWIN, mean_by_scores
from performative.numerics.precision import precise

FACTOR = np.array([[1.0, 0.0], [0.5, 2.0]])


def ramp(mean, deviation):
    """E max(X, 0) for X ∼ N(mean, deviation²)."""
    return deviation * stats.norm.pdf(mean / deviation) + mean * stats.norm.cdf(mean / deviation)


def huber(theta, w):
    return jnp.sum(jnp.where(jnp.abs(w - theta) < 0.5, 0.5 * (w - theta) ** 2, 0.5 * (jnp.abs(w - theta) - 0.25)))


def huber_mean(theta):
    loss = lambda u: 0.5 * u**2 if abs(u) < 0.5 else 0.5 * (abs(u) - 0.25)  # noqa: E731
    return sum(
        integrate.quad(lambda x, t=t: loss(x - t) * stats.norm.pdf(x), -9, 9, points=[t - 0.5, t + 0.5], epsabs=1e-12)[
            0
        ]
        for t in theta
    )


CASES = {
    "newsvendor": (
        lambda t, w: 5 * jnp.maximum(100 + 20 * w[0] - t[0], 0) + 2 * jnp.maximum(t[0] - 100 - 20 * w[0], 0),
        1,
        lambda t: 5 * ramp(100 - t[0], 20) + 2 * ramp(t[0] - 100, 20),
        [140.0],
    ),
    "pinball": (
        lambda t, w: jnp.sum(jnp.maximum(0.8 * (w - t), -0.2 * (w - t))),
        2,
        lambda t: sum(ramp(-x, 1) + 0.2 * x for x in t),
        [0.5, -1.0],
    ),
    "hinge": (
        lambda t, w: jax.nn.relu(1 - t @ (FACTOR @ w)),
        2,
        lambda t: ramp(1, np.linalg.norm(FACTOR.T @ t)),
        [0.5, 0.7],
    ),
    "larger of two": (lambda t, w: jnp.maximum(w[0] - t[0], 2 * w[1]), 2, lambda t: ramp(-t[0], np.sqrt(5)), [0.3]),
    "jump": (lambda t, w: jnp.where(w[0] > t[0], 1.0, 0.0), 1, lambda t: stats.norm.sf(t[0]), [0.4]),
    "product": (
        lambda t, w: t[0] * w @ w + w[0] * w[1] + jnp.abs(w[1] - t[0]),
        2,
        lambda t: 2 * t[0] + t[0] + 2 * ramp(-t[0], 1),
        [0.4],
    ),
    "chosen": (  # E 1{s > t}(3 w₁ − w₂) with s = w₁ + w₂ is cov(3w₁ − w₂, s)/√2 φ(t/√2)
        lambda t, w: jnp.where(w[0] + w[1] > t[0], 3 * w[0], w[1]),
        2,
        lambda t: 2 / np.sqrt(2) * stats.norm.pdf(t[0] / np.sqrt(2)),
        [0.4],
    ),
    "Huber": (huber, 2, huber_mean, [0.4, 0.1]),
}


@pytest.mark.parametrize("name", CASES)
def test_averages_and_their_gradients_are_exact(name):
    function, width, expected, theta = CASES[name]
    theta = np.array(theta)

    def mean(t, rule):
        return mean_by_scores(lambda w: function(t, w), width, rule)

    with precise():
        value, slope = jax.jit(jax.value_and_grad(lambda t: mean(t, TWIN)))(jnp.asarray(theta))
    assert float(value) == pytest.approx(expected(theta), rel=1e-9)
    steps = 1e-4 * np.eye(len(theta))
    differences = [(expected(theta + step) - expected(theta - step)) / 2e-4 for step in steps]
    np.testing.assert_allclose(slope, differences, rtol=1e-5, atol=1e-7)


def test_the_nodes_follow_a_kink_so_that_the_curvature_is_exact_too():
    function, width, _, theta = CASES["newsvendor"]
    with precise():
        mean = lambda t: mean_by_scores(lambda w: function(t, w), width)  # noqa: E731
        hessian = jax.jit(jax.hessian(mean))(jnp.asarray(theta))
    assert float(hessian[0, 0]) == pytest.approx(7 * stats.norm.pdf(2.0) / 20, rel=1e-9)


def test_a_score_that_does_not_vary_has_derivatives():
    with precise():
        mean = lambda t: mean_by_scores(lambda w: jax.nn.softplus(1 - jnp.sum(t * w)), 5)  # noqa: E731
        slope, hessian = jax.jit(lambda t: (jax.grad(mean)(t), jax.hessian(mean)(t)))(jnp.zeros(5))
    curvature = 1 / (2 + np.exp(1) + np.exp(-1))
    np.testing.assert_allclose(slope, np.zeros(5), atol=1e-8)
    np.testing.assert_allclose(hessian, curvature * np.eye(5), atol=1e-5)


@pytest.mark.parametrize(
    "function",
    [
        jnp.max,
        lambda w: jnp.sqrt(w @ w),
        lambda w: jnp.maximum(w[0], 0) * jnp.maximum(w[1], 0),
        lambda w: jnp.exp(w[0] * w[1]),
    ],
)
def test_what_depends_on_several_scores_at_once_is_not_read(function):
    with precise():
        assert mean_by_scores(function, 5) is None


@pytest.mark.parametrize(
    "function",
    [
        lambda z: jnp.maximum(z[0] * z[1] - 2.0, 0.0),
        lambda z: jnp.abs(z[0] * z[1] - 2.0),
        lambda z: jnp.linalg.norm(z),
        lambda z: jnp.maximum(jnp.sum(jnp.maximum(z - 1.5, 0.0)) - 0.6, 0.0),
    ],
)
def test_what_follows_an_average_is_not_taken_of_it(function):
    """A kink of what mixes several scores has no such average: f(E X) is not E f(X)."""
    assert mean_by_scores(function, 2) is None
