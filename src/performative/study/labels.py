"""What the numbers of a decision and of a sample are called, their units, and what a loss is shown as."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from performative.study.sheet import normal
from performative.validation import shown
from performative.wording import Outcome

if TYPE_CHECKING:
    from performative.past import Past
    from performative.problem import Problem

WHICH = "decision"
"""The column of a table that tells samples of several decisions apart: 0, 1, …"""


class Labels(NamedTuple):
    """Names and units of the numbers of a decision and of a sample; None where there are none. `of` makes them.

    A loss is shown as `show`, a word for what is wanted more of, such as "profit", which is the negative loss. It is in `unit`,
    and `per` one row of a report, such as a "store-day". `period` is what one deployment lasts, such as a "week".

    >>> import performative as pf
    >>> named = pf.study.Labels.of(decisions=["milk", "bread"], decision_units="EUR")
    >>> named.decisions, named.decision_units, named.data
    (('milk', 'bread'), ('EUR', 'EUR'), None)
    """

    decisions: tuple[str, ...] | None = None
    data: tuple[str, ...] | None = None
    decision_units: tuple[str, ...] | None = None
    data_units: tuple[str, ...] | None = None
    show: str | None = None
    unit: str | None = None
    per: str | None = None
    period: str | None = None

    @staticmethod
    def of(
        decisions: Sequence[str] | None = None,
        data: Sequence[str] | None = None,
        decision_units: str | Sequence[str] | None = None,
        data_units: str | Sequence[str] | None = None,
        show: str | None = None,
        unit: str | None = None,
        per: str | None = None,
        period: str | None = None,
    ) -> Labels:
        """Names in the order of a decision and of a sample, one unit for all or one for each, and words for the loss.

        >>> Labels.of(data=["milk", "milk"])
        Traceback (most recent call last):
        ValueError: `data` must hold different names, but has 'milk' more than once
        """
        x, z = names_of("`decisions`", decisions), data_names_of("`data`", data)
        units = units_of("`decision_units`", decision_units, x), units_of("`data_units`", data_units, z)
        words = {"show": show, "unit": unit, "per": per, "period": period}
        return Labels(x, z, *units, *(word_of(f"`{key}`", word) for key, word in words.items()))

    def fitting(self, problem: Problem, history: Past | None) -> Labels:
        """The same, with the names that a history gives to data that have none; refused if they do not fit the problem."""
        d, past = problem.d, None if history is None else history.columns
        if self.decisions is not None and len(self.decisions) != d:
            raise ValueError(
                f"`decisions` must be {d} names, one for each number, but are {shown(list(self.decisions))}"
            )
        if self.data is None:
            return self if past is None else self._replace(data=data_names_of("the data of the history", past))
        if history is not None and len(self.data) != history.means.shape[1]:
            raise ValueError(
                f"`data` must be {history.means.shape[1]} names, as samples of the history have numbers, but are "
                f"{shown(list(self.data))}"
            )
        if past is not None and self.data != past and set(self.data) == set(past):
            raise ValueError(
                f"`data` must be in the order of the history, {shown(list(past))}, but is {shown(list(self.data))}"
            )
        try:
            problem.check_samples(len(self.data))
        except ValueError as error:
            raise ValueError(
                f"`data` must name samples that the loss accepts, but names {len(self.data)} numbers: {error}"
            ) from error
        return self

    def told(self, columns: Sequence[str] | None) -> Labels:
        """The same, with the names that a first table gave to data that have none."""
        return self if self.data is not None or columns is None else self._replace(data=tuple(columns))

    def after(self, before: Labels) -> Labels:
        """The same; refused if they put the names that were known `before` into another order."""
        for key in ("decisions", "data"):
            then, now = getattr(before, key), getattr(self, key)
            if then is not None and now is not None and then != now and set(then) == set(now):
                raise ValueError(
                    f"`{key}` must be in the order of the study, {shown(list(then))}, but is {shown(list(now))}"
                )
        return self

    def outcome(self, rows: int) -> Outcome:
        """What a loss is shown as, in reports of up to so many rows for a decision."""
        return Outcome.of(self.show, self.unit, self.per, self.period, rows)

    def plain(self) -> dict[str, list[str] | str | None]:
        """As JSON has them; words for the loss only if there are any."""
        parts = {key: list(part) if isinstance(part, tuple) else part for key, part in self._asdict().items()}
        return {key: part for key, part in parts.items() if part is not None or key not in _WORDS}

    @staticmethod
    def of_plain(stored: Mapping[str, Any]) -> Labels:
        """What `plain` gave."""
        parts: dict[str, Any] = {key: tuple(part) if isinstance(part, list) else part for key, part in stored.items()}
        return Labels(**parts)


_WORDS = ("show", "unit", "per", "period")
UNNAMED = Labels()
"""No names."""


def names_of(key: str, names: Any) -> tuple[str, ...] | None:
    """Different names, as they are compared; `key` begins the errors."""
    if names is None:
        return None
    if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{key} must be a list of names, but got {shown(names)}")
    found = tuple(normal(name.strip()) for name in names)
    if "" in found:
        raise ValueError(f"{key} must not hold empty names, but got {shown(names)}")
    double = next((name for name in found if found.count(name) > 1), None)
    if double is not None:
        raise ValueError(f"{key} must hold different names, but has {double!r} more than once")
    return found


def data_names_of(key: str, names: Any) -> tuple[str, ...] | None:
    """The same for the numbers of a sample."""
    found = names_of(key, names)
    if found is not None and WHICH in found:
        raise ValueError(
            f"{key} must not hold {WHICH!r}: the column of that name tells samples of several decisions apart"
        )
    return found


def units_of(key: str, units: Any, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """One unit for each name."""
    if units is None:
        return None
    if names is None:
        raise ValueError(f"{key} must come with names, but got {shown(units)} alone")
    each = (units,) * len(names) if isinstance(units, str) else units
    if not isinstance(each, list | tuple) or not all(isinstance(unit, str) for unit in each) or len(each) != len(names):
        raise ValueError(
            f"{key} must be one unit for all or a list of {len(names)}, one for each name, but got {shown(units)}"
        )
    return tuple(normal(unit.strip()) for unit in each)


def word_of(key: str, word: Any) -> str | None:
    """A word in one line."""
    if word is None:
        return None
    if not isinstance(word, str) or not word.strip() or not word.strip().isprintable():
        raise ValueError(f"{key} must be a word, but got {shown(word)}")
    return normal(word.strip())
