"""The location family: decisions move the data by a shift that is linear in them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.environments.bases import (
    Base,
    Gaussian,
    coarser_grids,
    promised_accuracy,
    standard_normal_nodes,
)
from performative.expectations import Moments, Pattern, Samples, hessian_pattern
from performative.polynomial import is_analytic
from performative.precision import in_float64
from performative.problem import LossInData, Problem
from performative.pytrees import assign, callable_node, pytree
from performative.randomness import standard_normal
from performative.validation import Floats, caller_level, finite_array, is_traced, jax_arrays

Shift = Callable[[Any, Array], Array]

LOOKS = 32
"""At how many decisions from all of Θ a quadrature is looked at."""


class QuadratureWarning(UserWarning):
    """A loss is averaged over a Gaussian base less accurately than the rule promises."""


class Environment(Protocol):
    """Any world: the data that answer a decision, as random as the key and nothing else.

    An environment whose randomness comes from standard normal numbers may offer `normals(n)`, how many n samples take, and
    `respond(normals, theta)` as well, with `sample(key, theta, n) = respond(standard_normal(key, normals(n)), theta)`; a
    simulation then draws for many rounds at once and shares the numbers between methods.
    """

    def sample(self, key: Array, theta: Array, n: int) -> Array:
        """n samples (n, k) of Z ∼ D(θ)."""


def apply_effect(effect: Array, theta: Array) -> Array:
    """A θ: the shift of the paper, for a dense effect A (k, d)."""
    return effect @ theta


@in_float64
def shift_tensor(shift: Shift, effect: Any, dimension: int) -> Floats:
    """The shift as a tensor (k, p, d): it is bilinear in an effect of p numbers and a decision of d."""
    by_effect = jax.jacfwd(lambda effect, theta: shift(effect, theta), 0)
    tensor = np.asarray(jax.jacfwd(by_effect, 1)(jnp.zeros(np.shape(effect)), jnp.zeros(dimension)))
    return tensor.reshape(tensor.shape[0], -1, dimension)


def overlap(tensor: Floats) -> Floats:
    """The Gram matrix (p, p) of the matrices (k, d) that single numbers of the effect stand for."""
    return np.einsum("kpd,kqd->pq", tensor, tensor)


@pytree()
class LocationFamily:
    """Z ∼ D(θ)  ⇔  Z = Z₀ + A θ in distribution, Z₀ ∼ D₀  (equation Eq_dis).

    `base` is D₀, `effect` is A (k, d). A structured effect is any array with a `shift(effect, theta)` that is bilinear and
    returns the shift (k,) of the data: a block per task, only some coordinates moved, low rank.
    """

    base: Any
    effect: Any
    shift: Any

    def __init__(self, base: Base, effect: Any, shift: Shift | None = None) -> None:
        if not all(hasattr(base, part) for part in ("width", "normals", "from_normals", "expectation")):
            raise TypeError(f"`base` must be a distribution such as performative.Gaussian, but got {base!r}")
        effect = finite_array("effect", effect, 2 if shift is None else None)
        if shift is None and effect.shape[0] != base.width:
            raise ValueError(
                f"`effect` must have one row for each of the {base.width} numbers in a sample, but got {effect.shape}"
            )
        assign(
            self, base=base, effect=effect, shift=jax_arrays(callable_node(apply_effect if shift is None else shift))
        )

    @property
    def width(self) -> int:
        """k, the length of one sample."""
        return self.base.width

    @property
    def dimension(self) -> int | None:
        """d, where the effect is dense and so tells it."""
        return int(self.effect.shape[1]) if getattr(self.shift, "func", None) is apply_effect else None

    def normals(self, n: int) -> int:
        """How many standard normal numbers n samples take."""
        return self.base.normals(n)

    def respond(self, normals: Array, theta: Array) -> Array:
        """Z₀ + shift(A, θ), Z₀ made of these numbers."""
        return self.base.from_normals(normals) + self.shift(jnp.asarray(self.effect), jnp.asarray(theta))

    @in_float64
    def sample(self, key: Array, theta: Array, n: int) -> Array:
        """n samples (n, k) of Z ∼ D(θ)."""
        return self.respond(standard_normal(key, self.normals(n)), theta)

    def expectation(self, problem: Problem, steps: int | None = None) -> Samples | Moments:
        """D₀ in a form that averages this problem's loss, over the grid of `steps` that `coarse_enough` found."""
        pattern, smooth = self._kind(problem)
        if steps is not None:
            return self.base.nodes(standard_normal_nodes(self.width, smooth, steps=steps))
        return self.base.expectation(pattern, smooth)

    def coarse_enough(self, problem: Problem) -> int | None:
        """The steps of the coarsest grid that averages this loss as well as the usual one, at 32 decisions from all of Θ.

        None if there is no grid, or none but the usual one, or if Θ is unbounded. A simulation measures the risk in every
        round, where the nodes of a fine grid would take most of the time.
        """
        pattern, smooth = self._kind(problem)
        if pattern is not None or not smooth or not isinstance(self.base, Gaussian):
            return None
        if not np.isfinite(problem.decisions.radius):
            return None
        decisions, usual = (
            jnp.asarray(problem.decisions.spread(problem.dimension, LOOKS)),
            standard_normal_nodes(self.width, smooth),
        )
        for steps in coarser_grids(self.width):
            coarse = standard_normal_nodes(self.width, smooth, steps=steps)
            if np.all(np.asarray(_disagreement(problem, self, decisions, usual, coarse)) <= 1e-6):
                return steps
        return None

    def _kind(self, problem: Problem) -> tuple[Pattern | None, bool]:
        """The pattern of a loss that is quadratic in the data, and whether the loss is smooth."""
        theta = jnp.zeros(problem.dimension)
        pattern = hessian_pattern(LossInData(problem.loss), self.width, theta)
        return pattern, pattern is not None or is_analytic(problem.loss, theta, jnp.zeros(self.width))

    @in_float64
    def check(self, problem: Problem, theta: Any = None) -> None:
        """Refuse a shift that does not fit the data, or is not bilinear, and a loss that does not fit either.

        Warn of a loss that the base's nodes do not average accurately, at `theta` or, left out, at any of 32 decisions.
        """
        self._check_shift(problem)
        if not is_traced(self, problem):
            self._check_accuracy(
                problem,
                problem.decisions.spread(problem.dimension, LOOKS) if theta is None else np.asarray(theta)[None],
            )

    def _check_accuracy(self, problem: Problem, decisions: Floats) -> None:
        pattern, smooth = self._kind(problem)
        if pattern is not None or not isinstance(self.base, Gaussian):
            return
        rules = [standard_normal_nodes(self.width, smooth, displaced) for displaced in (False, True)]
        errors = np.nan_to_num(np.asarray(_disagreement(problem, self, jnp.asarray(decisions), *rules)))
        promised = promised_accuracy(self.width, smooth)
        if np.max(errors) > promised:
            warnings.warn(
                "the quadrature nodes that stand for a Gaussian base must average the loss with an error below "
                f"{promised:.0e} of its standard deviation, but it is about {np.max(errors):.1e} at the decision "
                f"{decisions[np.argmax(errors)]}: the loss is too steep on the scale of the base. "
                "An Empirical base of many samples is averaged exactly",
                QuadratureWarning,
                stacklevel=caller_level(),
            )

    def _check_shift(self, problem: Problem) -> None:
        if self.dimension is not None and self.dimension != problem.dimension:
            raise ValueError(
                f"`effect` must have one column for each of the {problem.dimension} numbers in a decision, "
                f"but got shape {self.effect.shape}"
            )
        problem.check_samples(self.width)
        if is_traced(self):
            return
        random = np.random.default_rng(0)
        theta, effect = random.normal(size=problem.dimension), np.asarray(self.effect)

        def shift(effect: Floats, theta: Floats) -> Floats:
            return np.asarray(self.shift(jnp.asarray(effect), jnp.asarray(theta)))

        try:
            moved = shift(effect, theta)
        except (TypeError, ValueError, IndexError) as error:
            raise ValueError(
                f"`shift` must take the effect {effect.shape} and a decision ({problem.dimension},), but failed: {error}"
            ) from error
        if moved.shape != (self.width,):
            raise ValueError(f"`shift` must return the shift of a sample ({self.width},), but returned {moved.shape}")
        other = random.normal(size=problem.dimension)
        parts = shift(effect, other) + moved
        together = shift(effect, theta + other)
        if not np.allclose(together, parts, rtol=1e-8, atol=1e-8 * (1 + np.max(np.abs(parts), initial=0.0))):
            raise ValueError(
                "`shift` must be linear in the decision, but shift(θ + θ') differs from shift(θ) + shift(θ')"
            )
        drawn = random.normal(size=(2, *effect.shape))
        parts = np.sum([shift(one, theta) for one in drawn], axis=0)
        together = shift(drawn.sum(axis=0), theta)
        if not np.allclose(together, parts, rtol=1e-8, atol=1e-8 * (1 + np.max(np.abs(parts), initial=0.0))):
            raise ValueError(
                "`shift` must be linear in the effect, but shift(A + A') differs from shift(A) + shift(A')"
            )


@jax.jit
def _disagreement(problem: Problem, environment: LocationFamily, decisions: Array, first: Any, second: Any) -> Array:
    """How far the averages over the nodes of two rules differ at each decision, in spreads of the loss."""
    rule, twin = environment.base.nodes(first), environment.base.nodes(second)

    def at(theta: Array) -> Array:
        moved = environment.shift(environment.effect, theta)
        loss: Callable[[Array], Array] = lambda z0: problem.loss(theta, z0 + moved)  # noqa: E731
        mean = rule.mean(loss)
        spread = jnp.sqrt(rule.mean(lambda z0: (loss(z0) - mean) ** 2))
        # Where the loss hardly depends on the data, rounding is no error of the rule.
        return jnp.abs(twin.mean(loss) - mean) / (spread + 1e-9 * jnp.abs(mean))

    return jax.lax.map(at, decisions)
