"""Gradients by the score function, E[∇ℓ + ℓ ∇log p]: with a known density, or with one whose parameter is learned."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

from performative.environments.families import Family
from performative.estimators.moments import JointMoments
from performative.estimators.protocol import require_decisions
from performative.numerics.pytrees import pytree
from performative.problem import Problem


@pytree()
class ScoreBelief:
    """The last gradient, and the mean loss so far, which is subtracted from the loss to reduce the score's variance."""

    gradient: Array
    level: Array


@pytree()
class ScoreEstimate:
    """E[∇_θ ℓ(θ; Z) + ℓ(θ; Z) ∇_θ log p(Z; θ)], equation PR_grad, on the samples of the round.

    `log_density(z, theta)` is log p, known in full. The mean of earlier losses is subtracted from the loss, which leaves the
    expectation unchanged, since scores have mean 0. Assumes a density that is smooth in θ and positive on a fixed support.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> market = pf.ParametricFamily(pf.Normal(0.25), lambda price: 4.0 - price)
    >>> problem = pf.Problem(Revenue(), pf.Box([0.0], [5.0]))
    >>> method = pf.score_gradient(problem, log_density=market.log_density)
    >>> isinstance(method.estimator, pf.estimators.ScoreEstimate)
    True
    """

    log_density: Callable[[Array, Array], Array]

    def init(self, problem: Problem, key: Array) -> ScoreBelief:
        """No gradient and no loss yet."""
        return ScoreBelief(jnp.zeros(problem.d), jnp.zeros(()))

    def opening(self, belief: ScoreBelief) -> int:
        """0: there is no warm-up."""
        return 0

    def update(self, problem: Problem, belief: ScoreBelief, decisions: Array, samples: Array, t: Array) -> ScoreBelief:
        """The estimate at θ_t over its samples."""
        theta = decisions[0]
        losses, slopes = jax.vmap(lambda z: jax.value_and_grad(problem.loss)(theta, z))(samples[0])
        scores = jax.vmap(lambda z: jax.grad(lambda theta: self.log_density(z, theta))(theta))(samples[0])
        centered = jnp.where(t > 1, losses - belief.level, 0.0)  # in the first round there is no level yet
        gradient = jnp.mean(slopes + centered[:, None] * scores, axis=0)
        return ScoreBelief(gradient, belief.level + (jnp.mean(losses) - belief.level) / t)

    def check(self, belief: ScoreBelief, decisions: Array, samples: Array) -> None:
        """Refuse more than one decision per round."""
        require_decisions(decisions, 1, "the one decision θ_t")

    def gradient(self, problem: Problem, belief: ScoreBelief, theta: Array) -> Array:
        """The gradient of this round."""
        return jnp.asarray(belief.gradient)


@pytree()
class Trajectory:
    """The last H decisions (H, d) and parameters (H, p), the last gradient and the mean loss of about H rounds."""

    decisions: Array
    parameters: Array
    gradient: Array
    level: Array


@pytree("memory")
class PerformativeGradient:
    """PerfGD (Izzo, Ying, Zou 2021): the score-function gradient where p(z; f) is known and f(θ) is not.

        E[∇_θ ℓ] + (∂f/∂θ)ᵀ E[ℓ ∇_f log p(Z; f)]

    ∂f/∂θ is the slope of a least-squares line through the last H pairs of a decision and the mean of its samples, which is
    the parameter of an exponential family. The paper takes differences from the latest point; here they are taken from the
    mean of all H, whose variance is H times smaller. f(θ_t) is read off the line too, so that one sample per round is enough.
    The reaction is left out for the first H rounds, as in the paper. Assumes that f is nearly linear over the last H decisions
    and that decisions keep moving (use exploration). `family` is the form of the density, `memory` is H.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> problem = pf.Problem(Revenue(), pf.Box([0.0], [5.0]))
    >>> pf.perfgd(problem, family=pf.Normal(0.25), memory=20).estimator.memory
    20
    """

    family: Family
    memory: int

    def init(self, problem: Problem, key: Array) -> Trajectory:
        """The belief before any round is remembered."""
        h, d = int(self.memory), problem.d
        zero = jnp.zeros(d)
        return Trajectory(jnp.zeros((h, d)), jnp.zeros((h, self.family.size)), zero, jnp.zeros(()))

    def opening(self, belief: Trajectory) -> int:
        """0: there is no warm-up."""
        return 0

    def update(self, problem: Problem, belief: Trajectory, decisions: Array, samples: Array, t: Array) -> Trajectory:
        """Estimate the gradient at the deployed decision, then remember the round."""
        theta, h = decisions[0], int(self.memory)
        slope, at = self.line(belief, theta)
        parameter = self.family.inside(at)
        losses, direct = jax.vmap(lambda z: jax.value_and_grad(problem.loss)(theta, z))(samples[0])
        scores = jax.vmap(lambda z: jax.grad(lambda f: self.family.log_density(z, f))(parameter))(samples[0])
        reaction = jnp.mean((losses - belief.level)[:, None] * scores, axis=0) @ slope
        gradient = jnp.mean(direct, axis=0) + jnp.where(t > h, reaction, 0.0)
        place = (t - 1) % h
        return Trajectory(
            belief.decisions.at[place].set(theta),
            belief.parameters.at[place].set(jnp.mean(samples[0], axis=0)),
            gradient,
            belief.level + (jnp.mean(losses) - belief.level) / jnp.minimum(t, h),
        )

    def line(self, belief: Trajectory, theta: Array) -> tuple[Array, Array]:
        """∂f/∂θ (p, d) and f(θ) by least squares over the memory; directions that were not tried have slope 0."""
        moments = JointMoments.of(belief.decisions, belief.parameters)
        slope = moments.effect(1e-9 * jnp.trace(moments.scatter) + 1e-300)
        return slope, moments.data + slope @ (theta - moments.decision)

    def check(self, belief: Trajectory, decisions: Array, samples: Array) -> None:
        """Refuse more than one decision per round, and samples that are not of the family."""
        require_decisions(decisions, 1, "the one decision of the round")
        if samples.shape[2] != self.family.width:
            raise ValueError(
                f"`samples` must hold {self.family.width} numbers each, like the family, but got {samples.shape[2]}"
            )

    def gradient(self, problem: Problem, belief: Trajectory, theta: Array) -> Array:
        """The gradient of this round."""
        return jnp.asarray(belief.gradient)
