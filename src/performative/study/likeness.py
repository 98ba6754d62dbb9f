"""What samples are like at a decision: their means, spreads and kinds, as somebody said, as was seen, or as a loss suggests."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.losses import Logistic, Pinball, PortfolioReturn, Revenue, SquaredError
from performative.methods.ranges import ranges
from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64
from performative.numerics.programs import Program
from performative.past import Past
from performative.problem import Problem
from performative.study.memory import Remembered
from performative.study.usable import accepted_widths, computed
from performative.validation import finite_array, shown

LEVEL, SPREAD = 100.0, 0.3
"""What is sold at the start if nobody says, and how much it varies, as a share of it."""
LOOKED_AT = 256
"""How many samples of a world its losses are averaged over."""
NIL = 1e-6
"""A start below this share of the range says nothing about how far a decision may go."""
FARTHEST = math.log(10.0)
"""The logarithm of the most by which what cannot be negative may grow."""
SUREST = 30.0
"""The largest log-odds of a share: its number is not 1."""
ASSUMED = "assumed"
"""Where sizes come from if nobody says what data are like."""
ANY, POSITIVE, SHARE, LABEL = "any numbers", "positive numbers", "numbers between 0 and 1", "0 or 1"
"""Kinds of data."""


class Expected(NamedTuple):
    """What somebody says that samples are like: the mean of each of their numbers and its spread, None for a usual one.

    Either is one number for all, or one for each.
    """

    mean: Floats
    spread: Floats | None = None

    @staticmethod
    def of(mean: object, spread: object = None) -> Expected:
        """Checked.

        >>> Expected.of(40.0, [12.0, 9.0]).mean.tolist()
        [40.0, 40.0]
        """
        means = finite_array("mean", mean, (0, 1))
        if spread is None:
            return Expected(means)
        spreads = finite_array("spread", spread, (0, 1))
        if np.any(spreads < 0):
            raise ValueError(f"`spread >= 0` must hold, but got {shown(spreads.tolist())}")
        if means.ndim and spreads.ndim and means.shape != spreads.shape:
            raise ValueError(
                f"`spread` must be one number or as many as `mean`, {means.size}, but got {shown(spreads.tolist())}"
            )
        return Expected(np.broadcast_to(means, np.broadcast_shapes(means.shape, spreads.shape)), spreads)

    def require_width(self, problem: Problem, width: int | None) -> None:
        """Refuse as many numbers as no sample has; it has `width`, if that is known."""
        sizes = {part.size for part in (self.mean, self.spread) if part is not None and part.ndim}
        for size in sizes:
            if width not in (None, size):
                raise ValueError(f"must be one number or {width}, one for each number of a sample, but has {size}")
            problem.check_samples(size)


@dataclass(frozen=True, slots=True, eq=False)
class Likeness:
    """What samples are like at a decision: mean (k,), spread (k,), the kind of each number, and where all this is from.

    `source` is "assumed", or says who knows.
    """

    mean: Floats
    spread: Floats
    kinds: tuple[str, ...]
    source: str

    def mean_at(self, moved: Floats) -> Floats:
        """The mean (k,) of data that moved by multiples (k,) of their size; of shares, what noise is added to."""
        return np.array([_moved(*each) for each in zip(self.mean, self.spread, moved, self.kinds, strict=True)])

    def sample(self, mean: Floats, noise: Floats) -> Floats:
        """Samples (n, k) around a mean, from standard normal numbers (n, k)."""
        columns = zip(mean, self.mean, self.spread, self.kinds, noise.T, strict=True)
        return np.stack([_drawn(*each) for each in columns], axis=1)


def noise_of(width: int) -> Floats:
    """The normal numbers of the samples that losses are averaged over, in all worlds: equally likely ones, in a random order."""
    likely = np.array([NormalDist().inv_cdf((place + 0.5) / LOOKED_AT) for place in range(LOOKED_AT)])
    return np.random.default_rng([width, LOOKED_AT]).permuted(np.tile(likely[:, None], width), axis=0)


@in_float64
def fitting(problem: Problem, start: Floats, candidates: Iterable[Likeness]) -> Likeness:
    """The first of some likenesses for whose samples at the start the loss is finite; one with a finite gradient, if there is."""
    refused, flat = None, None
    for one in candidates:
        problem.check_samples(len(one.mean))
        values, gradient = computed(_there, problem, start, one.sample(one.mean, noise_of(len(one.mean))))
        is_finite = np.isfinite(values)
        if np.all(is_finite) and np.all(np.isfinite(gradient)):
            return one
        if np.all(is_finite):
            flat = flat or one
        elif refused is None:
            refused = ValueError(
                f"`loss` must be finite, but is {values[~is_finite][0]} at {shown(start.tolist())} for data of the means "
                f"{shown(one.mean.tolist())}, {one.source}"
            )
    if flat is not None:
        return flat
    assert refused is not None
    raise refused


def likely(
    problem: Problem, start: Floats, expected: Expected | None, history: Past | None, width: int | None
) -> Iterator[Likeness]:
    """What samples may be like at a start, the most likely first: as expected, as in the history, or as is usual for the loss.

    `width` is how many numbers a sample has, if that is known.
    """
    if expected is not None and expected.mean.ndim:
        width = expected.mean.size
    if expected is None and history is not None:
        return of_history(history, start)
    if width is None:
        accepted = accepted_widths(problem)
        if not accepted:
            raise ValueError(
                "`mean` must be a list, one number for each of a sample: the loss accepts no samples of 1 to 64 numbers"
            )
        width = accepted[0]
    return _usual(problem, start, width) if expected is None else _expected(problem, width, expected)


def of_history(history: Past, start: Floats) -> Iterator[Likeness]:
    """Like the past deployment nearest to the start."""
    decisions, means = np.asarray(history.decisions), np.asarray(history.means)
    far = np.abs(decisions - start) / np.maximum(np.max(np.abs(decisions - start), axis=0), 1e-300)
    mean = means[int(np.argmin(np.sum(far**2, axis=1)))]
    spread = SPREAD * np.abs(mean)
    if float(history.degrees) > 0:
        spread = np.sqrt(np.diag(np.asarray(history.scatter)) / float(history.degrees))
    return of_rows(means if history.rows is None else np.asarray(history.rows[1]), mean, spread, "as in the history")


def of_reports(reports: Sequence[Remembered]) -> Iterator[Likeness]:
    """Like the last of some reports; how much single samples vary, all of them say."""
    last = reports[-1]
    apart = np.concatenate(
        [(one.rows - one.rows.mean(axis=1, keepdims=True)).reshape(-1, one.rows.shape[2]) for one in reports]
    )
    degrees = sum(one.rows.shape[0] * (one.rows.shape[1] - 1) for one in reports)
    rows = np.concatenate([one.rows.reshape(-1, one.rows.shape[2]) for one in reports])
    spread = np.sqrt(np.sum(apart**2, axis=0) / degrees) if degrees else np.std(rows, axis=0)
    return of_rows(rows, last.means[0], spread, "as in the last report")


def of_rows(rows: Floats, mean: Floats, spread: Floats, source: str) -> Iterator[Likeness]:
    """Of the same kinds as the numbers of samples (n, k) that were seen."""
    kinds = [
        LABEL
        if np.all((column == 0) | (column == 1)) and 0 < level < 1
        else POSITIVE
        if np.all(column >= 0) and level > 0
        else ANY
        for column, level in zip(rows.T, mean, strict=True)
    ]
    yield Likeness(mean, spread, tuple(kinds), source)


def _expected(problem: Problem, width: int, expected: Expected) -> Iterator[Likeness]:
    mean = np.broadcast_to(expected.mean, (width,)).astype(float)
    spread = np.where(mean == 0, 1.0, SPREAD * np.abs(mean))
    if expected.spread is not None:
        spread = np.broadcast_to(expected.spread, (width,)).astype(float)
    signed = isinstance(problem.loss, SquaredError | Logistic | PortfolioReturn)
    kinds = [ANY if signed or not level > 0 else POSITIVE for level in mean]
    if isinstance(problem.loss, Logistic) and 0 < mean[-1] < 1:
        kinds[-1] = LABEL
    within = bool(np.all((mean > 0) & (mean < 1)))
    for each in (kinds, [ANY] * width, *([[SHARE] * width, [LABEL] * width] if within else [])):
        yield Likeness(mean, spread, tuple(each), "as described")


def _usual(problem: Problem, start: Floats, width: int) -> Iterator[Likeness]:
    match problem.loss:
        case Revenue():
            yield _alike(width, LEVEL, SPREAD * LEVEL, POSITIVE)
        case PortfolioReturn():
            yield _alike(width, 0.05, 0.2, ANY)
        case SquaredError():
            yield Likeness(np.append(np.zeros(width - 1), 1.0), np.ones(width), (ANY,) * width, ASSUMED)
        case Logistic():
            mean, kinds = np.append(np.zeros(width - 1), 0.5), (ANY,) * (width - 1) + (LABEL,)
            yield Likeness(mean, np.append(np.ones(width - 1), 0.5), kinds, ASSUMED)
        case Pinball():
            reach = ranges(problem, start, np.full(problem.d, np.inf), NIL)[0]
            mean = np.where(start > 0, start, np.where(np.isfinite(reach), reach / 4.0, 1.0))
            yield Likeness(mean, SPREAD * mean, (POSITIVE,) * width, ASSUMED)
        case _:
            yield _alike(width, LEVEL, SPREAD * LEVEL, POSITIVE)
            yield _alike(width, 0.0, 1.0, ANY)
            yield _alike(width, 1.0, SPREAD, POSITIVE)
            yield _alike(width, 0.5, 0.15, SHARE)
            yield _alike(width, 0.5, 0.5, LABEL)


def _alike(width: int, level: float, spread: float, kind: str) -> Likeness:
    return Likeness(np.full(width, level), np.full(width, spread), (kind,) * width, ASSUMED)


def _moved(mean: float, spread: float, by: float, kind: str) -> float:
    if kind == POSITIVE:
        return mean * math.exp(min(max(by, -SUREST), FARTHEST))
    if kind in (SHARE, LABEL):
        return _share(math.log(mean / (1.0 - mean)) + by)
    return mean + by * math.hypot(mean, spread)


def _drawn(mean: float, at_start: float, spread: float, kind: str, noise: Floats) -> Floats:
    if kind == POSITIVE:
        variance = math.log1p((spread / at_start) ** 2)
        return np.asarray(mean * np.exp(math.sqrt(variance) * noise - 0.5 * variance))
    if kind == SHARE:
        width = spread / (at_start * (1.0 - at_start))
        return np.asarray(_share(math.log(mean / (1.0 - mean)) + width * noise))
    if kind == LABEL:
        return (noise < NormalDist().inv_cdf(mean)).astype(float)
    return mean + spread * noise


def _share(odds: Any) -> Any:
    """A number between 0 and 1, neither of them, by its log-odds."""
    return 1.0 / (1.0 + np.exp(-np.clip(odds, -SUREST, SUREST)))


@Program
def _there(problem: Problem, decision: Array, samples: Array) -> tuple[Array, Array]:
    """The losses (n,) at a decision, and their mean gradient (d,)."""
    values, gradients = jax.vmap(jax.value_and_grad(problem.loss), (None, 0))(decision, samples)
    return values, jnp.mean(gradients, axis=0)
