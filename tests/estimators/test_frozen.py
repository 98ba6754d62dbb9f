"""Gradients on the data as they are, without their reaction."""

import jax
import jax.numpy as jnp
import numpy as np

import performative as pf
from performative.numerics.precision import precise
from performative.numerics.randomness import new_key


def test_samples_and_population_agree_where_the_samples_are_all_there_is():
    """On an empirical world whose every point is observed; ℓ = ½‖θ − z‖² + θ₁z₁, so that ∇ℓ = θ − z + (z₁, 0)."""
    random = np.random.default_rng(0)
    points, effect, theta = random.normal(size=(9, 2)), random.normal(size=(2, 2)), np.array([0.3, -0.2])
    problem = pf.Problem(lambda theta, z: 0.5 * jnp.sum((theta - z) ** 2) + theta[0] * z[0], pf.Ball(3.0), dimension=2)
    world = pf.LocationFamily(pf.Empirical(points), effect)
    z = points + effect @ theta
    expected = np.mean(theta - z, axis=0) + np.array([np.mean(z[:, 0]), 0.0])
    with precise():
        for estimator, signs in (
            (pf.estimators.FrozenData(), 1.0),
            (pf.estimators.FrozenData(jnp.asarray([1.0, -1.0])), np.array([1.0, -1.0])),
            (pf.estimators.FrozenPopulation(world.risk(problem)), 1.0),
        ):
            belief = estimator.init(problem, new_key(0))
            belief = jax.jit(estimator.update)(problem, belief, jnp.asarray(theta)[None], jnp.asarray(z)[None], 1)
            np.testing.assert_allclose(estimator.gradient(problem, belief, theta), signs * expected, rtol=1e-12)
