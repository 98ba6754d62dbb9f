"""Methods of the field under the framework's constraints, against closed forms."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative import estimators
from performative.precision import precise
from performative.randomness import new_key

EFFECT = np.array([[0.3, 0.1], [0.0, 0.2]])


def loss(theta, z):
    return 0.5 * jnp.sum((theta - z) ** 2)


def setting(bound=5.0, strength=1.0):
    """Mean estimation: PR = ½‖θ − m − Aθ‖² + const; the stable point solves (I − A)θ = m."""
    problem = pf.Problem(loss, pf.Ball(10.0), [pf.constraints.Linear([1.0, 1.0], bound)])
    environment = pf.LocationFamily(pf.Gaussian(np.array([1.0, 0.5]), 0.04 * np.ones(2)), strength * EFFECT)
    return problem, environment


def last(runs, name):
    return runs["decision"].sel({"method": name}).isel(round=-1).mean("realization").values


def test_repeated_gradient_descent_ends_at_the_stable_point_and_not_at_the_optimum():
    asymmetric = lambda theta, z: 0.5 * jnp.sum((theta - z) ** 2) + 0.3 * jnp.sum(theta * z)  # noqa: E731
    problem = pf.Problem(asymmetric, pf.Ball(10.0), [pf.constraints.Linear([1.0, 1.0], 1.0)])
    environment = setting()[1]
    stable, optimum = pf.stable_point(problem, environment), pf.performative_optimum(problem, environment)
    method = pf.repeated_gradient(problem, step=0.02, control=0.01, samples=50)
    runs = pf.simulate({"rgd": method}, environment, rounds=4_000, realizations=5)
    np.testing.assert_allclose(last(runs, "rgd"), stable.decision, atol=0.02)
    assert np.linalg.norm(stable.decision - optimum.decision) > 0.05


def test_repeated_gradient_descent_diverges_where_the_reaction_is_stronger_than_the_curvature():
    """θ ← θ − η(θ − m − Aθ) grows if A has an eigenvalue above 1; the set stops it."""
    problem, environment = setting(bound=50.0, strength=5.0)
    runs = pf.simulate({"rgd": pf.repeated_gradient(problem, step=0.05)}, environment, rounds=2_000, realizations=3)
    final = runs["decision"].isel({"method": 0, "round": -1}).values
    np.testing.assert_allclose(np.linalg.norm(final, axis=-1), 10.0, rtol=1e-6)


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


def test_methods_from_samples_refuse_what_they_cannot_use():
    problem, _ = setting()
    method = pf.repeated_gradient(problem)
    state = method.init(new_key(0))
    with pytest.raises(ValueError, match="`decisions` must be the one decision"):
        method.tell(state, np.zeros((2, 2)), np.zeros((2, 1, 2)))
    with pytest.raises(ValueError, match="`exploration > 0` must hold"):
        pf.two_point(problem, exploration=-1.0)
    assert isinstance(method.estimator, estimators.FrozenData)
