"""Gradients from losses alone, without derivatives."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from performative.estimators.frozen import Memoryless, SampleBelief
from performative.estimators.protocol import require_decisions
from performative.numerics.pytrees import pytree
from performative.problem import Problem


@pytree()
class Probe:
    """A deployed decision and its mean loss."""

    decision: Array
    loss: Array


@pytree()
class OnePointEstimate:
    """(d/δ)·ℓ(x; Z)·v for x = θ + δv, v uniform on the sphere (Flaxman, Kalai, McMahan 2005).

    Its mean is the gradient of PR averaged over the ball of radius δ around θ, for any world: no family and no derivative is
    needed. Its variance is of order d²/δ². Assumes nothing but a bounded loss; `radius` is δ.

    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> from performative.estimators.zeroth_order import Probe
    >>> estimator, probe = pf.estimators.OnePointEstimate(radius=0.5), Probe(jnp.array([1.5]), jnp.array(2.0))
    >>> estimator.gradient(None, probe, jnp.array([1.0])).tolist()  # 1/0.5 · 2 · (+1)
    [4.0]
    """

    radius: Array

    def init(self, problem: Problem, key: Array) -> Probe:
        """No loss yet."""
        return Probe(jnp.zeros(problem.d), jnp.zeros(()))

    def opening(self, belief: Probe) -> int:
        """0: there is no warm-up."""
        return 0

    def update(self, problem: Problem, belief: Probe, decisions: Array, samples: Array, t: Array) -> Probe:
        """Remember the probe and its mean loss."""
        return Probe(decisions[0], _mean_loss(problem, decisions[0], samples[0]))

    def check(self, belief: Probe, decisions: Array, samples: Array) -> None:
        """Refuse more than one probe per round."""
        require_decisions(decisions, 1, "the one probe θ_t + δv")

    def gradient(self, problem: Problem, belief: Probe, theta: Array) -> Array:
        """(d/δ)·ℓ(x; Z)·v, with v read off the probe."""
        return theta.shape[0] / self.radius**2 * belief.loss * (belief.decision - theta)


@pytree()
class TwoPointEstimate(Memoryless):
    """(d/2δ)·(ℓ(θ + δv; Z) − ℓ(θ − δv; Z'))·v (Shamir 2013).

    Like `OnePointEstimate`, but the level of the loss does not enter its variance; it takes two deployments per round.

    >>> import jax
    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> method = pf.two_point(pf.Problem(Revenue(), pf.Box([0.0], [5.0])), exploration=0.5)
    >>> isinstance(method.estimator, pf.estimators.TwoPointEstimate)
    True
    >>> method.tell(method.init(jax.random.key(0)), [[1.5], [0.5]], [[[2.0]], [[2.0]]]).belief.gradient.tolist()
    [-2.0]
    """

    radius: Array

    def update(
        self, problem: Problem, belief: SampleBelief, decisions: Array, samples: Array, t: Array
    ) -> SampleBelief:
        """The difference of the losses on both sides, along v."""
        d = decisions.shape[1]
        way = (decisions[0] - decisions[1]) / (2.0 * self.radius)
        ahead, behind = (_mean_loss(problem, decisions[side], samples[side]) for side in (0, 1))
        return SampleBelief(d / (2.0 * self.radius) * (ahead - behind) * way)

    def check(self, belief: SampleBelief, decisions: Array, samples: Array) -> None:
        """Refuse anything but the probes on both sides."""
        require_decisions(decisions, 2, "θ_t + δv and θ_t − δv")


def _mean_loss(problem: Problem, decision: Array, samples: Array) -> Array:
    return jnp.mean(jax.vmap(lambda z: problem.loss(decision, z))(samples))
