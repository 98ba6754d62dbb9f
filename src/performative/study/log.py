"""The log of a study as typed events, and where the study stands after them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from performative.study.deployments import Deployment
from performative.study.events import (
    Asked,
    Canceled,
    Created,
    Event,
    Noted,
    Observed,
    Planned,
    Signed,
    SoFar,
    asked_or_reported,
    decoded,
    encoded,
)
from performative.study.history import Round, rounds
from performative.study.store import Store


class Position(NamedTuple):
    """Where a study stands after this number of `events`.

    `planned` is what the method asked for when it last learned something, and `attempt` that of the next deployment; `width` (how
    many numbers a sample has) and `columns` are None until they are known.
    """

    events: int
    pending: Deployment | None
    planned: Planned
    attempt: int
    so_far: SoFar
    width: int | None
    columns: list[str] | None


class Log:
    """The events of a store, up to the last one it has read."""

    def __init__(self, store: Store) -> None:
        self.store = store
        created = self.event(0)
        assert isinstance(created, Created)
        self.created = created
        self._first: Observed | None = None

    @property
    def count(self) -> int:
        """How many events there are; the next one gets this number."""
        return self.store.count

    @property
    def constraint_names(self) -> list[str]:
        """The names of the problem's constraints."""
        names = self.created.identity["constraints"]
        assert isinstance(names, list)
        return names

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

    def reported(self, first: int = 0) -> Iterator[Round]:
        """The deployments that were asked for from number `first` on, and reported."""
        return rounds(asked_or_reported(record.seq, record.body) for record in self.store.records(first))

    def with_digests(self) -> Iterator[tuple[Event, bytes]]:
        """All events, each with the digest of the state it leaves."""
        return ((decoded(record.seq, record.body), record.state) for record in self.store.records())

    def backward(self) -> Iterator[Event]:
        """The events from the last one to the first."""
        return (decoded(record.seq, record.body) for record in self.store.backward())

    def first_observed(self) -> Observed | None:
        """The first event that brought samples, if there is one."""
        if self._first is None:
            self._first = next((event for event in self.events(1) if isinstance(event, Observed)), None)
        return self._first

    def outcome(self, deployment: int) -> Observed | Canceled:
        """How a deployment that is no longer open ended."""
        for event in self.events(deployment + 1):
            if isinstance(event, Observed | Canceled) and event.deployment == deployment:
                return event
        raise AssertionError(deployment)

    def position(self) -> Position:
        """Where the study stands."""
        latest: Event | None = None
        for event in self.backward():
            if latest is None and not isinstance(event, Noted | Signed):
                latest = event
            if isinstance(event, Observed | Created):
                break
        pending = Deployment.of(latest) if isinstance(latest, Asked) else None
        attempt = 1 + self._attempt(latest.deployment) if isinstance(latest, Canceled) else 0
        if isinstance(event, Observed):
            width = event.samples.shape[2]
            return Position(self.count, pending, event.planned, attempt, event.so_far, width, event.columns)
        assert isinstance(event, Created)
        nothing = SoFar.nothing(len(self.constraint_names))
        return Position(self.count, pending, event.planned, attempt, nothing, None, None)

    def _attempt(self, deployment: int) -> int:
        event = self.event(deployment)
        assert isinstance(event, Asked)
        return event.attempt
