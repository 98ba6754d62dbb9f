"""Gradients on the data as they are, without their reaction."""

from __future__ import annotations

from collections.abc import Callable

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
    """The base class of estimators without memory or warm-up: the gradient is that of the last round."""

    def init(self, problem: Problem, key: Array) -> SampleBelief:
        """No gradient yet."""
        return SampleBelief(jnp.zeros(problem.d))

    def opening(self, belief: SampleBelief) -> int:
        """0: there is no warm-up."""
        return 0

    def gradient(self, problem: Problem, belief: SampleBelief, theta: Array) -> Array:
        """The gradient at the decision of this round."""
        return jnp.asarray(belief.gradient)


@pytree()
class FrozenData(Memoryless):
    """∇_θ of the average loss on the data that θ_t induced, without their reaction: repeated gradient descent.

    Perdomo et al. (2020), and Mendler-Dünner et al. (2020) for few samples per round. It heads for the stable point, not for the
    optimum. In the framework each gradient step is deployed at once (greedy deployment).

    `signs` (d,), if given, is −1 for the entries of θ that ascend instead: the stochastic primal-dual method for equilibria of
    saddle problems min_x max_y with decision-dependent data (Wood, Dall'Anese 2022).

    >>> import jax
    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> method = pf.repeated_gradient(pf.Problem(Revenue(), pf.Box([0.0], [5.0])), samples=2)
    >>> method.estimator
    FrozenData(signs=None)
    >>> method.tell(method.init(jax.random.key(0)), [[0.0]], [[[3.0], [5.0]]]).belief.gradient.tolist()
    [-4.0]
    """

    signs: Array | None = None

    @property
    def slope(self) -> str:
        """It needs the gradient of the loss in the decision."""
        return "decision"

    def update(
        self, problem: Problem, belief: SampleBelief, decisions: Array, samples: Array, t: Array
    ) -> SampleBelief:
        """The mean gradient at θ_t over its samples."""
        gradients = jax.vmap(lambda z: jax.grad(problem.loss)(decisions[0], z))(samples[0])
        mean = jnp.mean(gradients, axis=0)
        return SampleBelief(mean if self.signs is None else self.signs * mean)

    def check(self, belief: SampleBelief, decisions: Array, samples: Array) -> None:
        """Refuse more than one decision per round."""
        require_decisions(decisions, 1, "the one decision θ_t")


@pytree()
class FrozenPopulation(Memoryless):
    """∇_θ of the expected loss on the data that θ_t induces: `FrozenData` with infinitely many samples.

    `risk` is the decoupled risk of the world, given by the caller.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> problem = pf.Problem(Revenue(), pf.Box([0.0], [5.0]))
    >>> market = pf.LocationFamily(pf.Gaussian([4.0], [0.25]), effect=[[-1.0]])
    >>> method = pf.repeated_gradient(problem, environment=market)
    >>> isinstance(method.estimator, pf.estimators.FrozenPopulation)
    True
    """

    risk: Callable[[Array, Array], Array]

    def update(
        self, problem: Problem, belief: SampleBelief, decisions: Array, samples: Array, t: Array
    ) -> SampleBelief:
        """The exact gradient at θ_t, whatever the samples are."""
        return SampleBelief(jax.grad(self.risk)(decisions[0], decisions[0]))

    def check(self, belief: SampleBelief, decisions: Array, samples: Array) -> None:
        """Refuse more than one decision per round."""
        require_decisions(decisions, 1, "the one decision θ_t")
