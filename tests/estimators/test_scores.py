"""The score-function gradient has the right mean."""

import jax
import jax.numpy as jnp
import numpy as np

import performative as pf
from performative.estimators.scores import ScoreBelief
from performative.numerics.precision import precise
from performative.numerics.randomness import new_key


def test_the_score_function_gradient_has_the_right_mean():
    """ℓ = θz with Z ∼ N(√(θ + 1), 0.3): PR = θ√(θ + 1), over 10⁵ draws, with the level of the loss taken off or not."""
    problem = pf.Problem(lambda theta, z: jnp.sum(theta * z), pf.Box([-0.9], [1.0]))
    world = pf.ParametricFamily(pf.Normal(0.3), lambda theta: jnp.sqrt(theta + 1.0))
    estimator, theta, count = pf.estimators.ScoreEstimate(world.log_density), np.array([0.4]), 100_000
    with precise():
        samples = world.sample(new_key(0), jnp.asarray(theta), count)

        @jax.jit
        def gradients(level):
            belief = ScoreBelief(jnp.zeros(1), level)
            one = lambda z: estimator.update(problem, belief, jnp.asarray([theta]), z[None, None], 2).gradient  # noqa: E731
            return jax.vmap(one)(samples)

        exact = np.sqrt(1.4) + 0.4 / (2 * np.sqrt(1.4))
        plain, centered = (np.asarray(gradients(jnp.asarray(level)))[:, 0] for level in (0.0, 0.4 * np.sqrt(1.4)))
    for draws in (plain, centered):
        assert abs(draws.mean() - exact) <= 5 * draws.std() / np.sqrt(count)
    assert centered.std() < plain.std()
