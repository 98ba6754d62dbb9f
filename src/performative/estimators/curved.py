"""A world that need not be linear: the mean of the data is a line in the decisions plus curvature, as far as deployments show.

With u the distance from the mean decision in units of the widths of the range, deployment j has the mean

    z̄_j = b₀ + B u_j + C f(u_j) + m_j + noise/√n_j,

where f are the products of two and of three coordinates, C ∼ N(0, ρΣ) is how far the world is from linear, m_j ∼ N(0, νΣ) what a
deployment's samples have in common beyond their decision, and Σ the covariance of the noise of one sample. ρ and ν are averaged
over what the deployments leave plausible. What samples have in common may be shaped unlike their noise, such as a good week for
all products: as far as there is any, errors have the covariance that the means of deployments show. So a prediction rests on the
deployments near it where the world is curved, and on all of them where it is straight; far from all of them it is unsure.

Where old deployments fade, the likelihood of each counts by its weight w_j. With p_j = 1/(1/n_j + ν), prior precisions Λ and
P = Λ + Σ w_j p_j f_j f_jᵀ, errors of the coefficients then have the covariance P⁻¹(Λ + Σ w_j² p_j f_j f_jᵀ)P⁻¹, and not P⁻¹.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.numerics.arrays import Floats, as_field
from performative.numerics.expectations import Moments, Samples, hessian_pattern
from performative.numerics.pytrees import pytree
from performative.numerics.tails import t_quantile
from performative.problem import Loss, LossInData

STEEPEST = 3.0
"""By how much the mean of a datum may change across the range along a line, in multiples of its size: one standard deviation."""
CURVATURES = np.geomspace(0.01, 3.0, 13)
"""The same of the curvature, from what can hardly be seen to what few worlds do; each as plausible as the others."""
FARTHEST = 6
"""How often the range of curvatures is moved up where the greatest of them fits best."""
SHARED = np.array([0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0])
"""ν, in multiples of the variance of the largest deployment's mean; 0 is as plausible as all others together."""
SEEN = 4.0
"""The range is at most so many times the widest spread of the decisions, in units of Θ."""
CHOSEN = 1.15
"""A factor on standard errors: decisions are asked about because the same data made them look good (`benchmarks.coverage`)."""
FEW = 2.0
"""How many deployments the covariance of the noise is worth as a guess of that which deployments' means have."""
EXACT = 5
"""Up to this dimension all products of coordinates count; beyond it, powers along some random directions do."""
DIRECTIONS = 120
RESIDUALS = 500
"""How many residuals stand for the shape of the noise."""


class Deployed(NamedTuple):
    """Deployments: decisions (n, d), means (n, k) of `counts` (n,) samples, and the scatter (k, k) of samples around their means.

    `weights` (n,) are what fading has left of each, 1 where nothing has faded. `degrees` are the degrees of freedom of that
    scatter; `rows` (m, d + k) are the last samples beside their decisions.
    """

    decisions: Floats
    means: Floats
    counts: Floats
    weights: Floats
    scatter: Floats
    degrees: float
    rows: Floats


@pytree()
class Curved:
    """What is learned: `coefficients` (p, k) of the features and the `noise` Σ (k, k).

    Errors of the coefficients have the covariance `spread` (p, p) across features and `between` (k, k) across data. `curvature`
    is the standard deviation of C in multiples of the size of the data, and `shared` is ν in multiples of the variance of the
    largest deployment's mean. `low` and `high` are the least and the greatest of the decisions.
    """

    center: Array
    widths: Array
    coefficients: Array
    spread: Array
    noise: Array
    between: Array
    rest: Array
    count: Array
    quantile: Array
    curvature: Array
    shared: Array
    low: Array
    high: Array

    def features(self, theta: Array) -> Array:
        """1, u and f(u) at a decision."""
        u = (theta - self.center) / self.widths
        return jnp.concatenate([jnp.ones(1), u, bends(u)])

    def mean(self, theta: Array) -> Array:
        """The mean of the data at a decision, (k,)."""
        return self.features(theta) @ self.coefficients

    def trusted(self) -> tuple[Array, Array]:
        """The box around the decisions, enlarged by half its width: beyond it, predictions extrapolate."""
        wider = 0.25 * (self.high - self.low) + 1e-9 * self.widths
        return self.low - wider, self.high + wider


@pytree("quadratic")
class CurvedRisk:
    """The average loss in such a world, with standard errors by the delta method. `quadratic` says what the loss is in data."""

    loss: Loss
    world: Curved
    quadratic: bool

    @staticmethod
    def of(loss: Loss, world: Curved) -> CurvedRisk:
        """The risk of a loss, from moments where they suffice."""
        pattern = hessian_pattern(LossInData(loss), world.noise.shape[0], jnp.zeros(world.center.shape[0]))
        return CurvedRisk(loss, world, pattern is not None)

    def __call__(self, theta: Array, where: Array | None = None) -> Array:
        """The average loss of θ over the data at `where`, or at θ itself."""
        return self._risk(theta, self.world.mean(theta if where is None else where))

    def gap(self, theta: Array, other: Array) -> tuple[Array, Array]:
        """How much lower the risk of θ is than that of the other decision, and the standard error."""
        return self(other) - self(theta), self._error([(theta, -1.0), (other, 1.0)])

    def error(self, theta: Array) -> Array:
        """The standard error of the risk of θ."""
        return self._error([(theta, 1.0)])

    def size(self, theta: Array) -> Array:
        """The mean size of the loss."""
        z = self.world.mean(theta) + self.world.rest
        return jnp.mean(jnp.abs(jax.vmap(lambda z: self.loss(theta, z))(z)))

    def _risk(self, theta: Array, center: Array) -> Array:
        if not self.quadratic:
            return Samples(center + self.world.rest).mean(lambda z: self.loss(theta, z))
        pattern = hessian_pattern(LossInData(self.loss), center.shape[0], jnp.zeros(theta.shape[0]))
        assert pattern is not None
        return Moments(center, pattern.compress(self.world.noise), pattern).mean(lambda z: self.loss(theta, z))

    def bound(self, theta: Array, other: Array, quantiles: Array | float) -> Array:
        """The risk of θ and so many standard errors; what the shape of the noise adds to them is taken from the `other`."""
        along = self._along(theta, self.world.mean(theta))
        variance = self._spread(along) + jax.lax.stop_gradient(self._shape([(other, 1.0)]))
        return self(theta) + quantiles * CHOSEN * jnp.sqrt(jnp.maximum(variance, 1e-300))

    def _error(self, parts: list[tuple[Array, float]]) -> Array:
        along = jnp.zeros_like(self.world.coefficients)
        for theta, sign in parts:
            along = along + sign * self._along(theta, self.world.mean(theta))
        return CHOSEN * jnp.sqrt(jnp.maximum(self._spread(along) + self._shape(parts), 1e-300))

    def _along(self, theta: Array, center: Array) -> Array:
        """The derivative (p, k) of the risk in the coefficients."""
        return self.world.features(theta)[:, None] * self._slope(theta, center)

    def _slope(self, theta: Array, center: Array) -> Array:
        return jax.grad(lambda z: self._risk(theta, z))(center)

    def _spread(self, along: Array) -> Array:
        """The variance that the coefficients' is responsible for."""
        return jnp.sum(along * (self.world.spread @ along @ self.world.between))

    def _shape(self, parts: list[tuple[Array, float]]) -> Array:
        """The variance that comes from having seen finitely many samples of the noise, beyond their mean."""
        world = self.world
        beyond = jnp.zeros(world.rest.shape[0])
        for theta, sign in parts:
            center = world.mean(theta)
            losses = jax.vmap(lambda z, theta=theta: self.loss(theta, z))(center + world.rest)
            beyond = beyond + sign * (losses - world.rest @ self._slope(theta, center))
        return jnp.var(beyond) / world.count


def bends(u: Array | Floats) -> Array | Floats:
    """Products of two and of three coordinates of u (…, d), so weighted that all directions are alike."""
    xp = u.__array_namespace__()
    if u.shape[-1] <= EXACT:
        return xp.concatenate([_products(u, power) for power in (2, 3)], axis=-1)
    along = u @ _directions(u.shape[-1]).T
    return xp.concatenate([along**2 / math.sqrt(3 * DIRECTIONS), along**3 / math.sqrt(15 * DIRECTIONS)], axis=-1)


def fit(deployed: Deployed, ranges: Floats) -> Curved:
    """What deployments teach; `ranges` (d,) is the width of Θ in each coordinate, infinite where it has none."""
    x, y, counts, kept, scatter, degrees, rows = deployed
    (n, d), k = x.shape, y.shape[1]
    low, high = x.min(axis=0), x.max(axis=0)
    widths = _widths(high - low, ranges, x)
    left = float(kept.sum())  # how many deployments, and
    total = float((kept * counts).sum())  # how many samples fading has left
    share = kept * counts / total
    center = share @ x
    u = (x - center) / widths
    features = np.concatenate([np.ones((n, 1)), u, bends(u)], axis=1)
    size = share @ y**2 + np.diag(scatter) / counts.sum()
    noise = np.diag(scatter) / degrees if degrees >= 10 else _left(features[:, : d + 1], y, counts, kept)
    ratio = float(np.exp(np.mean(np.log(np.maximum(size, 1e-300) / np.maximum(noise, 1e-6 * size + 1e-300)))))
    most = float(np.max(counts))
    shared = SHARED / most if degrees >= 10 else np.zeros(1)
    weights = np.where(shared == 0.0, 1.0, 1.0 / max(1, len(shared) - 1))

    linear = np.concatenate([[1e-12], np.full(d, 1 / (STEEPEST**2 * ratio))])
    freedom, dust = degrees + left - 1.0, 1e-12 * size
    few = freedom <= 2 * k  # then data are taken one by one
    bendings = CURVATURES**2 * ratio
    normals = [_Normal.of(features, y, counts, kept, common, linear) for common in shared]
    for _ in range(FARTHEST):
        fits = np.array([one.likelihoods(1.0 / bendings, scatter, freedom, dust, few) for one in normals]).T
        if np.max(fits[-1]) < np.max(fits):
            break
        bendings = bendings * (CURVATURES[-1] / CURVATURES[-5]) ** 2  # the most that was tried fits best
    plausible = np.exp(fits - fits.max()) * weights
    plausible /= plausible.sum()
    bend, common = float(bendings @ plausible.sum(axis=1)), float(plausible.sum(axis=0) @ shared)
    coefficients, spread, covariance, of_means = _posterior(
        features,
        y,
        1.0 / (1.0 / counts + common),
        kept,
        np.concatenate([linear, np.full(features.shape[1] - d - 1, 1 / bend)]),
        (scatter, freedom, dust),
    )
    together = most * common / (1.0 + most * common)
    at = (rows[:, :d] - center) / widths
    fitted = np.concatenate([np.ones((len(rows), 1)), at, bends(at)], axis=1) @ coefficients
    rest = rows[:, d:] - fitted
    rest = np.resize(rest - rest.mean(axis=0), (RESIDUALS, k))  # as many as ever, so that nothing is compiled again
    return Curved(
        center=as_field(center),
        widths=as_field(widths),
        coefficients=as_field(coefficients),
        spread=as_field(spread),
        noise=as_field(covariance),
        between=as_field(covariance + together * (of_means - covariance)),
        rest=as_field(rest),
        count=as_field(np.asarray(total**2 / (kept**2 * counts).sum())),
        quantile=as_field(np.asarray(t_quantile(max((1.0 - together) * degrees + left - d - 1.0, 1.0)))),
        curvature=as_field(np.asarray(math.sqrt(bend / ratio))),
        shared=as_field(np.asarray(common * most)),
        low=as_field(low),
        high=as_field(high),
    )


class _Normal(NamedTuple):
    """Normal equations for one ν, with curvature split off and turned to its principal axes.

    `rest` (k, k) is what a line leaves of the data, `values` (q,) are how much deployments say along each axis of the curvature,
    `along` (q, k) what they say, and `volume` is the part of the log likelihood that does not depend on the curvature.
    """

    rest: Floats
    values: Floats
    along: Floats
    volume: float

    @staticmethod
    def of(features: Floats, y: Floats, counts: Floats, kept: Floats, common: float, linear: Floats) -> _Normal:
        precision = 1.0 / (1.0 / counts + common)
        root = np.sqrt(kept * precision)[:, None]
        weighted, data = root * features, root * y
        gram, cross, p = weighted.T @ weighted, weighted.T @ data, len(linear)
        factor = np.linalg.cholesky(gram[:p, :p] + np.diag(linear))
        half = np.linalg.inv(factor)
        across, line = half @ gram[:p, p:], half @ cross[:p]
        values, axes = np.linalg.eigh(gram[p:, p:] - across.T @ across)
        along = axes.T @ (cross[p:] - across.T @ line)
        volume = np.sum(np.log(linear)) + np.sum(kept * np.log(precision)) - 2.0 * np.sum(np.log(np.diag(factor)))
        return _Normal(data.T @ data - line.T @ line, np.maximum(values, 0.0), along, float(volume))

    def likelihoods(self, priors: Floats, scatter: Floats, freedom: float, dust: Floats, few: bool) -> list[float]:
        """The log likelihood for each precision of the curvature's prior."""
        results = []
        for prior in priors:
            explained = (self.along / (self.values + prior)[:, None]).T @ self.along
            total = scatter + self.rest - explained + np.diag(np.maximum(dust * freedom, 1e-100))
            volume = self.volume + np.sum(np.log(prior / (self.values + prior)))
            if few:
                results.append(0.5 * volume - 0.5 * freedom * np.mean(np.log(np.maximum(np.diag(total), 1e-300))))
            else:
                spread = np.linalg.slogdet(total)[1]
                results.append(0.5 * len(total) * volume - 0.5 * freedom * spread)
        return results


def _posterior(
    features: Floats,
    y: Floats,
    precision: Floats,
    kept: Floats,
    prior: Floats,
    noise: tuple[Floats, float, Floats],
) -> tuple[Floats, Floats, Floats, Floats]:
    """The coefficients, their covariance over that of the noise, and the covariances of the noise and of deployments' means."""
    scatter, freedom, dust = noise
    precision = kept * precision
    weighted = features * precision[:, None]
    half = np.linalg.inv(np.linalg.cholesky(features.T @ weighted + np.diag(prior)))
    inverse = half.T @ half
    coefficients = inverse @ (weighted.T @ y)
    left = y - features @ coefficients
    of_means = (precision[:, None] * left).T @ left
    total = scatter + of_means + (prior[:, None] * coefficients).T @ coefficients
    covariance = (total + np.diag(np.maximum(dust * freedom, 1e-100))) / freedom
    squared = kept[:, None] * weighted
    learned = np.sum((features @ inverse) * squared)
    of_means = (of_means + FEW * covariance) / (max(float(kept.sum()) - learned, 0.0) + FEW)
    spread = inverse if np.all(kept == 1.0) else inverse @ (np.diag(prior) + features.T @ squared) @ inverse
    return coefficients, spread, covariance, of_means


def _widths(spread: Floats, ranges: Floats, x: Floats) -> Floats:
    """The range in each coordinate: that of Θ, all shrunk alike if the decisions have seen little of it; else their spread."""
    known = np.isfinite(ranges) & (ranges > 0)
    fallback = np.where(spread > 0, SEEN * spread, np.maximum(np.max(np.abs(x), axis=0), 1e-300))
    unit = np.where(known, ranges, fallback)
    seen = float(np.max(spread / unit))
    return unit * min(1.0, SEEN * seen) if seen > 0 else unit


def _left(features: Floats, y: Floats, counts: Floats, kept: Floats) -> Floats:
    """The variance (k,) of one sample around a line."""
    root = np.sqrt(kept * counts)[:, None]
    fitted = features @ np.linalg.lstsq(root * features, root * y, rcond=None)[0]
    return np.sum((root * (y - fitted)) ** 2, axis=0) / max(float(kept.sum()) - features.shape[1], 1.0)


def _products(u: Array | Floats, power: int) -> Array | Floats:
    places, weights = _combinations(u.shape[-1], power)
    product = u[..., places[:, 0]]
    for place in places.T[1:]:
        product = product * u[..., place]
    return product * weights


@functools.cache
def _combinations(dimension: int, power: int) -> tuple[Floats, Floats]:
    """The coordinates of each product, and the root of how often it occurs in a power of a sum."""
    places = list(itertools.combinations_with_replacement(range(dimension), power))
    times = [math.factorial(power) / math.prod(math.factorial(one.count(i)) for i in set(one)) for one in places]
    return np.array(places), np.sqrt(times)


@functools.cache
def _directions(dimension: int) -> Floats:
    return np.random.default_rng(0).normal(size=(DIRECTIONS, dimension))
