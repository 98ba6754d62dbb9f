"""Assumption 4: the error of the gradient that n base samples leave."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.numerics import polynomial
from performative.theory.evidence import estimated, proved, unknown
from performative.theory.landscape import Landscape
from performative.theory.suprema import largest_value


def variance(landscape: Landscape) -> tuple[float, str]:
    """σ² of Assumption 4: sup over Θ of E‖∇_θ ℓ(θ; Z₀ + Aθ) − ∇PR(θ)‖²."""
    if _is_affine(landscape):
        return _affine_variance(landscape), proved("∇ℓ(θ; Z₀ + Aθ) is affine in θ and Z₀ together")
    if not landscape.bounded:
        return math.inf, unknown("Θ is unbounded")

    def spread(theta: Array) -> Array:
        gradients = jax.vmap(lambda z0: jax.grad(landscape.reacting_loss)(theta, z0))(landscape.draws)
        return jnp.sum(jnp.var(gradients, axis=0))

    value, _ = largest_value(spread, landscape.problem.decisions, landscape.points)
    return value, estimated(f"the largest found on Θ, {landscape.averaged}")


def uniform_variance(landscape: Landscape) -> tuple[float, str]:
    """n E sup_θ ‖∇P̂R(θ) − ∇PR(θ)‖², of n base samples."""
    if _is_affine(landscape):
        return _affine_variance(landscape), proved("the error of n base samples does not depend on θ")
    if not landscape.bounded:
        return math.inf, unknown("Θ is unbounded")
    loss, draws = landscape.reacting_loss, landscape.draws
    center = landscape.problem.decisions.project(jnp.zeros(landscape.dimension))
    if polynomial.degree(loss, center, draws[0]) > 2:
        return math.inf, unknown("ℓ(θ; Z₀ + Aθ) is not quadratic in θ")
    # ∇ℓ(θ; Z₀ + Aθ) = x + Yθ, and ‖mean(x) + mean(Y)(θ − c)‖ ≤ ‖mean(x)‖ + reach·‖mean(Y)‖_F.
    gradients = jax.jit(jax.vmap(lambda z0: jax.grad(loss)(center, z0)))(draws)
    hessians = jax.jit(jax.vmap(lambda z0: jax.hessian(loss)(center, z0)))(draws)
    at, along = float(jnp.sum(jnp.var(gradients, axis=0))), float(jnp.sum(jnp.var(hessians, axis=0)))
    reach = landscape.problem.decisions.radius + float(jnp.linalg.norm(center))
    value = (math.sqrt(at) + reach * math.sqrt(along)) ** 2
    label = proved if landscape.finite_base else estimated
    return value, label(f"∇ℓ(θ; Z₀ + Aθ) is affine in θ: the spread of both its coefficients, {landscape.averaged}")


def _is_affine(landscape: Landscape) -> bool:
    """Whether ℓ(θ; Z₀ + Aθ) is quadratic, and so its gradient affine, in θ and Z₀ together."""
    theta, z0 = jnp.asarray(landscape.points[0]), landscape.draws[0]
    return polynomial.joint_degree(landscape.reacting_loss, theta, z0) <= 2


def _affine_variance(landscape: Landscape) -> float:
    theta, z0 = jnp.asarray(landscape.points[0]), landscape.draws[0]
    slope = np.asarray(jax.jacfwd(jax.grad(landscape.reacting_loss), 1)(theta, z0))
    return float(np.trace(slope @ landscape.moments.covariance @ slope.T))
