"""Descent without derivatives."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative.numerics.precision import precise
from performative.numerics.randomness import new_key

EFFECT = np.array([[0.3, 0.1], [0.0, 0.2]])


def loss(theta, z):
    return 0.5 * jnp.sum((theta - z) ** 2)


def setting(bound=5.0, strength=1.0):
    """Mean estimation: PR = ½‖θ − m − Aθ‖² + const; the stable point solves (I − A)θ = m."""
    problem = pf.Problem(loss, pf.Ball(10.0), [pf.constraints.Linear([1.0, 1.0], bound)])
    environment = pf.LocationFamily(pf.Gaussian(np.array([1.0, 0.5]), 0.04 * np.ones(2)), strength * EFFECT)
    return problem, environment


def last(runs, name):
    return runs["decision"].sel({"algorithm": name}).isel(t=-1).mean("realization").values


@pytest.mark.parametrize(("bound", "best"), [(2.0, 0.5 / 0.7), (0.4, 0.4)])
def test_one_point_descent_ends_near_the_optimum(bound, best):
    """In one dimension, where its variance is least; with the constraint θ ≤ bound, which binds or does not."""
    problem = pf.Problem(loss, pf.Box([-2.0], [2.0]), [pf.constraints.Linear([1.0], bound)])
    environment = pf.LocationFamily(pf.Gaussian([0.5], [0.01]), [[0.3]])
    method = pf.one_point(problem, step=2e-3, exploration=0.3, start=[-1.0])
    runs = pf.simulate({"one": method}, environment, rounds=20_000, realizations=10)
    assert last(runs, "one")[0] == pytest.approx(best, abs=0.1)


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

        drawn = np.asarray(jax.jit(jax.vmap(draw))(jax.random.split(new_key(0), count)))
        exact = np.asarray(jax.grad(functools.partial(risk, environment))(jnp.asarray(theta)))
    error = drawn.std(axis=0) / np.sqrt(count)
    assert np.all(np.abs(drawn.mean(axis=0) - exact) <= 5 * error)


def risk(environment, theta):
    gap = theta - environment.base.mean - environment.effect @ theta
    return 0.5 * jnp.sum(gap * gap)


def test_two_point_descent_ends_near_the_optimum_of_a_world_it_knows_nothing_of():
    problem, environment = setting(bound=1.0)
    optimum = pf.performative_optimum(problem, environment)
    method = pf.two_point(problem, step=2e-3, control=0.1, exploration=0.2)
    runs = pf.simulate({"two": method}, environment, rounds=20_000, realizations=10)
    np.testing.assert_allclose(last(runs, "two"), optimum.decision, atol=0.05)
