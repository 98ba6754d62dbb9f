"""A draw of the linear model from its posterior: an effect and a level of the data that the samples so far leave possible."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from performative.estimators.known import Rows
from performative.estimators.regression import Fit, Regression
from performative.estimators.standard_errors import noise_covariance
from performative.numerics import cholesky
from performative.numerics.pytrees import changed
from performative.numerics.randomness import standard_normal

JITTER = 1e-10
"""What is added to covariances before their roots are taken, as a share of their mean variance: they may be singular."""


def drawn(fit: Fit, key: Array) -> tuple[Regression, Array]:
    """The regression with its level drawn, and a drawn effect.

    With Σ the covariance of the noise, estimated from the residuals, and P the inverse of the scatter of the decisions with
    the ridge that all rows share (`LeastSquares.variances`), the posterior of Z = m + A(x − x̄) + noise under the prior
    A ∼ N(A₀, Σ ⊗ I/ridge) is

        A ∼ N(Â, Σ ⊗ P),    m ∼ N(z̄, Σ/count),

    independent of each other. Of a structured effect, its numbers are drawn with the covariance of its fit.
    """
    belief, known = fit.regression, fit.known
    k, d = known.effect.shape
    freedom = belief.freedom
    level_root = _root(belief.covariance * freedom / jnp.maximum(freedom - 1.0 - d, 1.0))
    if isinstance(known, Rows):
        root = _root(noise_covariance(fit))
        normals = standard_normal(key, k * (d + 1)).reshape(k, d + 1)
        inverse = known.covariance[0] / known.noise[0]
        effect = belief.effect + root @ normals[:, 1:] @ _root(inverse).T
    else:
        normals = standard_normal(key, k + belief.effect.size)
        effect = belief.effect + (_root(known.covariance) @ normals[k:]).reshape(belief.effect.shape)
        normals = normals[:k, None]
    level = level_root @ normals[:, 0] / jnp.sqrt(belief.count)
    moved = None if belief.reservoir is None else belief.reservoir + jnp.concatenate([jnp.zeros(d), level])
    return changed(belief, moments=changed(belief.moments, data=belief.data + level), reservoir=moved), effect


def _root(covariance: Array) -> Array:
    """A matrix R with RRᵀ = covariance, up to `JITTER`."""
    size = covariance.shape[0]
    jitter = JITTER * jnp.trace(covariance) / size + 1e-300
    return cholesky.root(0.5 * (covariance + covariance.T) + jitter * jnp.eye(size))
