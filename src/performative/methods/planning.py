"""The next decision of a careful decision-maker: a step that the evidence supports, and a probe that is worth its price.

Everything is measured in the width W of each coordinate's range, u = (x − θ)/W, and in the unit of the loss. Around θ the
predicted risk is

    R̂(θ + Wu) ≈ R̂(θ) + gᵀu + ½ uᵀHu,     with standard error (uᵀVu)^½,   V = Σ_k c_k² Cov_k,

where c_k = E ∂ℓ/∂z_k, and Cov_k is the covariance of row k of the effect.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from performative.estimators.known import Numbers, Rows
from performative.estimators.prediction import Outlook, Prediction
from performative.estimators.regression import Fit
from performative.methods.prior import Prior
from performative.methods.stakes import Stakes
from performative.numerics import cholesky
from performative.numerics.pytrees import pytree
from performative.problem import Problem
from performative.safety import PreparedSafety
from performative.sets import separable

PESSIMISM = 0.6
"""How many standard errors a step must be worth."""
NEAR = 0.003
"""Steps shorter than this share of the range are too short to need evidence."""
FIRST_RADIUS = 0.12
"""The first trust region: how far θ may move in one plan, as a share of the range."""
SURELY, BENT = 2.0, 1.5
"""How many standard errors a farther step must be better than none, and by how much the mean of a datum may be off a line across
the range, in multiples of its size, as long as the trust region is no smaller than the first one."""
FARTHER = (0.0, 0.06, 0.13, 0.22, 0.35, 0.6, 1.0)
"""How much farther is tried, from the trust region to the whole range."""
ITERATIONS = 80
"""Primal and dual steps in the quadratic model."""
FLATTEST = 0.3
"""The least curvature that is believed, as a share of that which the prior expects."""
STRAIGHT = 1e-3
"""The same where the prior expects none, as a share of the slope."""
SIZES = (0.17, 0.33, 0.67, 1.0)
"""The lengths of probes that are tried, as shares of the longest."""
TAUGHT = 0.1
"""How much the first probes teach in all directions together, in multiples of what the prior knows of the weakest effects."""
SHORT, WIDE, LONG = 0.015, 0.1, 0.25
"""The longest probe in the first rounds, from where samples are many to where noise is all, and ever: shares of the range."""
WIDTH = 0.05
"""How far apart gradients are compared to get the curvature of a loss that is not quadratic, as a share of the first range."""


class Model(NamedTuple):
    """The predicted risk around θ, in units of the widths.

    `hessian` is convex, `inverse` that of a Hessian no flatter than is believed, `slope` (k,) how the risk changes with the data,
    and `known` what is known of the effect; `center` is the mean of all decisions. `error` is the standard error of the mean loss
    of a deployment by the noise within deployments alone, without the misfit, and `here` what is predicted at θ.
    """

    theta: Array
    gradient: Array
    hessian: Array
    inverse: Array
    top: Array
    slope: Array
    known: Rows | Numbers
    unsure: Array
    center: Array
    error: Array
    here: Outlook

    @staticmethod
    def of(
        problem: Problem, prediction: Prediction, fit: Fit, prior: Prior, theta: Array, multipliers: Array, samples: int
    ) -> Model:
        """What a fit predicts, for deployments of so many samples."""
        belief, widths = fit.regression, prior.widths
        known = fit.known.scaled(widths, fit.misfit, samples)

        def risk(x: Array) -> Array:
            return prediction.risk(belief, belief.effect, x)

        gradient = jax.grad(risk)
        if belief.reservoir is None:
            hessian = jax.hessian(risk)(theta)
        else:
            steps = jnp.diag(WIDTH * prior.first)
            hessian = jax.vmap(lambda step: gradient(theta + step) - gradient(theta - step))(steps)
            hessian = hessian / (2.0 * WIDTH * prior.first[:, None])
        if problem.constraint_names:
            hessian = hessian + jax.hessian(lambda x: jnp.sum(multipliers * problem.g(x)))(theta)
        hessian = 0.5 * (hessian + hessian.T) * widths[:, None] * widths
        values, vectors = jnp.linalg.eigh(jnp.where(jnp.isfinite(hessian), hessian, 0.0))
        slopes = gradient(theta) * widths
        least = jnp.maximum(FLATTEST * prior.bend, STRAIGHT * jnp.max(jnp.abs(slopes)))
        flattest = jnp.maximum(least, 1e-300)
        here = prediction.at(belief, belief.effect, theta)
        shape = prediction.gradient_variance(belief, belief.effect, theta)
        return Model(
            theta=theta,
            gradient=slopes,
            hessian=(vectors * jnp.maximum(values, 0.0)) @ vectors.T,
            inverse=(vectors / jnp.maximum(values, flattest)) @ vectors.T,
            top=jnp.maximum(values[-1], flattest),
            slope=here.slope,
            known=known,
            unsure=known.total(here.slope) + fit.misfit * shape * widths[:, None] * widths,
            center=belief.decision,
            error=mean_loss_error(prediction, fit, theta, here, samples) / jnp.sqrt(fit.misfit),
            here=here,
        )


def mean_loss_error(prediction: Prediction, fit: Fit, theta: Array, there: Outlook, samples: int) -> Array:
    """The standard error of the mean loss of a deployment of θ, `there`, less what is predicted from finitely many samples."""
    belief = fit.regression
    rows = jnp.inf if belief.reservoir is None else belief.filled
    spread = prediction.loss_variance(belief, theta, there) * (1.0 / samples + 1.0 / rows)
    least = 1e-6 * jnp.sum(there.slope**2 * belief.noise) / samples
    return jnp.sqrt(fit.misfit * jnp.maximum(spread, least))


@pytree()
class Planner:
    """Steps and probes in units of the `widths` of the range; see the module."""

    widths: Array
    exploration: Array

    def step(
        self, problem: Problem, safety: PreparedSafety, model: Model, now: Stakes, multipliers: Array, radius: Array
    ) -> tuple[Array, Array, Array]:
        """θ and λ that minimize R̂ + PESSIMISM standard errors in the feasible set and a trust region.

        Each coordinate moves at most `radius`·W, or farther to where R̂ is surely lower than at the last θ, which `now` compares
        with: by SURELY standard errors that allow for curvature, and for a prior that is wrong in the same way everywhere. Of
        these steps it takes the best, curvature aside. The third number says whether the radius holds θ.
        """
        radii = radius + (1.0 - radius) * jnp.asarray(FARTHER)
        tries, lams = jax.vmap(lambda one: self._within(problem, model, multipliers, one))(radii)
        pull = getattr(safety, "pull", safety)  # the nearest safe decision takes a solver for each
        safe = jax.vmap(lambda x: pull(problem, x))(tries)
        over = jax.vmap(now.over_start)(safe)
        far = radii > radius
        # A trust region that shrinks has seen promises broken: the world is more curved than it seemed.
        most = BENT * jnp.maximum(FIRST_RADIUS / radius, 1.0) ** 2
        bent = jnp.where(far, most * jax.vmap(now.bent, (0, None))(safe, self.widths), 0.0)
        sure = over.value + SURELY * jnp.hypot(over.largest, bent) < 0.0
        likely = over.value + PESSIMISM * over.error
        chosen = jnp.argmin(jnp.where(far & ~sure, jnp.inf, likely))
        theta, lam = safety(problem, tries[chosen]), lams[chosen]
        good = jnp.all(jnp.isfinite(theta)) & jnp.all(jnp.isfinite(lam))
        limited = good & (chosen == 0) & (jnp.max(jnp.abs(theta - model.theta) / self.widths) >= 0.99 * radius)
        return jnp.where(good, theta, model.theta), jnp.where(good, lam, multipliers), limited

    def _within(self, problem: Problem, model: Model, multipliers: Array, radius: Array) -> tuple[Array, Array]:
        """The minimizer θ ∈ Θ of the model, each coordinate at most `radius`·W away, and λ."""
        unsure = jnp.where(
            jnp.trace(model.unsure) > 0.0, model.unsure, 0.0
        )  # without noise, rounding is all that is left
        widest = jnp.sqrt(jnp.sum(unsure * unsure))
        floor = NEAR**2 * jnp.trace(unsure) / unsure.shape[0] + 1e-300
        g = problem.g(model.theta)
        rows = jax.jacrev(problem.g)(model.theta) * self.widths
        steep = jnp.maximum(jnp.sum(rows * rows, axis=1), 1e-300)

        def inside(u: Array) -> Array:
            u = jnp.clip(u, -radius, radius)
            moved = (problem.decisions.project(model.theta + self.widths * u) - model.theta) / self.widths
            if separable(problem.decisions):
                return moved
            return moved * jnp.minimum(1.0, radius / jnp.maximum(jnp.max(jnp.abs(moved)), 1e-300))

        def iterate(_: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            u, lam = carry
            error = jnp.sqrt(u @ unsure @ u + floor)
            slope = model.gradient + model.hessian @ u + PESSIMISM * (unsure @ u) / error + rows.T @ lam
            bend = model.top + PESSIMISM * widest / error
            after = inside(u - slope / (1.5 * bend))
            lam = jnp.maximum(lam + 0.5 * bend / (steep * max(1, g.shape[0])) * (rows @ (2.0 * after - u) + g), 0.0)
            return after, lam

        u, lam = lax.fori_loop(0, ITERATIONS, iterate, (jnp.zeros_like(model.theta), multipliers))
        return problem.decisions.project(model.theta + self.widths * u), lam

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
    ) -> tuple[Array, Array]:
        """The probe of greatest worth over its price, and for how many rounds; θ itself if none pays.

        A probe is worth `horizon` times what it takes off the cost of not knowing, ½ tr(H⁻¹V). Signs start from
        `noise` (starts, d) and follow the steepest ascent of worth minus price. `relative` is the noise of a deployment over the
        weakest effects that the prior expects across the range, both squared.
        """
        moved = (theta - model.theta) / self.widths
        slope = model.gradient + model.hessian @ moved
        center = (theta - model.center) / self.widths

        def judged(u: Array) -> tuple[Array, Array]:
            return self._judged(model, slope, center, horizon, u)

        # Constraints that hold θ take the slope off its price; they would lead all signs across them.
        held = jax.jacrev(problem.g)(theta).T @ multipliers * self.widths
        climb = jax.vmap(jax.grad(lambda u: jnp.subtract(*judged(u)) - held @ u))
        first = jnp.clip(jnp.sqrt(TAUGHT * relative / theta.shape[0]), SHORT, WIDE)
        longest = jnp.minimum(LONG, first * (jnp.maximum(rounds, 10.0) / 10.0) ** 0.25)
        first_signs = signs = jnp.where(noise > 0, 1.0, -1.0)
        signs = lax.fori_loop(0, 3, lambda _, signs: jnp.where(climb(longest * signs) > 0, 1.0, -1.0), signs)
        if multipliers.shape[0]:
            both = jnp.concatenate([signs, first_signs])
            signs = jnp.concatenate([signs, self._along(problem, theta, multipliers, both)])
        signs = jnp.concatenate([signs, -signs])
        lengths = longest * jnp.asarray(SIZES)
        tries = (lengths[:, None, None] * signs).reshape(-1, theta.shape[0])
        pull = getattr(safety, "pull", safety)  # a probe need not be the nearest one, which takes a solver for each
        safe = jax.vmap(lambda u: pull(problem, problem.decisions.project(theta + self.widths * u)))(tries)
        safe = jnp.concatenate([theta[None], safe])
        steps = (safe - theta) / self.widths
        worths, prices = jax.vmap(judged)(steps)
        scores = jnp.where(jnp.isfinite(worths - prices), worths - prices, -jnp.inf)
        best = jnp.argmax(scores)
        along = center + steps[best]
        known = model.known.ratio(along, model.slope)
        # j rounds are worth j·worth·(1 + known)/(1 + j·known), so that the last of them pays for itself at
        ratio = worths[best] * (1.0 + known) / jnp.maximum(prices[best], 1e-300)
        rounds_worth = (jnp.sqrt(ratio) - 1.0) / jnp.maximum(known, 1e-300)
        return safe[best], rounds_worth

    def judged(self, model: Model, theta: Array, horizon: Array, x: Array) -> tuple[Array, Array]:
        """What a probe x around θ is worth, and its price."""
        slope = model.gradient + model.hessian @ ((theta - model.theta) / self.widths)
        return self._judged(model, slope, (theta - model.center) / self.widths, horizon, (x - theta) / self.widths)

    def _judged(self, model: Model, slope: Array, center: Array, horizon: Array, u: Array) -> tuple[Array, Array]:
        taught = model.known.taught(center + u, model.slope, model.inverse)
        return 0.5 * self.exploration * horizon * taught, slope @ u + 0.5 * u @ model.hessian @ u

    def _along(self, problem: Problem, theta: Array, multipliers: Array, directions: Array) -> Array:
        """The directions (n, d) without their parts across the constraints that hold θ, whose price is of first order."""
        rows = jax.jacrev(problem.g)(theta) * self.widths
        rows = rows / jnp.sqrt(jnp.maximum(jnp.sum(rows * rows, axis=1, keepdims=True), 1e-300))
        holding = jnp.where((multipliers > 0.0)[:, None] & jnp.isfinite(rows), rows, 0.0)
        gram = holding @ holding.T + 1e-9 * jnp.eye(rows.shape[0])
        return directions - (directions @ holding.T) @ cholesky.eliminated(gram) @ holding
