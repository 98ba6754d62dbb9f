"""Gradients on the data as they are, their reaction left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from performative.estimators.protocol import require_decisions
from performative.numerics.pytrees import pytree
from performative.problem import Problem


@pytree()
class SampleBelief:
    """The gradient of the last round."""

    gradient: Array


class Memoryless:
    """What estimators without a memory or a warm-up share: the gradient is that of the last round."""

    def init(self, problem: Problem, key: Array) -> Any:
        """No gradient yet."""
        return SampleBelief(jnp.zeros(problem.dimension))

    def opening(self, belief: Any) -> int:
        """No warm-up."""
        return 0

    def gradient(self, problem: Problem, belief: Any, theta: Array) -> Array:
        """The gradient at the decision of this round."""
        return jnp.asarray(belief.gradient)


@pytree()
class FrozenData(Memoryless):
    """∇_θ of the average loss on the data that θ_t induced, their reaction left out: repeated gradient descent.

    Perdomo et al. (2020), and Mendler-Dünner et al. (2020) for few samples a round. It heads for the stable point, not for the
    optimum. With the constraints of the framework it is the greedy deployment of each gradient step.

    `signs` (d,), where given, is −1 for numbers of θ that ascend instead: the stochastic primal-dual method for equilibria of
    saddle problems min_x max_y with decision-dependent data (Wood, Dall'Anese 2022).
    """

    signs: Array | None = None

    def update(
        self, problem: Problem, belief: SampleBelief, decisions: Array, samples: Array, t: Array
    ) -> SampleBelief:
        """The mean gradient at θ_t over its samples."""
        gradients = jax.vmap(lambda z: jax.grad(problem.loss)(decisions[0], z))(samples[0])
        mean = jnp.mean(gradients, axis=0)
        return SampleBelief(mean if self.signs is None else self.signs * mean)

    def check(self, belief: SampleBelief, decisions: Array, samples: Array) -> None:
        """Refuse more than one decision a round."""
        require_decisions(decisions, 1, "the one decision θ_t")


@pytree()
class FrozenPopulation(Memoryless):
    """∇_θ of the expected loss on the data that θ_t induces: `FrozenData` with infinitely many samples.

    `risk` is the decoupled risk of the world, handed over in the open.
    """

    risk: Callable[[Array, Array], Array]

    def update(
        self, problem: Problem, belief: SampleBelief, decisions: Array, samples: Array, t: Array
    ) -> SampleBelief:
        """The exact gradient at θ_t, whatever the samples are."""
        return SampleBelief(jax.grad(self.risk)(decisions[0], decisions[0]))

    def check(self, belief: SampleBelief, decisions: Array, samples: Array) -> None:
        """Refuse more than one decision a round."""
        require_decisions(decisions, 1, "the one decision θ_t")
