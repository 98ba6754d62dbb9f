"""A make-believe world to rehearse in: data of a plausible size at a start, and how they react to decisions around it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.methods.prior import own_widths, weighed
from performative.methods.ranges import ranges
from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64
from performative.numerics.programs import Program
from performative.problem import Problem
from performative.study.likeness import NIL, Likeness, noise_of
from performative.study.usable import computed

REACTIONS = {"none": 0.0, "weak": 0.5, "strong": 3.0}
"""By how much data change across the range of the decision that they are weighed with, in multiples of their size."""
SOME_WAY = 0.5
"""The share of a range after which a reaction hurts: at the start itself data may not matter yet, as at a price of 0."""


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """Samples that are like those at a `start`, and change with the distance from it.

    `rates` (k, d) are by how much each datum changes with each coordinate, in multiples of its size: a datum of any sign by a
    shift, a positive one by a factor e^(rate), a share or a label by its log-odds.
    """

    likeness: Likeness
    start: Floats
    rates: Floats

    def mean(self, decision: Floats) -> Floats:
        """The mean (k,) of the data at a decision; of shares, what noise is added to."""
        return self.likeness.mean_at(self.rates @ (decision - self.start))

    def sample(self, decision: Floats, noise: Floats) -> Floats:
        """Samples (n, k) at a decision, from standard normal numbers (n, k)."""
        return self.likeness.sample(self.mean(decision), noise)


@in_float64
def worlds(problem: Problem, start: Floats, like: Likeness) -> tuple[dict[str, World], Floats]:
    """A world for each reaction, and the ranges (d,) that reactions are measured across.

    The way down the loss on data as they are is the way that pays as long as nothing reacts. A reaction hurts whoever has gone
    some of that way: every datum moves to where the loss is larger, with the coordinate that the loss weighs it with (its own
    price), or with all coordinates alike where it is weighed with none in particular.
    """
    width = len(like.mean)
    samples = like.sample(like.mean, noise_of(width))
    reach = ranges(problem, start, np.full(problem.d, np.inf), NIL)[0]
    slopes, down, own, widths = computed(_reacting, problem, start, samples, reach)
    shares = np.where(np.any(own > 0, axis=1, keepdims=True), own, 1.0 / math.sqrt(problem.d))
    across = np.where(slopes < 0, -1.0, 1.0)[:, None] * down * shares / widths
    return {name: World(like, start, strength * across) for name, strength in REACTIONS.items()}, widths


@in_float64
def risks(problem: Problem, world: World, decisions: Floats) -> Floats:
    """The average loss (N,) of decisions (N, d) in a world, over the same noise for all of them."""
    noise = noise_of(len(world.likeness.mean))
    return np.asarray(computed(_risks, problem, decisions, np.stack([world.sample(one, noise) for one in decisions])))


@Program
def _reacting(problem: Problem, start: Array, samples: Array, reach: Array) -> tuple[Array, Array, Array, Array]:
    """E ∂ℓ/∂z (k,) some way down, the signs (d,) of the way down, the coordinates that data are weighed with, and the ranges."""

    def slope(place: int, theta: Array) -> Array:
        return jnp.mean(jax.vmap(jax.grad(problem.loss, place), (None, 0))(theta, samples), axis=0)

    widths = own_widths(problem, reach, start, samples)
    widths = jnp.where(widths > 0, widths, jnp.where(start != 0, jnp.abs(start), 1.0))
    down = jnp.where(slope(0, start) > 0, -1.0, 1.0)
    farther = problem.decisions.project(start + SOME_WAY * widths * down)
    _, own = weighed(problem, widths, start, jnp.mean(samples, axis=0))
    return slope(1, farther), down, own, widths


@Program
def _risks(problem: Problem, decisions: Array, samples: Array) -> Array:
    def one(both: tuple[Array, Array]) -> Array:
        theta, rows = both
        return jnp.mean(jax.vmap(problem.loss, (None, 0))(theta, rows))

    return jax.lax.map(one, (decisions, samples))
