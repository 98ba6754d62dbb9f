"""The next decision of a careful decision-maker: a step that the evidence supports.

Everything is measured in the width W of each coordinate's range, u = (x − θ)/W, and in the unit of the loss. Around θ the
predicted risk is

    R̂(θ + Wu) ≈ R̂(θ) + gᵀu + ½ uᵀHu,     with standard error (uᵀVu)^½,   V = Σ_k c_k² Cov_k,

where c_k = E ∂ℓ/∂z_k, and Cov_k is the covariance of row k of the effect.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
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
from performative.sets import DecisionSet, Product, separable

PESSIMISM = 0.6
"""How many standard errors a step must be worth, where there are many directions to choose from: see `pessimism`."""
NEAR = 0.003
"""Steps shorter than this share of the range are too short to need evidence."""
ROUNDING = 1e-9
"""What is less than this share of the range is rounding."""
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
STIFF = 3.0
"""How much more the loss is taken to bend across what holds θ, in multiples of its largest curvature: what is not known there
costs little as long as θ stays, and to learn it costs most."""
WIDTH = 0.05
"""How far apart gradients are compared to get the curvature of a loss that is not quadratic, as a share of the first range."""


def pessimism(dimension: int) -> float:
    """How many standard errors a step must be worth: half as many in one dimension, where few promises compete to be the best.

    >>> [round(pessimism(d), 2) for d in (1, 2, 5, 100)]
    [0.3, 0.45, 0.6, 0.6]
    """
    return PESSIMISM * min(1.0, (dimension + 1) / 4)


class Model(NamedTuple):
    """The predicted risk around θ, in units of the widths.

    `hessian` is convex, `root` a square root of the inverse of a Hessian no flatter than is believed and stiff across what holds
    θ, rrᵀ = H⁻¹, and `unroot` its inverse; `slope` (k,) is how the risk changes with the data, `known` what is known of the
    effect, and `center` the mean of all decisions. `error` is the standard error of the mean loss of a deployment by the noise
    within deployments alone, without the misfit, and `here` what is predicted at θ.
    """

    theta: Array
    gradient: Array
    hessian: Array
    root: Array
    unroot: Array
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
        slopes = gradient(theta) * widths
        if problem.constraint_names:
            hessian = hessian + jax.hessian(lambda x: jnp.sum(multipliers * problem.g(x)))(theta)
            rows = jax.jacrev(problem.g)(theta) * widths
            normals = holding(rows, touching(problem.g(theta), rows, multipliers))
            held = normals.T @ normals + held_by_set(problem.decisions, theta, slopes + rows.T @ multipliers, widths)
        else:
            held = held_by_set(problem.decisions, theta, slopes, widths)
        hessian = 0.5 * (hessian + hessian.T) * widths[:, None] * widths
        # Behind the fit, and before what a structured effect inverts: see `numerics.cholesky`.
        hessian, _ = lax.optimization_barrier((hessian, fit.misfit))
        values, vectors = jnp.linalg.eigh(jnp.where(jnp.isfinite(hessian), hessian, 0.0))
        least = jnp.maximum(FLATTEST * prior.bend, STRAIGHT * jnp.max(jnp.abs(slopes)))
        flattest = jnp.maximum(jnp.maximum(least, ROUNDING * values[-1]), 1e-300)
        top = jnp.maximum(values[-1], flattest)
        believed = (vectors * jnp.maximum(values, flattest)) @ vectors.T + STIFF * top * held
        lower = cholesky.root(believed)  # without LAPACK, which has had its one call of each routine
        convex, lower = lax.optimization_barrier(((vectors * jnp.maximum(values, 0.0)) @ vectors.T, lower))
        here = prediction.at(belief, belief.effect, theta)
        shape = prediction.gradient_variance(belief, belief.effect, theta)
        return Model(
            theta=theta,
            gradient=slopes,
            hessian=convex,
            root=cholesky.eliminated(lower).T,
            unroot=lower.T,
            top=top,
            slope=here.slope,
            known=known,
            unsure=known.total(here.slope) + fit.misfit * shape * widths[:, None] * widths,
            center=belief.decision,
            error=mean_loss_error(prediction, fit, theta, here, samples) / jnp.sqrt(fit.misfit),
            here=here,
        )


def touching(values: Array, rows: Array, multipliers: Array) -> Array:
    """The multipliers of constraints that θ touches, of their values g and slopes (m, d) in widths; 0 for the others.

    A multiplier belongs to the θ that was planned; the budget may have put another in its place.
    """
    near = -values <= NEAR * jnp.sqrt(jnp.sum(rows * rows, axis=1))
    return jnp.where(near, multipliers, 0.0)


def holding(rows: Array, multipliers: Array) -> Array:
    """The unit normals (m, d) of the constraints that hold θ, of the slopes of all; 0 for the others."""
    rows = rows / jnp.sqrt(jnp.maximum(jnp.sum(rows * rows, axis=1, keepdims=True), 1e-300))
    return jnp.where((multipliers > 0.0)[:, None] & jnp.isfinite(rows), rows, 0.0)


def held_by_set(decisions: DecisionSet, theta: Array, slope: Array, widths: Array) -> Array:
    """Σ nnᵀ (d, d) over unit normals n along which Θ holds θ: a short way down the `slope` leads out of it.

    Where coordinates have no range of their own, it is the one normal that leads back.
    """
    down = theta - NEAR * widths * slope / jnp.maximum(jnp.max(jnp.abs(slope)), 1e-300)
    out = down - decisions.project(down)
    outside = jnp.abs(out) > ROUNDING * widths
    if separable(decisions):
        return jnp.diag(jnp.where(outside, 1.0, 0.0))
    if isinstance(decisions, Product):
        ends = np.cumsum([part.dimension for part in decisions.parts])[:-1]
        pieces = (jnp.split(each, ends) for each in (theta, slope, widths))
        return jax.scipy.linalg.block_diag(
            *(held_by_set(part, *piece) for part, *piece in zip(decisions.parts, *pieces, strict=True))
        )
    normal = out * widths
    length = jnp.sqrt(jnp.sum(normal * normal))
    normal = jnp.where(jnp.any(outside), normal / jnp.maximum(length, 1e-300), 0.0)
    return normal[:, None] * normal


def mean_loss_error(prediction: Prediction, fit: Fit, theta: Array, there: Outlook, samples: int) -> Array:
    """The standard error of the mean loss of a deployment of θ, `there`, less what is predicted from finitely many samples."""
    belief = fit.regression
    rows = jnp.inf if belief.reservoir is None else belief.filled
    spread = prediction.loss_variance(belief, theta, there) * (1.0 / samples + 1.0 / rows)
    least = 1e-6 * jnp.sum(there.slope**2 * belief.noise) / samples
    return jnp.sqrt(fit.misfit * jnp.maximum(spread, least))


class Step(NamedTuple):
    """The best of the steps tried so far: its decision and λ, how good it is `likely` to be, and which radius it was `chosen` at.

    `place` is that of the radius to try next, and `held` says whether the last one held its step.
    """

    place: Array
    chosen: Array
    likely: Array
    decision: Array
    multipliers: Array
    held: Array


class Nearby(NamedTuple):
    """The problem around θ in units of the widths: the model with its errors, and linear constraints g + rows u ≤ 0."""

    model: Model
    widths: Array
    unsure: Array
    widest: Array
    floor: Array
    g: Array
    rows: Array
    steep: Array

    @staticmethod
    def of(problem: Problem, model: Model, widths: Array) -> Nearby:
        """Around the model's θ."""
        # Without noise, rounding is all that is left of what is unsure.
        unsure = jnp.where(jnp.trace(model.unsure) > 0.0, model.unsure, 0.0)
        rows = jax.jacrev(problem.g)(model.theta) * widths
        return Nearby(
            model=model,
            widths=widths,
            unsure=unsure,
            widest=jnp.sqrt(jnp.sum(unsure * unsure)),
            floor=NEAR**2 * jnp.trace(unsure) / unsure.shape[0] + 1e-300,
            g=problem.g(model.theta),
            rows=rows,
            steep=jnp.maximum(jnp.sum(rows * rows, axis=1), 1e-300),
        )

    def least(self, problem: Problem, multipliers: Array, radius: Array) -> tuple[Array, Array]:
        """The minimizer u of R̂ + `pessimism` standard errors, each coordinate at most `radius`, and λ."""
        model, most, careful = self.model, max(1, self.g.shape[0]), pessimism(problem.d)

        def inside(u: Array) -> Array:
            u = jnp.clip(u, -radius, radius)
            moved = (problem.decisions.project(model.theta + self.widths * u) - model.theta) / self.widths
            if separable(problem.decisions):
                return moved
            return moved * jnp.minimum(1.0, radius / jnp.maximum(jnp.max(jnp.abs(moved)), 1e-300))

        def iterate(_: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            u, lam = carry
            pushed = self.unsure @ u
            error = jnp.sqrt(u @ pushed + self.floor)
            slope = model.gradient + model.hessian @ u + careful * pushed / error + self.rows.T @ lam
            bend = model.top + careful * self.widest / error
            after = inside(u - slope / (1.5 * bend))
            lam = jnp.maximum(lam + 0.5 * bend / (self.steep * most) * (self.rows @ (2.0 * after - u) + self.g), 0.0)
            return after, lam

        return lax.fori_loop(0, ITERATIONS, iterate, (jnp.zeros_like(model.theta), multipliers))


@pytree()
class Planner:
    """Steps in units of the `widths` of the range, see the module; `exploration` is a factor on the worth of probes."""

    widths: Array
    exploration: Array

    def step(
        self, problem: Problem, safety: PreparedSafety, model: Model, now: Stakes, multipliers: Array, radius: Array
    ) -> tuple[Array, Array, Array]:
        """θ and λ that minimize R̂ + `pessimism` standard errors in the feasible set and a trust region.

        Each coordinate moves at most `radius`·W, or farther to where R̂ is surely lower than at the last θ, which `now` compares
        with: by SURELY standard errors that allow for curvature, and for a prior that is wrong in the same way everywhere. Of
        these steps it takes the best, curvature aside. The third number says whether the radius holds θ.
        """
        radii = radius + (1.0 - radius) * jnp.asarray(FARTHER)
        pull = getattr(safety, "pull", safety)  # the nearest safe decision takes a solver for each
        # A trust region that shrinks has seen promises broken: the world is more curved than it seemed.
        most = BENT * jnp.maximum(FIRST_RADIUS / radius, 1.0) ** 2
        nearby = Nearby.of(problem, model, self.widths)

        def farther(best: Step) -> Step:
            u, lam = nearby.least(problem, multipliers, radii[best.place])
            x = problem.decisions.project(model.theta + self.widths * u)
            safe = pull(problem, x)
            over, far = now.over_start(safe), best.place > 0
            bent = jnp.where(far, most * now.bent(safe, self.widths), 0.0)
            sure = over.value + SURELY * jnp.hypot(over.largest, bent) < 0.0
            likely = jnp.where(far & ~sure, jnp.inf, over.value + pessimism(problem.d) * over.error)
            held = jnp.max(jnp.abs(x - model.theta) / self.widths) >= 0.99 * radii[best.place]
            better = ~far | (likely < best.likely)
            step = Step(best.place + 1, best.place, likely, x, lam, held)
            kept = jax.tree.map(lambda new, old: jnp.where(better, new, old), step, best)
            return kept._replace(place=step.place, held=held)

        none = Step(jnp.asarray(0), jnp.asarray(0), jnp.asarray(jnp.inf), model.theta, multipliers, jnp.asarray(True))
        # Where the radius does not hold a step, a larger one leads to the same.
        best = lax.while_loop(lambda best: best.held & (best.place < len(FARTHER)), farther, none)
        theta, lam = safety(problem, best.decision), best.multipliers
        good = jnp.all(jnp.isfinite(theta)) & jnp.all(jnp.isfinite(lam))
        limited = good & (best.chosen == 0) & (jnp.max(jnp.abs(theta - model.theta) / self.widths) >= 0.99 * radius)
        return jnp.where(good, theta, model.theta), jnp.where(good, lam, multipliers), limited
