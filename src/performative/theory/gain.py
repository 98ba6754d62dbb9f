"""The gain of Lemma 4 for one problem: what an error in the effect does to the gradient."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.theory.gradient import effect_gain
from performative.theory.landscape import Landscape
from performative.theory.risk import sensitivity
from performative.theory.suprema import largest_value, spectral_norm

LARGE = 50_000
"""Numbers in the largest first derivative of the gradient by the effect that is written out."""
FEW = 8
"""Decisions from which the lesser terms are maximized."""


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
    environment, decisions, points = landscape.environment, landscape.problem.decisions, landscape.points
    effect, d = jnp.asarray(environment.effect), landscape.dimension
    if not landscape.bounded:
        return _no_gain("Θ is unbounded")
    if landscape.degree_in_data > 2:
        return _no_gain("ℓ is not quadratic in Z, and no bound is known")
    if d * effect.size > LARGE:
        return _from_constants(landscape)
    origin, shift, center = decisions.project(jnp.zeros(d)), environment.shift, landscape.base_mean

    def slope(theta: Array, effect: Array, z0: Array) -> Array:
        def predicted_loss(theta: Array) -> Array:
            observed = z0 + shift(jnp.asarray(environment.effect), origin)
            return landscape.problem.loss(theta, observed + shift(effect, theta - origin))

        return jax.grad(predicted_loss)(theta)

    first_derivative, second_derivative = jax.jacfwd(slope, 1), jax.jacfwd(jax.jacfwd(slope, 1), 1)
    first, _ = largest_value(
        lambda theta: spectral_norm(first_derivative(theta, effect, center).reshape(d, -1)), decisions, points
    )
    by_data = jax.jacfwd(first_derivative, 2)

    def data_share(theta: Array) -> Array:  # the first derivative is affine in z₀: how much of z̄₀ − E Z₀ enters
        return spectral_norm(by_data(theta, effect, center).reshape(-1, center.shape[0]))

    trace = float(np.trace(landscape.moments.covariance))
    spread = largest_value(data_share, decisions, points[:FEW])[0] * math.sqrt(trace)
    second = 0.0
    if landscape.degree_in_data > 1:
        if d * effect.size**2 > 100 * LARGE:
            return _from_constants(landscape)

        def curvature(theta: Array) -> Array:
            both = second_derivative(theta, effect, center).reshape(d, effect.size, effect.size)
            square = jnp.einsum("iab,iac->bc", both, both)
            return jnp.sqrt(jnp.maximum(jnp.linalg.eigvalsh(square)[-1], 0.0)) / 2

        second = largest_value(curvature, decisions, points[:FEW])[0]
    return Gain(first, spread, second, "the derivatives of ∇P̂R in the effect, the largest found on Θ by ascent")


def _from_constants(landscape: Landscape) -> Gain:
    """The gain of Lemma 4 from β, β_Z and the mean of ∇_Zℓ, where the effect is too large to differentiate by."""
    environment, decisions = landscape.environment, landscape.problem.decisions
    theta, z = jnp.asarray(landscape.points[0]), landscape.draws[0]
    hessians = (landscape.mixed_hessian, landscape.data_hessian)
    if not all(landscape.is_constant(hessian, theta, z) for hessian in hessians):
        return _no_gain(f"the effect holds too many numbers ({np.size(environment.effect)})")
    across, within = (float(spectral_norm(hessian(theta, z))) for hessian in hessians)
    center, slope = landscape.base_mean, jax.grad(landscape.problem.loss, 1)
    mean, _ = largest_value(
        lambda theta: jnp.linalg.norm(slope(theta, landscape.answer(center, theta))), decisions, landscape.points[:FEW]
    )
    shift = None if environment.dimension is not None else environment.shift
    strongest = sensitivity(environment.effect, shift, landscape.dimension)
    first, second = effect_gain(across, within, mean, strongest, decisions.radius)
    spread = within * math.sqrt(float(np.trace(landscape.moments.covariance)))
    return Gain(first, spread, second, "Lemma 4's formula from β, β_Z and the mean of ∇_Zℓ")


def _no_gain(evidence: str) -> Gain:
    return Gain(math.inf, math.inf, math.inf, evidence)
