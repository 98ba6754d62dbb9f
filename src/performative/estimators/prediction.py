"""What a regression predicts: the data at any decision, and their average loss."""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from performative.estimators.regression import LeastSquares, Regression
from performative.numerics.expectations import Moments, Pattern, hessian_pattern
from performative.numerics.pytrees import changed, pytree
from performative.numerics.randomness import standard_normal
from performative.problem import Loss, LossInData
from performative.shifts import Shift

THINNED = 250
"""About how many rows of a reservoir curvature is computed from: it takes many sums over them, and is only a correction."""


class Outlook(NamedTuple):
    """What is predicted at a decision: its risk, E ∂ℓ/∂z (k,) and E (∂ℓ/∂z)² (k,).

    Data may move where the loss feels it most, and not on average: hence the squares. For a loss that is not quadratic in the
    data, `each` (m,) are the losses of the reservoir's rows, moved there, and `weights` (m,) theirs.
    """

    risk: Array
    slope: Array
    squares: Array
    weights: Array | None
    each: Array | None

    def gap_variance(self, belief: Regression, other: Outlook) -> Array:
        """Of the difference of two decisions' risks, since only so many samples show the noise in the data."""
        if self.each is None or self.weights is None or other.each is None:
            apart = self.slope - other.slope
            return apart @ belief.covariance @ apart / belief.count
        return mean_variance(self.weights, self.each - other.each)


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

    def at(self, belief: Regression, effect: Array, theta: Array) -> Outlook:
        """What is predicted at θ, in one pass over the reservoir."""
        if belief.reservoir is not None:
            weights = self.weights(belief)
            data = self._moved(belief, effect, theta)
            each, slopes = jax.vmap(jax.value_and_grad(self.loss, 1), (None, 0))(theta, data)
            if belief.groups is not None:  # each number moves with two of the lifted data
                moving = belief.groups.weights(belief.reservoir[:, theta.shape[0] :], belief.typical)
                slopes = (moving * slopes[:, None, :]).reshape(len(slopes), -1)
            risk, slope, squares = (jnp.tensordot(weights, part, 1) for part in (each, slopes, slopes**2))
            return Outlook(risk, slope, squares, weights, each)
        risk, slope = jax.value_and_grad(lambda offset: self._offset(belief, effect, theta, offset))(
            jnp.zeros_like(belief.data)
        )
        return Outlook(risk, slope, slope**2, None, None)

    def curvature(self, belief: Regression, effect: Array, theta: Array, lengths: Array) -> Array:
        """How the risk curves in the mean of each datum at θ, over a length (k,): second differences, which kinks have, too."""
        if belief.reservoir is None:  # the same over any length
            pattern = self.pattern(belief.data.shape[0], theta.shape[0])
            assert pattern is not None
            if pattern.colors == 0:
                return jnp.zeros_like(lengths)
            return jnp.diag(jax.hessian(self.loss, 1)(theta, belief.data))
        belief = _thinned(belief)
        steps = jnp.diag(jnp.maximum(lengths, 1e-150))
        offsets = jnp.concatenate([jnp.zeros_like(lengths)[None], steps, -steps])
        # One after another: side by side, they would take the memory of 2k reservoirs.
        risks = lax.map(lambda offset: self._offset(belief, effect, theta, offset), offsets)
        above, below = risks[1:].reshape(2, -1)
        return (above + below - 2.0 * risks[0]) / jnp.diag(steps) ** 2

    def loss_variance(self, belief: Regression, theta: Array, there: Outlook) -> Array:
        """Of the loss of one sample at θ, `there`; with Gaussian noise, where the loss is quadratic in the data."""
        if there.each is not None and there.weights is not None:
            return jnp.sum(there.weights * (there.each - there.risk) ** 2)
        straight = there.slope @ belief.covariance @ there.slope
        pattern = self.pattern(belief.data.shape[0], theta.shape[0])
        assert pattern is not None
        if pattern.colors == 0:
            return straight
        bent = jax.hessian(self.loss, 1)(theta, belief.data) @ belief.covariance
        return straight + 0.5 * jnp.sum(bent * bent.T)

    def gradient_variance(self, belief: Regression, effect: Array, theta: Array) -> Array:
        """The covariance (d, d) of the gradient of the risk, since only so many samples show the noise in the data."""
        if belief.reservoir is None:
            mixed = jax.jacfwd(lambda at: self.at(belief, effect, at).slope)(theta)
            return mixed.T @ belief.covariance @ mixed / belief.count
        each = jax.jacfwd(lambda at: self._each(belief, effect, at, at))(theta)
        return mean_variance(self.weights(belief), each)

    def _offset(self, belief: Regression, effect: Array, theta: Array, offset: Array) -> Array:
        """The risk of θ if all data were larger by an offset (k,)."""
        if belief.reservoir is None:
            moments = changed(belief.moments, data=belief.data + offset)
            return self.risk(changed(belief, moments=moments), effect, theta)
        return jnp.sum(self.weights(belief) * self._each(belief, effect, theta, theta, offset))

    def _each(self, belief: Regression, effect: Array, theta: Array, at: Array, offset: Array | float = 0.0) -> Array:
        """ℓ(θ; z) for every row of the reservoir, moved to a decision, and by an offset of all (lifted) data."""
        return jax.vmap(self.loss, (None, 0))(theta, self._moved(belief, effect, at, offset))

    def _moved(self, belief: Regression, effect: Array, at: Array, offset: Array | float = 0.0) -> Array:
        """The rows (m, k) of the reservoir, moved to a decision and by an offset."""
        assert belief.reservoir is not None
        decisions, z = belief.reservoir[:, : at.shape[0]], belief.reservoir[:, at.shape[0] :]
        moves = jax.vmap(lambda x: self.shift(effect, at - x))(decisions) + offset
        if belief.groups is None:
            return z + moves
        return z + jnp.sum(belief.groups.weights(z, belief.typical) * moves.reshape(len(z), 2, -1), axis=1)

    @staticmethod
    def weights(belief: Regression) -> Array:
        """Of the rows of the reservoir: those that are filled, alike."""
        assert belief.reservoir is not None
        filled = (jnp.arange(belief.reservoir.shape[0]) < belief.filled).astype(jnp.float64)
        return filled / jnp.sum(filled)

    def losses(self, belief: Regression, theta: Array, draws: int) -> Array:
        """ℓ(θ; Z) for the data predicted at θ: the reservoir's, or `draws` draws of a Gaussian."""
        if belief.reservoir is not None:
            data = self._moved(belief, belief.effect, theta)
        else:
            values, vectors = jnp.linalg.eigh(belief.covariance)
            white = standard_normal(belief.key, draws * values.shape[0]).reshape(draws, -1)
            center = belief.data + self.shift(belief.effect, theta - belief.decision)
            data = center + (white * jnp.sqrt(jnp.maximum(values, 0.0))) @ vectors.T
        return jax.vmap(lambda z: self.loss(theta, z))(data)

    def pattern(self, width: int, dimension: int) -> Pattern | None:
        """The covariances that matter to a loss quadratic in samples of `width` numbers; None for any other loss."""
        return hessian_pattern(LossInData(self.loss), width, jnp.zeros(dimension))


def _thinned(belief: Regression) -> Regression:
    """The regression with one row in so many of its reservoir."""
    assert belief.reservoir is not None
    places = _places(belief.reservoir.shape[0])
    return changed(belief, reservoir=belief.reservoir[places], filled=jnp.sum(places < belief.filled))


@functools.cache
def _places(size: int) -> NDArray[np.int64]:
    """About THINNED of so many rows, at random places, since rows may come in an order; the first is among them."""
    every = max(1, size // THINNED)
    places = np.arange(0, size, every)
    places[1:] += np.random.default_rng(0).integers(0, every, len(places) - 1)
    return np.minimum(places, size - 1)


def mean_variance(weights: Array, each: Array) -> Array:
    """The variance of the mean of numbers (m,), or the covariance of that of vectors (m, d), with weights (m,)."""
    apart = each - jnp.tensordot(weights, each, 1)
    square = apart * apart if each.ndim == 1 else apart[:, :, None] * apart[:, None, :]
    rows = 1.0 / jnp.sum(weights**2)
    return jnp.tensordot(weights, square, 1) / jnp.maximum(rows - 1.0, 0.5)


class Learned(NamedTuple):
    """A regression, what made it and what it predicts."""

    learner: LeastSquares
    prediction: Prediction
    regression: Regression
