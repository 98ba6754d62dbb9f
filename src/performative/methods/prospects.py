"""Probes around a decision: what they would teach, what that is worth, and what they cost.

In units of the widths, as in `planning`: a probe u costs gᵀu + ½ uᵀHu, and is worth the horizon times what it takes off the cost
of not knowing, ½ tr(H⁻¹V).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from performative.methods.planning import Model, Planner, holding, touching
from performative.numerics import cholesky
from performative.problem import Problem
from performative.safety import PreparedSafety

SIZE, SIZES = 0.67, (0.17, 0.33, 1.0)
"""The lengths of probes that are tried, as shares of the longest: the first in all directions, the others in the BEST of them."""
BEST = 6
CLIMBS = 3
"""How often signs follow the slope of worth minus price."""
EDGE = 1e-9
"""What is added to products of unit vectors before they are inverted."""
TAUGHT = 0.1
"""How much the first probes teach in all directions together, in multiples of what the prior knows of the weakest effects."""
SHORT, WIDE, LONG = 0.015, 0.1, 0.25
"""The longest probe in the first rounds, from where samples are many to where noise is all, and ever: shares of the range."""


class Prospects(NamedTuple):
    """What probes around θ bring: `taught` (of a decision from the center, in widths) is what one takes off tr(H⁻¹V).

    `rows` (m, d) are the slopes of the constraints in widths, and `multipliers` those of the ones that θ touches.
    """

    problem: Problem
    safety: PreparedSafety
    planner: Planner
    model: Model
    theta: Array
    rows: Array
    multipliers: Array
    horizon: Array
    slope: Array
    taught: Callable[[Array], Array]

    @staticmethod
    def of(
        problem: Problem,
        safety: PreparedSafety,
        planner: Planner,
        model: Model,
        theta: Array,
        multipliers: Array,
        horizon: Array,
    ) -> Prospects:
        """Around θ, which λ belongs to, over a horizon of so many deployments."""
        slope = model.gradient + model.hessian @ ((theta - model.theta) / planner.widths)
        taught = model.known.teaching(model.slope, model.root, model.unroot)
        rows = jax.jacrev(problem.g)(theta) * planner.widths
        multipliers = touching(problem.g(theta), rows, multipliers)
        return Prospects(problem, safety, planner, model, theta, rows, multipliers, horizon, slope, taught)

    def judged(self, x: Array) -> tuple[Array, Array]:
        """What a probe x is worth, and its price."""
        return self._judged((x - self.theta) / self.planner.widths)

    def _judged(self, u: Array) -> tuple[Array, Array]:
        taught = self.taught((self.theta - self.model.center) / self.planner.widths + u)
        return 0.5 * self.planner.exploration * self.horizon * taught, self.slope @ u + 0.5 * u @ self.model.hessian @ u

    def best(self, rounds: Array, relative: Array, noise: Array) -> tuple[Array, Array]:
        """The probe of greatest worth over its price after so many rounds, and for how many; θ itself if none pays.

        Signs start from `noise` (starts, d) and follow the steepest ascent of worth minus price. `relative` is the noise of a
        deployment over the weakest effects that the prior expects across the range, both squared.
        """
        theta, d = self.theta, self.theta.shape[0]
        first = jnp.clip(jnp.sqrt(TAUGHT * relative / d), SHORT, WIDE)
        longest = jnp.minimum(LONG, first * (jnp.maximum(rounds, 10.0) / 10.0) ** 0.25)
        signs = self._signs(longest, jnp.where(noise > 0, 1.0, -1.0))
        some = self._tried(longest * SIZE * signs)
        promising = signs[jnp.argsort(some[2] - some[1])[:BEST]]
        others = self._tried((longest * jnp.asarray(SIZES)[:, None, None] * promising).reshape(-1, d))
        none = theta[None], jnp.zeros(1), jnp.zeros(1)
        tries, worths, prices = (jnp.concatenate(parts) for parts in zip(none, some, others, strict=True))
        best = jnp.argmax(worths - prices)
        along = (tries[best] - self.model.center) / self.planner.widths
        known = self.model.known.ratio(along, self.model.slope)
        # j rounds are worth j·worth·(1 + known)/(1 + j·known), so that the last of them pays for itself at
        ratio = worths[best] * (1.0 + known) / jnp.maximum(prices[best], 1e-300)
        return tries[best], (jnp.sqrt(ratio) - 1.0) / jnp.maximum(known, 1e-300)

    def _signs(self, longest: Array, first: Array) -> Array:
        """Directions (n, d) to try: signs that climb worth minus price, and signs along what holds θ, both ways."""
        # Constraints that hold θ take the slope off its price; they would lead all signs across them.
        held = self.rows.T @ self.multipliers
        climb = jax.vmap(jax.grad(lambda u: jnp.subtract(*self._judged(u)) - held @ u))
        signs = lax.fori_loop(0, CLIMBS, lambda _, signs: jnp.where(climb(longest * signs) > 0, 1.0, -1.0), first)
        if self.multipliers.shape[0]:
            signs = jnp.concatenate([signs, self._along(jnp.concatenate([signs, first]))])
        return jnp.concatenate([signs, -signs])

    def _along(self, directions: Array) -> Array:
        """The directions (n, d) without their parts across the constraints that hold θ, whose price is of first order."""
        normals = holding(self.rows, self.multipliers)
        m, d = normals.shape
        if m > d:  # the same by the smaller of two matrices
            return directions @ (EDGE * cholesky.eliminated(normals.T @ normals + EDGE * jnp.eye(d)))
        gram = normals @ normals.T + EDGE * jnp.eye(m)
        return directions - (directions @ normals.T) @ cholesky.eliminated(gram) @ normals

    def _tried(self, steps: Array) -> tuple[Array, Array, Array]:
        """The safe decisions (n, d) that steps in widths lead to, their worths and their prices."""
        pull = getattr(
            self.safety, "pull", self.safety
        )  # a probe need not be the nearest, which takes a solver for each
        ends = self.theta + self.planner.widths * steps
        safe = jax.vmap(lambda x: pull(self.problem, self.problem.decisions.project(x)))(ends)
        worths, prices = jax.vmap(self.judged)(safe)
        good = jnp.isfinite(worths - prices)  # or else a probe is not worth its price, whatever either would be
        return safe, jnp.where(good, worths, 0.0), jnp.where(good, prices, jnp.inf)
