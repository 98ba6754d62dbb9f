"""What a regression predicts: the data at any decision, and their average loss."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from performative.estimators.regression import LeastSquares, Regression
from performative.numerics.expectations import Moments, Pattern, hessian_pattern
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
            return jnp.sum(self.weights(belief) * self._each(belief, effect, theta, at))
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

    def squared_slopes(self, belief: Regression, effect: Array, theta: Array) -> Array:
        """E (∂ℓ(θ; Z)/∂z)² over the data predicted at θ, (k,): data may move where the loss feels it most, and not on average."""
        if belief.reservoir is None:
            return self.slope_in_data(belief, effect, theta) ** 2
        slopes = jax.vmap(jax.grad(self.loss, 1), (None, 0))(theta, self._moved(belief, effect, theta))
        return jnp.tensordot(self.weights(belief), slopes**2, 1)

    def loss_variance(self, belief: Regression, effect: Array, theta: Array) -> Array:
        """Of ℓ(θ; Z) for one sample of the data predicted at θ; of its linear part where the loss is quadratic in them."""
        if belief.reservoir is None:
            slope = self.slope_in_data(belief, effect, theta)
            return slope @ belief.covariance @ slope
        weights, each = self.weights(belief), self._each(belief, effect, theta, theta)
        return jnp.sum(weights * (each - jnp.sum(weights * each)) ** 2)

    def gap_variance(self, belief: Regression, effect: Array, theta: Array, other: Array) -> Array:
        """Of the difference of the risks of two decisions, since only the rows of the reservoir show the noise in the data."""
        one, two = (self._each(belief, effect, at, at) for at in (theta, other))
        return self._variance(belief, one - two)

    def gradient_variance(self, belief: Regression, effect: Array, theta: Array) -> Array:
        """The covariance (d, d) of the gradient of the risk, since only so many samples show the noise in the data."""
        if belief.reservoir is None:
            mixed = jax.jacfwd(lambda at: self.slope_in_data(belief, effect, at))(theta)
            return mixed.T @ belief.covariance @ mixed / belief.count
        return self._variance(belief, jax.jacfwd(lambda at: self._each(belief, effect, at, at))(theta))

    def _each(self, belief: Regression, effect: Array, theta: Array, at: Array) -> Array:
        """ℓ(θ; z) for every row of the reservoir, moved to a decision."""
        return jax.vmap(self.loss, (None, 0))(theta, self._moved(belief, effect, at))

    def _moved(self, belief: Regression, effect: Array, at: Array) -> Array:
        """The rows (m, k) of the reservoir, moved to a decision."""
        assert belief.reservoir is not None
        decisions, z = belief.reservoir[:, : at.shape[0]], belief.reservoir[:, at.shape[0] :]
        return z + jax.vmap(lambda x: self.shift(effect, at - x))(decisions)

    @staticmethod
    def _variance(belief: Regression, each: Array) -> Array:
        """The variance of the mean of numbers (m,), or the covariance of that of vectors (m, d), one for each row."""
        weights = Prediction.weights(belief)
        apart = each - jnp.tensordot(weights, each, 1)
        square = apart * apart if each.ndim == 1 else apart[:, :, None] * apart[:, None, :]
        rows = 1.0 / jnp.sum(weights**2)
        return jnp.tensordot(weights, square, 1) / jnp.maximum(rows - 1.0, 0.5)

    @staticmethod
    def weights(belief: Regression) -> Array:
        """Of the rows of the reservoir: those that are filled, alike."""
        assert belief.reservoir is not None
        filled = (jnp.arange(belief.reservoir.shape[0]) < belief.count).astype(jnp.float64)
        return filled / jnp.sum(filled)

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
