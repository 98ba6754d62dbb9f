"""A problem in a location family, looked at from all over Θ: suprema, variances and the degrees of its loss."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from performative.environments import Gaussian, LocationFamily
from performative.numerics import polynomial
from performative.numerics.arrays import Floats
from performative.numerics.randomness import new_key, standard_normal
from performative.problem import Problem
from performative.shifts import overlap, shift_tensor
from performative.theory import bounds

DRAWS = 4_000
"""Draws from a Gaussian base, where an average over it has no closed form."""
STARTS, ASCENT = 32, 60
"""From how many decisions a supremum over Θ is looked for, and for how many steps."""
LARGE = 50_000
"""Numbers in the largest first derivative of the gradient by the effect that is written out."""


def norm(matrix: Array) -> Array:
    """‖matrix‖₂, 0 if it is empty."""
    return jnp.linalg.norm(matrix, 2) if matrix.size else jnp.zeros(())


def least_eigenvalue(matrix: Array) -> Array:
    """Of a symmetric matrix."""
    return jnp.linalg.eigvalsh(matrix)[0]


class Look:
    """One problem in one environment, looked at from all over Θ."""

    def __init__(self, problem: Problem, environment: LocationFamily, seed: int) -> None:
        self.problem, self.environment = problem, environment
        self.dimension = int(problem.dimension)
        self.bounded = math.isfinite(problem.decisions.radius)
        base = environment.base
        self.draws = (
            base.from_normals(standard_normal(new_key(seed), base.normals(DRAWS)))
            if isinstance(base, Gaussian)
            else jnp.asarray(base.samples)
        )
        self.exactly_drawn = not isinstance(base, Gaussian)
        self.averaged = "over all samples" if self.exactly_drawn else f"over {DRAWS} draws"
        self.risk = environment.risk(problem, environment.coarse_enough(problem))
        self.points = problem.decisions.spread(self.dimension, STARTS)

    # What is looked at.

    def decision_hessian(self, theta: Array, z: Array) -> Array:
        """∂²ℓ/∂θ²."""
        return jax.hessian(self.problem.loss)(theta, z)

    def data_hessian(self, theta: Array, z: Array) -> Array:
        """∂²ℓ/∂Z²."""
        return jax.hessian(self.problem.loss, 1)(theta, z)

    def mixed_hessian(self, theta: Array, z: Array) -> Array:
        """∂²ℓ/∂θ∂Z."""
        return jax.jacfwd(jax.grad(self.problem.loss), 1)(theta, z)

    def answer(self, z0: Array, theta: Array) -> Array:
        """z₀ + Aθ."""
        return z0 + self.environment.shift(jnp.asarray(self.environment.effect), theta)

    def reacting(self, theta: Array, z0: Array) -> Array:
        """ℓ(θ; z₀ + Aθ): the loss of a decision once its data have reacted."""
        return self.problem.loss(theta, self.answer(z0, theta))

    # How it is looked at.

    def constant(self, derivative: Callable[..., Any], *arguments: Array) -> bool:
        """Whether a derivative is the same everywhere, by its program: of degree 0 in all arguments together."""
        return polynomial.joint_degree(derivative, *arguments) == 0

    @functools.cached_property
    def analytic(self) -> bool:
        """Whether ℓ has no kinks, whose second derivatives a program would give as 0."""
        return polynomial.is_analytic(self.problem.loss, jnp.asarray(self.points[0]), self.draws[0])

    def supremum(
        self, what: str, value: Callable[[Array], Array], derivative: Callable[[Array], Array] | None = None
    ) -> tuple[float, str]:
        """sup of a function of θ over Θ."""
        theta = jnp.asarray(self.points[0])
        if derivative is not None and self.constant(derivative, theta):
            return float(value(theta)), f"exact: {what} is constant"
        if not self.bounded:
            return math.inf, f"{what} is not constant and Θ is unbounded"
        best, where = ascended(value, self.problem.decisions, self.points)
        return best, f"the largest {what} found by ascent from {STARTS} decisions, at ‖θ‖ = {np.linalg.norm(where):.4g}"

    def most(self, what: str, size: Callable[[Array], Array], matrix: Callable[..., Array]) -> tuple[float, str]:
        """sup of the size of a derivative of ℓ over θ ∈ Θ and the data it induces."""
        return self._extreme(what, f"the largest {what}", size, matrix, np.max)

    def least(self, what: str, size: Callable[[Array], Array], matrix: Callable[..., Array]) -> tuple[float, str]:
        """The smallest eigenvalue of a Hessian of ℓ over θ ∈ Θ and the data it induces."""
        return self._extreme(what, f"the smallest eigenvalue of {what}", size, matrix, np.min)

    def _extreme(
        self,
        what: str,
        found: str,
        size: Callable[[Array], Array],
        matrix: Callable[..., Array],
        extreme: Callable[[Floats], Any],
    ) -> tuple[float, str]:
        theta, z = jnp.asarray(self.points[0]), self.draws[0]
        if self.analytic and self.constant(matrix, theta, z):
            return float(size(matrix(theta, z))), f"exact: {what} is constant"
        values = self._everywhere(lambda theta, z: size(matrix(theta, z)))
        beside = "" if self.analytic else "beside the kinks of ℓ, "
        return float(extreme(values)), f"{beside}{found} at {STARTS} decisions, {self.averaged} each"

    def largest_slope(self, what: str, slope: Callable[[Array, Array], Array]) -> tuple[float, str]:
        """sup of ‖slope‖ over θ ∈ Θ and the data it induces."""
        if not self.bounded:
            return math.inf, f"{what} is not looked for on an unbounded Θ"
        if self.grows_with_data(slope):
            return math.inf, f"{what} grows with Z, and the base is unbounded"

        def largest(theta: Array) -> Array:
            return jnp.sqrt(
                jnp.max(jax.vmap(lambda z0: jnp.sum(slope(theta, self.answer(z0, theta)) ** 2))(self.draws))
            )

        value, _ = ascended(largest, self.problem.decisions, self.points)
        return value, f"the largest {what} found on Θ, {self.averaged}"

    def grows_with_data(self, derivative: Callable[[Array, Array], Array]) -> bool | None:
        """Whether a derivative of ℓ is unbounded in Z on an unbounded base; None if that cannot be read off its program."""
        if self.exactly_drawn:
            return False
        by_data = polynomial.degree(lambda z, theta: derivative(theta, z), self.draws[0], jnp.asarray(self.points[0]))
        return None if math.isinf(by_data) else by_data > 0

    def risk_convexity(self) -> tuple[float, str]:
        """γ: the smallest eigenvalue of ∇²PR on Θ."""
        center = jnp.asarray(self.points[0])
        if polynomial.degree(self.risk, center) <= 2:
            value = np.linalg.eigvalsh(np.asarray(jax.jit(jax.hessian(self.risk))(center)))[0]
            return float(value), "exact: PR is quadratic, the smallest eigenvalue of its Hessian"
        value, _ = ascended(
            lambda theta: -least_eigenvalue(jax.hessian(self.risk)(theta)), self.problem.decisions, self.points
        )
        return -value, f"the smallest eigenvalue of ∇²PR found by descent from {STARTS} decisions"

    def variance(self) -> tuple[float, str]:
        """σ² of Assumption 4: sup over Θ of E‖∇_θ ℓ(θ; Z₀ + Aθ) − ∇PR(θ)‖²."""
        if self.affine():
            return self._affine_variance(), "exact: ∇ℓ(θ; Z₀ + Aθ) is affine in θ and Z₀ together"
        if not self.bounded:
            return math.inf, "Θ is unbounded"

        def spread(theta: Array) -> Array:
            gradients = jax.vmap(lambda z0: jax.grad(self.reacting)(theta, z0))(self.draws)
            return jnp.sum(jnp.var(gradients, axis=0))

        return ascended(spread, self.problem.decisions, self.points)[0], f"the largest found on Θ, {self.averaged}"

    def uniform_variance(self) -> tuple[float, str]:
        """n E sup_θ ‖∇P̂R(θ) − ∇PR(θ)‖², of n base samples."""
        if self.affine():
            return self._affine_variance(), "exact: the error of n base samples does not depend on θ"
        if not self.bounded:
            return math.inf, "Θ is unbounded"
        center = self.problem.decisions.project(jnp.zeros(self.dimension))
        if polynomial.degree(self.reacting, center, self.draws[0]) > 2:
            return math.inf, "none is known: ℓ(θ; Z₀ + Aθ) is not quadratic in θ"
        # ∇ℓ(θ; Z₀ + Aθ) = x + Yθ, and ‖mean(x) + mean(Y)(θ − c)‖ ≤ ‖mean(x)‖ + reach·‖mean(Y)‖_F.
        gradients = jax.jit(jax.vmap(lambda z0: jax.grad(self.reacting)(center, z0)))(self.draws)
        hessians = jax.jit(jax.vmap(lambda z0: jax.hessian(self.reacting)(center, z0)))(self.draws)
        at, along = float(jnp.sum(jnp.var(gradients, axis=0))), float(jnp.sum(jnp.var(hessians, axis=0)))
        reach = self.problem.decisions.radius + float(jnp.linalg.norm(center))
        value = (math.sqrt(at) + reach * math.sqrt(along)) ** 2
        return value, f"∇ℓ(θ; Z₀ + Aθ) is affine in θ: the spread of both its coefficients, {self.averaged}"

    def affine(self) -> bool:
        """Whether ℓ(θ; Z₀ + Aθ) is quadratic in θ and Z₀ together."""
        return polynomial.joint_degree(self.reacting, jnp.asarray(self.points[0]), self.draws[0]) <= 2

    @functools.cached_property
    def quadratic_in_data(self) -> bool:
        """Whether ℓ is quadratic in Z, so that ∇P̂R is quadratic in the effect."""
        theta, z = jnp.asarray(self.points[0]), self.draws[0]
        return polynomial.degree(lambda z, theta: self.problem.loss(theta, z), z, theta) <= 2

    def gain(self) -> tuple[float, float, float, str]:
        """(K₁, what n base samples add to it over √n, K₂) with ‖∇P̂R_t(θ) − ∇P̂R(θ)‖ ≤ K₁‖D‖ + K₂‖D‖² on Θ.

        The base samples are those of the warm-up at o = Π_Θ(0), so that the prediction at θ is Z + Â(θ − o).
        """
        effect, d = jnp.asarray(self.environment.effect), self.dimension
        infinite = (math.inf, math.inf, math.inf)
        if not self.bounded:
            return *infinite, "Θ is unbounded"
        if not self.quadratic_in_data:
            return *infinite, "ℓ is not quadratic in Z, and no bound is known"
        if d * effect.size > LARGE:
            return self._gain_from_constants()
        origin = self.problem.decisions.project(jnp.zeros(d))
        shift = self.environment.shift
        center = jnp.mean(self.draws, axis=0) if self.exactly_drawn else jnp.asarray(self.environment.base.mean)

        def slope(theta: Array, effect: Array, z0: Array) -> Array:
            def believed(theta: Array) -> Array:
                observed = z0 + shift(jnp.asarray(self.environment.effect), origin)
                return self.problem.loss(theta, observed + shift(effect, theta - origin))

            return jax.grad(believed)(theta)

        first_derivative, second_derivative = jax.jacfwd(slope, 1), jax.jacfwd(jax.jacfwd(slope, 1), 1)
        decisions, points = self.problem.decisions, self.points
        first, _ = ascended(
            lambda theta: norm(first_derivative(theta, effect, center).reshape(d, -1)), decisions, points
        )
        by_data = jax.jacfwd(first_derivative, 2)

        def felt(theta: Array) -> Array:  # affine in z0: how much of z̄₀ − E Z₀ enters
            return norm(by_data(theta, effect, center).reshape(-1, center.shape[0]))

        covariance, _, _ = self.moments
        spread = ascended(felt, decisions, points[:8])[0] * math.sqrt(float(np.trace(covariance)))
        second = 0.0
        if not self.linear_in_data:
            if d * effect.size**2 > 100 * LARGE:
                return self._gain_from_constants()

            def bent(theta: Array) -> Array:
                both = second_derivative(theta, effect, center).reshape(d, effect.size, effect.size)
                square = jnp.einsum("iab,iac->bc", both, both)
                return jnp.sqrt(jnp.maximum(jnp.linalg.eigvalsh(square)[-1], 0.0)) / 2

            second = ascended(bent, decisions, points[:8])[0]
        return first, spread, second, "the derivatives of ∇P̂R in the effect, the largest found on Θ by ascent"

    @functools.cached_property
    def linear_in_data(self) -> bool:
        """Whether ℓ is linear in Z, so that ∇P̂R is linear in the effect."""
        theta, z = jnp.asarray(self.points[0]), self.draws[0]
        return polynomial.degree(lambda z, theta: self.problem.loss(theta, z), z, theta) <= 1

    def _gain_from_constants(self) -> tuple[float, float, float, str]:
        """The gain of Lemma 4 from β, β_Z and the mean of ∇_Zℓ, where the effect is too large to differentiate by."""
        theta, z = jnp.asarray(self.points[0]), self.draws[0]
        if not (self.constant(self.mixed_hessian, theta, z) and self.constant(self.data_hessian, theta, z)):
            return math.inf, math.inf, math.inf, f"the effect holds too many numbers ({self.environment.effect.size})"
        across, within = (float(norm(matrix(theta, z))) for matrix in (self.mixed_hessian, self.data_hessian))
        center = jnp.mean(self.draws, axis=0) if self.exactly_drawn else jnp.asarray(self.environment.base.mean)
        slope = jax.grad(self.problem.loss, 1)
        mean, _ = ascended(
            lambda theta: jnp.linalg.norm(slope(theta, self.answer(center, theta))),
            self.problem.decisions,
            self.points[:8],
        )
        shift = None if self.environment.dimension is not None else self.environment.shift
        strongest = bounds.sensitivity(self.environment.effect, shift, self.dimension)
        first, second = bounds.effect_gain(across, within, mean, strongest, self.problem.decisions.radius)
        spread = within * math.sqrt(float(np.trace(self.moments[0])))
        return first, spread, second, "Lemma 4's formula from β, β_Z and the mean of ∇_Zℓ"

    @functools.cached_property
    def moments(self) -> tuple[Floats, Floats, float]:
        """Σ, Σ on the directions that the shift can move, and E‖·‖⁴ of the base there."""
        base = self.environment.base
        covariance = np.asarray(
            base.full_covariance() if isinstance(base, Gaussian) else jnp.cov(self.draws.T, bias=True)
        ).reshape(base.width, base.width)
        moved = self.moved_directions()
        within = moved.T @ covariance @ moved
        if isinstance(base, Gaussian):
            fourth = np.trace(within) ** 2 + 2 * np.sum(within * within)
        else:
            centred = (np.asarray(self.draws) - np.mean(self.draws, axis=0)) @ moved
            fourth = np.mean(np.sum(centred**2, axis=1) ** 2)
        return covariance, within, float(fourth)

    @functools.cached_property
    def shift_tensor(self) -> Floats:
        """The shift as a tensor (k, p, d)."""
        return shift_tensor(self.environment.shift, self.environment.effect, self.dimension)

    def moved_directions(self) -> Floats:
        """An orthonormal basis (k, r) of the data directions that any effect can move."""
        width = self.environment.width
        if self.environment.dimension is not None:
            return np.eye(width)
        left, values, _ = np.linalg.svd(self.shift_tensor.reshape(width, -1), full_matrices=False)
        return np.asarray(left[:, values > 1e-12 * values[0]])

    @functools.cached_property
    def isometric(self) -> bool:
        """Whether an effect is as large as the matrix θ ↦ shift(effect, θ) it stands for."""
        if self.environment.dimension is not None:
            return True
        gram = overlap(self.shift_tensor)
        return bool(np.allclose(gram, np.eye(len(gram)), atol=1e-9))

    def _affine_variance(self) -> float:
        slope = jax.jacfwd(jax.grad(self.reacting), 1)(jnp.asarray(self.points[0]), self.draws[0])
        covariance, _, _ = self.moments
        return float(np.trace(np.asarray(slope) @ covariance @ np.asarray(slope).T))

    def _everywhere(self, value: Callable[[Array, Array], Array]) -> Floats:
        def at(theta: Array) -> Array:
            return jax.vmap(lambda z0: value(theta, self.answer(z0, theta)))(self.draws)

        return np.asarray(jax.jit(lambda points: lax.map(at, points))(jnp.asarray(self.points)))


def ascended(value: Callable[[Array], Array], decisions: Any, points: Floats) -> tuple[float, Floats]:
    """The largest value of a function on Θ that ascent from `points` finds, and where.

    Steps follow the gradient as far as Θ is wide and half as far after every failure; projected, they reach the boundary,
    where convex functions are largest.
    """
    width = decisions.radius if math.isfinite(decisions.radius) else 10.0

    def climb(theta: Array) -> tuple[Array, Array]:
        def step(_: Any, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            theta, best, length = carry
            slope = jax.grad(value)(theta)
            slope = jnp.where(jnp.isfinite(slope), slope, 0.0)
            moved = decisions.project(theta + length * slope / jnp.maximum(jnp.linalg.norm(slope), 1e-300))
            reached = value(moved)
            better = reached > best
            return jnp.where(better, moved, theta), jnp.maximum(reached, best), jnp.where(better, length, length / 2)

        theta, best, _ = lax.fori_loop(0, ASCENT, step, (theta, value(theta), jnp.asarray(2.0 * width)))
        return best, theta

    values, where = jax.jit(lambda points: lax.map(climb, points))(jnp.asarray(points))
    values = np.nan_to_num(np.asarray(values), nan=-np.inf)
    best = int(np.argmax(values))
    return float(values[best]), np.asarray(where)[best]
