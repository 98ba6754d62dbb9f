"""What past deployments teach a regression before the first round."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from performative.estimators import reservoir
from performative.estimators.regression import LeastSquares, Regression
from performative.numerics.pytrees import changed
from performative.past import Past


def recalled(learner: LeastSquares, belief: Regression, past: Past) -> Regression:
    """The regression after all past deployments; `belief` knows the first one alone.

    Every deployment counts as many times as it brought samples, whether these are known one by one or as a mean. Rows that are
    means scatter less than single samples, by their count, so the noise is learned from how many rows there are.
    """
    decisions, means, counts = (jnp.asarray(part) for part in (past.decisions, past.means, past.counts))

    def recall(belief: Regression, deployment: tuple[Array, Array, Array]) -> tuple[Regression, None]:
        decision, mean, count = deployment
        return learner.update(belief, decision, mean[None], count)[0], None

    first = changed(belief, count=counts[0], reservoir=None, **_within(learner, belief, past))
    belief_of_all, _ = lax.scan(recall, first, (decisions[1:], means[1:], counts[1:]))
    total, rows, unknown = jnp.sum(counts), len(counts) + jnp.asarray(past.degrees), decisions.shape[1] + 1.0
    share = belief_of_all.count / total  # below 1 where old data fade
    # Of rows that are single samples this is the scatter itself.
    times = jnp.where(rows > unknown, (total - unknown) / jnp.where(rows > unknown, rows - unknown, 1.0), total / rows)
    free = belief_of_all
    for axis, ridge in enumerate(belief_of_all.ridge):
        free = learner.with_ridge(free, jnp.asarray(axis), 1e-6 * ridge, shrinks=True)
    left = free.scatter  # what the prior adds to it does not scatter like the rows
    return changed(
        belief_of_all,
        scatter=(left + share * jnp.asarray(past.scatter)) * times + belief_of_all.scatter - left,
        reservoir=None if belief.reservoir is None else _sample(learner, belief, past),
    )


def _within(learner: LeastSquares, belief: Regression, past: Past) -> dict[str, Array]:
    """How the noise of data that the effect moves leans on the noise of the others, from within deployments."""
    if not learner.unmoved:
        return {}
    still, scatter = np.asarray(learner.unmoved), jnp.asarray(past.scatter)
    enough = jnp.asarray(past.degrees) > len(still)
    inverse = jnp.linalg.inv(jnp.where(enough, scatter[still][:, still], jnp.eye(len(still))))
    good = enough & jnp.all(jnp.isfinite(inverse))
    return {
        "lean": jnp.where(good, scatter[:, still] @ inverse, belief.lean),
        "lean_inverse": jnp.where(good, inverse, belief.lean_inverse),
    }


def _sample(learner: LeastSquares, belief: Regression, past: Past) -> Array:
    """A reservoir of past rows, the latest ones where old data fade."""
    assert past.rows is not None
    rows = jnp.concatenate([jnp.asarray(part) for part in past.rows], axis=1)
    latest = rows if learner.memory is None else rows[-2 * learner.reservoir :]
    return reservoir.first_rows(belief.key, latest, learner.reservoir)
