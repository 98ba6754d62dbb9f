"""A draw of the linear model from its posterior: an effect and a level of the data that the samples so far leave possible."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from performative.estimators.regression import LeastSquares, Regression
from performative.estimators.standard_errors import noise_covariance
from performative.numerics.pytrees import changed
from performative.numerics.randomness import standard_normal

JITTER = 1e-10
"""What is added to covariances before their roots are taken, as a share of their mean variance: they may be singular."""


def drawn(learner: LeastSquares, belief: Regression, key: Array) -> tuple[Regression, Array]:
    """The regression with its level drawn, and a drawn effect.

    With Σ the covariance of the noise, estimated from the residuals, and P the inverse scatter of the decisions, ridge
    included, the posterior of Z = m + A(x − x̄) + noise under the prior A ∼ N(A₀, Σ ⊗ I/ridge) is

        A ∼ N(Â, Σ ⊗ P),    m ∼ N(z̄, Σ/count),

    independent of each other. A structured effect is the one nearest to a matrix drawn like that.
    """
    k, d = belief.data.shape[0], belief.decision.shape[0]
    normals = standard_normal(key, k * (d + 1)).reshape(k, d + 1)
    white = _root(noise_covariance(learner, belief, d)) @ normals
    level, change = white[:, 0] / jnp.sqrt(belief.count), white[:, 1:] @ _root(belief.inverse).T

    def nearest(along: Array, column: Array) -> Array:
        return learner.nearest_effect(belief.effect, along, column)

    effect = belief.effect + jnp.sum(jax.vmap(nearest)(jnp.eye(d), change.T), axis=0)
    moved = None if belief.reservoir is None else belief.reservoir + jnp.concatenate([jnp.zeros(d), level])
    return changed(belief, data=belief.data + level, reservoir=moved), effect


def _root(covariance: Array) -> Array:
    """A matrix R with RRᵀ = covariance, up to `JITTER`."""
    size = covariance.shape[0]
    jitter = JITTER * jnp.trace(covariance) / size + 1e-300
    return jnp.linalg.cholesky(0.5 * (covariance + covariance.T) + jitter * jnp.eye(size))
