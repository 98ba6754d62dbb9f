"""Least squares of the data on the decisions that brought them, Z ≈ z̄ + A(x − x̄): in closed form, and recursively.

Both minimize Σ‖z_i − z̄ − A(x_i − x̄)‖² + ridge·‖A − A₀‖². `JointMoments` solves it from the moments of (x, z) on demand;
`LeastSquares` keeps the solution and updates it by one outer product per deployment, which is what a compiled loop can afford.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.estimators import reservoir
from performative.estimators.protocol import Unobserved
from performative.numerics.arrays import Floats
from performative.numerics.pytrees import changed, pytree
from performative.numerics.randomness import new_key
from performative.shifts import Shift

Numbers = Array | Floats


@pytree()
class JointMoments:
    """Moments of decisions x and their data z: the count, both means, the scatter of x (d, d) and Σ(z − z̄)(x − x̄)ᵀ (k, d).

    >>> import numpy as np
    >>> import performative as pf
    >>> decisions = np.array([[0.0], [1.0], [2.0]])
    >>> moments = pf.estimators.JointMoments.of(decisions, 5.0 - 3.0 * decisions)
    >>> moments.effect(ridge=0.0).tolist()
    [[-3.0]]
    """

    count: Array
    decision: Array
    data: Array
    scatter: Array
    cross: Array

    @staticmethod
    def of(decisions: Numbers, samples: Numbers, weights: Numbers | None = None) -> JointMoments:
        """The moments of decisions (n, d) and samples (n, k), paired row by row, in NumPy or JAX."""
        xp = decisions.__array_namespace__()
        w = xp.ones(decisions.shape[0]) if weights is None else weights
        count = xp.sum(w)
        share = w[:, None] / count
        center, mean = xp.sum(share * decisions, axis=0), xp.sum(share * samples, axis=0)
        apart, moved = decisions - center, samples - mean
        return JointMoments(count, center, mean, (w[:, None] * apart).T @ apart, (w[:, None] * moved).T @ apart)

    @staticmethod
    def at(decision: Array, samples: Array) -> JointMoments:
        """The moments of samples (n, k) that were all observed at one decision, so both scatters are zero."""
        (n, k), d = samples.shape, decision.shape[0]
        means = decision + jnp.zeros(d), jnp.mean(samples, axis=0)
        return JointMoments(jnp.asarray(n * 1.0), *means, jnp.zeros((d, d)), jnp.zeros((k, d)))

    def with_samples(self, decision: Array, samples: Array) -> JointMoments:
        """The moments after n more samples (n, k) were observed at a decision."""
        n = samples.shape[0]
        total = self.count + n
        apart, moved = decision - self.decision, jnp.mean(samples, axis=0) - self.data
        weight = self.count * n / total
        return JointMoments(
            count=total,
            decision=self.decision + apart * (n / total),
            data=self.data + moved * (n / total),
            scatter=self.scatter + weight * apart[:, None] * apart[None, :],
            cross=self.cross + weight * moved[:, None] * apart[None, :],
        )

    def effect(self, ridge: Array | float, tensor: Array | None = None) -> Array:
        """Â (k, d), or the numbers (p,) of a structured effect whose shift is the `tensor` (k, p, d)."""
        xp = self.scatter.__array_namespace__()
        scatter = self.scatter + ridge * xp.eye(self.scatter.shape[0])
        if tensor is None:
            return xp.linalg.solve(scatter, self.cross.T).T
        normal = jnp.einsum("kpd,de,kqe->pq", tensor, scatter, tensor)
        return jnp.linalg.solve(normal, jnp.einsum("kpd,kd->p", tensor, self.cross))

    def residuals(self, decisions: Numbers, samples: Numbers, effect: Numbers) -> Numbers:
        """What z̄ + A(x − x̄) leaves of samples (n, k) observed at decisions (n, d)."""
        return (samples - self.data) - (decisions - self.decision) @ effect.T


@pytree()
class Regression:
    """What least squares has learned: the effect Â, the means of decisions and data, and what standard errors need.

    `count` is how many samples it rests on, `inverse` the inverse scatter P of the decisions (d, d), `scatter` that of the
    residuals (k, k). `reservoir` holds deployments (m, d + k), for losses that are not quadratic in the data. Where the effect
    cannot move some of the data, `lean` regresses the noise of the others on the noise of those, with `lean_inverse`: what
    the unmoved data explain does not count as surprise. `ridge` (d,) is what a prior adds to the scatter of the decisions, and
    `misfit` (k,) the squared surprises of the `deployments`, in the unit of the noise of one sample.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> method = pf.safe_apda(pf.Problem(Revenue(), pf.Box([0.0], [5.0])), start=[1.0], samples=2)
    >>> state = method.init(jax.random.key(0))
    >>> state = method.tell(state, jnp.array([[1.0]]), jnp.array([[[3.0], [5.0]]]))
    >>> isinstance(state.belief, pf.estimators.Regression), state.belief.data.tolist()
    (True, [4.0])
    """

    effect: Array
    count: Array
    decision: Array
    data: Array
    inverse: Array
    scatter: Array
    reservoir: Array | None
    lean: Array
    lean_inverse: Array
    key: Array
    ridge: Array
    misfit: Array
    deployments: Array

    @staticmethod
    def of(decisions: Floats, samples: Floats, weights: Floats, reservoir: int | None) -> Regression:
        """Of weighted samples (n, k) at decisions (n, d), all at once; the last ones fill the `reservoir`, if it has a size.

        The covariance of the effect allows for the weights. Coordinates that never varied get an effect of 0 and a huge error.
        """
        d, k = decisions.shape[1], samples.shape[1]
        share = weights / weights.sum()
        moments = JointMoments.of(decisions, samples, share)
        ridge = 1e-9 * max(float(np.trace(moments.scatter)) / d, 1e-9 * max(1.0, float(np.max(decisions**2))))
        effect, count = moments.effect(ridge), 1.0 / float(np.sum(share**2))
        inverse = np.linalg.inv(moments.scatter + ridge * np.eye(d))
        weighted, left = share[:, None] * (decisions - moments.decision), moments.residuals(decisions, samples, effect)
        kept = None
        if reservoir is not None:
            rows = np.concatenate([decisions, samples], axis=1)[-max(1, min(reservoir, int(count))) :]
            kept = jnp.asarray(np.resize(rows, (reservoir, d + k)))
        return Regression(
            effect=jnp.asarray(effect),
            count=jnp.asarray(count),
            decision=jnp.asarray(moments.decision),
            data=jnp.asarray(moments.data),
            inverse=jnp.asarray(inverse @ (weighted.T @ weighted) @ inverse),
            scatter=jnp.asarray(count * (share[:, None] * left).T @ left),
            reservoir=kept,
            lean=jnp.zeros((k, 0)),
            lean_inverse=jnp.zeros((0, 0)),
            key=new_key(0),
            ridge=jnp.full(d, ridge),
            misfit=jnp.zeros(k),
            deployments=jnp.asarray(float(len(np.unique(decisions, axis=0)))),
        )


@pytree("unmoved", "structured", "reservoir")
class LeastSquares:
    """Recursive least squares of Z on (1, x), one deployment at a time.

    `shift` is the bilinear shift(effect, θ) and `prior` is A₀. Of a `structured` effect, `unmoved` are the positions of the
    data it cannot move and `overlap` is the inverse Gram matrix of its numbers (None for the identity). `reservoir` is how many
    deployments are kept where the loss needs them. `memory`, if given, is the largest number of samples the estimates rest on:
    older samples fade, and the estimates follow a world that drifts.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> method = pf.safe_apda(pf.Problem(Revenue(), pf.Box([0.0], [5.0])), reservoir=100)
    >>> learner: pf.estimators.LeastSquares = method.learner
    >>> learner.reservoir, learner.structured
    (100, False)
    """

    shift: Shift
    prior: Array | None
    structured: bool
    unmoved: tuple[int, ...]
    overlap: Array | None
    reservoir: int
    memory: Array | None

    def start(
        self, belief: Unobserved, decision: Array, samples: Array, with_reservoir: bool, ridge: Array
    ) -> Regression:
        """The regression after the first deployment: the effect is A₀, and P is that of the `ridge` (d,) alone."""
        (n, k), d, still = samples.shape, decision.shape[0], len(self.unmoved)
        mean = jnp.mean(samples, axis=0)
        apart = samples - mean
        rows = _rows(decision, samples)
        return Regression(
            effect=jnp.zeros((k, d)) if self.prior is None else jnp.asarray(self.prior),
            count=jnp.full((), n, jnp.float64),
            decision=decision,
            data=mean,
            inverse=jnp.diag(1.0 / ridge),
            scatter=apart.T @ apart,
            reservoir=reservoir.first_rows(belief.key, rows, self.reservoir) if with_reservoir else None,
            lean=jnp.zeros((k, still)),
            lean_inverse=jnp.zeros((still, still)),
            key=belief.key,
            ridge=ridge,
            misfit=jnp.zeros(k),
            deployments=jnp.ones(()),
        )

    def update(
        self, belief: Regression, decision: Array, samples: Array, count: Array | None = None
    ) -> tuple[Regression, Array]:
        """The regression with one more deployment, and how far its data are from what was predicted.

        With a `count`, the one row of `samples` is the mean of that many.
        """
        n = samples.shape[0] if count is None else count
        mean = jnp.mean(samples, axis=0)
        if self.memory is not None:
            belief = _faded(belief, jnp.minimum(1.0, self.memory / belief.count))
        total = belief.count + n
        share = belief.count * n / total
        step, change = decision - belief.decision, mean - belief.data
        stretched = jnp.sum(belief.inverse * step, axis=1)
        weight = share / (1.0 + share * jnp.sum(step * stretched))
        raw = change - self.shift(belief.effect, step)
        surprise, lean, lean_inverse = self._leaned(belief, raw, share)
        learned = self.nearest_effect(belief.effect, weight * stretched, surprise)
        scatter = belief.scatter + weight * raw[:, None] * raw
        if samples.shape[0] > 1:
            scatter = scatter + (samples - mean).T @ (samples - mean)
        sampled = None
        if belief.reservoir is not None:
            rows = _rows(decision, samples)
            sampled = reservoir.with_rows(belief.reservoir, belief.key, rows, belief.count, belief.count)
        return changed(
            belief,
            effect=belief.effect + learned,
            count=total,
            decision=belief.decision + step * (n / total),
            data=belief.data + change * (n / total),
            inverse=belief.inverse - weight * stretched[:, None] * stretched,
            scatter=scatter,
            lean=lean,
            lean_inverse=lean_inverse,
            reservoir=sampled,
            misfit=belief.misfit + weight * raw * raw,
            deployments=belief.deployments + 1.0,
        ), surprise

    def remembered(self, rounds: Array, samples: int) -> Array:
        """How many of these rounds are remembered."""
        return rounds if self.memory is None else jnp.minimum(rounds, self.memory / samples)

    def nearest_effect(self, effect: Array, along: Array, change: Array) -> Array:
        """The effect whose matrix is nearest to change·alongᵀ."""
        nearest = jax.vjp(lambda effect: self.shift(effect, along), effect)[1](change)[0]
        if self.overlap is None:
            return nearest
        return (jnp.asarray(self.overlap) @ nearest.reshape(-1)).reshape(nearest.shape)

    def with_ridge(self, belief: Regression, index: Array, ridge: Array, shrinks: bool) -> Regression:
        """The regression with another ridge on one axis: around the prior if it `shrinks`, else around the present effect.

        One axis changes by one outer product, so that the ridge can follow the noise as it becomes known; the axes take turns.
        """
        here = jnp.arange(belief.ridge.shape[0]) == index
        column = jnp.sum(jnp.where(here, belief.inverse, 0.0), axis=1)
        change = ridge - jnp.sum(jnp.where(here, belief.ridge, 0.0))
        share = change / (1.0 + change * jnp.sum(jnp.where(here, column, 0.0)))
        effect, scatter, misfit = belief.effect, belief.scatter, belief.misfit
        if shrinks:
            prior = jnp.zeros_like(effect) if self.prior is None else jnp.asarray(self.prior)
            apart = self.shift(effect - prior, here.astype(jnp.float64))
            effect = effect - self.nearest_effect(effect, column, share * apart)
            if not self.structured:
                scatter, misfit = scatter + share * apart[:, None] * apart, misfit + share * apart * apart
        return changed(
            belief,
            effect=effect,
            inverse=belief.inverse - share * column[:, None] * column,
            scatter=scatter,
            ridge=jnp.where(here, ridge, belief.ridge),
            misfit=misfit,
        )

    def without_ridge(self, belief: Regression) -> tuple[Array, Array]:
        """The effect and the inverse scatter of least squares without the ridge around the prior.

        The ridge keeps the first steps small, but it is a bias that standard errors ignore, and it lasts across an active
        constraint, where little is explored. A structured effect, or one whose first rounds are forgotten, is left as it is.
        """
        if self.structured or self.memory is not None:
            return belief.effect, belief.inverse
        information = jnp.linalg.inv(belief.inverse)
        inverse = jnp.linalg.inv(information - (1.0 - 1e-9) * jnp.diag(belief.ridge))
        prior = jnp.zeros_like(belief.effect) if self.prior is None else jnp.asarray(self.prior)
        return (belief.effect @ information - belief.ridge * prior) @ inverse, inverse

    def _leaned(self, belief: Regression, raw: Array, share: Array) -> tuple[Array, Array, Array]:
        """What is left of a surprise after the part that the unmoved data explain, and the regression that explains it."""
        if not self.unmoved:
            return raw, belief.lean, belief.lean_inverse
        still = raw[np.asarray(self.unmoved)]
        # The first surprise sets the unit of the ridge.
        unit = jnp.eye(len(self.unmoved)) * (len(self.unmoved) / jnp.maximum(jnp.sum(still * still), 1e-300))
        inverse = jnp.where(jnp.trace(belief.lean_inverse) > 0, belief.lean_inverse, unit)
        left = raw - jnp.sum(belief.lean * still, axis=1)
        stretched = jnp.sum(inverse * still, axis=1)
        weight = share / (1.0 + share * jnp.sum(still * stretched))
        lean = belief.lean + weight * left[:, None] * stretched
        return left, lean, inverse - weight * stretched[:, None] * stretched


def _faded(belief: Regression, share: Array) -> Regression:
    """The same estimates, resting on a share of the samples.

    Rounding leaves inverses a little asymmetric, and the asymmetry would grow by 1/share in every round. The key is new, since
    the count stops growing and no longer tells the reservoir's draws apart.
    """

    def grown(inverse: Array) -> Array:
        return 0.5 * (inverse + inverse.T) / share

    return changed(
        belief,
        count=share * belief.count,
        scatter=share * belief.scatter,
        inverse=grown(belief.inverse),
        lean_inverse=grown(belief.lean_inverse),
        ridge=share * belief.ridge,
        misfit=share * belief.misfit,
        deployments=share * belief.deployments,
        key=jax.random.fold_in(belief.key, 0),
    )


def _rows(decision: Array, samples: Array) -> Array:
    """Each sample beside its decision, (n, d + k)."""
    return jnp.concatenate([jnp.broadcast_to(decision, (samples.shape[0], decision.shape[0])), samples], axis=1)
