"""What a decision may lose against staying at the start, and how far from it a budget lets the decision go."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from performative.estimators.prediction import Outlook, Prediction
from performative.estimators.regression import Fit

SHARES = (1.0, 0.85, 0.7, 0.6, 0.5, 0.35, 0.25, 0.12, 0.06, 0.0)
"""How much of the way from the start is tried, the most first, where the whole of it may lose too much."""
WHOLE = 0.5
"""The least share that budget is spent on: what a move teaches falls like the square of its length, what it may lose less fast,
so it is better to wait until a long one is affordable. Shorter moves must be surely better than the start."""


class Over(NamedTuple):
    """A predicted loss over the start's, its standard error, and the same if the prior is wrong in the same way everywhere."""

    value: Array
    error: Array
    largest: Array


class Reach(NamedTuple):
    """How far limits let a decision go: the `place` among SHARES, the decision there, what it loses, and a bound on that.

    `whole` is what the decision itself would lose.
    """

    place: Array
    decision: Array
    over: Over
    bound: Array
    whole: Over


class Limits(NamedTuple):
    """What is `left` of a budget, how many standard errors make `sure` of it, and whether a decision meets constraints."""

    left: Array
    sure: Array
    meets: Callable[[Array], Array]

    def reach(self, near: Array, x: Array, over: Callable[[Array], Over]) -> Reach:
        """How far a decision goes from one `near` toward x; `over` says what a decision loses."""
        shares = jnp.asarray(SHARES)

        def further(tried: tuple[Reach, Array]) -> tuple[Reach, Array]:
            place = tried[0].place + 1
            share = shares[place]
            there = jnp.where(place == 0, x, near + share * (x - near))
            loses = over(there)
            bound = loses.value + self.sure * loses.largest
            paid = jnp.where(share >= WHOLE, self.left, jnp.minimum(self.left, 0.0))
            whole = jax.tree.map(lambda now, first: jnp.where(place == 0, now, first), loses, tried[0].whole)
            done = ((bound <= paid) & self.meets(there)) | (share == 0.0)
            return Reach(place, there, loses, bound, whole), done

        zero = jnp.zeros(())
        none = Over(zero, zero, zero)
        untried = Reach(jnp.full((), -1), x, none, zero, none)
        return lax.while_loop(lambda tried: ~tried[1], further, (untried, jnp.asarray(False)))[0]


class Stakes(NamedTuple):
    """A fitted regression and the start that decisions are compared with; `today` is what is predicted there.

    `bend` is by how much more the start is expected to lose than is predicted, 0 where that is not asked for: see `over_start`.
    """

    prediction: Prediction
    fit: Fit
    start: Array
    today: Outlook
    bend: Array

    @staticmethod
    def of(prediction: Prediction, fit: Fit, start: Array) -> Stakes:
        """What the fit says of the start."""
        belief = fit.regression
        stakes = Stakes(prediction, fit, start, prediction.at(belief, belief.effect, start), jnp.zeros(()))
        return stakes._replace(bend=stakes._bend(start, stakes._curvature(start)))

    def over_start(self, x: Array, curvature: Array | float = 0.0) -> Over:
        """R̂(x) − R̂(start) and its standard errors.

        An error E of the effect and e of the mean move the mean of the data at x by E(x − x̄) + e, and the risk by c(x)ᵀ of
        that, with c = E ∂ℓ/∂z; the same at the start. Where the loss hardly feels the data, it may still be bent: with a
        `curvature` (k,) in the data, errors of variance v_k add b = ½ Σ curvature_k v_k on average, and their variance is at
        most 2b².
        """
        belief = self.fit.regression
        there = self.prediction.at(belief, belief.effect, x)
        apart = there.slope[:, None] * (x - belief.decision) - self.today.slope[:, None] * (
            self.start - belief.decision
        )
        level = there.gap_variance(belief, self.today)
        bend = self._bend(x, curvature)
        bent = 2.0 * (bend**2 + self.bend**2)
        known, misfit = self.fit.known, self.fit.misfit
        errors = (
            jnp.sqrt(jnp.maximum(misfit * (variance + level), 0.0) + bent)
            for variance in (known.variance(apart), known.largest_variance(apart))
        )
        here = jnp.all(x == self.start)
        value = there.risk - self.today.risk + bend - self.bend
        return Over(jnp.where(here, 0.0, value), *(jnp.where(here, 0.0, error) for error in errors))

    def curved(self, end: Array) -> Callable[[Array], Over]:
        """`over_start` of decisions on the way to an end, with the curvature that the risk has there."""
        curvature = self._curvature(end)
        return lambda x: self.over_start(x, curvature)

    def bent(self, x: Array, widths: Array) -> Array:
        """By how much the risk of x is off where the mean of the data is off a line by its size times the square of the distance
        from the start, in widths.
        """
        belief = self.fit.regression
        squares = self.prediction.at(belief, belief.effect, x).squares
        return jnp.sum(((x - self.start) / widths) ** 2) * jnp.sqrt(jnp.sum(squares * belief.size))

    def _curvature(self, x: Array) -> Array:
        """How the risk of x curves in the mean of each datum (k,), over what that may be off."""
        belief = self.fit.regression
        return self.prediction.curvature(belief, belief.effect, x, jnp.sqrt(self._variances(x)))

    def _bend(self, x: Array, curvature: Array | float) -> Array:
        return 0.5 * jnp.sum(curvature * self._variances(x))

    def _variances(self, x: Array) -> Array:
        """Of the mean of each datum at x, (k,)."""
        belief = self.fit.regression
        level = jnp.diag(belief.covariance) / belief.count
        return jnp.maximum(self.fit.misfit * (self.fit.known.errors(x - belief.decision) + level), 0.0)
