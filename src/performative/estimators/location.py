"""The gradient of the performative risk for location families, by plugging in what has been learnt."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from performative.numerics.pytrees import changed, pytree
from performative.problem import Problem


@pytree()
class LocationBelief:
    """Â_t and the base samples (None until the warm-up has been told)."""

    effect: Any
    base: Any
    key: Any


@pytree("anticipate", "warmup")
class LocationEstimator:
    """∇P̂R_t(θ) = ∇_θ (1/n) Σ_i ℓ(θ; Z₀,i + Â_t θ)  (equation Eq_grad_approx).

    `anticipate` decides whether the reaction is in the gradient: yes for APDA, no for PD-PS, where the shift stays at the
    current decision while the loss is differentiated. `warmup` is n. `memory`, if there is one, is how many samples the
    estimates rest on at most: what is older fades, and they follow a world that drifts.
    """

    effects: Any
    base_samples: Any
    anticipate: Any
    warmup: Any
    memory: Any = None

    def init(self, problem: Problem, key: Array) -> LocationBelief:
        """Nothing is known, not even the length of a sample."""
        return LocationBelief(None, None, key)

    def opening(self, belief: LocationBelief) -> int:
        """n, until the base samples are there."""
        return int(self.warmup) if belief.base is None else 0

    def update(
        self, problem: Problem, belief: LocationBelief, decisions: Array, samples: Array, t: Array
    ) -> LocationBelief:
        """The warm-up fills the base; every later round improves Â and, with recycling, the base."""
        if belief.base is None:
            effect = self.effects.start(samples.shape[2], decisions.shape[1])
            base = self.base_samples.start(
                problem.loss, self.effects.shift, effect, decisions[0], samples[0], belief.key
            )
            return changed(belief, effect=effect, base=base)
        base = belief.base
        if self.memory is not None:  # with a new key, since the count stops growing
            key = jax.random.fold_in(base.key, 0)
            base = changed(base, count=jnp.minimum(base.count, self.memory), key=key)
            t = jnp.minimum(t, self.memory / (samples.shape[0] * samples.shape[1]))
        effect = self.effects.update(belief.effect, decisions, samples, t)
        return changed(belief, effect=effect, base=self.base_samples.add(base, decisions, samples))

    def check(self, belief: LocationBelief, decisions: Array, samples: Array) -> None:
        """Samples must be as wide as the effect and stay so; rounds must deploy what the effect is learnt from."""
        effect = belief.effect
        if belief.base is None:
            if decisions.shape[0] != 1:
                raise ValueError(f"`decisions` of the warm-up must be one decision, but got {decisions.shape[0]}")
            effect = jax.eval_shape(lambda: self.effects.start(samples.shape[2], decisions.shape[1]))
        elif self.effects.pairs and decisions.shape[0] != 2:
            raise ValueError(f"`decisions` must be the pair (θ, θ + u), but got {decisions.shape[0]} decisions")
        theta = jax.ShapeDtypeStruct((decisions.shape[1],), jnp.float64)
        width = jax.eval_shape(self.effects.shift, effect, theta).shape
        if width != (samples.shape[2],):
            raise ValueError(
                f"`samples` must hold {width[0]} numbers each, like the effect's rows, but got {samples.shape[2]}"
            )

    def gradient(self, problem: Problem, belief: LocationBelief, theta: Array) -> Array:
        """See the class."""
        return jax.grad(lambda theta: self.predicted_risk(problem, belief, theta))(theta)

    def predicted_risk(
        self, problem: Problem, belief: LocationBelief, theta: Array, where: Array | None = None
    ) -> Array:
        """(1/n) Σ_i ℓ(θ; Z₀,i + Â θ), with Z₀,i = Z_i − Â θ_i for a sample observed at θ_i; or the data shifted by Â·`where`."""
        felt = (theta if self.anticipate else lax.stop_gradient(theta)) if where is None else where
        return belief.base.mean_loss(problem.loss, theta, lambda where: self.effects.shift(belief.effect, felt - where))
