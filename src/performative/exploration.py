"""Exploration: which decisions are deployed around θ_t. Each part turns standard normal numbers into decisions."""

from __future__ import annotations

from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from performative.numerics.pytrees import assign, pytree
from performative.problem import Problem
from performative.sets import Box, DecisionSet
from performative.validation import positive

CONJUGATE = 6
"""Steps of conjugate gradients that keep the noise along the constraints that bind."""


class Exploration(Protocol):
    """Turns the current decision into the decisions (b, d) to deploy this round."""

    def normals(self, dimension: int) -> int:
        """How many standard normal numbers a round needs."""

    def decisions(self, normals: Array, theta: Array) -> Array:
        """The b decisions around θ that these numbers stand for."""


@pytree()
class Pair:
    """θ_t and θ_t + u_t with u_t ∼ N(0, scale²·I): lines 4 to 6 of Algorithm 1. Probes may leave Θ and break g."""

    scale: Array

    def __init__(self, scale: float = 1.0) -> None:
        assign(self, scale=np.float64(positive("exploration", scale)))

    def normals(self, dimension: int) -> int:
        """One for each coordinate."""
        return dimension

    def decisions(self, normals: Array, theta: Array) -> Array:
        """θ and θ + u."""
        return jnp.stack([theta, theta + self.scale * normals])


@pytree()
class Alone:
    """θ_t by itself, for methods that need not learn the effect."""

    def normals(self, dimension: int) -> int:
        """None: nothing is random."""
        return 0

    def decisions(self, normals: Array, theta: Array) -> Array:
        """θ alone."""
        return theta[None]


@pytree()
class Around:
    """θ_t + u_t alone, u_t ∼ N(0, scale²·I), projected on the set `within`."""

    scale: Array
    within: DecisionSet

    def __init__(self, scale: float, within: DecisionSet) -> None:
        assign(self, scale=np.float64(positive("exploration", scale)), within=within)

    def normals(self, dimension: int) -> int:
        """One for each coordinate."""
        return dimension

    def decisions(self, normals: Array, theta: Array) -> Array:
        """θ + u alone, projected."""
        return self.within.project(theta + self.scale * normals)[None]


@pytree("both")
class Sphere:
    """θ_t + δv, v uniform on the unit sphere, and θ_t − δv too if `both`, for methods that use no derivative.

    Probes may leave Θ, by δ, and break g.
    """

    radius: Array
    both: bool

    def __init__(self, radius: float, both: bool = False) -> None:
        assign(self, radius=np.float64(positive("exploration", radius)), both=bool(both))

    def normals(self, dimension: int) -> int:
        """One for each coordinate."""
        return dimension

    def decisions(self, normals: Array, theta: Array) -> Array:
        """The probe on one side of θ, or on both."""
        way = self.radius * normals / jnp.sqrt(jnp.maximum(jnp.sum(normals * normals), 1e-300))
        return jnp.stack([theta + way, theta - way]) if self.both else (theta + way)[None]


@pytree()
class Fading:
    """θ_t + σ_t w_t alone, w_t ∼ N(0, I), with σ_t = σ·t^(−1/4), and less noise where moving costs in first order.

    σ balances what exploring costs against what not knowing the effect costs, times the `factor`; σ is at most `widest`.
    """

    factor: Array
    widest: Array

    def __init__(self, factor: float, widest: float) -> None:
        assign(self, factor=np.float64(positive("exploration", factor)), widest=np.float64(widest))

    def level(self, scales: Scales, rounds: Array, dimension: int) -> Array:
        """σ_t after so many `rounds` that are remembered.

        A round of noise σ_t costs ½·price·σ_t². After t rounds the effect is known up to noise/(2σ²√t), which costs
        ½·learning·d/curvature of it. Both fall like 1/√t and are equal at σ⁴ = learning·d/(2·curvature·price).
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
        """The noise, less of it where moving costs in first order.

        Leaving a boundary that holds θ against the gradient costs its multiplier times the way, elsewhere only
        curvature·σ_t². So noise is left as it is where the multiplier is small against curvature·σ_t/d, and is of order σ_t²
        where it is large: against the boundary of Θ (`held` is how far the last step would have left Θ; entry by entry for a
        box), across a constraint by solving (I + Σ κ_i ∇g_i ∇g_iᵀ) w = noise, κ_i‖∇g_i‖ = λ_i d/(curvature·σ_t), with
        conjugate gradients.
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

        def conjugate(_: Any, carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
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


@pytree()
class Scales:
    """What `Fading` is sized by: `curvature` is the trace of the Hessian of the Lagrangian, `price` what a unit of exploration
    costs, `learning` the square of the gradient's error that a unit of noise in the data leaves, and `length` a first idea of
    how far to explore.
    """

    curvature: Array
    price: Array
    learning: Array
    length: Array
