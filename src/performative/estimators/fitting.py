"""Formulas of least squares with a prior: posteriors of effects, what they leave unexplained, its noise and its misfit."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from performative.numerics import cholesky

SWEEPS = 50
"""Passes over the entries of an effect whose signs are known."""
VAGUEST = 1e11
"""The most that a prior's variance may be, in multiples of what the data say: beyond it, rounding would be all that is left where
decisions are collinear."""
COLLINEAR = 1e-9
"""What is added to correlations of decisions before they are inverted."""
ROUNDING = 1e-12
"""The share of a sum of squares that may be rounding."""
FEW = 2.0
"""Degrees of freedom from which on squares say how large noise may be."""
CAREFUL = 15.0
"""In multiples of the variance that squares show, how large noise may be all the same, for half a square."""
ODDS = 2.0
"""The logarithm of how much likelier than weak effects others are, before the data say more."""
SMALLEST = 1e-200
"""The least variance that noise is divided by."""


class Rivals(NamedTuple):
    """Two priors that compete with one of independent entries, weighted by the evidence for each.

    Under the first, entries (m, q) have a `share` of their variance in common; None if there is no such prior. Under the second
    they are as small as the `weak` variances (m, q) say; it is e^−ODDS times as likely at first, and has the `credit` 0 to 1.
    """

    share: Array | None
    weak: Array
    credit: Array


def posterior(
    normal: Array,
    gap: Array,
    prior: Array,
    variances: Array,
    signs: Array | None,
    beside: Array,
    rivals: Rivals | None = None,
) -> tuple[Array, Array, Array, Array]:
    """Means (m, q) and covariances (m, q, q) of m vectors, how many of the q numbers of each are learned, and beside⁻¹.

    With N the `normal` matrices and r the `gap`, what the data say beyond the `prior`: mean = prior + (N + diag(1/v))⁻¹ r. In
    units of the prior's standard deviations all eigenvalues are at least 1, whatever the scales, and v = 0 is no exception.
    The matrix (q, q) `beside` them is inverted in the same call: see `numerics.cholesky`.

    With `rivals`, means are averages of what all priors say. The covariances are those without them.
    """
    q = prior.shape[1]
    precision = jnp.diagonal(normal, axis1=1, axis2=2)
    variances = jnp.minimum(variances, VAGUEST / jnp.maximum(precision, SMALLEST))
    share = None if rivals is None else rivals.share
    priors = [variances]
    if rivals is not None:
        priors.append(jnp.minimum(rivals.weak, variances))
    if share is not None:  # what each entry has of its own
        priors.append((1.0 - share) * variances)
    reach = jnp.sqrt(jnp.stack(priors))
    matrix = jnp.eye(q) + reach[..., :, None] * normal * reach[..., None, :]
    halves = cholesky.inverse_root(jnp.concatenate([matrix.reshape(-1, q, q), beside[None]]))
    half, other = halves[:-1].reshape(matrix.shape), halves[-1]
    inverse = jnp.swapaxes(half[0], 1, 2) @ half[0]
    covariance = reach[0, :, :, None] * inverse * reach[0, :, None, :]

    def mean(place: int, right: Array) -> Array:
        found = jnp.sum(half[place] * jnp.sum(half[place] * right[:, None, :], axis=2)[:, :, None], axis=1)
        if signs is not None:
            zero = -prior / jnp.where(reach[place] > 0, reach[place], 1.0)
            found = _bounded(matrix[place], right, found, zero, jnp.asarray(signs))
        return prior + reach[place] * found

    right = reach * gap
    estimate = mean(0, right[0])
    if rivals is not None:
        likely = evidence(half[0], right[0])
        if share is not None:
            weights = jnp.where(reach[2] > 0, jnp.sqrt(share / (1.0 - share)), 0.0)
            weights = weights if signs is None else jnp.where(signs < 0, -weights, weights)
            y, seen = in_common(half[2], right[2], weights)
            alike = evidence(half[2], right[2]) + seen
            estimate += jax.nn.sigmoid(alike - likely) * (mean(2, right[2] + weights * y) - estimate)
            likely = jnp.maximum(likely, alike)
        odds = evidence(half[1], right[1]) - likely - ODDS
        estimate += rivals.credit * jax.nn.sigmoid(odds) * (mean(1, right[1]) - estimate)
    return estimate, covariance, q - jnp.trace(inverse, axis1=1, axis2=2), other.T @ other


def evidence(half: Array, right: Array) -> Array:
    """The log likelihood of all data under a prior, over that without an effect, from L⁻¹ (m, q, q) and what they say (m, q).

    Both are in units of the prior's standard deviations, and LLᵀ is the inverse of the posterior's covariance.
    """
    determinants = jnp.sum(jnp.log(jnp.diagonal(half, axis1=1, axis2=2)))
    return determinants + 0.5 * jnp.sum(jnp.sum(half * right[:, None, :], axis=2) ** 2)


def in_common(half: Array, right: Array, weights: Array) -> tuple[Array, Array]:
    """What the entries of m vectors (m, q) have in common, and its `evidence`.

    In units of the standard deviation of what each has of its own, entries are w·y beyond that, with the `weights` w and one
    y ∼ N(0, 1) for all of them. The posterior of y has the precision 1 + Σ(|w|² − |L⁻¹w|²) and the mean ŷ = Σ(L⁻¹w)ᵀL⁻¹r over
    that.

    >>> import jax.numpy as jnp
    >>> half = jnp.full((2, 1, 1), 0.5**0.5)  # two numbers y ± 1, each observed once with variance 1
    >>> round(float(in_common(half, jnp.array([[3.0], [1.0]]), jnp.ones((2, 1)))[0]), 6)
    1.0
    """
    seen, said = (jnp.sum(half * part[:, None, :], axis=2) for part in (weights, right))
    # No eigenvalue of L⁻¹ is over 1, so each term is positive but for rounding.
    precision = 1.0 + jnp.sum(jnp.maximum(jnp.sum(weights**2 - seen**2, axis=1), 0.0))
    y = jnp.sum(seen * said) / precision
    return y, 0.5 * (y**2 * precision - jnp.log(precision))


def _bounded(matrix: Array, right: Array, found: Array, zero: Array, signs: Array) -> Array:
    """The minimizer of ½yᵀMy − rᵀy with y on the side of `zero` (m, q) that its sign says, one coordinate after another."""
    low, high = jnp.where(signs > 0, zero, -jnp.inf), jnp.where(signs < 0, zero, jnp.inf)
    q = found.shape[1]

    def improve(turn: Array, found: Array) -> Array:
        here = jnp.arange(q) == turn % q
        row = jnp.sum(jnp.where(here[:, None], matrix, 0.0), axis=1)
        diagonal = jnp.sum(jnp.where(here, row, 0.0), axis=1, keepdims=True)
        best = found + (jnp.where(here, right, 0.0).sum(axis=1) - jnp.sum(row * found, axis=1))[:, None] / diagonal
        return jnp.where(here, jnp.clip(best, low, high), found)

    return lax.fori_loop(0, SWEEPS * q, improve, jnp.clip(found, low, high))


def left_of(effect: Array, scatter: Array, cross: Array, spread: Array) -> Array:
    """What an effect (k, d) leaves of the spread of the data."""
    explained = effect @ cross.T
    return spread - explained - explained.T + effect @ scatter @ effect.T


def noise_of(squares: Array, degrees: Array, size: Array) -> Array:
    """The variance of noise from its squares and half a square more: a datum's mean square, or less once the data say so."""
    seen = jnp.where(degrees < FEW, jnp.inf, CAREFUL * squares / jnp.maximum(degrees, FEW))
    return (squares + 0.5 * jnp.minimum(size, seen)) / jnp.maximum(degrees + 0.5, 0.5)


def correlations(scatter: Array) -> tuple[Array, Array]:
    """Of a scatter (d, d), so that they can be inverted, and the units (d,) it is measured in."""
    squares = jnp.diag(scatter)
    units = jnp.sqrt(jnp.where(squares > 0, squares, 1.0))
    return scatter / (units[:, None] * units) + COLLINEAR * jnp.eye(len(units)), units


def line(inverse: Array, units: Array, cross: Array, squares: Array) -> tuple[Array, Array]:
    """What a line without a prior leaves of the `squares` (k,) of the data, and how many numbers it learns.

    `inverse` is that of the correlations of the decisions. What COLLINEAR keeps the line from explaining is not left: without
    noise it would be all there is.
    """
    cross = cross / units
    slopes = cross @ inverse
    left = squares - jnp.sum(slopes * cross, axis=1) - COLLINEAR * jnp.sum(slopes * slopes, axis=1)
    return left, len(units) - COLLINEAR * jnp.trace(inverse)


def misfit(
    left: Array,
    learned: Array,
    within: Array,
    degrees: Array,
    deployments: Array,
    dust: Array,
    bent: Array | float = 0.0,
) -> Array:
    """By how much deployments' means vary more than the noise within deployments explains, on average, at least 1.

    `left` (k,) are the squares that a line leaves, `within` (k,) their part within deployments, with its `degrees` of freedom,
    `dust` (k,) what rounding makes of them, and `bent` (k,) the variance that curvature may add to that of a sample's noise.
    """
    known = (within > 0) & (degrees > 0.5)
    noise = jnp.where(known, within + dust, 1.0) / jnp.maximum(degrees, 0.5) + bent
    between, free = left - within, jnp.maximum(deployments - 1.0 - learned, 0.0)
    worse = jnp.where(known, (between / noise + 1.0) / (free + 1.0), 0.0)
    return jnp.maximum(jnp.sum(worse) / jnp.maximum(jnp.sum(known), 1), 1.0)
