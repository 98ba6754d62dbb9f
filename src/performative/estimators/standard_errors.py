"""Standard errors of a regression: of the effect, and of the risk and the gain it predicts."""

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
"""Draws of the data that measure how an average loss fluctuates, where there is no reservoir."""


class Confidence(NamedTuple):
    """Estimates with standard errors: the effect, the risk predicted at a decision, and its gain over another decision."""

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
    draws: int = DRAWS,
) -> Confidence:
    """Standard errors from the regression, and of the risk at `decision` and its gain over `reference` by the delta method.

    The noise of the data is assumed to have the same covariance at every decision, as in a location family. How it makes the
    average loss fluctuate is measured on `draws` draws of a Gaussian of that covariance, or on the reservoir. `ridge` is how
    much a prior added to the scatter of the decisions, and is removed again.
    """
    d = belief.decision.shape[0]
    if belief.count <= d + 2:
        raise ValueError(f"standard errors need more than {d + 2} samples, but got {belief.count:.6g}")
    parts = _estimated(learner, prediction, belief, decision, reference, draws)
    effect, error, *numbers = (np.asarray(part) for part in parts)
    return Confidence(effect, error, *(float(number) for number in numbers))


@functools.partial(jax.jit, static_argnames="draws")
def _estimated(
    learner: LeastSquares,
    prediction: Prediction,
    belief: Regression,
    decision: Array,
    reference: Array,
    draws: int,
) -> tuple[Array, ...]:
    d = decision.shape[0]
    effect, inverse = learner.without_ridge(belief)
    noise = noise_covariance(learner, belief, d)

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
    count, filled = belief.count, jnp.ones(at_decision.shape, bool)
    if belief.reservoir is not None:
        size = belief.reservoir.shape[0]
        count, filled = jnp.minimum(belief.count, size), jnp.arange(size) < belief.count
    results: list[Array] = []
    for value, losses in ((risk, at_decision), (gain, at_reference - at_decision)):
        slope = spread_out(jax.grad(value)(effect))
        variance = jnp.sum(slope * (noise @ slope @ inverse))  # due to the effect
        results += [value(effect), jnp.sqrt(jnp.var(losses, where=filled) / count + variance)]
    return (effect, errors, *results)


def noise_covariance(learner: LeastSquares, belief: Regression, dimension: int) -> Array:
    """The covariance (k, k) of the noise that is left once the unmoved data have explained their part of it.

    Too small while there are fewer than d + 2 samples.
    """
    covariance = belief.scatter / jnp.maximum(belief.count - 1.0 - dimension, 1.0)
    left = jnp.eye(covariance.shape[0])
    if learner.unmoved:
        moved = np.ones(covariance.shape[0])
        moved[list(learner.unmoved)] = 0.0
        left = left.at[:, np.asarray(learner.unmoved)].add(-moved[:, None] * belief.lean)
    return left @ covariance @ left.T
