"""Computes a study again from its seed and its samples, and compares every decision and state to the bit."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import jax
import numpy as np

from performative import __version__
from performative.errors import NotReproduced
from performative.study.calls import Calls
from performative.study.records import packed_tree, unpacked
from performative.study.store import Store


class Replay(NamedTuple):
    """What `verify` went through, all of it equal to the bit."""

    events: int
    told: int


def replay(store: Store, calls: Calls) -> Replay:
    """Go through all events that were looked at; `NotReproduced` at the first that comes out otherwise."""
    state = calls.begin()
    current, told, asked = packed_tree(state), 0, np.zeros((0, 0))
    for event in store.events():
        header, arrays = unpacked(event.body)
        if header["kind"] == "ask":
            asked, _ = calls.ask(state, header["attempt"])
            if asked.tobytes() != arrays["decisions"].tobytes():
                raise NotReproduced(_otherwise(store, event.seq, "the decisions", arrays["decisions"], asked))
        elif header["kind"] == "tell":
            state = calls.tell(state, asked, arrays["samples"])
            current, told = packed_tree(state), told + 1
            decision = np.asarray(state.decision)
            if decision.tobytes() != arrays["decision"].tobytes():
                raise NotReproduced(_otherwise(store, event.seq, "the numbers", arrays["decision"], decision))
        if hashlib.sha256(current).digest() != event.state:
            raise NotReproduced(_otherwise(store, event.seq, "the numbers of the state"))
    if current != store.state:
        raise NotReproduced(_otherwise(store, store.count - 1, "the numbers of the snapshot"))
    return Replay(store.count, told)


def _otherwise(store: Store, seq: int, what: str, stored: Any = None, given: Any = None) -> str:
    """What differs, by how much, and whether it is other software that computed it."""
    apart = ""
    if stored is not None:
        same = np.shape(stored) == np.shape(given)
        apart = f", by up to {np.max(np.abs(stored - given)):.3g}" if same else f", of shape {np.shape(given)}"
    origin, _ = unpacked(store.event(0).body)
    then, now = (origin["performative"], origin["jax"]), (__version__, jax.__version__)
    versions = "the study was created with performative {} and jax {}".format(*then)
    if then != now:
        versions += ", this is performative {} and jax {}, which may round otherwise".format(*now)
    return f"{what} of event {seq} must be what the replay gives, but differ{apart}; {versions}"
