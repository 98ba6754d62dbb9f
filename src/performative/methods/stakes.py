"""What a decision may lose against staying at the start, and how far from it a budget lets the decision go."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from performative.estimators.prediction import Prediction
from performative.estimators.regression import Fit

SHARES = (1.0, 0.7, 0.5, 0.35, 0.25, 0.12, 0.06, 0.0)
"""How much of the way from the start is tried, the most first, where the whole of it may lose too much."""
WHOLE = 0.5
"""The least share that budget is spent on: what a move teaches falls like the square of its length, what it may lose less fast,
so it is better to wait until a long one is affordable. Shorter moves must be surely better than the start."""


class Over(NamedTuple):
    """A predicted loss over the start's, its standard error, and the same if the prior is wrong in the same way everywhere."""

    value: Array
    error: Array
    largest: Array


class Way(NamedTuple):
    """Decisions (n, d) on the way to another one, that one first, and what they lose over the start (n,)."""

    tries: Array
    over: Over


class Limits(NamedTuple):
    """What is `left` of a budget, how many standard errors make `sure` of it, and which of some decisions meet constraints."""

    left: Array
    sure: Array
    meets: Callable[[Array], Array]

    def farthest(self, way: Way) -> tuple[Array, Array]:
        """Which decision goes as far as the limits let it, and bounds (n,) on the losses of all."""
        share = jnp.asarray(SHARES)
        bounds = way.over.value + self.sure * way.over.largest
        paid = jnp.where(share >= WHOLE, self.left, 0.0)
        return jnp.argmax(((bounds <= paid) & self.meets(way.tries)) | (share == 0.0)), bounds


class Stakes(NamedTuple):
    """A fitted regression and the start that decisions are compared with; `today` is its risk, `weights` (k,) its E ∂ℓ/∂z."""

    prediction: Prediction
    fit: Fit
    start: Array
    today: Array
    weights: Array

    @staticmethod
    def of(prediction: Prediction, fit: Fit, start: Array) -> Stakes:
        """What the fit says of the start."""
        belief = fit.regression
        weights = prediction.slope_in_data(belief, belief.effect, start)
        return Stakes(prediction, fit, start, prediction.risk(belief, belief.effect, start), weights)

    def over_start(self, x: Array) -> Over:
        """R̂(x) − R̂(start) and its standard errors.

        An error E of the effect and e of the mean move the mean of the data at x by E(x − x̄) + e, and the risk by c(x)ᵀ of
        that, with c = E ∂ℓ/∂z; the same at the start.
        """
        belief, prediction = self.fit.regression, self.prediction
        value = prediction.risk(belief, belief.effect, x) - self.today
        weights = prediction.slope_in_data(belief, belief.effect, x)
        apart = weights[:, None] * (x - belief.decision) - self.weights[:, None] * (self.start - belief.decision)
        if belief.reservoir is None:
            level = (weights - self.weights) @ belief.covariance @ (weights - self.weights) / belief.count
        else:
            level = prediction.gap_variance(belief, belief.effect, x, self.start)
        known, misfit = self.fit.known, self.fit.misfit
        errors = (
            jnp.sqrt(jnp.maximum(misfit * (variance + level), 0.0))
            for variance in (known.variance(apart), known.largest_variance(apart))
        )
        here = jnp.all(x == self.start)
        return Over(jnp.where(here, 0.0, value), *(jnp.where(here, 0.0, error) for error in errors))

    def way(self, x: Array, near: Array | None = None) -> Way:
        """The way to a decision from the start, or from one `near`."""
        near = self.start if near is None else near
        tries = near + jnp.asarray(SHARES)[:, None] * (x - near)
        tries = tries.at[0].set(x)
        return Way(tries, jax.vmap(self.over_start)(tries))

    def bent(self, x: Array, widths: Array) -> Array:
        """By how much the risk of x is off where the mean of the data is off a line by its size times the square of the distance
        from the start, in widths.
        """
        belief = self.fit.regression
        squares = self.prediction.squared_slopes(belief, belief.effect, x)
        return jnp.sum(((x - self.start) / widths) ** 2) * jnp.sqrt(jnp.sum(squares * belief.size))
