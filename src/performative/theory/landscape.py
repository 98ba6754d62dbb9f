"""A problem in a location family: the derivatives of its loss and risk over Θ and the data that Θ induces."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from performative.environments import Empirical, Gaussian, LocationFamily
from performative.numerics import polynomial
from performative.numerics.arrays import Floats
from performative.numerics.randomness import new_key, standard_normal
from performative.problem import Problem
from performative.theory.enclosures import largest_affine_norm, largest_quadratic_norm
from performative.theory.evidence import estimated, is_proved, proved, unknown
from performative.theory.moments import BaseMoments, base_moments
from performative.theory.suprema import largest_value, least_eigenvalue, spectral_norm

DRAWS = 4_000
"""Draws from a Gaussian base, where an average over it has no closed form."""
STARTS = 32
"""Decisions from which a supremum over Θ is sought."""

Derivative = Callable[[Array, Array], Array]
"""A derivative of ℓ as a function of θ and z."""


class Landscape:
    """One problem in one location family, examined all over Θ. Every constant comes with its evidence."""

    def __init__(self, problem: Problem, environment: LocationFamily, dimension: int, seed: int) -> None:
        self.problem, self.environment, self.dimension = problem, environment, dimension
        self.bounded = math.isfinite(problem.decisions.radius)
        base = environment.base
        if isinstance(base, Gaussian):
            self.draws = base.from_normals(standard_normal(new_key(seed), base.normals(DRAWS)))
        elif isinstance(base, Empirical):
            self.draws = jnp.asarray(base.samples)
        else:
            raise TypeError(f"`base` must be a performative.Gaussian or performative.Empirical, but got {base!r}")
        self.finite_base = isinstance(base, Empirical)
        self.averaged = "over all samples" if self.finite_base else f"over {DRAWS} draws"
        self.risk = environment.risk(problem, environment.coarse_enough(problem))
        self.points = problem.decisions.spread(self.dimension, STARTS)

    # The functions.

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

    def reacting_loss(self, theta: Array, z0: Array) -> Array:
        """ℓ(θ; z₀ + Aθ): the loss of a decision once its data have reacted."""
        return self.problem.loss(theta, self.answer(z0, theta))

    # Their form, read off their programs.

    @functools.cached_property
    def analytic(self) -> bool:
        """Whether ℓ has no kinks, whose second derivatives a program would give as 0."""
        return polynomial.is_analytic(self.problem.loss, jnp.asarray(self.points[0]), self.draws[0])

    def is_constant(self, derivative: Callable[..., Array], *arguments: Array) -> bool:
        """Whether a derivative is the same everywhere: of degree 0 in all arguments together."""
        return polynomial.joint_degree(derivative, *arguments) == 0

    def grows_with_data(self, derivative: Derivative) -> bool | None:
        """Whether a derivative of ℓ is unbounded in Z on an unbounded base; None if its program does not show it."""
        if self.finite_base:
            return False
        by_data = polynomial.degree(lambda z, theta: derivative(theta, z), self.draws[0], jnp.asarray(self.points[0]))
        return None if math.isinf(by_data) else by_data > 0

    @functools.cached_property
    def degree_in_data(self) -> float:
        """The degree of ℓ in Z; ∇P̂R has the same degree in the effect if it is at most 2."""
        theta, z = jnp.asarray(self.points[0]), self.draws[0]
        return polynomial.degree(lambda z, theta: self.problem.loss(theta, z), z, theta)

    @functools.cached_property
    def exact_average(self) -> bool:
        """Whether PR is known exactly: an average over samples, or of a loss at most quadratic in Z over a Gaussian."""
        return self.finite_base or self.degree_in_data <= 2

    # Their extremes.

    def largest_affine(
        self, what: str, function: Callable[[Array], Array], affine: bool | None = None
    ) -> tuple[float, str]:
        """sup of the norm of a vector or matrix that depends on θ; proved where it is affine in θ.

        The program of a function tells whether it is, unless you know.
        """

        def size(theta: Array) -> Array:
            value = function(theta)
            return spectral_norm(value) if value.ndim == 2 else jnp.linalg.norm(value)

        degree = polynomial.degree(function, jnp.asarray(self.points[0]))
        return self._supremum(what, size, min(degree, 1.0) if affine else degree, function)

    def largest_constraints(self) -> tuple[float, str]:
        """C: sup of ‖g‖ over Θ; proved where g is at most quadratic."""
        g = self.problem.g
        degree, theta = polynomial.degree(g, jnp.asarray(self.points[0])), jnp.asarray(self.points[0])
        if degree == 0 or degree > 2 or not self.bounded:
            return self._supremum(
                "‖g‖", lambda theta: jnp.linalg.norm(g(theta)), degree if degree == 0 else math.inf, g
            )
        value, why = largest_quadratic_norm(g, self.problem.decisions, len(theta))
        return value, proved(why)

    def _supremum(
        self, what: str, size: Callable[[Array], Array], degree: float, function: Callable[[Array], Array]
    ) -> tuple[float, str]:
        if degree == 0:
            return float(size(jnp.asarray(self.points[0]))), proved(f"{what} is constant")
        if not self.bounded:
            return math.inf, unknown(f"{what} is not constant and Θ is unbounded")
        if degree <= 1:
            value, why = largest_affine_norm(function, self.problem.decisions, self.dimension)
            return value, proved(f"{what}, {why}")
        best, where = largest_value(size, self.problem.decisions, self.points)
        return best, estimated(
            f"the largest {what} found by ascent from {STARTS} decisions, at ‖θ‖ = {np.linalg.norm(where):.4g}"
        )

    def largest_norm(self, what: str, matrix: Derivative) -> tuple[float, str]:
        """sup of the norm of a derivative of ℓ over θ ∈ Θ and the data it induces."""
        return self._extreme(what, f"the largest {what}", spectral_norm, matrix, np.max)

    def smallest_eigenvalue(self, what: str, matrix: Derivative) -> tuple[float, str]:
        """The smallest eigenvalue of a Hessian of ℓ over θ ∈ Θ and the data it induces."""
        return self._extreme(what, f"the smallest eigenvalue of {what}", least_eigenvalue, matrix, np.min)

    def _extreme(
        self,
        what: str,
        description: str,
        size: Callable[[Array], Array],
        matrix: Derivative,
        extreme: Callable[[Floats], np.float64],
    ) -> tuple[float, str]:
        theta, z = jnp.asarray(self.points[0]), self.draws[0]
        if self.analytic and self.is_constant(matrix, theta, z):
            return float(size(matrix(theta, z))), proved(f"{what} is constant")
        values = self._everywhere(lambda theta, z: size(matrix(theta, z)))
        where = "" if self.analytic else "away from the kinks of ℓ, "
        return float(extreme(values)), estimated(f"{where}{description} at {STARTS} decisions, {self.averaged} each")

    def _everywhere(self, value: Derivative) -> Floats:
        def at(theta: Array) -> Array:
            return jax.vmap(lambda z0: value(theta, self.answer(z0, theta)))(self.draws)

        return np.asarray(jax.jit(lambda points: lax.map(at, points))(jnp.asarray(self.points)))

    def largest_slope(self, what: str, slope: Derivative) -> tuple[float, str]:
        """sup of ‖slope‖ over θ ∈ Θ and the data it induces."""
        if not self.bounded:
            return math.inf, unknown(f"{what} is not computed on an unbounded Θ")
        theta, z = jnp.asarray(self.points[0]), self.draws[0]
        if polynomial.degree(lambda z, theta: slope(theta, z), z, theta) == 0:
            return self.largest_affine(what, lambda theta: slope(theta, z))
        if self.grows_with_data(slope):
            return math.inf, unknown(f"{what} grows with Z, and the base is unbounded")

        def largest(theta: Array) -> Array:
            return jnp.sqrt(
                jnp.max(jax.vmap(lambda z0: jnp.sum(slope(theta, self.answer(z0, theta)) ** 2))(self.draws))
            )

        value, _ = largest_value(largest, self.problem.decisions, self.points)
        return value, estimated(f"the largest {what} found on Θ, {self.averaged}")

    def risk_lipschitz(self) -> tuple[float, str]:
        """L: sup of ‖∇PR‖ over Θ."""
        quadratic = polynomial.degree(self.risk, jnp.asarray(self.points[0])) <= 2
        value, how = self.largest_affine("‖∇PR‖", jax.grad(self.risk), quadratic)
        return value, how if self.exact_average or not is_proved(how) else estimated(f"{how}, of a numerical average")

    def risk_convexity(self) -> tuple[float, str]:
        """γ: the smallest eigenvalue of ∇²PR on Θ."""
        center = jnp.asarray(self.points[0])
        if polynomial.degree(self.risk, center) <= 2 and self.exact_average:
            least = np.linalg.eigvalsh(np.asarray(jax.jit(jax.hessian(self.risk))(center)))[0]
            return float(least), proved("PR is quadratic, the smallest eigenvalue of its Hessian")
        value, _ = largest_value(
            lambda theta: -least_eigenvalue(jax.hessian(self.risk)(theta)), self.problem.decisions, self.points
        )
        return -value, estimated(f"the smallest eigenvalue of ∇²PR found by descent from {STARTS} decisions")

    # The base.

    @functools.cached_property
    def moments(self) -> BaseMoments:
        """The moments of the base."""
        return base_moments(self.environment, self.draws, self.dimension)

    @property
    def base_mean(self) -> Array:
        """E Z₀ (k,)."""
        base = self.environment.base
        return jnp.asarray(base.mean) if isinstance(base, Gaussian) else jnp.mean(self.draws, axis=0)
