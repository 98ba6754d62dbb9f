"""The log of a study as typed events, and where the study stands after them."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import numpy as np

from performative.study.deployments import Deployment
from performative.study.encoding import asked_or_reported, decoded, encoded
from performative.study.events import (
    FROM_THE_START,
    Amended,
    Approved,
    Asked,
    Basis,
    Canceled,
    Created,
    Declined,
    Event,
    Identity,
    InForce,
    Limits,
    Observed,
    Planned,
    Retracted,
    SoFar,
)
from performative.study.history import Round, rounds
from performative.study.store import Store


class Position(NamedTuple):
    """Where a study stands after this number of `events`.

    `planned` is what the method asked for when it last learned something, and `attempt` that of the next deployment; `width` (how
    many numbers a sample has) and `columns` are None until they are known. `retracted` are the numbers of the reports that were
    taken back, and `limits` what people put on decisions, if they did.
    """

    events: int
    pending: Deployment | None
    planned: Planned
    attempt: int
    so_far: SoFar
    width: int | None
    columns: list[str] | None
    in_force: InForce
    retracted: frozenset[int]
    limits: Limits | None


class Log:
    """The events of a store, up to the last one it has read."""

    def __init__(self, store: Store) -> None:
        self.store = store
        created = self.event(0)
        assert isinstance(created, Created)
        self.created = created
        self._bases: list[Basis] = []
        self._probed: tuple[int, Observed] | None = None

    @property
    def count(self) -> int:
        """How many events there are; the next one gets this number."""
        return self.store.count

    @property
    def constraint_names(self) -> list[str]:
        """The names of the problem's constraints."""
        return names_of(self.current)

    @property
    def current(self) -> Basis:
        """The event that says what the method is."""
        if not self._bases:
            self.position()
        return self._bases[0]

    def basis(self, number: int) -> Basis:
        """The event that says what the method was before event `number`."""
        return next(basis for basis in (self.current, *self._bases) if basis.number < number)

    def names_at(self, number: int) -> list[str]:
        """The names of the constraints before event `number`."""
        return names_of(self.basis(number))

    def method_at(self, number: int) -> int:
        """The number of the event that said what the method was before event `number`."""
        return self.basis(number).number

    def loss_since(self, number: int) -> int:
        """The number of the event since which the loss and the start are what they were before event `number`."""
        bases = (self.current, *self._bases)
        then = self.basis(number)
        for basis in bases[bases.index(then) + 1 :]:
            if not _same_loss(basis.identity, then.identity):
                break
            then = basis
        return then.number

    def all_names(self) -> list[str]:
        """The names of the constraints, and after them those of constraints that were taken away."""
        names = (name for basis in (self.current, *self._bases) for name in names_of(basis))
        return list(dict.fromkeys(names))

    @property
    def dimension(self) -> int:
        """How many numbers a decision has."""
        return int(self.created.planned.decisions.shape[1])

    def append(self, event: Event, state: bytes | None = None) -> None:
        """Store an event; see `Store.append`."""
        self.store.append(encoded(event), state)

    def event(self, number: int) -> Event:
        """The event of this number."""
        return decoded(number, self.store.record(number).body)

    def events(self, first: int = 0) -> Iterator[Event]:
        """The events from number `first` on."""
        return (decoded(record.seq, record.body) for record in self.store.records(first))

    def reported(self, first: int = 0, without: Collection[int] = (), before: int | None = None) -> Iterator[Round]:
        """The deployments reported by events from number `first` on, and `before` a number, except the reports `without`."""
        records = self.store.records(first)
        if before is not None:
            records = itertools.takewhile(lambda record: record.seq < before, records)
        return rounds((asked_or_reported(record.seq, record.body) for record in records), self.asked, without)

    def asked(self, deployment: int) -> Asked:
        """The event that asked for a deployment."""
        event = self.event(deployment)
        assert isinstance(event, Asked)
        return event

    def with_digests(self) -> Iterator[tuple[Event, bytes]]:
        """All events, each with the digest of the state it leaves."""
        return ((decoded(record.seq, record.body), record.state) for record in self.store.records())

    def backward(self) -> Iterator[Event]:
        """The events from the last one to the first."""
        return (decoded(record.seq, record.body) for record in self.store.backward())

    def probed(self) -> Observed | Amended | None:
        """The event that has the loss of the method in force on probes like the data, once there are data."""
        current = self.current
        if isinstance(current, Amended) and current.probes is not None:
            return current
        if self._probed is None or self._probed[0] != current.number:
            told = (event for event in self.events(current.number + 1) if isinstance(event, Observed))
            found = next((event for event in told if event.probes is not None), None)
            self._probed = None if found is None else (current.number, found)
        return None if self._probed is None else self._probed[1]

    def deployment(self, number: int) -> Deployment:
        """A deployment as it is to be carried out, by its number."""
        asked = self.asked(number)
        if asked.proposal:
            for event in self.events(number + 1):
                if isinstance(event, Approved) and event.deployment == number:
                    return Deployment.of(asked, event)
                if isinstance(event, Asked):  # too late to approve this one
                    break
        return Deployment.of(asked)

    def outcome(self, deployment: int, retracted: Collection[int] = ()) -> Observed | Canceled | Declined | None:
        """How a deployment that is no longer open ended; None if its report was taken back, or if it was withdrawn."""
        for event in self.events(deployment + 1):
            if (
                isinstance(event, Observed | Canceled | Declined)
                and event.deployment == deployment
                and event.number not in retracted
            ):
                return event
        return None

    def retraction(self, deployment: int) -> Retracted | None:
        """The last event that took back the report of a deployment."""
        taken_back = (event for event in self.backward() if isinstance(event, Retracted))
        return next((event for event in taken_back if event.deployment == deployment), None)

    def position(self) -> Position:
        """Where the study stands."""
        learned: Basis | Observed | Retracted | None = None
        latest: Asked | Created | None = None
        ended: dict[int, Observed | Canceled | Declined] = {}
        approved: dict[int, Approved] = {}
        limiting = 0
        for event in self.backward():
            if isinstance(event, Observed | Canceled | Declined):
                ended[event.deployment] = event
            if isinstance(event, Approved):
                approved[event.deployment] = event
            if isinstance(event, Declined) and event.limits is not None and learned is None:
                limiting = limiting or event.number
            if learned is None and isinstance(event, Basis | Observed | Retracted):
                learned = event
            if latest is None and isinstance(event, Asked | Created):
                latest = event
            if learned is not None and latest is not None:
                break
        assert learned is not None
        self._know(0 if isinstance(learned, Created) else learned.in_force.method)
        pending, attempt = None, 0
        if isinstance(latest, Asked):
            end = ended.get(latest.number)
            pending = Deployment.of(latest, approved.get(latest.number)) if end is None else None
            current = latest.number > learned.number
            if pending is not None and not pending.approved and not current:  # proposed before more was known
                pending = None
            basis = self.current
            if (
                pending is not None
                and isinstance(basis, Amended)
                and basis.number > pending.id
                and basis.open is not None
            ):
                pending = pending.under(learned.planned, basis.open)
            attempt = 1 + latest.attempt if isinstance(end, Canceled | Declined) and current else 0
        if isinstance(learned, Created):
            so_far, width, columns, in_force = SoFar.nothing(len(self.constraint_names)), None, None, FROM_THE_START
        else:
            so_far, columns, in_force = learned.so_far, learned.columns, learned.in_force
            width = learned.samples.shape[2] if isinstance(learned, Observed) else learned.width
        in_force = in_force._replace(limits=limiting or in_force.limits)
        retracted, limits = self.retracted(in_force.retracted), self.limits(in_force.limits)
        return Position(
            self.count, pending, learned.planned, attempt, so_far, width, columns, in_force, retracted, limits
        )

    def limits(self, last: int) -> Limits | None:
        """What the `last` event that set limits put on decisions; 0 if there is none."""
        event = self.event(last) if last else None
        return event.limits if isinstance(event, Declined | Amended) else None

    def _know(self, number: int) -> None:
        """Remember the event that says what the method is, and all such events before it."""
        if self._bases and self._bases[0].number == number:
            return
        bases = []
        while number:
            event = self.event(number)
            assert isinstance(event, Amended)
            bases.append(event)
            number = event.before
        self._bases = [*bases, self.created]

    def retracted(self, last: int) -> frozenset[int]:
        """The reports that were taken back up to the `last` such event; 0 if there is none."""
        event = self.event(last) if last else None
        return frozenset(event.reports.tolist()) if isinstance(event, Retracted) else frozenset()


def names_of(basis: Basis) -> list[str]:
    """The names of the constraints of a method."""
    names = basis.identity["constraints"]
    assert isinstance(names, list)
    return names


def _same_loss(one: Identity, other: Identity) -> bool:
    """Whether two methods have the same loss, as far as it was probed, and the same start."""

    def of_loss(identity: Identity) -> dict[str, Any]:
        parts = ("method.problem.loss", "loss(", "method.start")
        return {path: value for path, value in identity.items() if path.startswith(parts)}

    mine, theirs = of_loss(one), of_loss(other)
    return mine.keys() == theirs.keys() and all(np.array_equal(value, theirs[path]) for path, value in mine.items())
