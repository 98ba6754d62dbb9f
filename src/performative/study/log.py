"""The log of a study as typed events, and where the study stands after them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from performative.errors import StudyError
from performative.methods.protocol import MethodState
from performative.numerics.precision import in_float64
from performative.study.calls import Calls
from performative.study.deployments import Deployment
from performative.study.events import Asked, Canceled, Created, Event, Noted, Observed, decoded, encoded
from performative.study.records import leaf_names, unpacked, unpacked_tree
from performative.study.store import Store


class Position(NamedTuple):
    """Where a study stands after this number of `events`.

    `attempt` is that of the next deployment; `width` (how many numbers a sample has) and `columns` are None until they are known.
    """

    events: int
    state: MethodState
    pending: Deployment | None
    attempt: int
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
        self._like: MethodState | None = None

    @property
    def count(self) -> int:
        """How many events there are; the next one gets this number."""
        return self.store.count

    def append(self, event: Event, state: bytes | None = None) -> None:
        """Store an event; see `Store.append`."""
        self.store.append(encoded(event), state)

    def event(self, number: int) -> Event:
        """The event of this number."""
        return decoded(number, self.store.record(number).body)

    def events(self, first: int = 0) -> Iterator[Event]:
        """The events from number `first` on."""
        return (decoded(record.seq, record.body) for record in self.store.records(first))

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

    @in_float64
    def position(self, calls: Calls) -> Position:
        """Where the study stands, `calls` being those of its method."""
        first = self.first_observed()
        width = None if first is None else first.samples.shape[2]
        state: MethodState = unpacked_tree(self.store.state, self._structure(calls))
        latest: Event | None = None
        columns = None
        for event in self.backward():
            if latest is None and not isinstance(event, Noted):
                latest = event
            if isinstance(event, Observed):
                columns = event.columns
                break
            if latest is not None and width is None:
                break
        pending = Deployment.of(latest) if isinstance(latest, Asked) else None
        attempt = 1 + self._attempt(latest.deployment) if isinstance(latest, Canceled) else 0
        return Position(self.count, state, pending, attempt, width, columns)

    def _attempt(self, deployment: int) -> int:
        event = self.event(deployment)
        assert isinstance(event, Asked)
        return event.attempt

    def _structure(self, calls: Calls) -> MethodState:
        """A state with the structure of the stored one: that of the first state in the log that has its leaves."""
        names = list(unpacked(self.store.state)[1])
        if self._like is not None and leaf_names(self._like) == names:
            return self._like
        like = calls.begin()
        if leaf_names(like) != names:
            decisions = np.zeros((0, 0))
            for event in self.events():
                if isinstance(event, Asked):
                    decisions = event.decisions
                elif isinstance(event, Observed):
                    like = calls.shape_after(like, decisions, event.samples)
                    if leaf_names(like) == names:
                        break
            else:
                parts = sorted(set(names) ^ set(leaf_names(like)))
                raise StudyError(
                    f"the stored state has other parts than this version's ({', '.join(parts)}): another version of performative "
                    "wrote it; export the data with that version, and give them to a new study as `history`"
                )
        self._like = like
        return like
