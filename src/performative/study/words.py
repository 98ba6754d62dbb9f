"""Decisions and outcomes of a study as a terminal shows them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from performative.numerics.arrays import Floats
from performative.study.labels import Labels
from performative.wording import Outcome, number

WIDTH = 80
"""The columns of a terminal."""
BARS = "▁▂▃▄▅▆▇█"
"""What a sparkline is made of."""
PLAIN = str.maketrans(dict(zip(BARS, "_.-:=+*#", strict=True)) | {"±": "+-", "×": "x", "…": "..."})
"""What stands for them, and for other signs, where a terminal cannot print them."""
NEAR = 1e-3
"""A limit that leaves less room than this share of the decision's size holds it."""


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
