"""How sure a regression is: standard errors of the effect, and of the risk and the gain it predicts."""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.estimators.prediction import Prediction
from performative.estimators.regression import LeastSquares, Regression
from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64

DRAWS = 4_000
"""Draws of the data that tell how an average loss fluctuates, where there is no reservoir."""


class Confidence(NamedTuple):
    """What is believed, with standard errors: the effect, the risk predicted at a decision, and its gain over another's."""

    effect: Floats
    effect_error: Floats
    risk: float
    risk_error: float
    gain: float
    gain_error: float


@in_float64
def confidence(
    learner: LeastSquares,
    prediction: Prediction,
    belief: Regression,
    decision: Array,
    reference: Array,
    ridge: Array | float = 0.0,
    draws: int = DRAWS,
) -> Confidence:
    """Standard errors from the regression, and of the risk at `decision` and its gain over `reference` by the delta method.

    The noise of the data is taken to be of the same covariance at every decision, as in a location family; its fluctuation in
    the average loss comes from `draws` draws of a Gaussian of that covariance, or from the reservoir. `ridge` is how much of the
    inverse scatter was put there by a prior, and is taken off again.
    """
    d = belief.decision.shape[0]
    if belief.count <= d + 2:
        raise ValueError(
            f"more than {d + 2} samples must have been told for standard errors, but there are {belief.count}"
        )
    parts = _estimated(learner, prediction, belief, decision, reference, jnp.asarray(ridge), draws)
    effect, error, *numbers = (np.asarray(part) for part in parts)
    return Confidence(effect, error, *(float(number) for number in numbers))


@functools.partial(jax.jit, static_argnames="draws")
def _estimated(
    learner: LeastSquares,
    prediction: Prediction,
    belief: Regression,
    decision: Array,
    reference: Array,
    ridge: Array,
    draws: int,
) -> tuple[Array, ...]:
    d = decision.shape[0]
    effect, inverse = learner.without_ridge(belief, ridge)
    noise = _noise(learner, belief, d)

    def spread_out(effect: Array) -> Array:
        """The matrix (k, d) that an effect stands for."""
        return jax.jacfwd(lambda theta: learner.shift(effect, theta))(jnp.zeros(d))

    if not learner.structured:
        errors = jnp.sqrt(jnp.outer(jnp.diag(noise), jnp.diag(inverse)))
    else:
        parts = jax.jacfwd(spread_out)(effect).reshape(noise.shape[0], d, effect.size)
        if learner.overlap is not None:
            parts = parts @ jnp.asarray(learner.overlap)
        variances = jnp.einsum("kdp,kl,de,lep->p", parts, noise, inverse, parts)
        errors = jnp.sqrt(variances).reshape(effect.shape)

    def risk(effect: Array) -> Array:
        return prediction.risk(belief, effect, decision)

    def gain(effect: Array) -> Array:
        return prediction.risk(belief, effect, reference) - risk(effect)

    at_decision, at_reference = (prediction.losses(belief, theta, draws) for theta in (decision, reference))
    averaged, drawn = belief.count, jnp.ones(at_decision.shape, bool)
    if belief.reservoir is not None:
        size = belief.reservoir.shape[0]
        averaged, drawn = jnp.minimum(belief.count, size), jnp.arange(size) < belief.count
    results: list[Array] = []
    for value, losses in ((risk, at_decision), (gain, at_reference - at_decision)):
        slope = spread_out(jax.grad(value)(effect))
        learned = jnp.sum(slope * (noise @ slope @ inverse))
        results += [value(effect), jnp.sqrt(jnp.var(losses, where=drawn) / averaged + learned)]
    return (effect, errors, *results)


def _noise(learner: LeastSquares, belief: Regression, dimension: int) -> Array:
    """The covariance (k, k) of the noise; what the unmoved data tell of that of the others is known."""
    covariance = belief.scatter / (belief.count - 1.0 - dimension)
    left = jnp.eye(covariance.shape[0])
    if learner.unmoved:
        moved = np.ones(covariance.shape[0])
        moved[list(learner.unmoved)] = 0.0
        left = left.at[:, np.asarray(learner.unmoved)].add(-moved[:, None] * belief.lean)
    return left @ covariance @ left.T
