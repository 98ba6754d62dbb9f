"""What a regression predicts: the data at any decision, and their average loss."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from performative.estimators.regression import LeastSquares, Regression
from performative.numerics.expectations import Moments, Pattern, Samples, hessian_pattern
from performative.numerics.pytrees import changed, pytree
from performative.numerics.randomness import standard_normal
from performative.problem import Loss, LossInData
from performative.shifts import Shift


@pytree()
class Prediction:
    """Averages of a loss over the data z̄ + Â(θ − x̄) + noise that a regression predicts at a decision θ.

    Where the loss is quadratic in the data, their mean and covariance determine the average; for any other loss the
    deployments in the regression's reservoir are moved to θ.
    """

    loss: Loss
    shift: Shift

    def risk(self, belief: Regression, effect: Array, theta: Array, where: Array | None = None) -> Array:
        """The average of ℓ(θ; Z) over the data that `effect` predicts at θ, or at `where`."""
        at = theta if where is None else where
        d = theta.shape[0]
        if belief.reservoir is not None:
            weights = (jnp.arange(belief.reservoir.shape[0]) < belief.count).astype(jnp.float64)
            decisions, z = belief.reservoir[:, :d], belief.reservoir[:, d:]
            moved = jax.vmap(lambda x, z: z + self.shift(effect, at - x))(decisions, z)
            return Samples(moved, weights / jnp.sum(weights)).mean(lambda z: self.loss(theta, z))
        center = belief.data + self.shift(effect, at - belief.decision)
        pattern = self.pattern(belief.data.shape[0], d)
        assert pattern is not None
        covariance = pattern.compress(belief.covariance)
        return Moments(center, covariance, pattern).mean(lambda z: self.loss(theta, z))

    def slope_in_data(self, belief: Regression, effect: Array, theta: Array) -> Array:
        """E ∂ℓ(θ; Z)/∂z over the data predicted at θ, (k,)."""

        def moved(offset: Array) -> Array:
            if belief.reservoir is None:
                moments = changed(belief.moments, data=belief.data + offset)
                return self.risk(changed(belief, moments=moments), effect, theta)
            rows = belief.reservoir.at[:, theta.shape[0] :].add(offset)
            return self.risk(changed(belief, reservoir=rows), effect, theta)

        return jax.grad(moved)(jnp.zeros_like(belief.data))

    def losses(self, belief: Regression, theta: Array, draws: int) -> Array:
        """ℓ(θ; Z) for the data predicted at θ: the reservoir's, or `draws` draws of a Gaussian."""
        d = theta.shape[0]
        if belief.reservoir is not None:
            decisions, z = belief.reservoir[:, :d], belief.reservoir[:, d:]
            data = jax.vmap(lambda x, z: z + self.shift(belief.effect, theta - x))(decisions, z)
        else:
            values, vectors = jnp.linalg.eigh(belief.covariance)
            white = standard_normal(belief.key, draws * values.shape[0]).reshape(draws, -1)
            center = belief.data + self.shift(belief.effect, theta - belief.decision)
            data = center + (white * jnp.sqrt(jnp.maximum(values, 0.0))) @ vectors.T
        return jax.vmap(lambda z: self.loss(theta, z))(data)

    def pattern(self, width: int, dimension: int) -> Pattern | None:
        """The covariances that matter to a loss quadratic in samples of `width` numbers; None for any other loss."""
        return hessian_pattern(LossInData(self.loss), width, jnp.zeros(dimension))


class Learned(NamedTuple):
    """A regression, what made it and what it predicts."""

    learner: LeastSquares
    prediction: Prediction
    regression: Regression
