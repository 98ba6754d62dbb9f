"""Samples that cannot be right: what they would have to be if the last reports say how the world is.

Numbers are compared on a scale on which factors are distances: log(z + h) where a column is never negative, with a small h for
counts and zeros, and arcsinh(z / w) elsewhere. A cell is compared with the others of its column in the same report, and with how
far cells lay apart in earlier ones; the level of a column with a regression of earlier levels on the decisions. Nothing is
compiled: these are tests of plausibility, which must be fast, and which leave alone what was seen before.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from performative.numerics.arrays import Floats
from performative.study.memory import Remembered, digest, kept_rows, ranges
from performative.study.samples import Samples

CHANCE = 1e-6
"""Less than that under the belief is not believed."""
FEWEST = 8
"""Fewer numbers than that are neither constant nor the same again."""
TYPO = 1e3
"""How many times the median of its column a cell of the first report may be, and a later one the largest number before."""
_ENOUGH = 8
"""After how many reports samples within the range of earlier ones are usual."""
_MOST_REASONS = 6
_LEVEL, _SPREAD, _SPREAD_OF_FEW = 4.0, 0.25, 0.75
"""What is known of levels before any: they vary by a quarter from report to report, more if they rest on fewer than four samples.
That counts like so many reports."""
_ELASTICITY, _REACTION = 2.0, 0.5
"""How much a level may follow a relative move of one number of a decision, and of all: standard deviations of logarithms."""
_SLIP, _FAR = 3.5, 6.5
"""How many standard errors a level may be off where a power of ten explains it, and where none does."""


def doubts(seen: Sequence[Remembered], decisions: Floats, given: Samples) -> tuple[str, ...]:
    """Why samples of decisions (b, d) are not believed after the reports `seen`, in words; none if they may be right."""
    values, found = given.values, digest(given.values)
    again = _same_report(seen, values, found) if any(one.digest == found for one in seen) else None
    if again is not None:
        return (f"the same numbers were reported for deployment {again}",)
    unusual = np.flatnonzero(~_usual(seen, values)).tolist()
    reasons = [reason for place in unusual for reason in _of_column(seen, decisions, given, place)]
    if len(reasons) <= _MOST_REASONS:
        return tuple(reasons)
    return (*reasons[: _MOST_REASONS - 1], f"and {len(reasons) - _MOST_REASONS + 1} more")


def _usual(seen: Sequence[Remembered], values: Floats) -> NDArray[np.bool_]:
    """Which columns (k,) do not stand still, and lie in or near the range of numbers and means that were not in doubt."""
    quiet = [one for one in seen if not one.confirmed]
    if len(quiet) < _ENOUGH:
        return np.zeros(values.shape[2], bool)
    least, greatest, low, high = ranges(values, np.add.reduce(values, axis=1) / values.shape[1])
    before = np.concatenate([one.ranges for one in quiet]).reshape(len(quiet), 4, -1)
    moves = (least < greatest) | (values[..., 0].size < FEWEST)
    near = _near(low, high, before[:, 2].min(axis=0), before[:, 3].max(axis=0))
    near &= (least >= 0.0) | (before[:, 0].min(axis=0) < 0.0)
    return moves & near & _near(least, greatest, before[:, 0].min(axis=0), before[:, 1].max(axis=0))


def _near(least: Floats, greatest: Floats, low: Floats, high: Floats) -> NDArray[np.bool_]:
    """Which ranges lie within others, or within a tenth of their width."""
    room = 0.1 * (high - low)
    return (least >= np.where(low > 0.0, low / 1.2, low - room)) & (greatest <= high + room)


def _same_report(seen: Sequence[Remembered], values: Floats, found: int) -> int | None:
    """The deployment that was reported with the same rows, if that is no coincidence."""
    same = next((one for one in seen if one.digest == found), None)
    if same is None or values.size < FEWEST or np.all(values == values[0, 0]):
        return None
    rows = values.reshape(-1, values.shape[2])
    _, repeated = np.unique(rows, axis=0, return_counts=True)
    orders = math.lgamma(len(rows) + 1) - sum(math.lgamma(count + 1) for count in repeated.tolist())
    chance = math.log(len(seen)) + (0.0 if np.array_equal(same.rows, kept_rows(values)) else orders)
    for column in rows.T:  # numbers of this spread and this resolution, drawn again
        gaps = np.diff(np.unique(column))
        if len(gaps):
            chance += len(column) * min(0.0, math.log(0.4 * float(gaps.min()) / float(column.std())))
    return same.deployment if chance < math.log(CHANCE) else None


class _Scale(NamedTuple):
    """log(z + offset), or arcsinh(z / width) if there is no offset."""

    offset: float | None
    width: float

    @staticmethod
    def of(past: Floats, new: Floats) -> _Scale:
        """The scale of a column."""
        size = np.abs(past[past != 0.0])
        if not len(size):
            return _Scale(1.0, 1.0) if new.min() >= 0.0 else _Scale(None, 1.0)
        typical = float(np.median(size))
        if past.min() < 0.0 or new.min() < 0.0:
            return _Scale(None, typical)
        return _Scale(0.05 * typical + (1.0 if _are_counts(past) else 0.0), 1.0)

    def __call__(self, values: Floats) -> Floats:
        return np.arcsinh(values / self.width) if self.offset is None else np.log(values + self.offset)

    def back(self, value: float) -> float:
        """The number at this place of the scale."""
        return self.width * math.sinh(value) if self.offset is None else math.exp(value) - self.offset


def _are_counts(past: Floats) -> bool:
    return np.array_equal(past, np.floor(past))


def _first_negative(past: Floats, new: Floats) -> bool:
    """Whether a number is negative where there were counts alone."""
    return past.size >= FEWEST and past.min() >= 0.0 > new.min() and _are_counts(past)


def _of_column(seen: Sequence[Remembered], decisions: Floats, given: Samples, place: int) -> Iterator[str]:
    """What is wrong with one column."""
    new, name = given.values[..., place], f"number {place}" if given.columns is None else given.columns[place]
    parts = [one.rows[..., place] for one in seen]
    past = np.concatenate([part.ravel() for part in parts]) if parts else np.zeros(0)
    if not len(past):
        yield from _first(given, new, name)
        return
    if _standing_still(parts, new):
        yield f"{name}: all {new.size} numbers are {new.flat[0]:.6g}, though they varied before"
        return
    if _first_negative(past, new):
        least = np.unravel_index(np.argmin(new), new.shape)
        yield f"{name}: {new[least]:.6g}{_line(given, *map(int, least))} is negative, and none of {past.size} earlier numbers was"
        return
    scale = _Scale.of(past, new)
    here, there = scale(new), [scale(part) for part in _joined(parts)]
    apart = [_apart(part).ravel() for part in there if part.shape[1] >= 4]
    spread = np.concatenate(apart) if apart else np.zeros(0)
    reach = _reach(np.abs(spread), CHANCE / given.values.size) if len(spread) >= FEWEST else math.inf
    kept = np.abs(new) <= TYPO * max(float(np.abs(past).max()), 1.0 if _are_counts(past) else 0.0)
    if new.shape[1] >= 4:
        kept &= np.abs(_apart(here)) <= reach
    for b, n in np.argwhere(~kept)[:2].tolist():
        low, high = np.quantile(past, [0.01, 0.99])
        usual = np.median(new[b] if new.shape[1] >= 4 else past)
        yield (
            f"{name}: {new[b, n]:.6g}{_line(given, b, n)} is unlike the others: about {usual:.6g} was expected, and 98 % of "
            f"earlier ones lay between {low:.6g} and {high:.6g}"
        )
    within = float(np.median(np.abs(spread))) / 0.6745 if len(spread) else 0.0
    levels = np.concatenate([_mean(part, reach) for part in there])
    deployed = np.concatenate([one.decisions for one in seen])
    before = _SPREAD if new.shape[1] >= 4 else _SPREAD_OF_FEW
    for b, decision in enumerate(decisions):
        cells = new[b][kept[b]]
        if len(cells):
            expected = _expected(deployed, levels, decision, before)
            error = math.hypot(expected.error, within / math.sqrt(len(cells)))
            reason = _level(scale, cells, expected.level, error, given.values.shape[2])
            if reason is not None:
                of_which = f" of decision {b}" if len(decisions) > 1 else ""
                yield f"{name}{of_which}: the mean is {cells.mean():.6g}, {reason}"


def _first(given: Samples, new: Floats, name: str) -> Iterator[str]:
    """Cells of a first report that are a thousand times the median of their column."""
    for b, column in enumerate(np.abs(new)):
        median = float(np.median(column))
        if len(column) >= 4 and median > 0.0:
            for n in np.flatnonzero(column > TYPO * median)[:2].tolist():
                times = f"{column[n] / median:.2g} times the median of the column, {median:.6g}"
                yield f"{name}: {new[b, n]:.6g}{_line(given, b, n)} is {times}"


def _line(given: Samples, b: int, n: int) -> str:
    """Where a cell stands."""
    if given.lines is None:
        return f" in sample {n}"
    return f" in line {given.lines[b][n]}" + ("" if given.file is None else f" of {given.file}")


def _standing_still(past: Sequence[Floats], new: Floats) -> bool:
    """Whether at least eight numbers are one and the same, which was unlikely in each earlier report and in all of them."""
    if new.size < FEWEST or np.any(new != new.flat[0]):
        return False
    same = [np.count_nonzero(part == new.flat[0]) for part in past]
    shares = [(count + 1.0) / (part.size + 2.0) for count, part in zip(same, past, strict=True) if part.size >= FEWEST]
    share = max(shares, default=(sum(same) + 1.0) / (sum(part.size for part in past) + 2.0))
    return new.size * math.log(share) < math.log(CHANCE)


def _joined(parts: Sequence[Floats]) -> list[Floats]:
    """The same cells (b, n) in fewer parts: reports of equal n in one, as long as they follow each other."""
    return [np.concatenate([*same]) for _, same in itertools.groupby(parts, key=lambda part: part.shape[1])]


def _apart(part: Floats) -> Floats:
    """How far cells (b, n) lie from the median of their decision's."""
    return part - np.median(part, axis=1, keepdims=True)


def _mean(part: Floats, reach: float) -> Floats:
    """The mean of cells (b, n) without those that are out of reach."""
    if part.shape[1] < 4:
        return part.mean(axis=1)
    return np.mean(part, axis=1, where=np.abs(_apart(part)) <= reach)


def _reach(sizes: Floats, chance: float) -> float:
    """What one more size exceeds with this chance, if P(size > x) = exp(−(x/s)^a) with s and a of two high quantiles.

    Normal tails have an a of about 1.6 there, and power laws one of 1 on the scale of logarithms, which is what few sizes are
    taken to have.
    """
    n = len(sizes)
    high = min(0.25, max(0.01, 20.0 / n))
    low = min(0.5, 5.0 * high)
    at_low, at_high = np.quantile(sizes, [1.0 - low, 1.0 - high], method="higher").tolist()
    if not at_high > 0.0:
        return math.inf
    shape = math.log(math.log(high) / math.log(low)) / math.log(at_high / at_low) if 0.0 < at_low < at_high else 1.0
    shape = min(2.0, max(0.5, 1.0 + (shape - 1.0) * n / (n + 300.0)))
    return float(at_high * (1.0 + 1.0 / math.sqrt(n * high)) * (math.log(chance) / math.log(high)) ** (1.0 / shape))


class _Expected(NamedTuple):
    """The level that is expected at a decision, and its standard error."""

    level: float
    error: float


def _expected(deployed: Floats, levels: Floats, decision: Floats, before: float) -> _Expected:
    """A regression of levels (n,) on the relative moves of decisions (n, d), with what is known before; far ones count less."""
    moves, move = _moves(deployed, decision)
    weights, variance = np.ones(len(levels)), before**2
    prior = np.eye(deployed.shape[1]) / _ELASTICITY**2
    for _ in range(3):
        total = weights.sum()
        middle, mean = weights @ moves / total, float(weights @ levels) / total
        u = moves - middle
        inverse = np.linalg.inv((weights[:, None] * u).T @ u / variance + prior)
        slope = inverse @ (u.T @ (weights * (levels - mean))) / variance
        residuals = levels - mean - u @ slope
        used = 1.0 + float(np.sum(inverse * ((weights[:, None] * u).T @ u))) / variance
        freedom = max(total - used, 0.0)
        robust = (float(np.median(np.abs(residuals))) / 0.6745) ** 2 * len(levels) / max(freedom, 1.0)
        spread = min(robust, float(weights @ residuals**2) / max(freedom, 1.0)) if len(levels) > _ENOUGH else None
        variance = (_LEVEL * before**2 + freedom * (before**2 if spread is None else spread)) / (_LEVEL + freedom)
        weights = np.minimum(1.0, 2.0 * math.sqrt(variance) / np.maximum(np.abs(residuals), 1e-300))
    away = move - middle
    reaction = min(float(away @ inverse @ away), _REACTION**2)
    level = mean + float(away @ slope)
    beyond = level - min(
        max(level, float(levels.min())), float(levels.max())
    )  # what was never seen is not expected either
    return _Expected(level, math.sqrt(variance * (1.0 + 1.0 / total) + reaction + beyond**2))


def _moves(deployed: Floats, decision: Floats) -> tuple[Floats, Floats]:
    """How far decisions (n, d), and one more, are from their middle: in logarithms where they are positive, as prices are."""
    if min(deployed.min(), decision.min()) > 0.0:
        return np.log(deployed), np.log(decision)
    center = deployed.mean(axis=0)
    size = np.maximum(np.abs(center), np.ptp(deployed, axis=0))
    size = np.where(size > 0.0, size, 1.0)
    return (deployed - center) / size, (decision - center) / size


def _level(scale: _Scale, cells: Floats, expected: float, error: float, columns: int) -> str | None:
    """Why the level of cells is not the one that was expected; None if it may be."""
    off = float(scale(cells).mean()) - expected
    more = 2.0 * math.log(columns)  # columns are that many chances to be off
    about = scale.back(expected)
    if abs(off) > max(math.log(3.0), error * math.sqrt(_SLIP**2 + more)):
        for factor in (10.0, 100.0, 1000.0, 0.1, 0.01, 0.001):
            if abs(float(scale(cells / factor).mean()) - expected) < min(max(0.5, 2.0 * error), abs(off) / 3.0):
                times = f"{factor:g} times" if factor > 1.0 else f"1/{1.0 / factor:g} of"
                return f"about {times} the {about:.4g} that was expected: are the units others?"
    if abs(off) > error * math.sqrt(_FAR**2 + more):
        return f"but about {about:.4g} was expected"
    return None
