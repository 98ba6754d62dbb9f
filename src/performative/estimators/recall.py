"""What past deployments teach a regression before the first round."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, lax

from performative.estimators import reservoir
from performative.estimators.regression import LeastSquares, Regression
from performative.numerics.pytrees import changed
from performative.past import Past


def recalled(learner: LeastSquares, belief: Regression, past: Past) -> Regression:
    """The regression after all past deployments; `belief` knows the first one alone.

    Every deployment counts as many times as it brought samples, whether these are known one by one or as a mean.
    """
    decisions, means, counts = (jnp.asarray(part) for part in (past.decisions, past.means, past.counts))

    def recall(belief: Regression, deployment: tuple[Array, Array, Array]) -> tuple[Regression, None]:
        decision, mean, count = deployment
        return learner.recall(belief, decision, mean[None], count), None

    moments = changed(belief.moments, count=counts[0])
    squared = None if belief.squared is None else changed(belief.squared, count=counts[0])
    first = changed(belief, moments=moments, squared=squared, degrees=jnp.zeros(()), reservoir=None)
    after, _ = lax.scan(recall, first, (decisions[1:], means[1:], counts[1:]))
    share = after.count / jnp.sum(counts)  # below 1 where old data fade
    scatter = share * jnp.asarray(past.scatter)
    after = changed(
        after,
        spread=after.spread + scatter,
        within=after.within + jnp.diag(scatter),
        degrees=share * jnp.asarray(past.degrees),
    )
    return after if belief.reservoir is None else _with_sample(learner, after, past)


def _with_sample(learner: LeastSquares, belief: Regression, past: Past) -> Regression:
    """The regression with a reservoir of past rows, the latest ones where old data fade."""
    assert past.rows is not None
    rows = jnp.concatenate([jnp.asarray(part) for part in past.rows], axis=1)
    latest = rows if learner.memory is None else rows[-2 * learner.reservoir :]
    filled = jnp.asarray(min(len(latest), learner.reservoir), jnp.float64)
    return changed(belief, reservoir=reservoir.first_rows(belief.key, latest, learner.reservoir), filled=filled)
