"""The distribution of one number: the probability that it is positive, and the mean of its largest share."""

from __future__ import annotations

from typing import Protocol

import jax
import jax.numpy as jnp
from jax import Array

from performative.numerics.pytrees import pytree


class Outcome(Protocol):
    """The distribution of one number that a decision and a sample lead to."""

    def positive(self) -> Array:
        """P(X > 0)."""

    def upper_mean(self, level: Array) -> Array:
        """The mean of the largest 1 − `level` of X: CVaR."""


@pytree()
class NormalOutcome:
    """X ∼ N(mean, spread²).

    >>> from performative.numerics.outcomes import NormalOutcome
    >>> one = NormalOutcome(0.0, 2.0)
    >>> round(float(one.positive()), 6), round(float(one.upper_mean(0.5)), 6)  # 2 √(2/π)
    (0.5, 1.595769)
    """

    mean: Array
    spread: Array

    def positive(self) -> Array:
        """Φ(mean/spread)."""
        known = self.spread > 0.0
        ratio = self.mean / jnp.where(known, self.spread, 1.0)
        return jnp.where(known, jax.scipy.stats.norm.cdf(ratio), jnp.where(self.mean > 0.0, 1.0, 0.0))

    def upper_mean(self, level: Array) -> Array:
        """mean + spread · φ(Φ⁻¹(level))/(1 − level)."""
        quantile = jax.scipy.stats.norm.ppf(level)
        return self.mean + self.spread * jax.scipy.stats.norm.pdf(quantile) / (1.0 - level)


@pytree()
class Outcomes:
    """X takes the `values` (n,) with these `weights` (n,), which sum to 1; each is smeared by N(0, width²) for probabilities.

    With a width of 0 a probability is a step function of the values, whose slope is 0 wherever it has one.

    >>> import jax.numpy as jnp
    >>> from performative.numerics.outcomes import Outcomes
    >>> ten = Outcomes(jnp.arange(10.0) - 6.5, jnp.full(10, 0.1), 0.0)
    >>> round(float(ten.positive()), 6), round(float(ten.upper_mean(0.75)), 6)  # (2.5 + 1.5 + 0.5 · 0.5)/2.5
    (0.3, 1.7)
    """

    values: Array
    weights: Array
    width: Array

    def positive(self) -> Array:
        """Σ w_i Φ(x_i/width)."""
        smeared = self.width > 0.0
        soft = jax.scipy.stats.norm.cdf(self.values / jnp.where(smeared, self.width, 1.0))
        return jnp.sum(self.weights * jnp.where(smeared, soft, jnp.where(self.values > 0.0, 1.0, 0.0)))

    def upper_mean(self, level: Array) -> Array:
        """min over τ of τ + Σ w_i (x_i − τ)⁺/(1 − level): the largest values, as many as weigh 1 − level."""
        order = jnp.argsort(-self.values)
        share = 1.0 - level
        before = jnp.cumsum(self.weights[order]) - self.weights[order]
        taken = jnp.clip(share - before, 0.0, self.weights[order])
        return jnp.sum(taken * self.values[order]) / share
