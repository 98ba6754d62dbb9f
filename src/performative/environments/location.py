"""The location family: decisions move the data by a shift that is linear in them."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from performative.environments.bases import Base
from performative.environments.quadrature import Quadrature
from performative.environments.reaction import Reacting, require_base
from performative.explanations import explained
from performative.numerics.arrays import Floats
from performative.numerics.expectations import Moments, Pattern, Samples, hessian_pattern
from performative.numerics.polynomial import is_analytic
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import assign, callable_node, pytree
from performative.numerics.tracers import is_traced, jax_arrays
from performative.problem import Loss, LossInData, Problem
from performative.shifts import Shift, apply_effect
from performative.validation import finite_array, matrix


@pytree()
class LocationFamily(Reacting):
    """Z ∼ D(θ)  ⇔  Z = Z₀ + A θ in distribution, Z₀ ∼ D₀  (equation Eq_dis).

    `base` is D₀, `effect` is A (k, d). For a structured effect (a block per task, only some coordinates moved, low rank) give
    an array of any shape and a bilinear `shift(effect, theta)` that returns the shift (k,) of the data.

    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> market = pf.LocationFamily(pf.Gaussian([4.0, 5.0], [0.25, 0.25]), effect=[[-1.5, 0.3], [0.2, -1.0]])
    >>> problem = pf.Problem(lambda prices, demand: -jnp.sum(prices * demand), pf.Box([0.0, 0.0], [5.0, 5.0]))
    >>> round(pf.performative_risk(problem, market, [1.5, 2.5]), 6)
    -10.75
    """

    base: Base
    effect: Array
    shift: Shift

    def __init__(self, base: Base, effect: ArrayLike, shift: Shift | None = None) -> None:
        require_base(base)
        if callable(effect):
            raise TypeError(
                f"`effect` must be a matrix (k, d), but got {effect!r}; a reaction that is a function is Reaction(base, function)"
            )
        effect = matrix("effect", effect) if shift is None else finite_array("effect", effect)
        if shift is None and effect.shape[0] != base.width:
            raise ValueError(
                f"`effect` must have one row for each of the {base.width} numbers in a sample, but got {effect.shape}; "
                "it is (k, d), with one column for each number of a decision"
            )
        assign(
            self, base=base, effect=effect, shift=jax_arrays(callable_node(apply_effect if shift is None else shift))
        )

    @property
    def dimension(self) -> int | None:
        """d, if the effect is dense and so determines it."""
        return int(self.effect.shape[1]) if getattr(self.shift, "func", None) is apply_effect else None

    def react(self, theta: Array, z0: Array) -> Array:
        """z₀ + shift(A, θ)."""
        return z0 + self.shift(jnp.asarray(self.effect), theta)

    def respond(self, normals: Array, theta: Array) -> Array:
        """Z₀ + shift(A, θ) with Z₀ made from these numbers."""
        return self.base.from_normals(normals) + self.shift(jnp.asarray(self.effect), jnp.asarray(theta))

    def risk(self, problem: Problem, steps: int | None = None) -> LocationRisk:
        """The decoupled risk, averaged over the base."""
        return LocationRisk(problem.loss, self.shift, jnp.asarray(self.effect), self.expectation(problem, steps))

    def _kind(self, problem: Problem) -> tuple[Pattern | None, bool]:
        """The pattern of a loss that is quadratic in the data, and whether the loss is smooth."""
        theta = jnp.zeros(problem.d)
        pattern = hessian_pattern(LossInData(problem.loss), self.width, theta)
        return pattern, pattern is not None or is_analytic(problem.loss, theta, jnp.zeros(self.width))

    @in_float64
    def check(self, problem: Problem, theta: ArrayLike | None = None) -> None:
        """Refuse a shift that does not fit the data or is not bilinear, and a loss that does not fit the data.

        Warn of a loss that the base's nodes do not average accurately, at `theta` or, by default, at any of 32 decisions.
        """
        self._check_shift(problem)
        if not is_traced(self, problem):
            self._check_accuracy(problem, theta)

    def _check_shift(self, problem: Problem) -> None:
        if self.dimension is not None and self.dimension != problem.dimension:
            raise ValueError(
                f"`effect` must have one column for each of the {problem.dimension} numbers in a decision, "
                f"but got shape {self.effect.shape}; it is (k, d)"
            )
        problem.check_samples(self.width)
        if is_traced(self):
            return
        random = np.random.default_rng(0)
        theta, effect = random.normal(size=problem.d), np.asarray(self.effect)

        def shift(effect: Floats, theta: Floats) -> Floats:
            return np.asarray(self.shift(jnp.asarray(effect), jnp.asarray(theta)))

        try:
            moved = shift(effect, theta)
        except (TypeError, ValueError, IndexError) as error:
            raise ValueError(
                f"`shift` must take the effect {effect.shape} and a decision ({problem.dimension},), but failed{explained(error)}"
            ) from error
        if moved.shape != (self.width,):
            raise ValueError(f"`shift` must return the shift of a sample ({self.width},), but returned {moved.shape}")
        other = random.normal(size=problem.d)
        parts = shift(effect, other) + moved
        together = shift(effect, theta + other)
        if not np.allclose(together, parts, rtol=1e-8, atol=1e-8 * (1 + np.max(np.abs(parts), initial=0.0))):
            raise ValueError(
                "`shift` must be linear in the decision, but shift(θ + θ') differs from shift(θ) + shift(θ')"
            )
        effects = random.normal(size=(2, *effect.shape))
        parts = np.sum([shift(one, theta) for one in effects], axis=0)
        together = shift(effects.sum(axis=0), theta)
        if not np.allclose(together, parts, rtol=1e-8, atol=1e-8 * (1 + np.max(np.abs(parts), initial=0.0))):
            raise ValueError(
                "`shift` must be linear in the effect, but shift(A + A') differs from shift(A) + shift(A')"
            )


@pytree()
class LocationRisk:
    """E_{Z₀∼D₀} ℓ(θ; Z₀ + shift(A, where)): the decoupled risk of θ on the data that `where` induces.

    PR(θ) is its diagonal; its gradient in θ alone vanishes at a stable point.
    """

    loss: Loss
    shift: Shift
    effect: Array
    base: Samples | Quadrature | Moments

    def __call__(self, theta: Array, where: Array | None = None) -> Array:
        """PR(θ), or the decoupled risk if `where` is given."""
        moved = self.shift(self.effect, theta if where is None else where)
        return self.base.mean(lambda z0: self.loss(theta, z0 + moved))

    def integrand(self, theta: Array, where: Array, z0: Array) -> Array:
        """ℓ(θ; z₀ + shift(A, where)), whose average over D₀ is the risk."""
        return self.loss(theta, z0 + self.shift(self.effect, where))
