"""Moments of decisions and of the data that they brought: all that least squares of Z on (1, x) needs to know."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from performative.numerics.arrays import Floats
from performative.numerics.pytrees import pytree

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
        return JointMoments(jnp.asarray(n, jnp.float64), *means, jnp.zeros((d, d)), jnp.zeros((k, d)))

    def with_samples(self, decision: Array, samples: Array) -> JointMoments:
        """The moments after n more samples (n, k) were observed at a decision."""
        return self.with_mean(decision, jnp.mean(samples, axis=0), samples.shape[0])

    def with_mean(self, decision: Array, mean: Array, n: Array | int) -> JointMoments:
        """The moments after n more samples of this mean (k,) were observed at a decision."""
        total = self.count + n
        apart, moved = decision - self.decision, mean - self.data
        weight = self.count * n / total
        return JointMoments(
            count=total,
            decision=self.decision + apart * (n / total),
            data=self.data + moved * (n / total),
            scatter=self.scatter + jnp.tensordot(weight * apart, apart, 0),
            cross=self.cross + jnp.tensordot(weight * moved, apart, 0),
        )

    def effect(self, ridge: Numbers | float, tensor: Array | None = None) -> Array:
        """Â (k, d), or the numbers (p,) of a structured effect whose shift is the `tensor` (k, p, d).

        There is one `ridge`, or one for each coordinate.
        """
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
class SquaredWeights:
    """Moments of decisions by the squares of their samples' weights w, where old samples have faded: for standard errors.

    With noise of variance σ² at all ages, weighted least squares has the covariance σ² S⁻¹ (Σ w² (x − x̄)(x − x̄)ᵀ) S⁻¹, since
    S = Σ w (x − x̄)(x − x̄)ᵀ: it would be σ² S⁻¹ if a sample of weight w had noise of variance σ²/w. `count` is Σ w²; `decision`
    and `scatter` are the mean of the decisions by w² and their scatter around it.

    >>> import numpy as np
    >>> import performative as pf
    >>> squared = pf.estimators.SquaredWeights.of(np.array([[0.0], [2.0]]), np.array([0.5, 1.0]))
    >>> float(squared.count), squared.around(np.array([1.0])).round(9).tolist()
    (1.25, [[1.25]])
    """

    count: Array
    decision: Array
    scatter: Array

    @staticmethod
    def at(decision: Array, n: Array | float) -> SquaredWeights:
        """Of n samples at one decision, none of which has faded."""
        d = decision.shape[0]
        return SquaredWeights(jnp.asarray(n, jnp.float64), decision + jnp.zeros(d), jnp.zeros((d, d)))

    @staticmethod
    def of(decisions: Floats, weights: Floats) -> SquaredWeights:
        """Of samples with these weights (n,) at decisions (n, d)."""
        squares = weights**2
        center = squares @ decisions / squares.sum()
        apart = decisions - center
        return SquaredWeights(squares.sum(), center, (squares[:, None] * apart).T @ apart)

    def with_samples(self, decision: Array, n: Array | float) -> SquaredWeights:
        """With n more samples at a decision."""
        total, apart = self.count + n, decision - self.decision
        scatter = self.scatter + jnp.tensordot(self.count * n / total * apart, apart, 0)
        return SquaredWeights(total, self.decision + apart * (n / total), scatter)

    def faded(self, share: Array | float) -> SquaredWeights:
        """With a share of all weights."""
        return SquaredWeights(share**2 * self.count, self.decision, share**2 * self.scatter)

    def around(self, center: Array | Floats) -> Array:
        """Σ w² (x − c)(x − c)ᵀ (d, d)."""
        apart = self.decision - center
        return self.scatter + self.count * apart[:, None] * apart
