"""Standard errors of a regression: of the effect, and of the risk and the gain it predicts."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.estimators.fitting import SMALLEST, VAGUEST
from performative.estimators.known import Rows
from performative.estimators.prediction import Prediction
from performative.estimators.regression import WIDE, Fit, LeastSquares, Regression
from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64
from performative.numerics.programs import Program

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
    average loss fluctuate is measured on `draws` draws of a Gaussian of that covariance, or on the reservoir. No
    prior is used. Where old samples fade, errors are those of a world that stays: see `SquaredWeights`.
    """
    d = belief.decision.shape[0]
    if belief.freedom <= d + 2:
        raise ValueError(f"standard errors need more than {d + 2} samples, but got {belief.freedom:.6g}")
    parts = _estimated(learner, prediction, belief, decision, reference, draws=draws)
    effect, error, *numbers = (np.asarray(part) for part in parts)
    return Confidence(effect, error, *(float(number) for number in numbers))


def errors_of_line(belief: Regression) -> tuple[Floats, Floats]:
    """The effect and its standard errors as `confidence` has them, where the effect may be any matrix, alone and in NumPy.

    What is shown once needs no program, nor the libraries that one with LAPACK loads.
    """
    moments, spread = jax.tree.map(np.asarray, belief.moments), np.asarray(belief.spread)
    noise, scatter = np.maximum(np.asarray(belief.noise), SMALLEST)[:, None], np.diag(moments.scatter)
    size = np.maximum(moments.data**2 + np.diag(np.asarray(belief.covariance)), SMALLEST)[:, None]
    at = np.where(moments.decision != 0, moments.decision**2, 1.0)
    free = WIDE * size * np.where(scatter > 0, moments.count / np.where(scatter > 0, scatter, 1.0), 1.0 / at)
    reach = np.sqrt(np.minimum(free, VAGUEST / np.maximum(scatter / noise, SMALLEST)))
    normal = np.eye(len(scatter)) + reach[:, :, None] * (moments.scatter / noise[:, None]) * reach[:, None, :]
    half = np.linalg.inv(np.linalg.cholesky(normal)) * reach[:, None, :]
    covariance = np.swapaxes(half, 1, 2) @ half
    effect = np.sum(covariance * (moments.cross / noise)[:, None, :], axis=2)
    inverse, learned = covariance[0] / noise[0], 1.0 + len(scatter)
    if belief.squared is not None:
        squared = jax.tree.map(np.asarray, belief.squared)
        inverse = inverse - inverse @ (moments.scatter - squared.around(moments.decision)) @ inverse
        learned = learned * float(squared.count / moments.count)
    explained = effect @ moments.cross.T
    left = np.diag(spread - explained - explained.T + effect @ moments.scatter @ effect.T)
    freedom = np.maximum(belief.degrees + belief.deployments - learned, 1.0)
    return effect, np.sqrt(np.outer(np.maximum(left, 0.0) / freedom, np.maximum(np.diag(inverse), 0.0)))


@Program
def _estimated(
    learner: LeastSquares,
    prediction: Prediction,
    belief: Regression,
    decision: Array,
    reference: Array,
    draws: int,
) -> tuple[Array, ...]:
    fit = learner.unbiased(belief)
    effect, errors = fit.regression.effect, _Errors.of(learner, fit)

    def risk(effect: Array) -> Array:
        return prediction.risk(belief, effect, decision)

    def gain(effect: Array) -> Array:
        return prediction.risk(belief, effect, reference) - risk(effect)

    at_decision, at_reference = (prediction.losses(belief, theta, draws) for theta in (decision, reference))
    count, filled = belief.count, jnp.ones(at_decision.shape, bool)
    if belief.squared is not None:
        count = count**2 / belief.squared.count
    if belief.reservoir is not None:
        count, filled = belief.filled, jnp.arange(len(belief.reservoir)) < belief.filled
    results: list[Array] = []
    for value, losses in ((risk, at_decision), (gain, at_reference - at_decision)):
        variance = errors.variance(jax.grad(value)(effect))  # due to the effect
        results += [value(effect), jnp.sqrt(jnp.var(losses, where=filled) / count + variance)]
    return (effect, errors.each(effect), *results)


class _Errors(NamedTuple):
    """The covariance of the numbers of an effect: noise (k, k) times inverse scatter (d, d), or (p, p) if it is structured."""

    noise: Array | None
    inverse: Array

    @staticmethod
    def of(learner: LeastSquares, fit: Fit) -> _Errors:
        noise, known, squared = noise_covariance(fit), fit.known, fit.regression.squared
        if isinstance(known, Rows):
            inverse = known.covariance[0] / known.noise[0]
            if squared is not None:  # P⁻¹ − P⁻¹(S − M)P⁻¹ = P⁻¹(P − S + M)P⁻¹: what was never explored has a huge error
                moments = fit.regression.moments
                inverse = inverse - inverse @ (moments.scatter - squared.around(moments.decision)) @ inverse
            return _Errors(noise, inverse)
        # What unmoved data explain of the decisions, by chance, is left in the scatter where samples have weights.
        scatter = (
            learner.cleaned(fit.regression).scatter if squared is None else squared.around(fit.regression.decision)
        )
        scaled, rows = known.tensor / known.noise[:, None, None], np.asarray(known.moved)
        mixed = jnp.tensordot(noise[rows][:, rows], scaled, 1)
        middle = jnp.tensordot(mixed @ scatter, scaled, ((0, 2), (0, 2)))
        return _Errors(None, known.covariance @ middle @ known.covariance)

    def variance(self, slope: Array) -> Array:
        """Of a function of the effect whose derivatives are these."""
        if self.noise is None:
            return slope.reshape(-1) @ self.inverse @ slope.reshape(-1)
        return jnp.sum(slope * (self.noise @ slope @ self.inverse))

    def each(self, effect: Array) -> Array:
        """The standard error of each number."""
        if self.noise is None:
            return jnp.sqrt(jnp.diag(self.inverse)).reshape(effect.shape)
        return jnp.sqrt(jnp.outer(jnp.diag(self.noise), jnp.maximum(jnp.diag(self.inverse), 0.0)))


def noise_covariance(fit: Fit) -> Array:
    """The covariance (k, k) of the noise that is left once the unmoved data have explained their part of it.

    Too small while there are fewer than d + 2 samples.
    """
    belief = fit.regression
    left = fit.left + jnp.diag(jnp.maximum(-jnp.diag(fit.left), 0.0))  # rounding
    if belief.squared is None:
        return left / jnp.maximum(belief.freedom - 1.0 - belief.decision.shape[0], 1.0)
    # Of Σ w ε², each of the 1 + d numbers explains Σ w²/Σ w on average.
    learned = (1.0 + belief.decision.shape[0]) * belief.squared.count / belief.count
    return left / jnp.maximum(belief.freedom - learned, 1.0)
