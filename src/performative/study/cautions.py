"""Warnings to a practitioner, in plain words: each test looks at the history and says something or nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from performative.estimators.moments import JointMoments
from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64
from performative.numerics.programs import Program
from performative.numerics.tails import beyond_f
from performative.study.because import BEST
from performative.study.belief import Believed
from performative.study.clock import set_back
from performative.study.history import least

SURE = 1e-4
"""The p-value below which the data are said to look wrong."""
RIDGE = 1e-13
"""The share of the scatter that is added to it, so that columns may depend on each other."""
ROUNDING = 1e-20
"""The share of a sum of squares below which it is rounding."""
RECENT = 1000
"""How many of the last deployments are examined."""


def constraints(names: Sequence[str], values: Floats, safe: bool) -> Iterator[str]:
    """Constraints that the current decision violates; a `safe` method pulls it inside to deploy it."""
    for name, value in zip(names, values, strict=True):
        if value > 1e-9:
            pulled = "; what is deployed is pulled inside" if safe else ""
            yield f"the {BEST} violates constraint {name} by {value:.4g}{pulled}"


def deployments(names: Sequence[str], slack: Floats, numbers: NDArray[np.int64]) -> Iterator[str]:
    """Constraints that deployed decisions violated; `slack` (n, b, m) is theirs and `numbers` (n,) are the deployments."""
    lowest = least(slack) if slack.size else np.zeros((0, len(names)))
    for place, name in enumerate(names):
        violating = np.flatnonzero(lowest[:, place] < -1e-9)
        if len(violating):
            worst = violating[np.argmin(lowest[violating, place])]
            yield (
                f"constraint {name} was violated by {len(violating)} of {len(lowest)} deployments, most by deployment "
                f"{int(numbers[worst])}: {-lowest[worst, place]:.4g}"
            )


def clock(numbers: NDArray[np.int64], asked: Floats, told: Floats) -> Iterator[str]:
    """A clock that was set back between two deployments, or while one was deployed; `numbers` (n,) are theirs."""
    order = np.argsort(numbers)
    numbers, asked, told = numbers[order], asked[order], told[order]
    earlier = np.maximum(np.maximum.accumulate(asked), asked) - np.minimum(asked, told)
    for place in np.argsort(earlier)[-1:]:
        if (by := set_back(float(earlier[place]), 0.0)) is not None:
            number = int(numbers[place])
            yield f"the clock was set back by {by} before deployment {number} was reported: dates in the log are wrong"


def outside(distances: dict[int, float], count: int) -> Iterator[str]:
    """Deployments outside Θ that were reported, though they were not asked for: their `distances` from it, among `count`."""
    if distances:
        worst = max(distances, key=lambda number: distances[number])
        yield (
            f"{len(distances)} of {count} deployments were outside of what is allowed at all, farthest deployment {worst}: by "
            f"{distances[worst]:.4g}"
        )


def step(method: object, world: Believed | None, decisions: Floats) -> Iterator[str]:
    """A step size above 2/L, where L is the largest curvature of the risk the method descends; or decisions that oscillate."""
    size = getattr(method, "step", None)
    if world is not None and not world.early and size is not None and not callable(size):
        anticipates = bool(getattr(getattr(method, "estimator", None), "anticipate", False))
        curvature = _largest_curvature(world, decisions[-1], anticipates)
        if float(size) * curvature > 2.0:
            yield f"the step {float(size):.4g} is too large: above {2.0 / curvature:.4g}, decisions overshoot"
            return
    moves = np.diff(decisions[-21:], axis=0)
    lengths = np.linalg.norm(moves, axis=1)
    if len(moves) >= 20 and np.all(lengths > 0):
        turns = np.sum(moves[1:] * moves[:-1], axis=1) / (lengths[1:] * lengths[:-1])
        if np.mean(turns) < -0.8 and np.mean(lengths[10:]) > 0.9 * np.mean(lengths[:10]):
            yield "the step is too large: decisions go back and forth without converging"


def data(deployed: Floats, means: Floats, counts: Floats, forgets: bool) -> Iterator[str]:
    """Data that look unlike a location family, or that drift: `means` (n, k) of `counts` samples at decisions (n, d).

    F-tests of whether squares of the decisions, or time, explain what a straight line leaves of the data, and whether the size of
    the residuals follows the decisions. Fewer than 30 deployments are too few to say.
    """
    n = len(deployed)
    if n < 30:
        return
    spread = np.ptp(deployed, axis=0)
    varied = deployed[:, spread > 1e-9 * (1.0 + np.max(np.abs(deployed), initial=0.0))]
    if n < 30 + 3 * varied.shape[1]:
        return
    weights = counts / np.mean(counts)  # so that the noise of all rows has one size
    scaled = (varied - varied.mean(axis=0)) / np.maximum(varied.std(axis=0), 1e-300)
    residuals = _unexplained(scaled, means, weights)
    time, equal = np.linspace(-1.0, 1.0, n)[:, None], np.ones(n)
    drift = min((_explained(scaled, column, time, weights) for column in means.T), default=1.0) * max(means.shape[1], 1)
    if drift < SURE and not forgets:
        yield (
            f"the data drift over time in ways the decisions do not explain (p = {drift:.1g}); consider `forgetting`"
        )
    if not varied.shape[1]:
        return
    bent = (
        min(_explained(np.column_stack([scaled, time]), column, scaled**2, weights) for column in means.T)
        * means.shape[1]
    )
    noise = residuals[:, np.sum(residuals**2, axis=0) > ROUNDING * np.sum(weights[:, None] * means**2, axis=0)]
    size = np.log(np.maximum(np.sum((noise / np.maximum(noise.std(axis=0), 1e-300)) ** 2, axis=1), 1e-12))
    wider = _explained(time, size, scaled, equal)
    if bent < SURE:
        yield f"the data do not follow the decisions linearly (p = {bent:.1g}), so estimates hold near what was deployed"
    if wider < SURE:
        yield f"the spread of the data changes with the decision (p = {wider:.1g}), so intervals may be too narrow"


def _unexplained(columns: Floats, values: Floats, weights: Floats) -> Floats:
    """What a line in `columns` (n, p) leaves of `values` (n, k), scaled so that the noise of all rows has one size."""
    moments = JointMoments.of(columns, values, weights)
    effect = moments.effect(RIDGE * np.diag(moments.scatter) + 1e-300)
    return np.sqrt(weights)[:, None] * moments.residuals(columns, values, effect)


def _explained(base: Floats, values: Floats, more: Floats, weights: Floats) -> float:
    """The p-value of the F-test that `more` columns explain nothing of `values` (n,) beyond a constant and those of `base`."""
    whole = np.column_stack([base, more])
    before, after = (float(np.sum(_unexplained(x, values[:, None], weights) ** 2)) for x in (base, whole))
    rank = int(np.linalg.matrix_rank(np.sqrt(weights)[:, None] * np.column_stack([np.ones(len(values)), whole])))
    extra, free = more.shape[1], len(values) - rank
    scale = float(np.sum(weights * values**2))
    if free < 1 or before <= ROUNDING * max(scale, 1e-300):
        return 1.0
    if after <= ROUNDING * scale:
        return 0.0
    return beyond_f(extra, free, max(before - after, 0.0) / extra / (after / free))


@in_float64
def _largest_curvature(world: Believed, theta: Floats, anticipates: bool) -> float:
    return float(np.max(np.abs(np.linalg.eigvals(np.asarray(_slopes(world, theta, anticipates=anticipates))))))


@Program
def _slopes(world: Believed, theta: Array, anticipates: bool) -> Array:
    """The Jacobian of the gradient of the risk; the gradient anticipates the reaction, or takes the data as they are."""

    def gradient(theta: Array) -> Array:
        return jax.grad(world)(theta) if anticipates else jax.grad(world)(theta, theta)

    return jax.jacfwd(gradient)(theta)
