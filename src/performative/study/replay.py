"""Computes a study again from its seed and its samples, and compares every decision and state bit for bit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from performative import __version__
from performative.errors import NotReproduced
from performative.methods.protocol import MethodState
from performative.numerics.arrays import Floats
from performative.study.calls import Calls
from performative.study.deployments import Replay
from performative.study.events import (
    Actual,
    Amended,
    Approved,
    Asked,
    Basis,
    Created,
    Declined,
    Limits,
    Observed,
    Planned,
    Retracted,
    SoFar,
)
from performative.study.history import Round
from performative.study.log import Log, names_of
from performative.study.relearning import relearned, sums, with_report
from performative.study.states import packed_state


class _Place(NamedTuple):
    """Where a method stands in the replay."""

    calls: Calls
    state: MethodState
    planned: Planned
    packed: bytes


def replay(log: Log, calls_of: Callable[[Basis], Calls | str]) -> Replay:
    """Go through all events; `NotReproduced` at the first that comes out differently.

    `calls_of` gives the calls of the method that an event says, or why it is not at hand.
    """
    begun = calls_of(log.created)
    place, unreplayed, because = _begun(begun), 0, list[str]()
    names, so_far = names_of(log.created), SoFar.nothing(len(names_of(log.created)))
    asked: Asked | None = None
    basis = 0
    retracted: frozenset[int] = frozenset()
    limits: Limits | None = None
    for event, digest in log.with_digests():
        if isinstance(event, Asked):
            asked = event
            if place is not None:
                _require_asked(log, place, event, limits)
        elif isinstance(event, Approved):
            _require_measured(log, place, event.number, event.edited)
        elif isinstance(event, Declined):
            limits = event.limits or limits
        elif isinstance(event, Observed):
            if asked is None or asked.number != event.deployment:  # reported before, and taken back
                asked = log.asked(event.deployment)
            one = Round(asked, event)
            so_far = with_report(so_far, names, one, names)
            if place is not None:
                place, losses = _told(place, one)
                _require_same(log, event.number, "the losses", event.losses, losses)
            _require_measured(log, place, event.number, event.actual)
        elif isinstance(event, Retracted | Amended):
            if isinstance(event, Retracted):
                retracted |= {event.told}
                _require_same(log, event.number, "the reports", event.reports, np.array(sorted(retracted), np.int64))
            else:
                if isinstance(begun, str):
                    because.append(f"events {basis} to {event.number - 1}: {begun}")
                begun, basis = calls_of(event), event.number
                place, names, limits = _begun(begun), names_of(event), event.limits
            left = log.reported(without=retracted, before=event.number)
            named = ((one, log.names_at(one.observed.number)) for one in left)
            if place is None:
                so_far = sums(names, named)
            else:
                state, planned, so_far, _ = relearned(place.calls, names, named)
                place = _Place(place.calls, state, planned, packed_state(state))
            if isinstance(event, Amended):
                _require_measured(log, place, event.number, event.open)
        if isinstance(event, Observed | Retracted | Amended):
            _require_sums(log, event.number, event.so_far, so_far)
        if place is None:
            unreplayed += 1
            continue
        if isinstance(event, Created | Observed | Retracted | Amended):
            _require_planned(log, event.number, event.planned, place.planned)
        if hashlib.sha256(place.packed).digest() != digest:
            raise NotReproduced(_difference(log, event.number, "the numbers of the state"))
    if place is not None and place.packed != log.store.state:
        raise NotReproduced(_difference(log, log.count - 1, "the numbers of the snapshot"))
    return Replay(log.count, so_far.told, unreplayed, tuple(because))


def _begun(calls: Calls | str) -> _Place | None:
    if isinstance(calls, str):
        return None
    state = calls.begin()
    return _Place(calls, state, calls.ask(state, 0), packed_state(state))


def _told(place: _Place, one: Round) -> tuple[_Place, Floats]:
    state, planned, (losses, _), _ = place.calls.tell(place.state, one.decisions, np.asarray(one.observed.samples))
    return _Place(place.calls, state, planned, packed_state(state)), losses


def _require_asked(log: Log, place: _Place, event: Asked, limits: Limits | None) -> None:
    planned = place.planned
    now = place.calls.ask(place.state, event.attempt) if event.attempt and planned.draws else planned
    decisions, values = now.decisions, now.constraint_values
    if limits is not None and not limits.met_by(decisions):
        decisions, values = place.calls.within(limits, decisions)
    _require_same(log, event.number, "the decisions", event.decisions, decisions)
    _require_same(log, event.number, "the constraints' values", event.constraint_values, values)


def _require_measured(log: Log, place: _Place | None, number: int, stored: Actual | None) -> None:
    if stored is not None and place is not None:
        computed = place.calls.measured(stored.decisions)
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
