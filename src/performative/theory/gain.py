"""The gain of Lemma 4 for one problem: what an error in the effect does to the gradient."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.numerics import polynomial
from performative.theory.evidence import is_proved, unknown
from performative.theory.gradient import effect_gain
from performative.theory.landscape import Landscape
from performative.theory.risk import sensitivity
from performative.theory.suprema import spectral_norm

LARGE = 50_000
"""Numbers in the largest first derivative of the gradient by the effect that is written out."""


class Gain(NamedTuple):
    """‖∇P̂R_t(θ) − ∇P̂R(θ)‖ ≤ K₁‖D‖ + K₂‖D‖² on Θ: K₁ at the mean of the base, what n base samples add to it over √n, and K₂."""

    first: float
    spread: float
    second: float
    evidence: str


def gain(landscape: Landscape) -> Gain:
    """The gain of a problem, from the derivatives of ∇P̂R in the effect where they are small enough to write out.

    The base samples are those of the warm-up at o = Π_Θ(0), so that the prediction at θ is Z + Â(θ − o).
    """
    environment, decisions = landscape.environment, landscape.problem.decisions
    effect, d = jnp.asarray(environment.effect), landscape.dimension
    if not landscape.bounded:
        return _no_gain("Θ is unbounded")
    if landscape.degree_in_data > 2:
        return _no_gain("ℓ is not quadratic in Z, and no bound is known")
    if d * effect.size > LARGE:
        return _from_constants(landscape)
    origin, shift, center = decisions.project(jnp.zeros(d)), environment.shift, landscape.base_mean

    def predicted_loss(theta: Array, effect: Array, z0: Array) -> Array:
        observed = z0 + shift(jnp.asarray(environment.effect), origin)
        return landscape.problem.loss(theta, observed + shift(effect, theta - origin))

    # Of degree two in θ for every effect and z₀, it has a gradient, and that has derivatives in them, that are affine in θ.
    affine = polynomial.degree(predicted_loss, jnp.asarray(landscape.points[0]), effect, center) <= 2
    slope = jax.grad(predicted_loss)
    first_derivative, second_derivative = jax.jacfwd(slope, 1), jax.jacfwd(jax.jacfwd(slope, 1), 1)
    by_data = jax.jacfwd(first_derivative, 2)
    what = "the derivative of ∇P̂R in the effect"
    first, how = landscape.largest_affine(
        what, lambda theta: first_derivative(theta, effect, center).reshape(d, -1), affine
    )
    # The first derivative is affine in z₀: how much of z̄₀ − E Z₀ enters.
    share, of_share = landscape.largest_affine(
        what, lambda theta: by_data(theta, effect, center).reshape(-1, center.shape[0]), affine
    )
    spread = share * math.sqrt(float(np.trace(landscape.moments.covariance)))
    second, of_second = 0.0, how
    if landscape.degree_in_data > 1:
        if d * effect.size**2 > 100 * LARGE:
            return _from_constants(landscape)
        twice, of_second = landscape.largest_affine(
            what, lambda theta: second_derivative(theta, effect, center).reshape(-1, effect.size), affine
        )
        second = twice / 2
    return Gain(first, spread, second, _weakest(how, of_share, of_second))


def _from_constants(landscape: Landscape) -> Gain:
    """The gain of Lemma 4 from β, β_Z and the mean of ∇_Zℓ, where the effect is too large to differentiate by."""
    environment, decisions = landscape.environment, landscape.problem.decisions
    theta, z = jnp.asarray(landscape.points[0]), landscape.draws[0]
    hessians = (landscape.mixed_hessian, landscape.data_hessian)
    if not all(landscape.is_constant(hessian, theta, z) for hessian in hessians):
        return _no_gain(f"the effect holds too many numbers ({np.size(environment.effect)})")
    across, within = (float(spectral_norm(hessian(theta, z))) for hessian in hessians)
    center, slope = landscape.base_mean, jax.grad(landscape.problem.loss, 1)
    mean, how = landscape.largest_affine("∇_Zℓ", lambda theta: slope(theta, landscape.answer(center, theta)))
    shift = None if environment.dimension is not None else environment.shift
    strongest = sensitivity(environment.effect, shift, landscape.dimension)
    first, second = effect_gain(across, within, mean, strongest, decisions.radius)
    spread = within * math.sqrt(float(np.trace(landscape.moments.covariance)))
    return Gain(first, spread, second, f"{how}; Lemma 4's formula from β, β_Z and the mean of ∇_Zℓ")


def _no_gain(evidence: str) -> Gain:
    return Gain(math.inf, math.inf, math.inf, unknown(evidence))


def _weakest(*evidence: str) -> str:
    """What is not proved, if anything is not."""
    return next((item for item in evidence if not is_proved(item)), evidence[0])
