"""Computes a study again from its seed and its samples, and compares every decision and state bit for bit."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import jax
import numpy as np

from performative import __version__
from performative.errors import NotReproduced
from performative.numerics.arrays import Floats
from performative.study.calls import Calls
from performative.study.events import Asked, Observed
from performative.study.log import Log
from performative.study.records import packed_tree


class Replay(NamedTuple):
    """What `verify` replayed: how many events, and how many reports among them.

    >>> print(Replay(events=4, told=1))
    Replay(events=4, told=1)
    """

    events: int
    told: int


def replay(log: Log, calls: Calls) -> Replay:
    """Go through all events; `NotReproduced` at the first that comes out differently."""
    state = calls.begin()
    current, tells, decisions = packed_tree(state), 0, np.zeros((0, 0))
    for event, digest in log.with_digests():
        if isinstance(event, Asked):
            decisions, _ = calls.ask(state, event.attempt)
            if decisions.tobytes() != event.decisions.tobytes():
                raise NotReproduced(_difference(log, event.number, "the decisions", event.decisions, decisions))
        elif isinstance(event, Observed):
            state = calls.tell(state, decisions, event.samples)
            current, tells = packed_tree(state), tells + 1
            decision = np.asarray(state.decision)
            if decision.tobytes() != event.decision.tobytes():
                raise NotReproduced(_difference(log, event.number, "the numbers", event.decision, decision))
        if hashlib.sha256(current).digest() != digest:
            raise NotReproduced(_difference(log, event.number, "the numbers of the state"))
    if current != log.store.state:
        raise NotReproduced(_difference(log, log.count - 1, "the numbers of the snapshot"))
    return Replay(log.count, tells)


def _difference(log: Log, number: int, what: str, stored: Floats | None = None, computed: Floats | None = None) -> str:
    """What differs, by how much, and whether other software computed it."""
    apart = ""
    if stored is not None and computed is not None:
        same = stored.shape == computed.shape
        apart = f", by up to {np.max(np.abs(stored - computed)):.3g}" if same else f", in shape {computed.shape}"
    then, now = (log.created.performative, log.created.jax), (__version__, jax.__version__)
    versions = "the study was created with performative {} and jax {}".format(*then)
    if then != now:
        versions += "; this is performative {} and jax {}, which may round differently".format(*now)
    return f"{what} of event {number} differ from the replay{apart}; {versions}"
