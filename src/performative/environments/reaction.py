"""Worlds made of a known base and a reaction to the decision: Z = react(θ, Z₀)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from performative.environments.bases import Base, Gaussian
from performative.environments.quadrature import Quadrature, coarser_grids, displaced, standard_normal_nodes
from performative.errors import QuadratureWarning
from performative.explanations import explained
from performative.numerics.arrays import Floats
from performative.numerics.expectations import Moments, Pattern, Samples, hessian_pattern
from performative.numerics.polynomial import is_analytic
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import assign, callable_node, pytree
from performative.numerics.randomness import standard_normal
from performative.numerics.tracers import is_traced, jax_arrays
from performative.problem import Loss, Problem
from performative.validation import caller_level

React = Callable[[Array, Array], Array]
Rule = tuple[Floats, Floats]
"""Nodes (n, k) and weights (n,) for averages over N(0, I)."""
LOOKS = 32
"""The number of decisions from all of Θ at which a quadrature is checked."""


class Reacting:
    """What all worlds with a base share: sampling, and averaging a loss exactly or by quadrature."""

    base: Base

    @property
    def width(self) -> int:
        """The length of one sample of the base."""
        return int(self.base.width)

    @property
    def dimension(self) -> int | None:
        """d, if the world determines it."""
        return None

    def react(self, theta: Array, z0: Array) -> Array:
        """The sample (k,) that the individual z₀ of the base turns into under θ."""
        raise TypeError(f"{type(self).__name__} must define react(theta, z0)")

    def normals(self, n: int) -> int:
        """How many standard normal numbers n samples take."""
        return int(self.base.normals(n))

    def respond(self, normals: Array, theta: Array) -> Array:
        """The n samples made from these numbers."""
        theta = jnp.asarray(theta)
        return jax.vmap(lambda z0: self.react(theta, z0))(self.base.from_normals(normals))

    @in_float64
    def sample(self, key: Array, theta: Array, n: int) -> Array:
        """n samples (n, k) of Z ∼ D(θ)."""
        return self.respond(standard_normal(key, self.normals(n)), theta)

    def expectation(self, problem: Problem, steps: int | None = None) -> Samples | Quadrature | Moments:
        """D₀ in a form that averages this problem's loss; `steps` is the grid that `coarse_enough` found."""
        pattern, smooth = self._kind(problem)
        if steps is not None:
            return _nodes(self.base, standard_normal_nodes(self.width, smooth, steps=steps))
        return self.base.expectation(pattern, smooth)

    def coarse_enough(self, problem: Problem) -> int | None:
        """The steps of the coarsest grid that averages this loss as well as the usual one at 32 decisions from all of Θ.

        None if there is no grid, if only the usual one will do, or if Θ is unbounded. A simulation measures the risk in
        every round, where the nodes of a fine grid would take most of the time.
        """
        pattern, smooth = self._kind(problem)
        if pattern is not None or not smooth or not isinstance(self.base, Gaussian):
            return None
        if not np.isfinite(problem.decisions.radius):
            return None
        decisions, usual = (
            jnp.asarray(problem.decisions.spread(problem.d, LOOKS)),
            standard_normal_nodes(self.width, smooth),
        )
        for steps in coarser_grids(self.width):
            coarse = standard_normal_nodes(self.width, smooth, steps=steps)
            rules = (_nodes(self.base, rule) for rule in (usual, coarse))
            if np.all(np.asarray(_disagreement(problem, self, decisions, *rules)) <= 1e-6):
                return steps
        return None

    def _kind(self, problem: Problem) -> tuple[Pattern | None, bool]:
        """The pattern of a loss that is quadratic in the base, and whether the loss is smooth in it."""
        theta, reacted = jnp.zeros(problem.d), _Reacted(problem.loss, self)
        pattern = hessian_pattern(reacted, self.width, theta, theta)
        return pattern, pattern is not None or is_analytic(reacted, jnp.zeros(self.width), theta, theta)

    def _check_accuracy(self, problem: Problem, theta: ArrayLike | None) -> None:
        """Warn of a loss that the nodes do not average accurately, at `theta` or, by default, at any of 32 decisions."""
        pattern, smooth = self._kind(problem)
        if pattern is not None or not isinstance(self.base, Gaussian):
            return
        spread = problem.decisions.spread(problem.d, LOOKS) if theta is None else np.asarray(theta)[None]
        rule = Quadrature(self.base, smooth)
        errors = np.nan_to_num(np.asarray(_disagreement(problem, self, jnp.asarray(spread), rule, None)))
        first = jnp.asarray(spread[0])
        promised = rule.promised(lambda z0: problem.loss(first, self.react(first, z0)))
        if np.max(errors) > promised:
            warnings.warn(
                f"the quadrature error of the loss is about {np.max(errors):.1e} of its standard deviation at the decision "
                f"{spread[np.argmax(errors)]}, above the promised {promised:.0e}: the loss has kinks that depend on several "
                "numbers at once, or is too steep on the scale of the Gaussian base; an Empirical base of many samples is "
                "averaged exactly",
                QuadratureWarning,
                stacklevel=caller_level(),
            )


@pytree()
class Reaction(Reacting):
    """Z ∼ D(θ)  ⇔  Z = react(θ, Z₀) in distribution, Z₀ ∼ D₀: every individual of a base answers the decision.

    `react(theta, z0)` returns the sample (k,) of one individual, in `jax.numpy`; it may be any function. If it is z₀ plus a
    shift that is linear in θ, use a `LocationFamily`.

    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> riders = pf.Reaction(pf.Gaussian([10.0], [4.0]), lambda price, z0: z0 * jnp.exp(-price))
    >>> problem = pf.Problem(lambda price, trips: -price[0] * trips[0], pf.Box([0.0], [3.0]))
    >>> round(pf.performative_risk(problem, riders, [1.0]), 3)
    -3.679
    """

    base: Base
    reaction: React

    def __init__(self, base: Base, react: React) -> None:
        require_base(base)
        if not callable(react):
            raise TypeError(
                f"`react` must be a function of (theta, z0), but got {react!r}; a matrix is an effect: LocationFamily"
            )
        assign(self, base=base, reaction=jax_arrays(callable_node(react)))

    def react(self, theta: Array, z0: Array) -> Array:
        """The sample (k,) of the individual z₀ under θ."""
        return self.reaction(theta, z0)

    def risk(self, problem: Problem, steps: int | None = None) -> ReactionRisk:
        """The decoupled risk, averaged over the base."""
        return ReactionRisk(problem.loss, self, self.expectation(problem, steps))

    @in_float64
    def check(self, problem: Problem, theta: ArrayLike | None = None) -> None:
        """Refuse a reaction or a loss that does not fit the data; warn of a loss that is not averaged accurately."""
        decision, z0 = (jax.ShapeDtypeStruct((size,), np.float64) for size in (problem.d, self.width))
        try:
            shape = jax.eval_shape(self.reaction, decision, z0).shape
        except (TypeError, ValueError, IndexError) as error:
            raise ValueError(
                f"`react` must take a decision ({problem.dimension},) and one individual ({self.width},), "
                f"but failed{explained(error)}; it is react(theta, z0) of one decision and one individual"
            ) from error
        if len(shape) != 1:
            raise ValueError(
                f"`react` must return one sample (k,), but returned shape {shape}; jnp.ravel or jnp.stack makes it one"
            )
        problem.check_samples(shape[0])
        if not is_traced(self, problem):
            self._check_accuracy(problem, theta)


@pytree()
class ReactionRisk:
    """E_{Z₀∼D₀} ℓ(θ; react(where, Z₀)): the decoupled risk of θ on the data that `where` induces. PR(θ) is its diagonal."""

    loss: Loss
    world: Reacting
    base: Samples | Quadrature | Moments

    def __call__(self, theta: Array, where: Array | None = None) -> Array:
        """PR(θ), or the decoupled risk if `where` is given."""
        induced = theta if where is None else where
        return self.base.mean(lambda z0: self.loss(theta, self.world.react(induced, z0)))

    def integrand(self, theta: Array, where: Array, z0: Array) -> Array:
        """ℓ(θ; react(where, z₀)), whose average over D₀ is the risk."""
        return self.loss(theta, self.world.react(where, z0))


def require_base(base: Any) -> None:
    """Refuse a base that cannot be drawn from and averaged over."""
    if not all(hasattr(base, part) for part in ("width", "normals", "from_normals", "expectation")):
        raise TypeError(
            f"`base` must be a distribution such as performative.Gaussian, but got {base!r}; it comes first"
        )


@pytree()
class _Reacted:
    """The loss as a function of the individual z₀ first."""

    loss: Loss
    world: Reacting

    def __call__(self, z0: Array, theta: Array, where: Array) -> Array:
        return self.loss(theta, self.world.react(where, z0))


@jax.jit
def _disagreement(
    problem: Problem, environment: Reacting, decisions: Array, rule: Samples | Quadrature, other: Samples | None
) -> Array:
    """How far the averages of a rule and of another, or of its twin, differ at each decision, in deviations of the loss."""

    def at(theta: Array) -> Array:
        loss: Callable[[Array], Array] = lambda z0: problem.loss(theta, environment.react(theta, z0))  # noqa: E731
        if other is None:
            means = jax.lax.map(lambda by: displaced(rule, by).mean(loss), np.array([False, True]))
        else:
            means = jnp.stack([rule.mean(loss), other.mean(loss)])
        spread = jnp.sqrt(rule.mean(lambda z0: (loss(z0) - means[0]) ** 2))
        # Where the loss hardly depends on the data, the difference is rounding and not the rule's error.
        return jnp.abs(means[1] - means[0]) / (spread + 1e-9 * jnp.abs(means[0]))

    return jax.lax.map(at, decisions)


def _nodes(base: Base, rule: Rule) -> Samples:
    """The nodes of a rule on a Gaussian base: only such bases are averaged by nodes."""
    return cast(Gaussian, base).nodes(rule)
