"""Words and numbers as people read them: what a loss is shown as, amounts, counts, and digits that mean something."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Outcome(NamedTuple):
    """What a loss is called: its `word` and `unit`, what each is `per`, and what a deployment is, its `period`.

    `sign` is −1 where what is shown is wanted more of, the negative loss.

    >>> profit = Outcome.of(show="profit", unit="EUR", period="week")
    >>> profit.each, profit.amount(3.14159), profit.sign, profit.periods(2)
    ('profit a week', '3.142 EUR a week', -1, '2 weeks')
    >>> Outcome.of(rows=20).each
    'loss a row'
    """

    word: str
    unit: str
    per: str
    period: str
    sign: int

    @staticmethod
    def of(
        show: str | None = None,
        unit: str | None = None,
        per: str | None = None,
        period: str | None = None,
        rows: int = 1,
    ) -> Outcome:
        """The words that are given, for reports of up to so many rows for a decision: an outcome is the mean of theirs."""
        period = period or "deployment"
        return Outcome(
            show or "loss", unit or "", per or (period if rows <= 1 else "row"), period, 1 if show is None else -1
        )

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


def room(slack: float, size: float) -> str:
    """The room left in a limit, 0 where it is rounding beside a decision of this size."""
    return number(0.0 if abs(slack) <= 1e-6 * max(1.0, size) else slack)
