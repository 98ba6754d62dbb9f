"""Gradients from losses alone have the right mean."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative.numerics.precision import precise
from performative.numerics.randomness import new_key


def setting():
    """Mean estimation: PR = ½‖θ − m − Aθ‖² + const."""
    problem = pf.Problem(lambda theta, z: 0.5 * jnp.sum((theta - z) ** 2), pf.Ball(10.0), dimension=2)
    effect = np.array([[0.3, 0.1], [0.0, 0.2]])
    return problem, pf.LocationFamily(pf.Gaussian(np.array([1.0, 0.5]), 0.04 * np.ones(2)), effect)


@pytest.mark.parametrize("name", ["one_point", "two_point"])
def test_derivative_free_gradients_have_the_right_mean(name):
    """Of PR averaged over a ball, which for a quadratic risk has the same gradient: over 2·10⁵ draws, within five errors."""
    problem, environment = setting()
    theta, count = np.array([0.4, -0.3]), 200_000
    method = getattr(pf, name)(problem, exploration=0.5)
    with precise():

        def draw(key):
            asking, answering = jax.random.split(key)
            decisions = method.exploration.decisions(jax.random.normal(asking, (2,)), jnp.asarray(theta))
            keys = jax.random.split(answering, decisions.shape[0])
            samples = jax.vmap(lambda key, x: environment.sample(key, x, 1))(keys, decisions)
            belief = method.estimator.update(problem, method.estimator.init(problem, key), decisions, samples, 1)
            return method.estimator.gradient(problem, belief, jnp.asarray(theta))

        gradients = np.asarray(jax.jit(jax.vmap(draw))(jax.random.split(new_key(0), count)))
        exact = np.asarray(jax.grad(functools.partial(risk, environment))(jnp.asarray(theta)))
    error = gradients.std(axis=0) / np.sqrt(count)
    assert np.all(np.abs(gradients.mean(axis=0) - exact) <= 5 * error)


def risk(environment, theta):
    gap = theta - environment.base.mean - environment.effect @ theta
    return 0.5 * jnp.sum(gap * gap)
