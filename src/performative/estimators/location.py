"""The gradient of the performative risk of a location family, with the learned effect plugged in (Algorithm 1, line 8)."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array, lax

from performative.estimators.base_samples import Base, BaseSamples
from performative.estimators.protocol import EffectEstimator, Unobserved
from performative.expected import Score
from performative.numerics.outcomes import Outcomes
from performative.numerics.pytrees import changed, pytree
from performative.problem import Problem
from performative.shifts import Shift


@pytree()
class LocationBelief:
    """Â_t and the base samples.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> method = pf.apda(pf.Problem(Revenue(), pf.Box([0.0], [5.0])), warmup=2)
    >>> state = method.init(jax.random.key(0))
    >>> state = method.tell(state, method.ask(state, jax.random.key(1)), jnp.array([[[3.0], [5.0]]]))
    >>> isinstance(state.belief, pf.estimators.LocationBelief), state.belief.effect.tolist()
    (True, [[0.0]])
    """

    effect: Array
    base: Base
    key: Array


@pytree("anticipate", "warmup")
class LocationEstimator:
    """∇P̂R_t(θ) = ∇_θ (1/n) Σ_i ℓ(θ; Z₀,i + Â_t θ)  (equation Eq_grad_approx).

    `anticipate` decides whether the reaction is in the gradient: yes for APDA, no for PD-PS, where the shift stays at the
    current decision while the loss is differentiated. `warmup` is n. `memory`, if given, is the largest number of samples the
    estimates rest on: older samples fade, and the estimates follow a world that drifts.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> problem = pf.Problem(Revenue(), pf.Box([0.0], [5.0]))
    >>> pf.apda(problem).estimator.anticipate, pf.pd_ps(problem).estimator.anticipate
    (True, False)
    """

    effects: EffectEstimator
    base_samples: BaseSamples
    anticipate: bool
    warmup: int
    memory: Array | None = None

    def init(self, problem: Problem, key: Array) -> Unobserved:
        """Nothing: before the warm-up even the length of a sample is unknown."""
        return Unobserved(key)

    @property
    def slope(self) -> str:
        """It needs the gradient of the loss in the decision and, to anticipate, in the data."""
        return "data" if self.anticipate else "decision"

    def opening(self, belief: Unobserved | LocationBelief) -> int:
        """n before the warm-up, 0 after it."""
        return int(self.warmup) if isinstance(belief, Unobserved) else 0

    def update(
        self, problem: Problem, belief: Unobserved | LocationBelief, decisions: Array, samples: Array, t: Array
    ) -> LocationBelief:
        """The warm-up fills the base; every later round improves Â and, with recycling, adds to the base."""
        if isinstance(belief, Unobserved):
            effect = self.effects.start(samples.shape[2], decisions.shape[1])
            base = self.base_samples.start(problem, self.effects.shift, effect, decisions[0], samples[0], belief.key)
            return LocationBelief(effect, base, belief.key)
        base = belief.base
        if self.memory is not None:  # with a new key, since the count stops growing
            key = jax.random.fold_in(base.key, 0)
            base = changed(base, count=jnp.minimum(base.count, self.memory), key=key)
            t = jnp.minimum(t, self.memory / (samples.shape[0] * samples.shape[1]))
        effect = self.effects.update(belief.effect, decisions, samples, t)
        return changed(belief, effect=effect, base=self.base_samples.add(base, decisions, samples))

    def check(self, belief: Unobserved | LocationBelief, decisions: Array, samples: Array) -> None:
        """Refuse samples that do not fit the effect, and deployments from which it cannot be learned."""
        if isinstance(belief, Unobserved):
            if decisions.shape[0] != 1:
                raise ValueError(f"`decisions` of the warm-up must be one decision, but got {decisions.shape[0]}")
            effect = jax.eval_shape(lambda: self.effects.start(samples.shape[2], decisions.shape[1]))
        else:
            if self.effects.pairs and decisions.shape[0] != 2:
                raise ValueError(f"`decisions` must be the pair (θ, θ + u), but got {decisions.shape[0]} decisions")
            effect = belief.effect
        theta = jax.ShapeDtypeStruct((decisions.shape[1],), jnp.float64)
        width = jax.eval_shape(self.effects.shift, effect, theta).shape
        if width != (samples.shape[2],):
            raise ValueError(
                f"`samples` must hold {width[0]} numbers each, like the effect's rows, but got {samples.shape[2]}"
            )

    def gradient(self, problem: Problem, belief: LocationBelief, theta: Array) -> Array:
        """∇P̂R_t(θ), by automatic differentiation of the predicted risk."""
        return jax.grad(lambda theta: self.predicted_risk(problem, belief, theta))(theta)

    def predicted_risk(
        self, problem: Problem, belief: LocationBelief, theta: Array, where: Array | None = None
    ) -> Array:
        """(1/n) Σ_i ℓ(θ; Z₀,i + Â θ), with Z₀,i = Z_i − Â θ_i for a sample observed at θ_i; or the data shifted by Â·`where`."""
        at = (theta if self.anticipate else lax.stop_gradient(theta)) if where is None else where
        return belief.base.mean_loss(problem.loss, theta, lambda where: self.effects.shift(belief.effect, at - where))

    def source(self, belief: LocationBelief) -> PredictedSource:
        """What data decisions bring about, with the reaction in gradients if it anticipates."""
        return PredictedSource(belief, self.effects.shift, self.anticipate)


@pytree("anticipate")
class PredictedSource:
    """The data Z₀ + Â θ that a belief predicts; where it does not `anticipate`, they stay while θ is varied."""

    belief: LocationBelief
    shift: Shift
    anticipate: bool

    def average(self, function: Score) -> PredictedAverage:
        """The average over the base samples, moved."""
        return PredictedAverage(self, function)

    def distribution(self, function: Score) -> PredictedDistribution:
        """The scores of the base samples, moved."""
        return PredictedDistribution(self, function)

    def moved(self, theta: Array, where: Array | None) -> Callable[[Array], Array]:
        """By how much a sample moves from a decision to θ, or to `where`."""
        at = theta if where is None else where
        at = at if self.anticipate else lax.stop_gradient(at)
        return lambda origin: self.shift(self.belief.effect, at - origin)


@pytree()
class PredictedAverage:
    """(1/n) Σ_i f(θ, Z₀,i + Â θ)."""

    source: PredictedSource
    function: Score

    def __call__(self, theta: Array, where: Array | None = None) -> Array:
        """The average of a function on the data that a decision is predicted to bring about."""
        return self.source.belief.base.mean(self.function, theta, self.source.moved(theta, where))


@pytree()
class PredictedDistribution:
    """The scores f(θ, Z₀,i + Â θ), of standard deviation s.

    Probabilities are smoothed over 1.06 s n^(−1/5), the usual bandwidth of a normal kernel: a share of n samples has no slope.
    """

    source: PredictedSource
    function: Score

    def __call__(self, theta: Array, where: Array | None = None) -> Outcomes:
        """The distribution of a function on the data that a decision is predicted to bring about."""
        points = self.source.belief.base.points(self.source.moved(theta, where))
        values, count = jax.vmap(lambda z: self.function(theta, z))(points), points.shape[0]
        width = 1.06 * lax.stop_gradient(jnp.std(values)) * count**-0.2
        return Outcomes(values, jnp.full(count, 1.0 / count), width)
