"""Least squares of the data on the decisions that brought them, Z ≈ z̄ + A(x − x̄), with a prior on the effect A.

What is observed is kept as moments, by one outer product for each deployment; the effect is fitted to them on demand. With S the
scatter of the decisions, c_k that of datum k with them, s_k the variance of its noise, and a prior of mean a_k and variances v_k
on row k of the effect,

    Cov_k = (S/s_k + diag(1/v_k))⁻¹,        Â_k = a_k + Cov_k (c_k − S a_k)/s_k.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.estimators import reservoir
from performative.estimators.fitting import (
    ROUNDING,
    SMALLEST,
    Rivals,
    correlations,
    left_of,
    line,
    misfit,
    noise_of,
    posterior,
)
from performative.estimators.groups import Groups
from performative.estimators.known import Numbers, Rows
from performative.estimators.moments import JointMoments, SquaredWeights
from performative.estimators.protocol import Unobserved
from performative.numerics import cholesky
from performative.numerics.arrays import Floats, as_field
from performative.numerics.pytrees import changed, pytree
from performative.numerics.randomness import new_key
from performative.shifts import Shift

WIDE = 1e8
"""The variance of a prior that says nothing, in multiples of what the data could show."""


@pytree()
class Regression:
    """What was observed, and the effect that was last fitted to it.

    `moments` are those of decisions and data, `skew` (d,) is Σ(x − x̄)³ over the former, coordinate by coordinate, `spread` (k, k)
    is the scatter of the data around their mean, and `within` (k,) the part of it around the means of the `deployments`, which
    has `degrees` of freedom. `effect`, `covariance` (k, k) of what it leaves unexplained and `noise` (k,), the variances of that
    which is noise, are those of the last fit. `reservoir` holds deployments (m, d + k), for losses that are not quadratic in the
    data, in the first `filled` of its rows. With `groups`, all but the reservoir are about lifted data, of which there are 2k.
    Where samples have weights, `squared` are the moments by the squares of these.

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

    moments: JointMoments
    skew: Array
    spread: Array
    within: Array
    deployments: Array
    degrees: Array
    effect: Array
    covariance: Array
    noise: Array
    reservoir: Array | None
    filled: Array
    groups: Groups | None
    squared: SquaredWeights | None
    key: Array

    @property
    def count(self) -> Array:
        """How many samples there are."""
        return self.moments.count

    @property
    def decision(self) -> Array:
        """The mean of the decisions."""
        return self.moments.decision

    @property
    def data(self) -> Array:
        """The mean of the data."""
        return self.moments.data

    @property
    def size(self) -> Array:
        """The mean square of each datum, (k,)."""
        variances = jnp.diag(self.covariance)
        return self.data**2 + variances if self.groups is None else self.groups.size(self.data, variances)

    @property
    def typical(self) -> Array:
        """The mean of the data, whatever their groups."""
        return self.data if self.groups is None else self.data[..., : self.data.shape[-1] // 2]

    @property
    def mean_effect(self) -> Array:
        """The effect on the mean of all data, whatever their groups."""
        return self.effect if self.groups is None else self.effect[..., : self.effect.shape[-2] // 2, :]

    @property
    def freedom(self) -> Array:
        """How many independent numbers the spread is made of; rows that are means of several samples count once."""
        return self.degrees + self.deployments

    @staticmethod
    def of(decisions: Floats, samples: Floats, weights: Floats, reservoir: int | None) -> Regression:
        """Of weighted samples (n, k) at decisions (n, d), all at once; the last ones fill the `reservoir`, if it has a size.

        Weights count as fewer samples. Coordinates that never varied get an effect of 0.
        """
        d, k = decisions.shape[1], samples.shape[1]
        share = weights / weights.sum()
        count = 1.0 / float(np.sum(share**2))
        moments, squared = (
            JointMoments.of(decisions, samples, count * share),
            SquaredWeights.of(decisions, count * share),
        )
        largest = np.max(decisions**2, axis=0)
        effect = moments.effect(1e-9 * np.maximum(np.diag(moments.scatter), 1e-9 * np.where(largest > 0, largest, 1.0)))
        apart, left = samples - moments.data, moments.residuals(decisions, samples, effect)
        kept, filled = None, 0
        if reservoir is not None:
            filled = max(1, min(reservoir, int(count)))
            rows = np.concatenate([decisions, samples], axis=1)[-filled:]
            kept = jnp.asarray(np.resize(rows, (reservoir, d + k)))
        covariance = (share[:, None] * left).T @ left
        return Regression(
            moments=jax.tree.map(as_field, moments),
            skew=as_field(count * share @ (decisions - moments.decision) ** 3),
            spread=as_field(count * (share[:, None] * apart).T @ apart),
            within=as_field(np.zeros(k)),
            deployments=as_field(np.asarray(count)),
            degrees=as_field(np.zeros(())),
            effect=as_field(effect),
            covariance=as_field(covariance),
            noise=as_field(np.diag(covariance)),
            reservoir=kept,
            filled=as_field(np.asarray(float(filled))),
            groups=None,
            squared=None if np.all(weights == weights[0]) else jax.tree.map(as_field, squared),
            key=new_key(0),
        )


class Fit(NamedTuple):
    """The regression with the effect fitted to it, and what is known of that.

    `left` (k, k) is the scatter that neither the effect nor the unmoved data explain. The `misfit` is by how much deployments'
    means vary more than the noise within deployments explains, at least 1.
    """

    regression: Regression
    known: Rows | Numbers
    left: Array
    misfit: Array


class Cleaned(NamedTuple):
    """The scatter of decisions (d, d), of data with them (k, d) and of the data (k, k) that unmoved data do not explain."""

    scatter: Array
    cross: Array
    spread: Array


@pytree("unmoved", "reservoir", "by_group")
class LeastSquares:
    """Least squares of Z on (1, x), one deployment at a time.

    `shift` is the bilinear shift(effect, θ) and `prior` is A₀, with standard errors `error` (nan where they are not known) and
    `signs` of the true effect: −1, 0, 1, or nan. A structured effect has a `tensor` (k, p, d), and `unmoved` are the positions of
    the data it cannot move: what they explain of the others' noise is no noise. `reservoir` is how many deployments are kept
    where the loss needs them; there, `by_group` lets two groups of samples have an effect each. `memory`, if given, is the
    largest number of samples the estimates rest on: older samples fade, and the estimates follow a world that drifts.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> method = pf.safe_apda(pf.Problem(Revenue(), pf.Box([0.0], [5.0])), reservoir=100)
    >>> learner: pf.estimators.LeastSquares = method.learner
    >>> learner.reservoir, learner.structured
    (100, False)
    """

    shift: Shift
    prior: Array | None
    error: Array | None
    signs: Array | None
    tensor: Array | None
    unmoved: tuple[int, ...]
    reservoir: int
    memory: Array | None
    by_group: bool = False

    @property
    def structured(self) -> bool:
        """Whether the effect is not any matrix (k, d)."""
        return self.tensor is not None

    @property
    def width(self) -> int | None:
        """How many numbers a sample has, if what is known of the effect says so."""
        known = [part.shape[0] for part in (self.prior, self.error, self.signs) if part is not None and part.ndim == 2]
        return self.tensor.shape[0] if self.tensor is not None else next(iter(known), None)

    def start(self, belief: Unobserved, decision: Array, samples: Array, with_reservoir: bool) -> Regression:
        """The regression after the first deployment: the effect is A₀."""
        rows = _rows(decision, samples)
        groups = Groups.of(samples) if with_reservoir and self.by_group else None
        if groups is not None:
            samples = groups.lifted(samples, jnp.zeros(samples.shape[1]))
        (n, k), d = samples.shape, decision.shape[0]
        moments = JointMoments.at(decision, samples)
        apart = samples - moments.data
        spread = apart.T @ apart
        size = moments.data**2 + jnp.diag(spread) / n
        first = Regression(
            moments=moments,
            skew=jnp.zeros(d),
            spread=spread,
            within=jnp.diag(spread),
            deployments=jnp.ones(()),
            degrees=jnp.asarray(n - 1.0, jnp.float64),
            effect=jnp.zeros((k, d)) if self.prior is None else jnp.asarray(self.prior),
            covariance=spread / n,
            noise=noise_of(jnp.diag(spread), jnp.full((), n - 1.0), size),
            reservoir=reservoir.first_rows(belief.key, rows, self.reservoir) if with_reservoir else None,
            filled=jnp.asarray(min(n, self.reservoir), jnp.float64),
            groups=groups,
            squared=None if self.memory is None else SquaredWeights.at(decision, n),
            key=belief.key,
        )
        return first if groups is None else changed(first, effect=self._expected(first))

    def update(self, belief: Regression, decision: Array, samples: Array) -> Regression:
        """The regression with one more deployment; the effect stays."""
        lifted = samples
        if belief.groups is not None:
            predicted = belief.data + belief.effect @ (decision - belief.decision)
            lifted = belief.groups.lifted(samples, predicted[samples.shape[1] :])
        if belief.reservoir is None:
            return self.recall(belief, decision, lifted)
        old = belief if self.memory is None else faded(belief, self.fading(belief))
        rows = _rows(decision, samples)
        kept = reservoir.with_rows(belief.reservoir, old.key, rows, old.count, old.count, belief.filled)
        filled = jnp.minimum(belief.filled + len(rows), self.reservoir)
        return changed(self.recall(belief, decision, lifted), reservoir=kept, filled=filled)

    def recall(self, belief: Regression, decision: Array, samples: Array, count: Array | None = None) -> Regression:
        """The regression after a deployment of (lifted) samples; the reservoir stays, too.

        With a `count`, the one row is the mean of that many.
        """
        rows = samples.shape[0]
        n = rows if count is None else count
        if self.memory is not None:
            belief = faded(belief, self.fading(belief))
        mean = jnp.mean(samples, axis=0)
        moved, weight = mean - belief.data, belief.count * n / (belief.count + n)
        spread, within = belief.spread + jnp.tensordot(weight * moved, moved, 0), belief.within
        if rows > 1:
            around = samples - mean
            spread, within = spread + around.T @ around, within + jnp.sum(around * around, axis=0)
        apart, total = decision - belief.decision, belief.count + n
        squares = weight * (belief.count - n) * apart**2 - 3.0 * n * jnp.diag(belief.moments.scatter)
        return changed(
            belief,
            moments=belief.moments.with_mean(decision, mean, n),
            skew=belief.skew + apart * squares / total,
            spread=spread,
            within=within,
            deployments=belief.deployments + 1.0,
            degrees=belief.degrees + (rows - 1.0),
            squared=None if belief.squared is None else belief.squared.with_samples(decision, n),
        )

    def fading(self, belief: Regression) -> Array | float:
        """The share of what was observed that the next deployment leaves."""
        return 1.0 if self.memory is None else jnp.minimum(1.0, self.memory / belief.count)

    def fit(
        self,
        belief: Regression,
        variances: Array,
        bent: Array | float = 0.0,
        rivals: Rivals | None = None,
    ) -> Fit:
        """The effect under a prior with these `variances`: of its entries (k, d), or of the numbers (p,) of a structured one.

        `bent` (k,) is the variance that curvature may add to that of a sample's noise: no line is more exact than the world is
        straight. `rivals` are other priors that compete with this one, for an effect that is not structured.
        """
        moments = belief.moments
        # A datum that was always the same had no noise until now: what it shows first is not taken to be exact.
        first = noise_of(jnp.diag(belief.spread), belief.freedom - 1.0, belief.size)
        noise = jnp.maximum(jnp.where(belief.noise > 0, belief.noise, first) + bent, SMALLEST)
        clean = self.cleaned(belief)
        signs = None if self.signs is None else self.given(self.signs, belief, variances.shape)
        if signs is not None:
            variances = jnp.where(signs == 0, 0.0, variances)
        known: Rows | Numbers
        if self.tensor is None:
            prior = self._expected(belief)
            normal = clean.scatter / noise[:, None, None]
            gap = (clean.cross - prior @ clean.scatter) / noise[:, None]
            beside, units = correlations(moments.scatter)
            effect, covariance, learned, inverse = posterior(normal, gap, prior, variances, signs, beside, rivals)
            alike = correlations(belief.covariance)[0]
            known = Rows(effect, covariance, noise, variances, alike, clean.scatter)
        else:
            known, effect, learned = self._numbers(clean, noise, variances)
        left = left_of(known.effect, moments.scatter, moments.cross, belief.spread)
        left = left + jnp.diag(jnp.maximum(-jnp.diag(left), 0.0))  # rounding
        unexplained = left_of(known.effect, clean.scatter, clean.cross, clean.spread)
        squares = jnp.maximum(jnp.diag(unexplained), 0.0)
        size = moments.data**2 + jnp.diag(left) / belief.freedom
        regression = changed(
            belief,
            effect=effect,
            covariance=left / belief.freedom,
            noise=noise_of(squares, belief.freedom - 1.0 - learned, size),
        )
        straight, used = jnp.diag(left), learned
        if self.tensor is None:  # a prior adds to what is left, so that a line without one shows the misfit
            straight, used = line(inverse, units, moments.cross, jnp.diag(belief.spread))
        dust = ROUNDING * jnp.diag(belief.spread) + ROUNDING**2 * moments.data**2 * belief.count
        worse = misfit(straight, used, belief.within, belief.degrees, belief.deployments, dust, bent)
        return Fit(regression, known, unexplained, worse)

    def given(self, known: Array, belief: Regression, shape: tuple[int, ...]) -> Array:
        """What the user says of the entries of an effect, as an array of this shape.

        Of contrasts between groups, nothing (nan) is said but that there is none (0) where there is no effect at all.
        """
        numbers = jnp.asarray(known)
        if belief.groups is None:
            return jnp.broadcast_to(numbers, shape) if numbers.ndim == 0 else numbers.reshape(shape)
        numbers = jnp.broadcast_to(numbers, (shape[0] // 2, shape[1]))
        return jnp.concatenate([numbers, jnp.where(numbers == 0, 0.0, jnp.nan)])

    def _expected(self, belief: Regression) -> Array:
        """A₀ (k, d) of a dense effect."""
        shape = belief.moments.cross.shape
        return jnp.zeros(shape) if self.prior is None else jnp.nan_to_num(self.given(self.prior, belief, shape))

    def variances(self, belief: Regression, ridge: Array) -> Array:
        """The variances of a prior that is worth as much as this scatter of the decisions: of the entries, or of the numbers."""
        entries = jnp.broadcast_to((belief.noise / ridge)[:, None], belief.moments.cross.shape)
        return entries if self.tensor is None else self.of_numbers(entries)

    def of_numbers(self, entries: Array) -> Array:
        """The variances (p,) of the numbers of a structured effect, from those of the entries (k, d) of its matrix."""
        tensor = jnp.asarray(self.tensor)
        used = tensor != 0
        precision = jnp.sum(jnp.where(used, tensor**2 / entries[:, None, :], 0.0), axis=(0, 2))
        return jnp.maximum(jnp.sum(used, axis=(0, 2)), 1.0) / precision

    def _numbers(self, clean: Cleaned, noise: Array, variances: Array) -> tuple[Numbers, Array, Array]:
        """What is known of a structured effect, its numbers, and how many of them each row has taught."""
        assert self.prior is not None
        moved = tuple(index for index in range(len(noise)) if index not in self.unmoved)
        rows, prior = np.asarray(moved), jnp.asarray(self.prior).reshape(1, -1)
        tensor = jnp.asarray(self.tensor)[rows]
        matrix = jnp.tensordot(tensor, prior[0], ((1,), (0,)))
        through = (tensor @ clean.scatter) / noise[rows][:, None, None]
        normal = jnp.tensordot(through, tensor, ((0, 2), (0, 2)))
        gap = (clean.cross[rows] - matrix @ clean.scatter) / noise[rows][:, None]
        gap = jnp.sum(tensor * gap[:, None, :], axis=(0, 2))
        signs = None if self.signs is None else jnp.asarray(self.signs).reshape(1, -1)
        numbers, covariance, learned, _ = posterior(
            normal[None], gap[None], prior, variances[None], signs, jnp.eye(prior.shape[1])
        )
        matrix = jnp.zeros_like(clean.cross).at[rows].set(jnp.tensordot(tensor, numbers[0], ((1,), (0,))))
        known = Numbers(matrix, covariance[0], tensor, noise[rows], moved)
        return known, numbers.reshape(np.shape(self.prior)), learned / len(moved)

    def unbiased(self, belief: Regression) -> Fit:
        """The fit without a prior: what was never explored has a huge error.

        A prior keeps the first steps small, but it is a bias that standard errors ignore, and it lasts across an active
        constraint, where little is explored.
        """
        moments, size = belief.moments, jnp.maximum(belief.size, SMALLEST)[:, None]
        scatter, at = jnp.diag(moments.scatter), jnp.where(moments.decision != 0, moments.decision**2, 1.0)
        varied = jnp.where(scatter > 0, scatter, 1.0)
        free = WIDE * size * jnp.where(scatter > 0, belief.count / varied, 1.0 / at)
        return self.fit(belief, free if self.tensor is None else self.of_numbers(free))

    def remembered(self, rounds: Array, samples: int) -> Array:
        """How many of these rounds are remembered."""
        return rounds if self.memory is None else jnp.minimum(rounds, self.memory / samples)

    def cleaned(self, belief: Regression) -> Cleaned:
        """The moments after the noise of the unmoved data has explained what it can of all others (Frisch, Waugh 1933)."""
        moments = belief.moments
        if not self.unmoved:
            return Cleaned(moments.scatter, moments.cross, belief.spread)
        still = np.asarray(self.unmoved)
        gram, across = belief.spread[still][:, still], moments.cross[still]
        one = jnp.trace(gram) / (jnp.maximum(belief.freedom, 1.0) * len(still)) + SMALLEST  # a prior worth one sample
        inverse = cholesky.inverse(gram + one * jnp.eye(len(still)))
        lean = (belief.spread[:, still] @ inverse).at[still].set(0.0)
        left = jnp.eye(len(belief.spread)).at[:, still].add(-lean)
        return Cleaned(
            scatter=moments.scatter - across.T @ inverse @ across,
            cross=moments.cross - lean @ across,
            spread=left @ belief.spread @ left.T,
        )


def faded(belief: Regression, share: Array | float) -> Regression:
    """The same estimates, resting on a share of the samples.

    The key is new, since the count stops growing and no longer tells the reservoir's draws apart.
    """
    moments = belief.moments
    return changed(
        belief,
        moments=changed(
            moments, count=share * moments.count, scatter=share * moments.scatter, cross=share * moments.cross
        ),
        skew=share * belief.skew,
        spread=share * belief.spread,
        within=share * belief.within,
        deployments=share * belief.deployments,
        degrees=share * belief.degrees,
        squared=None if belief.squared is None else belief.squared.faded(share),
        key=jax.random.fold_in(belief.key, 0),
    )


def _rows(decision: Array, samples: Array) -> Array:
    """Each sample beside its decision, (n, d + k)."""
    return jnp.concatenate([jnp.broadcast_to(decision, (samples.shape[0], decision.shape[0])), samples], axis=1)
