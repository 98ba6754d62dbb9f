"""The next decision of a careful decision-maker: a step that the evidence supports, and a probe that is worth its price.

Everything is measured in the width W of each coordinate's range, u = (x − θ)/W, and in the unit of the loss. Around θ the
predicted risk is

    R̂(θ + Wu) ≈ R̂(θ) + gᵀu + ½ uᵀHu,     with standard error (uᵀVu)^½,   V = Σ_k c_k² s_k P_k,

where c_k = E ∂ℓ/∂z_k, s_k is the variance of the noise in z_k, and P_k the inverse information about its row of the effect.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from performative.numerics.pytrees import pytree
from performative.problem import Problem
from performative.safety import PreparedSafety
from performative.sets import Box

PESSIMISM = 0.6
"""How many standard errors a step must be worth."""
NEAR = 0.003
"""Steps shorter than this share of the range are too short to need evidence."""
ITERATIONS = 80
"""Primal and dual steps in the quadratic model."""
FLATTEST = 0.3
"""The least curvature that is believed, as a share of that which the prior expects."""
SIZES = (0.17, 0.33, 0.67, 1.0)
"""The lengths of probes that are tried, as shares of the longest."""
TAUGHT = 0.1
"""How much the first probes teach in all directions together, in multiples of what the prior knows of the weakest effects."""
SHORT, WIDE, LONG = 0.005, 0.1, 0.25
"""The longest probe in the first rounds, from where samples are many to where noise is all, and ever: shares of the range."""
WORTH = 0.5
"""What a probe is worth, as a share of what it takes off the cost of not knowing: that cost falls by itself as well."""


class Rows(NamedTuple):
    """What is known of each row of the effect, per deployment and in units of the widths.

    `effect` are the estimates (k, d). Row k has P_k = P + c_k p pᵀ/(1 − c_k P_jj), where P is the common `inverse` (d, d), `own`
    (k, d) marks the coordinate j that the loss weighs z_k with, p is that column of P, and `looser` c_k is how much less the
    prior holds that entry than the others.
    """

    effect: Array
    inverse: Array
    own: Array
    looser: Array

    @staticmethod
    def of(effect: Array, prior: Array, inverse: Array, own: Array, looser: Array) -> Rows:
        """The rows, from estimates whose prior holds all entries alike."""
        rows = Rows(effect, inverse, own, looser)
        apart = jnp.sum(own * (effect - prior), axis=1)
        return rows._replace(effect=effect + (rows.stretch * apart)[:, None] * rows.columns)

    @property
    def columns(self) -> Array:
        """p for every row, (k, d)."""
        return self.own @ self.inverse

    @property
    def stretch(self) -> Array:
        """c_k/(1 − c_k P_jj)."""
        held = jnp.sum(self.columns * self.own, axis=1)
        return self.looser / jnp.maximum(1.0 - self.looser * held, 1e-3)

    def product(self, vector: Array) -> Array:
        """P_k v for every row, (k, d)."""
        columns = self.columns
        return self.inverse @ vector + (self.stretch * (columns @ vector))[:, None] * columns

    def total(self, weights: Array) -> Array:
        """Σ_k weight_k P_k."""
        columns = self.columns
        return jnp.sum(weights) * self.inverse + (columns.T * (weights * self.stretch)) @ columns

    def after(self, vector: Array) -> Rows:
        """The rows once a deployment at this distance from the mean of the others is observed."""
        stretched = self.inverse @ vector
        return self._replace(inverse=self.inverse - stretched[:, None] * stretched / (1.0 + vector @ stretched))


class Model(NamedTuple):
    """The predicted risk around θ: gradient, Hessian and the least curvature to believe, and what V is made of.

    `weights` are c_k² s_k, of the mean of one deployment, and `center` is the mean of all decisions.
    """

    theta: Array
    gradient: Array
    hessian: Array
    floor: Array
    weights: Array
    rows: Rows
    center: Array


@pytree()
class Planner:
    """Steps and probes in units of the `widths` of the range; see the module."""

    widths: Array
    exploration: Array

    def step(
        self, problem: Problem, safety: PreparedSafety, model: Model, multipliers: Array, radius: Array
    ) -> tuple[Array, Array]:
        """θ and λ that minimize R̂ + PESSIMISM standard errors in the feasible set, each coordinate at most `radius`·W away."""
        values, vectors = jnp.linalg.eigh(model.hessian)
        hessian = (vectors * jnp.maximum(values, 0.0)) @ vectors.T
        top = jnp.maximum(jnp.maximum(values[-1], model.floor), 1e-300)
        unsure = model.rows.total(model.weights)
        widest = jnp.linalg.eigvalsh(unsure)[-1]
        floor = NEAR**2 * jnp.trace(unsure) / unsure.shape[0] + 1e-300
        g = problem.g(model.theta)
        rows = jax.jacrev(problem.g)(model.theta) * self.widths
        steep = jnp.maximum(jnp.sum(rows * rows, axis=1), 1e-300)

        def inside(u: Array) -> Array:
            u = jnp.clip(u, -radius, radius)
            moved = (problem.decisions.project(model.theta + self.widths * u) - model.theta) / self.widths
            if isinstance(problem.decisions, Box):
                return moved
            return moved * jnp.minimum(1.0, radius / jnp.maximum(jnp.max(jnp.abs(moved)), 1e-300))

        def iterate(_: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            u, lam = carry
            error = jnp.sqrt(u @ unsure @ u + floor)
            slope = model.gradient + hessian @ u + PESSIMISM * (unsure @ u) / error + rows.T @ lam
            bend = top + PESSIMISM * widest / error
            after = inside(u - slope / (1.5 * bend))
            lam = jnp.maximum(lam + 0.5 * bend / (steep * max(1, g.shape[0])) * (rows @ (2.0 * after - u) + g), 0.0)
            return after, lam

        u, lam = lax.fori_loop(0, ITERATIONS, iterate, (jnp.zeros_like(model.theta), multipliers))
        theta = safety(problem, problem.decisions.project(model.theta + self.widths * u))
        good = jnp.all(jnp.isfinite(theta)) & jnp.all(jnp.isfinite(lam))
        return jnp.where(good, theta, model.theta), jnp.where(good, lam, multipliers)

    def probe(
        self,
        problem: Problem,
        safety: PreparedSafety,
        model: Model,
        theta: Array,
        multipliers: Array,
        horizon: Array,
        rounds: Array,
        relative: Array,
        noise: Array,
    ) -> tuple[Array, Array, Array, Array]:
        """The probe of greatest worth over its price, its worth, its price, and for how many rounds; θ itself if none pays.

        A probe is worth `horizon` times what it takes off the cost of not knowing, ½ Σ_k c_k² s_k tr(H⁻¹P_k). Signs start from
        `noise` (starts, d) and follow the steepest ascent of worth minus price. `relative` is the noise of a deployment over the
        weakest effects that the prior expects across the range, both squared.
        """
        moved = (theta - model.theta) / self.widths
        values, vectors = jnp.linalg.eigh(model.hessian)
        hessian = (vectors * jnp.maximum(values, 0.0)) @ vectors.T
        inverse = (vectors / jnp.maximum(jnp.maximum(values, model.floor), 1e-300)) @ vectors.T
        slope = model.gradient + hessian @ moved
        center = (theta - model.center) / self.widths

        def worth(u: Array) -> Array:
            along = center + u
            learned = model.rows.product(along)
            information = learned @ along
            value = jnp.sum(learned * (learned @ inverse), axis=1) / (1.0 + information)
            return 0.5 * WORTH * self.exploration * horizon * jnp.sum(model.weights * value)

        def price(u: Array) -> Array:
            return slope @ u + 0.5 * u @ hessian @ u

        climb = jax.vmap(jax.grad(lambda u: worth(u) - price(u)))
        first = jnp.clip(jnp.sqrt(TAUGHT * relative / theta.shape[0]), SHORT, WIDE)
        longest = jnp.minimum(LONG, first * (jnp.maximum(rounds, 10.0) / 10.0) ** 0.25)
        signs = jnp.where(noise > 0, 1.0, -1.0)
        signs = lax.fori_loop(0, 3, lambda _, signs: jnp.where(climb(longest * signs) > 0, 1.0, -1.0), signs)
        if multipliers.shape[0]:
            signs = jnp.concatenate([signs, self._along(problem, theta, multipliers, signs)])
        signs = jnp.concatenate([signs, -signs])
        lengths = longest * jnp.asarray(SIZES)
        tries = (lengths[:, None, None] * signs).reshape(-1, theta.shape[0])
        pull = getattr(safety, "pull", safety)  # a probe need not be the nearest one, which takes a solver for each
        safe = jax.vmap(lambda u: pull(problem, problem.decisions.project(theta + self.widths * u)))(tries)
        safe = jnp.concatenate([theta[None], safe])
        steps = (safe - theta) / self.widths
        worths, prices = jax.vmap(worth)(steps), jax.vmap(price)(steps)
        scores = jnp.where(jnp.isfinite(worths - prices), worths - prices, -jnp.inf)
        best = jnp.argmax(scores)
        along = center + steps[best]
        known = jnp.sum(model.weights * (model.rows.product(along) @ along)) / jnp.maximum(
            jnp.sum(model.weights), 1e-300
        )
        # j rounds are worth j·worth·(1 + known)/(1 + j·known), so that the last of them pays for itself at
        ratio = worths[best] * (1.0 + known) / jnp.maximum(prices[best], 1e-300)
        rounds_worth = (jnp.sqrt(ratio) - 1.0) / jnp.maximum(known, 1e-300)
        return safe[best], worths[best], prices[best], rounds_worth

    def _along(self, problem: Problem, theta: Array, multipliers: Array, directions: Array) -> Array:
        """The directions (n, d) without their parts across the constraints that hold θ, whose price is of first order."""
        rows = jax.jacrev(problem.g)(theta) * self.widths
        rows = rows / jnp.sqrt(jnp.maximum(jnp.sum(rows * rows, axis=1, keepdims=True), 1e-300))
        holding = jnp.where((multipliers > 0.0)[:, None] & jnp.isfinite(rows), rows, 0.0)
        gram = holding @ holding.T + 1e-9 * jnp.eye(rows.shape[0])
        return directions - (jnp.linalg.solve(gram, holding @ directions.T)).T @ holding
