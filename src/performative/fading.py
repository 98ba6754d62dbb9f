"""Exploration that fades like t^(−1/4): one decision per round, with noise sized by what has been learned so far."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from performative.numerics.pytrees import assign, pytree
from performative.problem import Problem
from performative.sets import Box
from performative.validation import positive

CONJUGATE = 6
"""Steps of conjugate gradients that keep the noise along the active constraints."""


@pytree()
class Scales:
    """The scales that size `Fading`.

    `curvature` is the trace of the Hessian of the Lagrangian, `price` what a unit of exploration costs, `learning` the squared
    error of the gradient that a unit of noise in the data causes, and `length` a first guess of how far to explore.
    """

    curvature: Array
    price: Array
    learning: Array
    length: Array

    def averaged(self, weight: Array, moved: Array, curvature: Array, price: Array, learning: Array) -> Scales:
        """Running averages with this `weight` of what a round taught; unchanged where it has not `moved` or is not finite."""

        def average(old: Array, new: Array) -> Array:
            return jnp.where(moved & jnp.isfinite(new), old + weight * (new - old), old)

        return Scales(
            curvature=average(self.curvature, curvature),
            price=average(self.price, price),
            learning=average(self.learning, learning),
            length=self.length,
        )


@pytree()
class Fading:
    """θ_t + σ_t w_t alone, w_t ∼ N(0, I), with σ_t = σ·t^(−1/4), and less noise where moving has a first-order cost.

    σ balances the cost of exploring against the cost of not knowing the effect, times the `factor`; σ is at most `widest`.
    """

    factor: Array
    widest: Array

    def __init__(self, factor: float, widest: float) -> None:
        assign(self, factor=np.float64(positive("exploration", factor)), widest=np.float64(widest))

    def first_scales(self, slope: Callable[[Array], Array], decision: Array) -> Scales:
        """A first guess from the gradient `slope` of the risk at the first decision.

        Its length is that of a Newton step along the gradient, at most the width of Θ; where there is no curvature, the width
        of Θ, or 1 if Θ is unbounded.
        """
        d, zero = decision.shape[0], jnp.zeros(())
        gradient = slope(decision)
        size = jnp.linalg.norm(gradient)
        direction = gradient / jnp.maximum(size, 1e-300)
        bend = jnp.abs(jnp.sum(jax.jvp(slope, (decision,), (direction,))[1] * direction))
        newton = jnp.where(bend > 0, size / jnp.where(bend > 0, bend, 1.0), 0.0) / math.sqrt(d)
        farthest = jnp.where(jnp.isfinite(self.widest), self.widest, 1.0)
        length = jnp.where(newton > 0, jnp.minimum(newton, self.widest), farthest)
        return Scales(d * jnp.where(bend > 0, bend, size / length), zero, zero, length)

    def level(self, scales: Scales, rounds: Array, dimension: int) -> Array:
        """σ_t after this number of remembered `rounds`.

        A round of noise σ_t costs ½·price·σ_t². After t rounds the error of the effect is noise/(2σ²√t), which costs
        ½·learning·d/curvature times that. Both fall like 1/√t and are equal at σ⁴ = learning·d/(2·curvature·price).
        """
        cost = 2.0 * scales.curvature * scales.price
        learned = jnp.where(cost > 0, scales.learning * dimension / jnp.where(cost > 0, cost, 1.0), 0.0) ** 0.25
        sigma = jnp.where(learned > 0, learned, scales.length)
        return self.factor * jnp.minimum(sigma, self.widest) * rounds**-0.25

    def cheap_noise(
        self,
        problem: Problem,
        theta: Array,
        held: Array,
        multipliers: Array,
        curvature: Array,
        level: Array,
        noise: Array,
    ) -> Array:
        """The noise, less of it where moving has a first-order cost.

        Leaving a boundary that holds θ against the gradient costs the multiplier times the distance; elsewhere noise costs only
        curvature·σ_t². So noise is left as it is where the multiplier is small compared with curvature·σ_t/d, and reduced to
        order σ_t² where it is large. Against the boundary of Θ, `held` is how far the last step would have left Θ (entry by
        entry for a box). Across a constraint, conjugate gradients solve (I + Σ κ_i ∇g_i ∇g_iᵀ) w = noise with
        κ_i‖∇g_i‖ = λ_i d/(curvature·σ_t).
        """
        d = theta.shape[0]
        level = jnp.maximum(level, 1e-300)
        held = 2.0 * d * held  # the gradient over the mean curvature

        def freed(vector: Array) -> Array:
            if isinstance(problem.decisions, Box):
                return vector / (1.0 + jnp.abs(held) / level)
            length = jnp.sqrt(jnp.sum(held * held))
            normal = held / jnp.maximum(length, 1e-300)
            return vector - jnp.sum(normal * vector) * normal * (length / (length + level))

        if not problem.constraint_names:
            return freed(noise)
        steepness = jnp.sqrt(jnp.maximum(problem.steepness(theta), 1e-300))
        stiffness = multipliers * d / (steepness * jnp.maximum(level * curvature, 1e-300))

        def stiffened(vector: Array) -> Array:
            across = jax.jvp(problem.g, (theta,), (freed(vector),))[1]
            return vector + freed(problem.pullback(theta, stiffness * across))

        def conjugate(_: Array, carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
            solution, residual, direction, square = carry
            product = stiffened(direction)
            length = square / jnp.maximum(jnp.sum(direction * product), 1e-300)
            residual = residual - length * product
            next_square = jnp.sum(residual * residual)
            next_direction = residual + next_square / jnp.maximum(square, 1e-300) * direction
            return solution + length * direction, residual, next_direction, next_square

        begin = (jnp.zeros_like(noise), noise, noise, jnp.sum(noise * noise))
        cheap = freed(lax.fori_loop(0, CONJUGATE, conjugate, begin)[0])
        return jnp.where(jnp.all(jnp.isfinite(cheap)), cheap, freed(noise))
