"""What a careful decision-maker may lose against staying at the start, and what of it is spent."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.numerics.pytrees import assign, changed, pytree
from performative.validation import positive

FIRST = 30.0
"""The budget is for so many deployments; it grows like the square root of their number afterward."""
SURE, ALONE = 2.5, 0.2
"""Standard errors above an estimate that bound it, in all rounds and for the decision that looks best, with about 95 %, and how
many more in one dimension: in several, shared by their number, bounds already allow for a prior that is wrong in all of them."""
FEW = 4.0
"""Standard errors from n numbers are themselves estimates: they are stretched by 1 + FEW/n, much as Student's quantiles are."""
NOTHING, HOPED = 0.01, 0.5
"""A start stakes next to nothing if it loses and earns less than this share of what the first plan expects to gain; and which
share of that is the unit of the budget then."""


@pytree()
class Ledger:
    """What deviations from the start have lost so far: as observed, and where they were, for a model to judge.

    `losses` and `away` are the mean losses of the deployments away from the start, added up, and their number; `start_losses`
    and `at_start` those of the start. `mean` and `scatter` are those of the decisions away from the start. `unit` is the mean of
    |ℓ| at the start, and `promise` what the first plan that expects to gain anything expects.
    """

    losses: Array
    away: Array
    start_losses: Array
    at_start: Array
    mean: Array
    scatter: Array
    unit: Array
    promise: Array

    @staticmethod
    def empty(dimension: int) -> Ledger:
        """Nothing deployed yet."""
        zero = jnp.zeros(())
        return Ledger(zero, zero, zero, zero, jnp.zeros(dimension), jnp.zeros((dimension, dimension)), zero, zero)

    @property
    def stake(self) -> Array:
        """The unit of the budget: one deployment's loss at the start.

        A start at which next to nothing is at stake, such as an order or a portfolio of 0, would leave no budget: there it is
        the share HOPED of what one deployment is expected to gain.
        """
        return jnp.where(self.unit < NOTHING * self.promise, HOPED * self.promise, self.unit)

    def promised(self, gain: Array) -> Ledger:
        """The ledger with what a plan expects to gain, if it is the first to expect a gain."""
        return changed(self, promise=jnp.where(self.promise > 0.0, self.promise, jnp.maximum(gain, 0.0)))

    def after(self, decision: Array, loss: Array, unit: Array, at_start: Array) -> Ledger:
        """The ledger with one more deployment and its mean loss."""
        one = jnp.where(at_start, 0.0, 1.0)
        away = self.away + one
        apart, at_start_now = decision - self.mean, self.at_start + (1.0 - one)
        mean = self.mean + one * apart / jnp.maximum(away, 1.0)
        return Ledger(
            losses=self.losses + one * loss,
            away=away,
            start_losses=self.start_losses + (1.0 - one) * loss,
            at_start=at_start_now,
            mean=mean,
            scatter=self.scatter + jnp.tensordot(one * apart, decision - mean, 0),
            unit=self.unit + (1.0 - one) * (unit - self.unit) / jnp.maximum(at_start_now, 1.0),
            promise=self.promise,
        )

    def faded(self, share: Array | float) -> Ledger:
        """The ledger with a share of what was deployed, as a belief forgets it; the unit stays."""
        return changed(
            self,
            losses=share * self.losses,
            away=share * self.away,
            start_losses=share * self.start_losses,
            at_start=share * self.at_start,
            scatter=share * self.scatter,
        )

    def spent(
        self, error: Array, value: Array, value_error: Array, curvature: Array, sure: Array
    ) -> tuple[Array, Array]:
        """A bound on the loss over staying at the start: the lower one of those on what was observed and on what is predicted, or
        the former where observed losses say that the prediction is wrong, and whether they do.

        `error` is the standard error of one deployment's mean loss; `value` is the predicted loss of the mean decision away from
        the start over the start's, `value_error` its standard error, and `curvature` the convex Hessian of the model, which is
        taken as it is. Bounds lie `sure` standard errors above.
        """
        start = self.start_losses / jnp.maximum(self.at_start, 1.0)
        spread = error * jnp.sqrt(self.away + self.away**2 / jnp.maximum(self.at_start, 1.0))
        observed = self.losses - self.away * start
        predicted = self.away * (value + sure * value_error) + 0.5 * jnp.sum(curvature * self.scatter)
        most, refuted = observed + sure * spread, predicted < observed - sure * spread
        both = jnp.where(refuted, most, jnp.minimum(most, predicted))
        bound = jnp.where(self.away > 0, jnp.where(self.at_start > 0, both, predicted), 0.0)
        return bound, refuted & (self.away > 0) & (self.at_start > 0)


@pytree()
class Budget:
    """How much may be lost against staying at the start, in multiples of one deployment's loss there.

    It is for the first thirty deployments, and grows like √t afterward: a fixed budget, once spent, would end all learning.
    """

    multiple: Array

    def __init__(self, multiple: float | None) -> None:
        unlimited = multiple is None or (np.ndim(multiple) == 0 and multiple == np.inf)
        assign(self, multiple=np.float64(np.inf if unlimited else positive("loss_budget", multiple)))

    def sure(self, numbers: Array, dimension: int) -> Array:
        """How many standard errors bound an estimate, if they come from so many independent numbers."""
        return (SURE + ALONE / dimension) * (1.0 + FEW / jnp.maximum(numbers - 1.0, 0.5))

    def allowance(self, ledger: Ledger, rounds: Array) -> Array:
        """How much may be lost in all by this round, in the unit of the loss."""
        unit = jnp.where(jnp.isinf(self.multiple), 1.0, ledger.stake)
        return self.multiple * unit * jnp.sqrt(jnp.maximum(rounds, FIRST) / FIRST)
