"""The n samples that stand for the base distribution D₀."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from performative.expectations import Moments, Samples, from_samples, hessian_pattern
from performative.problem import LossInData
from performative.pytrees import changed, pytree


@pytree()
class Base:
    """What was observed, and where: D₀ is recovered from it with whatever effect is believed at the time.

    `observed` is a distribution over data z if all of it was observed at `origin`, and over (z, θ) otherwise.
    """

    observed: Any
    origin: Any
    count: Any
    key: Any

    def mean(self, function: Any) -> Array:
        """The average of `function(z, where)` over all observations z made at decisions `where`."""
        if self.origin is not None:
            return self.observed.mean(lambda z: function(z, self.origin))
        return self.observed.mean(lambda w: function(*w))


@pytree("recycle")
class BaseSamples:
    """Base samples drawn once in the warm-up (paper), or recycled from every deployment.

    Recycling removes the floor of order σ²/n that n fixed samples put under the regret. A recycled observation is kept
    with its decision and mapped back with the *current* estimate, Z₀ = Z − Âθ, so early errors do not stay frozen in. For
    losses quadratic in the data the running moments of (z, θ) are all it takes; for any other a reservoir as large as the
    warm-up holds a uniform sample of all observations.
    """

    recycle: Any

    def start(self, loss: Any, shift: Any, effect: Array, decision: Array, samples: Array, key: Array) -> Base:
        """The base after the warm-up: `samples` (n, k) observed at `decision`."""
        (n, width), dimension = samples.shape, decision.shape[0]
        count = jnp.full((), n, jnp.float64)
        if not self.recycle:
            pattern = hessian_pattern(LossInData(loss), width, decision)
            return Base(from_samples(samples, pattern), decision, count, key)
        pattern = hessian_pattern(_Recycled(loss, shift), width + dimension, decision, effect)
        points = jnp.concatenate([samples, jnp.broadcast_to(decision, (n, dimension))], axis=1)
        return Base(Split(from_samples(points, pattern), width), None, count, key)

    def add(self, base: Base, decisions: Array, samples: Array) -> Base:
        """The base with what was observed (b, n, k) at `decisions` (b, d)."""
        if not self.recycle:
            return base
        for decision, observed in zip(decisions, samples, strict=True):
            for z in observed:
                base = _with(base, jnp.concatenate([z, decision]))
        return base


@pytree("width")
class Split:
    """A distribution over (z, θ) side by side, the first `width` numbers being z."""

    joint: Any
    width: Any

    def mean(self, function: Any) -> Array:
        """The average of `function((z, θ))`."""
        return self.joint.mean(lambda w: function((w[: self.width], w[self.width :])))


def _with(base: Base, w: Array) -> Base:
    """One more observation."""
    count, joint = base.count + 1.0, base.observed.joint
    if isinstance(joint, Moments):
        before = w - joint.center
        center = joint.center + before / count
        after = joint.pattern.compressed_outer(before, w - center)
        joint = changed(joint, center=center, covariance=joint.covariance + (after - joint.covariance) / count)
    else:
        size = joint.points.shape[0]
        key = jax.random.fold_in(base.key, count.astype(jnp.int64))
        slot = jnp.floor(jax.random.uniform(key) * count).astype(jnp.int64)
        kept = slot < size
        row = jnp.minimum(slot, size - 1)
        joint = Samples(joint.points.at[row].set(jnp.where(kept, w, joint.points[row])))
    return changed(base, observed=changed(base.observed, joint=joint), count=count)


@pytree()
class _Recycled:
    loss: Any
    shift: Any

    def __call__(self, w: Array, theta: Array, effect: Array) -> Array:
        width = w.shape[0] - theta.shape[0]
        return self.loss(theta, w[:width] + self.shift(effect, theta - w[width:]))
