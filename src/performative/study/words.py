"""Numbers of a study as people read them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from performative.numerics.arrays import Floats
from performative.study.labels import Labels

WIDTH = 80
"""The columns of a terminal."""
BARS = "▁▂▃▄▅▆▇█"
"""What a sparkline is made of."""
PLAIN = str.maketrans(dict(zip(BARS, "_.-:=+*#", strict=True)) | {"±": "+-", "×": "x", "…": "..."})
"""What stands for them, and for other signs, where a terminal cannot print them."""
NEAR = 1e-3
"""A limit that leaves less room than this share of the decision's size holds it."""


class Outcome(NamedTuple):
    """What a loss is called: its `word` and `unit`, what each is `per`, and what a deployment is, its `period`.

    `sign` is −1 where what is shown is wanted more of, the negative loss.

    >>> profit = Outcome.of(Labels.of(show="profit", unit="EUR", period="week"))
    >>> profit.each, profit.amount(3.14159), profit.sign, profit.periods(2)
    ('profit a week', '3.142 EUR a week', -1, '2 weeks')
    >>> Outcome.of(Labels(), rows=20).each
    'loss a row'
    """

    word: str
    unit: str
    per: str
    period: str
    sign: int

    @staticmethod
    def of(labels: Labels, rows: int = 1) -> Outcome:
        """The words of a study whose reports have up to so many rows for a decision: an outcome is the mean of theirs."""
        period = labels.period or "deployment"
        per = labels.per or (period if rows <= 1 else "row")
        return Outcome(labels.show or "loss", labels.unit or "", per, period, 1 if labels.show is None else -1)

    @property
    def turned(self) -> bool:
        """Whether more of it is wanted."""
        return self.sign < 0

    @property
    def each(self) -> str:
        """Such as "profit a week"."""
        return f"{self.word} {a(self.per)}"

    @property
    def rate(self) -> str:
        """Its unit, such as "EUR a week"."""
        return f"{self.unit} {a(self.per)}".strip()

    def plain(self) -> dict[str, str]:
        """The words, by the keys of a description."""
        words = {"show": self.word if self.turned else "", "unit": self.unit, "per": self.per, "period": self.period}
        return {key: word for key, word in words.items() if word}

    def amount(self, value: float) -> str:
        """A number with its unit."""
        return f"{number(value)} {self.rate}"

    def periods(self, count: int) -> str:
        """So many deployments."""
        return counted(count, self.period)

    def place(self, told: int, round: int) -> str:
        """Which deployment it is, once so many were reported: the week, or the round where nothing says what it lasts."""
        return f"round {round}" if self.period == "deployment" else f"{self.period} {told + 1}"


def a(noun: str) -> str:
    """A noun with its article."""
    return f"{'an' if noun[0] in 'aeioAEIO' or noun.startswith('hour') else 'a'} {noun}"


def counted(count: int, noun: str) -> str:
    """So many of them.

    >>> counted(1, "week"), counted(3, "store-day"), counted(2, "delivery")
    ('1 week', '3 store-days', '2 deliveries')
    """
    return f"1 {noun}" if count == 1 else f"{count:,} {plural(noun)}"


def plural(noun: str) -> str:
    """Several of them."""
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}{'es' if noun.endswith(('s', 'x', 'ch', 'sh')) else 's'}"


def number(value: float, digits: int = 4, sign: bool = False) -> str:
    """A number with so many digits that mean something; with thousands apart, and without an exponent where it can do."""
    if not math.isfinite(value) or value == 0:
        return "0" if value == 0 else f"{value:.4g}"
    if not 1e-4 <= abs(value) < 1e9:
        return f"{value:{'+' if sign else ''}.{digits}g}"
    return _fixed(value, max(0, digits - 1 - math.floor(math.log10(abs(value)))), sign, trimmed=True)


def alike(values: Sequence[float], error: float, sign: bool = False) -> list[str]:
    """Numbers with as many decimals as an `error` of them leaves: one of its digits counts, or two if the first is small.

    >>> alike([31.39871, 31.22768, 31.56974], 0.17)
    ['31.40', '31.23', '31.57']
    """
    size = max(map(abs, values))
    if not 0.0 < error < math.inf or not 1e-4 <= size < 1e9:
        return [number(value, sign=sign) for value in values]
    decimals = max(0, 1 - math.floor(math.log10(error / 0.355 / 10.0) + 1.0))
    decimals = min(decimals, max(0, 5 - math.floor(math.log10(size))))
    return [_fixed(value, decimals, sign) for value in values]


def interval(value: float, low: float, high: float, sign: bool = False) -> tuple[str, str, str]:
    """A number and the ends of its interval, in order."""
    shown = alike([value, min(low, high), max(low, high)], abs(high - low) / 2, sign)
    return shown[0], shown[1], shown[2]


def _fixed(value: float, decimals: int, sign: bool = False, trimmed: bool = False) -> str:
    text = f"{value:{'+' if sign else ''},.{decimals}f}"
    if trimmed and "." in text:
        text = text.rstrip("0").rstrip(".")
    zero = not text.strip("+-0.,")
    return text.lstrip("+-") if zero else text


def names_of(labels: Labels, dimension: int) -> list[str]:
    """The names of the numbers of a decision; "number 0" and so on without names."""
    return list(labels.decisions or (f"number {place}" for place in range(dimension)))


def row(decision: Floats, names: Sequence[str] | None = None, units: Sequence[str] | None = None) -> str:
    """A decision as text, by name if its numbers have names."""
    if names is None:
        return "[" + ", ".join(f"{value:.6g}" for value in decision) + "]"
    each = units or [""] * len(names)
    return ", ".join(
        f"{name} {value:.6g} {unit}".strip() for name, value, unit in zip(names, decision, each, strict=True)
    )


def moved(move: Floats, labels: Labels, most: int = 6) -> str:
    """By how much the numbers of a decision move, the farthest if there are many.

    >>> moved(np.array([0.5, 0.0, -0.25]), Labels.of(["milk", "bread", "tea"], decision_units="EUR"))
    'milk +0.5 EUR, tea -0.25 EUR'
    """
    names, units = names_of(labels, len(move)), labels.decision_units or ("",) * len(move)
    size = float(np.max(np.abs(move), initial=0.0))
    moving = np.flatnonzero(np.abs(move) > 1e-9 * size)
    chosen = sorted(moving[np.argsort(-np.abs(move[moving]), kind="stable")][:most])
    parts = [f"{names[i]} {number(float(move[i]), 3, sign=True)} {units[i]}".strip() for i in chosen]
    more = len(moving) - len(chosen)
    return ", ".join(parts) + (f" and {more} more by less" if more else "")


def room(slack: float, size: float) -> str:
    """The room left in a limit, 0 where it is rounding beside a decision of this size."""
    return number(0.0 if abs(slack) <= 1e-6 * max(1.0, size) else slack)


def holds(slack: float, multiplier: float, decision: Floats) -> bool:
    """Whether a limit holds a decision: it costs something, and all but no room is left."""
    return multiplier > 0 and abs(slack) < NEAR * max(1.0, float(np.max(np.abs(decision), initial=0.0)))


def costs(multiplier: float, outcome: Outcome) -> str:
    """What a limit that holds costs."""
    return f"costs you about {number(multiplier, 3)} {outcome.rate} per unit"


def sparkline(values: Floats, width: int = 60, up: bool = True) -> str:
    """A line of bars, one for each number or for the mean of several that come one after another; `up` if more is higher.

    >>> sparkline(np.array([1.0, 2.0, 4.0, np.nan, 8.0]))
    '▁▂▄ █'
    """
    values = np.asarray(values, np.float64) * (1.0 if up else -1.0)
    if len(values) > width:
        groups = np.array_split(values, width)
        values = np.array([np.mean(part[np.isfinite(part)]) if np.isfinite(part).any() else np.nan for part in groups])
    known = values[np.isfinite(values)]
    if not len(known):
        return " " * len(values)
    low, high = float(known.min()), float(known.max())
    top = len(BARS) - 1
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        return "".join(BARS[top // 2] if np.isfinite(value) else " " for value in values)
    return "".join(
        BARS[round(top * ((value / 2 - low / 2) / (high / 2 - low / 2)))] if np.isfinite(value) else " "
        for value in values.tolist()
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]], indent: str = "  ") -> list[str]:
    """Lines of cells, the first column to the left and the others to the right."""
    cells = [head, *rows]
    widths = [max(len(one[place]) for one in cells) for place in range(len(head))]
    lines = (
        "  ".join(f"{cell:{'<' if place == 0 else '>'}{widths[place]}}" for place, cell in enumerate(one))
        for one in cells
    )
    return [f"{indent}{line}".rstrip() for line in lines]


def printable(text: str, encoding: str | None) -> str:
    """The text in signs that a terminal of this encoding can print."""
    try:
        text.encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return text.translate(PLAIN)
    return text
