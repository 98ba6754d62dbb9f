"""The last reports of a study, as far as new ones are compared with them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from performative.numerics.arrays import Floats

if TYPE_CHECKING:
    from performative.study.log import Log

REPORTS = 100
"""How many reports are kept."""
ROWS = 64
"""How many samples of each decision are kept, spread evenly over the report."""
_MIX = np.uint64(0x9E3779B97F4A7C15)


class Remembered(NamedTuple):
    """A report: decisions (b, d), some of the samples (b, r, k), the means (b, k) and the `ranges` of all, and their digest.

    `ranges` (4, k) are the least and the greatest number of each column, and the least and the greatest mean.
    `confirmed` says that the samples looked wrong, and that somebody said that they are right all the same.
    """

    deployment: int
    decisions: Floats
    rows: Floats
    means: Floats
    ranges: Floats
    digest: int
    confirmed: bool

    @staticmethod
    def of(deployment: int, decisions: Floats, samples: Floats, confirmed: bool) -> Remembered:
        """What is kept of samples (b, n, k)."""
        means = np.add.reduce(samples, axis=1) / samples.shape[1]
        return Remembered(
            deployment,
            decisions.copy(),  # copies, since a view would keep the whole record in memory
            kept_rows(samples).copy(),
            means,
            ranges(samples, means),
            digest(samples),
            confirmed,
        )


class Memory:
    """The last reports, kept in step with a log."""

    def __init__(self) -> None:
        self.reports: deque[Remembered] = deque(maxlen=REPORTS)
        self._next, self._retracted = 1, frozenset[int]()

    def add(self, number: int, report: Remembered) -> None:
        """Add the report of event `number`."""
        self.reports.append(report)
        self._next = number + 1

    def catch_up(self, log: Log, retracted: frozenset[int]) -> None:
        """Read what was reported since, except the reports `retracted`; of a long log, its last events alone."""
        if retracted != self._retracted:  # some of those that were read may be among them
            self.reports.clear()
            self._next, self._retracted = 1, retracted
        for one in log.reported(max(self._next, log.count - 3 * REPORTS), without=retracted):
            observed = one.observed
            report = Remembered.of(one.asked.number, one.decisions, observed.samples, bool(observed.confirmed))
            self.add(observed.number, report)


def ranges(samples: Floats, means: Floats) -> Floats:
    """See `Remembered`."""
    numbers = samples.reshape(-1, samples.shape[2])
    return np.stack([numbers.min(axis=0), numbers.max(axis=0), means.min(axis=0), means.max(axis=0)])


def kept_rows(samples: Floats) -> Floats:
    """Some of the samples (b, n, k) of each decision."""
    n = samples.shape[1]
    return samples if n <= ROWS else samples[:, np.linspace(0, n - 1, ROWS).astype(int)]


def digest(samples: Floats) -> int:
    """A number for the rows of samples (b, n, k), whatever their order."""
    words = (samples.reshape(-1, samples.shape[2]) + 0.0).view(np.uint64)  # -0.0 is 0.0
    with np.errstate(over="ignore"):
        odd = (np.arange(words.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)) * _MIX
        rows = np.add.reduce((words ^ (words >> np.uint64(29))) * odd, axis=1)
        rows = (rows ^ (rows >> np.uint64(32))) * _MIX
        return int(np.add.reduce(rows ^ (rows >> np.uint64(31))))
