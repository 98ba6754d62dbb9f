"""What a rehearsal shows: the first decisions of a method under each reaction, how far they move, and what they could cost."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from performative.numerics.arrays import Floats
from performative.study.labels import Labels
from performative.study.words import row

SHOWN = (1, 2, 3, 5, 10, 20)
"""The deployments whose decisions are printed."""
MOST_ROWS = 6
"""How many numbers of a decision are printed: those that move most."""
TOUCHED, VIOLATED = 1e-3, 1e-9
"""A constraint is touched if a decision is nearer to it than this share of a range, and violated by more than that."""
MOST_SHARE = 10.0
"""What is gained or lost is a share of what staying makes, unless staying makes next to nothing."""
WIDTH, LABEL, CELL = 80, 18, 10
"""How wide lines, the names of numbers and the numbers are."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """A step from one deployment to the next: of number `place`, to `deployment`, counted from 1."""

    deployment: int
    place: int
    before: float
    after: float


@dataclass(frozen=True, slots=True, eq=False)
class Performance:
    """The deployments of a method under one reaction; `means` says what the reaction does.

    `decisions` are arrays (b, d), one for each deployment, with their g as `constraint_values` (b, m), and how near they come to
    each constraint as `room` (b, m), in multiples of a range. `excess` (T,) is by how much the expected loss of each deployment
    is larger than that of staying, and `allowed` what the method's budget lets it lose, if it has one.
    """

    reaction: str
    means: str
    decisions: tuple[Floats, ...]
    constraint_values: tuple[Floats, ...]
    room: tuple[Floats, ...]
    excess: Floats
    allowed: float | None

    @property
    def total(self) -> float:
        """What all deployments lose against staying; negative if they gain."""
        return float(np.sum(self.excess))

    @property
    def worst(self) -> int:
        """The deployment that loses most against staying, counted from 1."""
        return int(np.argmax(self.excess)) + 1

    @property
    def deepest(self) -> float:
        """The most that the deployments up to some time have lost together, at least 0."""
        return max(0.0, float(np.max(np.cumsum(self.excess))))

    @property
    def touched(self) -> dict[int, int]:
        """The constraints that are touched or violated, by their places, with the first deployment at which they are."""
        found: dict[int, int] = {}
        for number, room in enumerate(self.room, 1):
            for place in np.flatnonzero(np.min(room, axis=0) <= TOUCHED).tolist():
                found.setdefault(place, number)
        return found

    @property
    def touched_at_once(self) -> int:
        """How many constraints a single decision touches or violates, at most."""
        return max(int(np.max(np.sum(room <= TOUCHED, axis=1))) for room in self.room)

    @property
    def violated(self) -> dict[int, float]:
        """The constraints that are violated, by their places, with by how much at worst."""
        worst = np.max([np.max(values, axis=0) for values in self.constraint_values], axis=0)
        return {place: float(worst[place]) for place in np.flatnonzero(worst > VIOLATED).tolist()}


@dataclass(frozen=True, slots=True, eq=False)
class Rehearsal:
    r"""Simulated deployments of a method under some reactions, from `today` (d,) on; `str` prints them.

    `stays` says which decision that is, `loss` is its expected loss, and `slack` (m,) its room in each constraint. `data` says
    what the data are taken to be, `samples` how many each deployment brought, and `widths` (d,) are the ranges of a decision's
    numbers across which reactions are measured.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> labels = pf.study.Labels.of(decisions=["milk"], data=["milk"], decision_units="EUR")
    >>> method = pf.stay(pf.Problem(Revenue(cost=1.0), pf.Box([0.0], [5.0])), start=[2.0])
    >>> rehearsal = pf.study.rehearse(method, mean=[40.0], spread=[10.0], labels=labels)
    >>> [performance.reaction for performance in rehearsal.performances]
    ['none', 'weak', 'strong']
    >>> print("\n".join(str(rehearsal).splitlines()[:8]))
    rehearsal: 20 simulated deployments under each of 3 reactions; nothing is stored
    the start: milk 2 EUR
      expected loss -39.99 a deployment
    data there: 40 ± 10 (as described); samples a deployment: 1
    <BLANKLINE>
    reaction none: the data stay as they are, whatever is deployed
      deployment                 1         2         3         5        10        20
      milk EUR                   2         2         2         2         2         2
    """

    today: Floats
    stays: str
    loss: float
    slack: Floats
    data: tuple[str, ...]
    samples: tuple[int, ...]
    widths: Floats
    labels: Labels
    constraint_names: tuple[str, ...]
    performances: tuple[Performance, ...]

    def largest_step(self, performance: Performance) -> Step | None:
        """The largest step between deployments, in multiples of a number's range; None if nothing moves."""
        most, found = 0.0, None
        for number, (before, after) in enumerate(itertools.pairwise((self.today[None], *performance.decisions)), 1):
            before = before[[min(arm, len(before) - 1) for arm in range(len(after))]]
            far = np.abs(after - before) / self.widths
            if np.max(far) > most:
                most, place = float(np.max(far)), np.unravel_index(np.argmax(far), far.shape)
                found = Step(number, int(place[1]), float(before[place]), float(after[place]))
        return found

    def __str__(self) -> str:
        """In plain text."""
        return "\n".join(line for text in self._lines() for line in _wrapped(text))

    def _lines(self) -> Iterator[str]:
        number, names = len(self.samples), self.constraint_names
        yield f"rehearsal: {number} simulated deployments under each of {len(self.performances)} reactions; nothing is stored"
        yield f"{self.stays}: {row(self.today, self.labels.decisions, self.labels.decision_units)}"
        yield f"  expected loss {_number(self.loss)} a deployment" + "".join(
            f"; room in {name}: {_number(slack)}" for name, slack in zip(names, self.slack, strict=True)
        )
        yield from self.data
        shown = self._shown()
        for performance in self.performances:
            yield ""
            yield f"reaction {performance.reaction}: {performance.means}"
            yield from self._table(performance, shown)
            yield from self._outcome(performance)

    def _shown(self) -> list[int]:
        """The numbers of a decision that are printed."""
        far = np.max([self._farthest(performance) for performance in self.performances], axis=0)
        return sorted(np.argsort(-far, kind="stable")[:MOST_ROWS].tolist())

    def _farthest(self, performance: Performance) -> Floats:
        """How far each number goes from today's (d,), in multiples of its range."""
        every = np.concatenate(performance.decisions)
        return np.asarray(np.max(np.abs(every - self.today), axis=0) / self.widths)

    def _table(self, performance: Performance, shown: Sequence[int]) -> Iterator[str]:
        columns = [number for number in SHOWN if number <= len(performance.decisions)]
        yield f"  {'deployment':<{LABEL}}" + "".join(f"{number:>{CELL}}" for number in columns)
        for place in shown:
            cells = (performance.decisions[number - 1][0, place] for number in columns)
            yield f"  {_short(self._named(place)):<{LABEL}}" + "".join(f"{_number(cell):>{CELL}}" for cell in cells)
        rest = np.delete(self._farthest(performance), shown)
        if rest.size:
            yield f"  and {rest.size} more, which go no farther than {_percent(np.max(rest))} of their range"
        most = max(performance.decisions, key=len)
        if len(most) > 1:
            yield f"  (the first of {len(most)} decisions that are deployed side by side)"

    def _outcome(self, performance: Performance) -> Iterator[str]:
        step = self.largest_step(performance)
        if step is None:
            yield "  nothing moves"
        else:
            unit = "" if self.labels.decision_units is None else f" {self.labels.decision_units[step.place]}"
            change = 0.0 if step.before == 0 else (step.after - step.before) / abs(step.before)
            share = f" ({'+' if change > 0 else '-'}{_percent(change)})" if change else ""
            yield (
                f"  largest step: {self._named(step.place, unit=False)} from {_number(step.before)} to "
                f"{_number(step.after)}{unit}{share}, to deployment {step.deployment}"
            )
        size = len(performance.excess) * abs(self.loss)
        share = f" ({_percent(performance.total / size)})" if 0 < abs(performance.total) < MOST_SHARE * size else ""
        excess = performance.excess[performance.worst - 1]
        worst = f"; the worst deployment is number {performance.worst}, {_compared(excess)}" if excess > 0 else ""
        yield f"  against staying: {_compared(performance.total)} in all{share}{worst}"
        if performance.allowed is not None:
            yield (
                f"  budget: {_number(performance.allowed)} may be lost in all; at most {_number(performance.deepest)} was, "
                "added up"
            )
        if self.constraint_names:
            yield f"  constraints: {self._touched(performance)}"

    def _touched(self, performance: Performance) -> str:
        touched, violated, names = performance.touched, performance.violated, self.constraint_names
        if not touched:
            return "none is touched"
        each = [
            (
                f"violates {names[place]} by up to {_number(violated[place])}"
                if place in violated
                else f"touches {names[place]}"
            )
            + f" (first in deployment {number})"
            for place, number in touched.items()
        ]
        return f"{', '.join(each)}; at most {performance.touched_at_once} of {len(names)} at once"

    def _named(self, place: int, unit: bool = True) -> str:
        labels = self.labels
        name = f"number {place}" if labels.decisions is None else labels.decisions[place]
        return f"{name} {labels.decision_units[place]}" if unit and labels.decision_units is not None else name


def _number(value: float) -> str:
    return f"{value:.0f}" if 1e3 <= abs(value) < 1e8 else f"{value + 0.0:.4g}"


def _percent(share: float) -> str:
    """A share of any sign, without it."""
    percent = 100.0 * abs(share)
    return f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"


def _compared(excess: float) -> str:
    """What a loss over that of staying is called."""
    if excess == 0:
        return "the same"
    return f"{_number(abs(excess))} {'worse' if excess > 0 else 'better'}"


def _short(name: str) -> str:
    return name if len(name) < LABEL else f"{name[: LABEL - 2]}…"


def _wrapped(text: str) -> list[str]:
    """The text in lines that are not too long."""
    indent = len(text) - len(text.lstrip())
    return (
        textwrap.wrap(text, WIDTH, subsequent_indent=" " * (indent + 2), drop_whitespace=True, break_long_words=False)
        if len(text) > WIDTH
        else [text]
    )
