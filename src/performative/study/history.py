"""The history of a study, everything observed in it, as a dataset or a table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from performative.numerics.arrays import Floats
from performative.study.events import Asked, Event, Observed, Report
from performative.study.labels import Labels
from performative.wording import Outcome

if TYPE_CHECKING:
    import xarray as xr


class Round(NamedTuple):
    """A deployment whose samples were reported: what was asked for, and what was observed."""

    asked: Asked
    observed: Observed | Report

    @property
    def decisions(self) -> Floats:
        """What was really deployed (b, d)."""
        return (self.observed.actual or self.asked).decisions

    @property
    def constraint_values(self) -> Floats:
        """The g of what was really deployed (b, m)."""
        return (self.observed.actual or self.asked).constraint_values


def rounds(
    events: Iterable[Event | Report | None], find: Callable[[int], Asked], without: Collection[int] = ()
) -> Iterator[Round]:
    """The deployments of a log whose samples were reported, except the reports `without`, by the numbers of their events.

    `find` gives the event that asked for a deployment where it lies before these events, or was reported before.
    """
    asked: Asked | None = None
    for event in events:
        if isinstance(event, Asked):  # one is open at a time
            asked = event
        elif isinstance(event, Observed | Report) and event.number not in without:
            is_open = asked is not None and asked.number == event.deployment
            yield Round(asked if asked is not None and is_open else find(event.deployment), event)


def by_name(values: Floats, then: Sequence[str], now: Sequence[str], missing: float) -> Floats:
    """Numbers of the constraints `then` (…, m) as those of the constraints `now`; `missing` where one was not there.

    >>> by_name(np.array([[1.0, 2.0]]), ["cap", "floor"], ["floor", "mean"], np.nan)
    array([[ 2., nan]])
    """
    if then == now or list(then) == list(now):
        return values
    found = np.full((*values.shape[:-1], len(now)), missing)
    for place, name in enumerate(now):
        if name in then:
            found[..., place] = values[..., then.index(name)]
    return found


def least(slack: Floats) -> Floats:
    """The least slack (n, m) of deployments (n, b, m), nan where there is none; infinite where there was no such constraint."""
    return np.min(np.where(np.isnan(slack), np.inf, slack), axis=1, initial=np.inf)


MEANINGS = {
    "deployment": ("deployment", "The number of the event that asked for it."),
    "t": ("round t", "The round of the method."),
    "asked": ("asked", "When its decisions were asked for, in UTC."),
    "told": ("reported", "When its samples were reported, in UTC."),
    "samples": ("samples", "How many samples each of its decisions brought."),
    "decision": ("decision θ_t", "The method's decision, before exploration."),
    "multipliers": ("multipliers λ_t", "The multipliers of the constraints at the time."),
    "proposed": ("decisions asked for", "The decisions that the method asked for; NaN beyond their number."),
    "deployed": ("deployed decisions", "The decisions that were really deployed; NaN beyond their number."),
    "slack": (
        "slack −g(θ)",
        "The room that each deployed decision leaves in each constraint; negative if it violates it.",
    ),
    "data": ("mean of the samples", "The mean of the samples that each deployed decision brought."),
    "loss": ("mean loss", "The mean loss of each deployed decision over its samples, by the loss of the time."),
    "loss_error": ("standard error of the mean loss", "From the spread of its samples; NaN if there is one."),
    "basis": ("basis", "The number of the event that said what the method was: 0, the creation, or an amendment."),
    "loss_since": ("loss since", "The number of the event since which the loss and the start are what they were then."),
}
"""What each variable of a history is."""


TOGETHER = 4096
"""How many rows wait until they are put into a table."""


class Column:
    """A table (n, …) of numbers to which rows are added; what a row does not fill is NaN."""

    def __init__(self, dtype: type = np.float64) -> None:
        self._table: NDArray[Any] = np.zeros((0,), dtype)
        self._count = 0
        self._added: list[Any] = []

    def add(self, row: Any) -> None:
        """Add one row."""
        self._added.append(row)
        if len(self._added) == TOGETHER:
            self._grow()

    @property
    def rows(self) -> NDArray[Any]:
        """All of them, not to be written to."""
        if self._added:
            self._grow()
        return self._table[: self._count]

    def _grow(self) -> None:
        """Put what was added into the table."""
        old, kind = self._table, self._table.dtype
        shapes = {np.shape(row) for row in self._added}
        shape = tuple(map(max, *shapes, *([old.shape[1:]] if self._count else [next(iter(shapes))])))
        total = self._count + len(self._added)
        if total > len(old) or shape != old.shape[1:]:
            self._table = np.full((max(64, 2 * total), *shape), np.nan if kind == np.float64 else 0, kind)
            if self._count:
                self._table[tuple(map(slice, (self._count, *old.shape[1:])))] = old[: self._count]
        if shapes == {shape}:
            self._table[self._count : total] = self._added
        else:
            for place, row in enumerate(self._added, self._count):
                at: tuple[int | slice, ...] = (place, *map(slice, np.shape(row)))
                self._table[at] = row
        self._count, self._added = total, []


class Reported:
    """The deployments that were reported, column by column: those of MEANINGS that are `kept`. It grows with the log.

    `names_at` says which constraints there were before an event, `method_at` which event said what the method was, and
    `loss_since` since which one the loss is what it was; numbers of other constraints are NaN.
    """

    def __init__(
        self,
        dimension: int,
        constraint_names: list[str],
        names_at: Callable[[int], list[str]],
        method_at: Callable[[int], int],
        loss_since: Callable[[int], int],
        kept: Iterable[str] = MEANINGS,
    ) -> None:
        self.constraint_names, self._names_at = constraint_names, names_at
        self._method_at, self._loss_since = method_at, loss_since
        self._dimension = dimension
        whole = ("deployment", "t", "samples", "basis", "loss_since")
        self.columns = {name: Column(np.int64 if name in whole else np.float64) for name in kept}

    def add(self, one: Round) -> None:
        """Add a deployment."""
        asked, observed, names = one.asked, one.observed, self.constraint_names
        multipliers, slack = asked.multipliers, -one.constraint_values
        values = {
            "deployment": asked.number,
            "t": asked.round,
            "asked": asked.at,
            "told": observed.at,
            "samples": observed.samples.shape[1],
            "decision": asked.decision.copy(),  # copies, since a view would keep the whole record in memory
            "multipliers": by_name(multipliers, self._names_at(asked.number), names, np.nan).copy(),
            "proposed": asked.decisions.copy(),
            "deployed": one.decisions.copy(),
            "slack": by_name(slack, self._names_at(observed.number), names, np.nan),
            "data": np.add.reduce(observed.samples, axis=1) / observed.samples.shape[1],
            "loss": observed.losses.copy(),
            "loss_error": np.full(len(observed.losses), np.nan)
            if observed.loss_errors is None
            else observed.loss_errors.copy(),
            "basis": self._method_at(observed.number),
            "loss_since": self._loss_since(observed.number),
        }
        for name, column in self.columns.items():
            column.add(values[name])

    def __len__(self) -> int:
        return len(self.columns["deployment"].rows)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """A column, with the right number of dimensions even if it is empty."""
        rows = self.columns[name].rows
        if len(rows):
            return rows
        d, m = self._dimension, len(self.constraint_names)
        empty = {
            "decision": (d,),
            "multipliers": (m,),
            "proposed": (1, d),
            "deployed": (1, d),
            "slack": (1, m),
            "data": (1, 0),
            "loss": (1,),
            "loss_error": (1,),
        }
        return np.zeros((0, *empty.get(name, ())), rows.dtype)

    def dataset(self, name: str, seed: int, labels: Labels, outcome: Outcome) -> xr.Dataset:
        """A dataset over `deployment`, the ids of the deployments that were reported.

        It holds θ_t, λ_t, and for each of the b decisions what was asked for, what was deployed, its slack −g in each constraint,
        the means of the data it brought and their average loss, along the names of their numbers if they have any. Where rounds
        deploy different numbers of decisions, missing ones are NaN. Attributes say what a loss is shown as.
        """
        import xarray as xr

        shapes = {
            "decision": ("dimension",),
            "multipliers": ("constraint",),
            "proposed": ("probe", "dimension"),
            "deployed": ("probe", "dimension"),
            "slack": ("probe", "constraint"),
            "data": ("probe", "number"),
            "loss": ("probe",),
            "loss_error": ("probe",),
            "samples": (),
            "basis": (),
            "loss_since": (),
        }
        past = xr.Dataset(
            {column: (("deployment", *shape), self[column].copy()) for column, shape in shapes.items()},
            coords={
                "deployment": self["deployment"].copy(),
                "t": ("deployment", self["t"].copy()),
                "asked": ("deployment", moment(self["asked"])),
                "told": ("deployment", moment(self["told"])),
                "constraint": self.constraint_names,
            },
            attrs={"study": name, "seed": seed} | outcome.plain(),
        )
        for dimension, names, units in (
            ("dimension", labels.decisions, labels.decision_units),
            ("number", labels.data, labels.data_units),
        ):
            if names is not None and past.sizes[dimension] == len(names):  # no data, no numbers
                past = past.assign_coords({dimension: list(names)})
                past[dimension].attrs |= {} if units is None else {"units": list(units)}
        for variable, (long_name, description) in MEANINGS.items():
            past[variable].attrs |= {"long_name": long_name, "description": description}
        return past


def moment(seconds: Any) -> Any:
    """Times in seconds since 1970, as NumPy has them, in UTC."""
    return (np.asarray(seconds, np.float64) * 1e6).astype("datetime64[us]")


def records(
    reported_rounds: Iterable[Round], constraint_names: list[str], names_at: Callable[[int], list[str]], labels: Labels
) -> Iterator[dict[str, Any]]:
    """The history as a row for each decision that was deployed."""
    for one in reported_rounds:
        asked, observed = one.asked, one.observed
        for place, decision in enumerate(one.decisions):
            row: dict[str, Any] = {
                "deployment": asked.number,
                "t": asked.round,
                "asked": moment(asked.at),
                "told": moment(observed.at),
                "samples": observed.samples.shape[1],
                "decision": place,
                "loss": float(observed.losses[place]),
            }
            for label, values, names in (
                ("theta", decision, labels.decisions),
                ("proposed", asked.decisions[place], labels.decisions),
                ("mean", observed.samples[place].mean(axis=0), labels.data),
            ):  # a price and what was sold at it may have one name
                places = range(len(values)) if names is None else names
                row |= {f"{label}_{name}": value for name, value in zip(places, values.tolist(), strict=True)}
            values = by_name(-one.constraint_values[place], names_at(observed.number), constraint_names, np.nan)
            slack = values.tolist()
            yield row | {f"slack {name}": value for name, value in zip(constraint_names, slack, strict=True)}
