"""Losses and worlds of every kind, for decisions of two numbers."""

import jax
import jax.numpy as jnp
import numpy as np

import performative as pf


def squared(theta, z):
    return jnp.sum((theta[0] - z) ** 2) + 0.1 * jnp.sum(theta**2)


def bent(theta, z):
    return jnp.log1p(jnp.exp(jnp.sum(z) * theta[0])) + 0.2 * theta[1] ** 2 * jnp.sum(z)


def mixed(theta):
    share = jax.nn.sigmoid(theta[0])
    return jnp.stack([share, 1.0 - share, 1.0 + theta[0], -0.5 * theta[1]])


PEOPLE = np.column_stack([np.random.default_rng(0).normal(size=(300, 2)), np.arange(300) % 2])

WORLDS = {
    "normal": pf.ParametricFamily(pf.Normal(0.5), lambda theta: jnp.sqrt(theta[:1] + 2.0)),
    "normal, correlated": pf.ParametricFamily(pf.Normal([[1.0, 0.4], [0.4, 0.5]]), lambda theta: jnp.sin(theta)),
    "bernoulli": pf.ParametricFamily(pf.Bernoulli(), lambda theta: jax.nn.sigmoid(theta[:1] - theta[1:])),
    "bernoulli, three": pf.ParametricFamily(
        pf.Bernoulli(3), lambda theta: jax.nn.sigmoid(theta[0] * jnp.array([1.0, -2.0, 0.5]))
    ),
    "poisson": pf.ParametricFamily(pf.Poisson(most=40), lambda theta: jnp.exp(1.0 + 0.3 * theta[:1])),
    "poisson, two": pf.ParametricFamily(pf.Poisson(2, most=40), lambda theta: 2.0 + theta),
    "mixture": pf.ParametricFamily(pf.Mixture([pf.Normal(0.3), pf.Normal(1.2)]), mixed),
    "reaction": pf.Reaction(pf.Gaussian([0.0, 1.0], [1.0, 0.3]), lambda theta, z0: z0 * (1.0 + 0.3 * theta) + theta**2),
    "strategic": pf.strategic_response(pf.Empirical(PEOPLE), ease=[0.5, 0.0], label=1.0),
    "strategic, logistic": pf.strategic_response(pf.Empirical(PEOPLE), ease=0.5, utility="logistic", wanted=1),
}
SQUARE = pf.Box([-1.0, -1.0], [1.0, 1.0])
THETA, ELSEWHERE = np.array([0.4, -0.3]), np.array([-0.6, 0.2])
