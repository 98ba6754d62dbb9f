"""Computes a study again from its seed and its samples, and compares every decision and state bit for bit."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from performative import __version__
from performative.errors import NotReproduced
from performative.study.events import (
    Actual,
    Approved,
    Asked,
    Created,
    Declined,
    Limits,
    Observed,
    Planned,
    Retracted,
    SoFar,
)
from performative.study.history import Round

if TYPE_CHECKING:
    from performative.study.calls import Calls
    from performative.study.log import Log


class Replay(NamedTuple):
    """What `verify` replayed: how many events, and how many reports among them count.

    >>> print(Replay(events=4, told=1))
    Replay(events=4, told=1)
    """

    events: int
    told: int


def replay(log: Log, calls: Calls) -> Replay:
    """Go through all events; `NotReproduced` at the first that comes out differently."""
    from performative.study.relearning import relearned
    from performative.study.states import packed_state

    state = calls.begin()
    planned, asked = calls.ask(state, 0), None
    current, so_far = packed_state(state), SoFar.nothing(len(log.constraint_names))
    retracted: frozenset[int] = frozenset()
    limits: Limits | None = None
    for event, digest in log.with_digests():
        if isinstance(event, Created):
            _require_planned(log, event.number, event.planned, planned)
        elif isinstance(event, Asked):
            now = calls.ask(state, event.attempt) if event.attempt and planned.draws else planned
            decisions, values = now.decisions, now.constraint_values
            if limits is not None and not limits.met_by(decisions):
                decisions, values = calls.within(limits, decisions)
            _require_same(log, event.number, "the decisions", event.decisions, decisions)
            _require_same(log, event.number, "the constraints' values", event.constraint_values, values)
            asked = event
        elif isinstance(event, Approved):
            _require_measured(log, calls, event.number, event.edited)
        elif isinstance(event, Declined):
            limits = event.limits or limits
        elif isinstance(event, Observed):
            if asked is None or asked.number != event.deployment:  # reported before, and taken back
                asked = log.asked(event.deployment)
            one = Round(asked, event)
            state, planned, losses, _ = calls.tell(state, one.decisions, event.samples)
            current, so_far = packed_state(state), so_far.after(asked.number, one.constraint_values)
            _require_measured(log, calls, event.number, event.actual)
            _require_planned(log, event.number, event.planned, planned)
            _require_same(log, event.number, "the losses", event.losses, losses)
            _require_sums(log, event.number, event.so_far, so_far)
        elif isinstance(event, Retracted):
            retracted |= {event.told}
            _require_same(log, event.number, "the reports", event.reports, np.array(sorted(retracted), np.int64))
            left = log.reported(without=retracted, before=event.number)
            state, planned, so_far, _ = relearned(calls, len(log.constraint_names), left)
            current = packed_state(state)
            _require_planned(log, event.number, event.planned, planned)
            _require_sums(log, event.number, event.so_far, so_far)
        if hashlib.sha256(current).digest() != digest:
            raise NotReproduced(_difference(log, event.number, "the numbers of the state"))
    if current != log.store.state:
        raise NotReproduced(_difference(log, log.count - 1, "the numbers of the snapshot"))
    return Replay(log.count, so_far.told)


def _require_measured(log: Log, calls: Calls, number: int, stored: Actual | None) -> None:
    if stored is not None:
        computed = calls.measured(stored.decisions)
        _require_same(log, number, "the constraints' values", stored.constraint_values, computed.constraint_values)
        _require_same(log, number, "the distances from the set", stored.outside, computed.outside)


def _require_sums(log: Log, number: int, stored: SoFar, computed: SoFar) -> None:
    for name in ("told", "least", "violated", "worst"):
        one, other = (np.asarray(getattr(part, name)) for part in (stored, computed))
        _require_same(log, number, "the sums", one, other)


def _require_planned(log: Log, number: int, stored: Planned, computed: Planned) -> None:
    _require_same(log, number, "the numbers", stored.decision, computed.decision)
    _require_same(log, number, "the decisions", stored.decisions, computed.decisions)
    _require_same(log, number, "the constraints' values", stored.constraint_values, computed.constraint_values)
    reasons = computed.reasons or {}
    for name, part in (stored.reasons or {}).items():
        _require_same(log, number, "the reasons", part, reasons.get(name, np.zeros(0)))


def _require_same(log: Log, number: int, what: str, stored: NDArray[Any], computed: NDArray[Any]) -> None:
    if stored.tobytes() != computed.tobytes():
        raise NotReproduced(_difference(log, number, what, stored, computed))


def _difference(
    log: Log, number: int, what: str, stored: NDArray[Any] | None = None, computed: NDArray[Any] | None = None
) -> str:
    """What differs, by how much, and whether other software computed it."""
    import jax

    apart = ""
    if stored is not None and computed is not None:
        same = stored.shape == computed.shape
        apart = f", by up to {np.max(np.abs(stored - computed)):.3g}" if same else f", in shape {computed.shape}"
    then, now = (log.created.performative, log.created.jax), (__version__, jax.__version__)
    versions = "the study was created with performative {} and jax {}".format(*then)
    if then != now:
        versions += "; this is performative {} and jax {}, which may round differently".format(*now)
    return f"{what} of event {number} differ from the replay{apart}; {versions}"
