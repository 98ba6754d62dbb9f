"""Base samples are mapped back with the current estimate."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative.numerics.precision import precise
from performative.numerics.randomness import new_key

D, K, N = 2, 3, 7


MATRIX = np.array([[1.0, 0.3], [0.3, 2.0]])


def loss(theta, z):
    """Quadratic in both, with a product: no term vanishes by accident."""
    return 0.5 * jnp.sum((z[:2] - theta) ** 2) + z[2] * theta[0] + 0.3 * jnp.sum(theta**2)


@pytest.fixture(scope="module")
def problem():
    return pf.Problem(
        loss,
        pf.Ball(0.6),
        [pf.constraints.Linear(np.ones(2), 0.3), pf.constraints.Quadratic(MATRIX, 0.2)],
    )


def logistic_loss(theta, z):
    return jnp.logaddexp(0.0, -z[0] * jnp.sum(theta * z[1:])) + 0.1 * jnp.sum(theta**2)


def test_warm_up_outside_zero_is_mapped_back_with_the_current_estimate():
    """Θ without 0: the warm-up is deployed at the projection of 0, and its samples follow Â when it changes."""
    effect = np.array([[0.5, 0.0], [0.1, 0.3]])
    problem = pf.Problem(lambda theta, z: jnp.sum((z - theta) ** 2), pf.Box([1.0, 1.0], [2.0, 2.0]))
    method = pf.oracle(problem, effect=effect, warmup=5)
    state = method.init(new_key(0))
    warm = method.ask(state, new_key(0))
    np.testing.assert_array_equal(warm, [[1.0, 1.0]])
    base = np.random.default_rng(0).normal(size=(5, 2))
    state = method.tell(state, warm, (base + effect @ np.ones(2))[None])
    theta = np.array([1.3, 1.8])
    with precise():
        predicted = method.estimator.predicted_risk(problem, state.belief, jnp.asarray(theta))
    expected = np.mean(np.sum((base + effect @ theta - theta) ** 2, axis=1))
    np.testing.assert_allclose(predicted, expected, rtol=1e-12)


@pytest.mark.parametrize("loss_function", [loss, logistic_loss])
def test_recycled_samples_are_mapped_back_with_the_current_estimate(loss_function):
    """After a few rounds the predicted risk is the average over *all* samples, each mapped with today's Â."""
    random = np.random.default_rng(4)
    problem = pf.Problem(loss_function, pf.Ball(5.0), dimension=D)
    method = pf.apda(problem, warmup=30, recycle=True, estimation_step=0.1, samples=2)
    state = method.init(new_key(0))
    seen_z, seen_theta = [], []
    for t in range(6):
        decisions = np.asarray(method.ask(state, new_key(t)))
        z = random.normal(size=(len(decisions), method.wanted(state), K))
        state = method.tell(state, decisions, z)
        seen_z += list(z.reshape(-1, K))
        seen_theta += list(np.repeat(decisions, z.shape[1], axis=0))
    theta, effect = np.array([0.2, 0.3]), np.asarray(state.belief.effect)
    if loss_function is logistic_loss:  # a reservoir: as many points as the warm-up, each one that was observed
        points = np.asarray(state.belief.base.observed.joint.points)
        everything = np.column_stack([seen_z, seen_theta])
        assert len(points) == 30
        assert all(np.min(np.abs(everything - point).sum(axis=1)) < 1e-12 for point in points)
        assert any(np.min(np.abs(everything[30:] - point).sum(axis=1)) < 1e-12 for point in points)
        seen_z, seen_theta = points[:, :K], points[:, K:]
    base = np.asarray(seen_z) + (theta - np.asarray(seen_theta)) @ effect.T
    with precise():
        expected = jnp.mean(jax.vmap(lambda z: loss_function(jnp.asarray(theta), z))(jnp.asarray(base)))
        predicted = method.estimator.predicted_risk(problem, state.belief, jnp.asarray(theta))
    np.testing.assert_allclose(predicted, expected, rtol=1e-12)
