"""The samples that stand for the base distribution D₀: those of the warm-up, or all of them."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

from performative.estimators import reservoir
from performative.numerics.expectations import Moments, QuadraticForm, Samples, from_samples, hessian_pattern
from performative.numerics.pytrees import changed, pytree
from performative.problem import Loss, LossInData, Problem
from performative.shifts import Shift


@pytree()
class Base:
    """What was observed, and where: D₀ is recovered from it with the current estimate of the effect.

    `observed` is a distribution over data z if all of it was observed at `origin`, and over (z, θ) otherwise. `spread` is
    what the spread around its mean adds to the average loss, where that is a quadratic function of the decision alone.
    """

    observed: Samples | Moments | Split
    origin: Array | None
    count: Array
    key: Array
    spread: QuadraticForm | None = None

    def mean_loss(self, loss: Loss, theta: Array, moved: Callable[[Array], Array]) -> Array:
        """The average of ℓ(θ; z + moved(where)) over all observations z made at decisions `where`."""
        if self.spread is not None:
            assert isinstance(self.observed, Moments)
            assert self.origin is not None
            return loss(theta, self.observed.center + moved(self.origin)) + self.spread(theta)
        return self.mean(loss, theta, moved)

    def mean(self, function: Loss, theta: Array, moved: Callable[[Array], Array]) -> Array:
        """The same of another function than the loss."""
        origin = self.origin
        if origin is None:
            assert isinstance(self.observed, Split)
            return self.observed.mean(lambda w: function(theta, w[0] + moved(w[1])))
        assert not isinstance(self.observed, Split)
        return self.observed.mean(lambda z: function(theta, z + moved(origin)))

    def points(self, moved: Callable[[Array], Array]) -> Array:
        """The observations z + moved(where), (n, k), where all of them are kept."""
        if isinstance(self.observed, Split):
            joint, width = self.observed.joint, self.observed.width
            assert isinstance(joint, Samples)
            return jax.vmap(lambda w: w[:width] + moved(w[width:]))(joint.points)
        assert isinstance(self.observed, Samples)
        assert self.origin is not None
        return self.observed.points + moved(self.origin)


@pytree("recycle")
class BaseSamples:
    """Base samples drawn once in the warm-up (paper), or recycled from every deployment.

    Recycling removes the floor of order σ²/n that n fixed samples put under the regret. A recycled observation is stored
    with its decision and mapped back with the *current* estimate, Z₀ = Z − Âθ, so early errors do not stay frozen in. For
    losses quadratic in the data the running moments of (z, θ) are all it takes. For any other loss a reservoir as large as the
    warm-up holds a uniform sample of all observations: that follows the world, but n points keep a floor of order σ²/n.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> method = pf.apda(pf.Problem(Revenue(), pf.Box([0.0], [5.0])), recycle=True)
    >>> method.estimator.base_samples
    BaseSamples(recycle=True)
    """

    recycle: bool

    def start(self, problem: Problem, shift: Shift, effect: Array, decision: Array, samples: Array, key: Array) -> Base:
        """The base after the warm-up: `samples` (n, k) observed at `decision`, as the loss and the constraints need them."""
        (n, width), dimension = samples.shape, decision.shape[0]
        count, loss = jnp.full((), n, jnp.float64), problem.loss
        averaged = Together((loss, *(function for item in problem.caused for function in item.averaged)))
        if any(item.scored for item in problem.caused):  # a distribution takes the samples themselves
            points = jnp.concatenate([samples, jnp.broadcast_to(decision, (n, dimension))], axis=1)
            if self.recycle:
                return Base(Split(Samples(points), width), None, count, key)
            return Base(Samples(samples), decision, count, key)
        if not self.recycle:
            pattern = hessian_pattern(LossInData(averaged), width, decision)
            observed = from_samples(samples, pattern)
            spread = QuadraticForm.of(_Spread(loss, observed), decision) if isinstance(observed, Moments) else None
            return Base(observed, decision, count, key, spread)
        pattern = hessian_pattern(_Recycled(averaged, shift), width + dimension, decision, effect)
        points = jnp.concatenate([samples, jnp.broadcast_to(decision, (n, dimension))], axis=1)
        return Base(Split(from_samples(points, pattern, always=True), width), None, count, key)

    def add(self, base: Base, decisions: Array, samples: Array) -> Base:
        """The base with `samples` (b, n, k) observed at `decisions` (b, d)."""
        if not self.recycle:
            return base
        where = jnp.broadcast_to(decisions[:, None], (*samples.shape[:2], decisions.shape[1]))
        points = jnp.concatenate([samples, where], axis=-1).reshape(-1, samples.shape[2] + decisions.shape[1])
        assert isinstance(base.observed, Split)
        joint = base.observed.joint
        grown = _grown(joint, base.count, points) if isinstance(joint, Moments) else _sampled(base, joint, points)
        return changed(base, observed=changed(base.observed, joint=grown), count=base.count + points.shape[0])


@pytree()
class Together:
    """A sum of functions whose second derivatives are nil only where those of all of them are."""

    functions: tuple[Loss, ...]

    def __call__(self, theta: Array, z: Array) -> Array:
        """Σ √(1 + i) f_i(θ, z): such weights let nothing cancel but by accident."""
        return sum((math.sqrt(1.0 + i) * one(theta, z) for i, one in enumerate(self.functions)), jnp.zeros(()))


@pytree("width")
class Split:
    """A distribution over (z, θ) side by side, where the first `width` numbers are z."""

    joint: Samples | Moments
    width: int

    def mean(self, function: Callable[[tuple[Array, Array]], Array]) -> Array:
        """The average of `function((z, θ))`."""
        return self.joint.mean(lambda w: function((w[: self.width], w[self.width :])))


def _grown(joint: Moments, count: Array, points: Array) -> Moments:
    """The moments of `count` earlier observations and of the new `points` together."""
    new, total = points.shape[0], count + points.shape[0]
    center = jnp.mean(points, axis=0)
    apart = center - joint.center
    within = jnp.mean(jax.vmap(joint.pattern.compressed_outer)(points - center, points - center), axis=0)
    between = joint.pattern.compressed_outer(apart, apart) * (count * new / total**2)
    covariance = joint.covariance * (count / total) + within * (new / total) + between
    return changed(joint, center=joint.center + apart * (new / total), covariance=covariance)


def _sampled(base: Base, joint: Samples, points: Array) -> Samples:
    """The reservoir after the new points; the count stops growing in a base that forgets."""
    rows = joint.points
    count = jnp.maximum(base.count, rows.shape[0])
    return Samples(reservoir.with_rows(rows, base.key, points, count, count + 1.0))


@pytree()
class _Spread:
    loss: Loss
    observed: Moments

    def __call__(self, theta: Array) -> Array:
        return self.observed.spread(lambda z: self.loss(theta, z))


@pytree()
class _Recycled:
    loss: Loss
    shift: Shift

    def __call__(self, w: Array, theta: Array, effect: Array) -> Array:
        width = w.shape[0] - theta.shape[0]
        return self.loss(theta, w[:width] + self.shift(effect, theta - w[width:]))
