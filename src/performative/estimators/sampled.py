"""Gradients from the samples of the current round alone: of the data as they are, or of the losses without derivatives."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from performative.problem import Problem
from performative.pytrees import pytree


@pytree()
class SampleBelief:
    """The last gradient."""

    gradient: Any


class _Memoryless:
    """What estimators without a memory or a warm-up share."""

    def init(self, problem: Problem, key: Array) -> Any:
        """No gradient yet."""
        return SampleBelief(jnp.zeros(problem.dimension))

    def opening(self, belief: Any) -> int:
        """No warm-up."""
        return 0

    def gradient(self, problem: Problem, belief: Any, theta: Array) -> Array:
        """The gradient of this round."""
        return jnp.asarray(belief.gradient)


@pytree()
class FrozenData(_Memoryless):
    """∇_θ of the average loss on the data that θ_t induced, their reaction left out: repeated gradient descent.

    Perdomo et al. (2020), and Mendler-Dünner et al. (2020) for few samples a round. It heads for the stable point, not for the
    optimum. With the constraints of the framework it is the greedy deployment of each gradient step.

    `signs` (d,), where given, is −1 for numbers of θ that ascend instead: the stochastic primal-dual method for equilibria of
    saddle problems min_x max_y with decision-dependent data (Wood, Dall'Anese 2022).
    """

    signs: Any = None

    def update(
        self, problem: Problem, belief: SampleBelief, decisions: Array, samples: Array, t: Array
    ) -> SampleBelief:
        """The mean gradient at θ_t over its samples."""
        gradients = jax.vmap(lambda z: jax.grad(problem.loss)(decisions[0], z))(samples[0])
        mean = jnp.mean(gradients, axis=0)
        return SampleBelief(mean if self.signs is None else self.signs * mean)

    def check(self, belief: SampleBelief, decisions: Array, samples: Array) -> None:
        """One decision a round."""
        require_decisions(decisions, 1, "the one decision θ_t")


@pytree()
class FrozenPopulation(_Memoryless):
    """∇_θ of the expected loss on the data that θ_t induces: `FrozenData` with infinitely many samples.

    `risk` is the decoupled risk of the world, handed over in the open.
    """

    risk: Any

    def update(
        self, problem: Problem, belief: SampleBelief, decisions: Array, samples: Array, t: Array
    ) -> SampleBelief:
        """Whatever the samples are."""
        return SampleBelief(jax.grad(self.risk)(decisions[0], decisions[0]))

    def check(self, belief: SampleBelief, decisions: Array, samples: Array) -> None:
        """One decision a round."""
        require_decisions(decisions, 1, "the one decision θ_t")


@pytree()
class Probed:
    """The decision that was deployed, and the mean loss it brought."""

    decision: Any
    loss: Any


@pytree()
class OnePointEstimate(_Memoryless):
    """(d/δ)·ℓ(x; Z)·v for x = θ + δv, v uniform on the sphere (Flaxman, Kalai, McMahan 2005).

    Its mean is the gradient of PR averaged over the ball of radius δ around θ, for any world: no family and no derivative is
    needed. Its variance is of order d²/δ². Assumes nothing but a bounded loss; `radius` is δ.
    """

    radius: Any

    def init(self, problem: Problem, key: Array) -> Probed:
        """No loss yet."""
        return Probed(jnp.zeros(problem.dimension), jnp.zeros(()))

    def update(self, problem: Problem, belief: Probed, decisions: Array, samples: Array, t: Array) -> Probed:
        """The probe and its loss."""
        return Probed(decisions[0], _mean_loss(problem, decisions[0], samples[0]))

    def check(self, belief: Probed, decisions: Array, samples: Array) -> None:
        """One decision a round."""
        require_decisions(decisions, 1, "the one probe θ_t + δv")

    def gradient(self, problem: Problem, belief: Probed, theta: Array) -> Array:
        """See the class."""
        return theta.shape[0] / self.radius**2 * belief.loss * (belief.decision - theta)


@pytree()
class TwoPointEstimate(_Memoryless):
    """(d/2δ)·(ℓ(θ + δv; Z) − ℓ(θ − δv; Z'))·v (Shamir 2013).

    As `OnePointEstimate`, but the level of the loss does not enter its variance; two deployments a round.
    """

    radius: Any

    def update(
        self, problem: Problem, belief: SampleBelief, decisions: Array, samples: Array, t: Array
    ) -> SampleBelief:
        """From the losses on both sides."""
        d = decisions.shape[1]
        way = (decisions[0] - decisions[1]) / (2.0 * self.radius)
        ahead, behind = (_mean_loss(problem, decisions[side], samples[side]) for side in (0, 1))
        return SampleBelief(d / (2.0 * self.radius) * (ahead - behind) * way)

    def check(self, belief: SampleBelief, decisions: Array, samples: Array) -> None:
        """Both sides."""
        require_decisions(decisions, 2, "θ_t + δv and θ_t − δv")


def _mean_loss(problem: Problem, decision: Array, samples: Array) -> Array:
    return jnp.mean(jax.vmap(lambda z: problem.loss(decision, z))(samples))


def require_decisions(decisions: Array, count: int, what: str) -> None:
    """Refuse another number of decisions than an estimator learns from."""
    if decisions.shape[0] != count:
        raise ValueError(f"`decisions` must be {what}, but got {decisions.shape[0]} decisions")
