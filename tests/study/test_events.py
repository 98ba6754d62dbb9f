"""Events: typed, and stored under fixed names."""

import dataclasses
import json

import numpy as np
import pytest

from performative.errors import StudyError
from performative.study.encoding import decoded, encoded, plain
from performative.study.events import (
    Actual,
    Amended,
    Approved,
    Asked,
    Canceled,
    Created,
    Declined,
    InForce,
    Limits,
    Noted,
    Observed,
    Planned,
    Retracted,
    SoFar,
)
from performative.study.labels import Labels
from performative.study.records import packed, unpacked

PAIR, ONE = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0.5])
IDENTITY = {"method": "PrimalDual", "method.start": None, "method.step": np.asarray(0.25), "constraints": ["cap"]}
NAMED = Labels(("milk", "bread"), None, ("EUR", "EUR"), None)
POINTS = {"decisions": PAIR, "samples 2": PAIR}
PLANNED = Planned(4, 20, True, PAIR, PAIR[:, :1], PAIR[0], ONE)
REASONED = dataclasses.replace(PLANNED, draws=False, reasons={"gain": np.asarray(0.5), "held": np.asarray(True)})
OWN = {"gain": np.asarray(0.5), "decision": PAIR[0], "multipliers": 2.0 * ONE, "planned": PAIR}
"""Reasons of which two are parts of the plan."""
FAR = SoFar(2, ONE, np.array([1]), np.array([3]))
EVENTS = {
    "create": Created(0, 1.5, 7, "0.1.0", "0.4", "name = 1", IDENTITY, POINTS, PLANNED, "abc", "shop", NAMED),
    "ask": Asked(1, 2.5, 3, 20, 1, PAIR, PAIR[:, :1], PAIR[0], ONE),
    "first tell": Observed(2, 3.5, 1, ["a", "b"], PAIR[:, None], ONE, PLANNED, FAR, PAIR, PAIR),
    "tell": Observed(3, 3.5, 1, None, PAIR[:, None], ONE, REASONED, FAR),
    "tell with a plan's own numbers": Observed(
        3, 3.5, 1, None, PAIR[:, None], ONE, dataclasses.replace(PLANNED, reasons=OWN), FAR
    ),
    "retract": Retracted(4, 4.5, 1, 3, "a typo", "Ada", np.array([3]), None, 2, PLANNED, FAR, InForce(retracted=4)),
    "tell after": Observed(6, 3.5, 5, None, PAIR[:, None], ONE, REASONED, FAR, in_force=InForce(retracted=4)),
    "tell of other decisions": Observed(
        3, 3.5, 1, None, PAIR[:, None], ONE, REASONED, FAR, actual=Actual(PAIR + 0.5, PAIR[:, :1], np.array([0.0, 1.0]))
    ),
    "create with approval": Created(
        0, 1.5, 7, "0.1.0", "0.4", "name = 1", IDENTITY, POINTS, PLANNED, "abc", None, approval=True
    ),
    "proposal": Asked(1, 2.5, 3, 20, 1, PAIR, PAIR[:, :1], PAIR[0], ONE, proposal=True),
    "approve": Approved(2, 3.5, 1, "Ada"),
    "approve edited": Approved(2, 3.5, 1, "Ada", Actual(PAIR + 0.5, PAIR[:, :1], np.zeros(2))),
    "decline": Declined(2, 3.5, 1, "too dear", "Ada"),
    "decline with bounds": Declined(2, 3.5, 1, "too dear", "Ada", Limits(-ONE, ONE, 0.0 * ONE)),
    "amend": Amended(
        9,
        4.5,
        "costs",
        "Ada",
        0,
        "0.1.0",
        "0.4",
        None,
        IDENTITY,
        POINTS,
        PLANNED,
        "abc",
        FAR,
        ["a", "b"],
        2,
        InForce(method=9, retracted=4),
        probes=PAIR,
        probe_losses=PAIR,
        open=Actual(PAIR, PAIR[:, :1], np.zeros(2)),
        limits=Limits(-ONE, ONE, 0.0 * ONE),
        labels=NAMED,
    ),
    "amend without data": Amended(
        2,
        4.5,
        "costs",
        "Ada",
        0,
        "0.1.0",
        "0.4",
        "name = 1",
        IDENTITY,
        POINTS,
        PLANNED,
        "abc",
        FAR,
        None,
        None,
        InForce(method=2),
        "shop",
        True,
    ),
    "confirmed tell": Observed(3, 3.5, 1, None, PAIR[:, None], ONE, PLANNED, FAR, confirmed=("milk: 9e9",)),
    "cancel": Canceled(4, 4.5, 3, "a holiday"),
    "note": Noted(5, 5.5, "snow"),
}
NEXT = ["next.decisions", "next.g", "next.decision", "next.multipliers"]
SUMS = ["so far.least", "so far.violated", "so far.worst"]
TOLD = ["samples", "losses", *SUMS]
WITHOUT_NAMES = Labels().plain()
STORED = {
    "create": (
        {
            "kind": "create", "at": 1.5, "seed": 7, "performative": "0.1.0", "jax": "0.4", "spec": "name = 1",
            "folder": "shop", "library": "abc",
            "identity": {"method": "PrimalDual", "method.start": None, "constraints": ["cap"]},
            "labels": {"decisions": ["milk", "bread"], "data": None, "decision_units": ["EUR", "EUR"], "data_units": None},
            "next": {"round": 4, "samples": 20, "draws": True},
        },
        ["method.step", "probed: decisions", "probed: samples 2", *NEXT],
    ),
    "ask": ({"kind": "ask", "at": 2.5, "round": 3, "samples": 20, "attempt": 1}, ["decisions", "g", "decision", "multipliers"]),
    "first tell": (
        {
            "kind": "tell", "at": 3.5, "deployment": 1, "columns": ["a", "b"], "told": 2,
            "next": {"round": 4, "samples": 20, "draws": True},
        },
        [*TOLD, "probed", "loss", *NEXT],
    ),
    "tell": (
        {
            "kind": "tell", "at": 3.5, "deployment": 1, "columns": None, "told": 2,
            "next": {"round": 4, "samples": 20, "draws": False},
        },
        [*TOLD, *NEXT, "next.why.gain", "next.why.held"],
    ),
    "tell with a plan's own numbers": (
        {
            "kind": "tell", "at": 3.5, "deployment": 1, "columns": None, "told": 2,
            "next": {"round": 4, "samples": 20, "draws": True, "repeated": ["decision", "planned"]},
        },
        [*TOLD, *NEXT, "next.why.gain", "next.why.multipliers"],
    ),
    "retract": (
        {
            "kind": "retract", "at": 4.5, "deployment": 1, "report": 3, "reason": "a typo", "by": "Ada", "columns": None,
            "width": 2, "told": 2, "in force": {"retracted": 4}, "next": {"round": 4, "samples": 20, "draws": True},
        },
        ["reports", *SUMS, *NEXT],
    ),
    "tell after": (
        {
            "kind": "tell", "at": 3.5, "deployment": 5, "columns": None, "told": 2, "in force": {"retracted": 4},
            "next": {"round": 4, "samples": 20, "draws": False},
        },
        [*TOLD, *NEXT, "next.why.gain", "next.why.held"],
    ),
    "tell of other decisions": (
        {
            "kind": "tell", "at": 3.5, "deployment": 1, "columns": None, "told": 2,
            "next": {"round": 4, "samples": 20, "draws": False},
        },
        [*TOLD, "actual.decisions", "actual.constraint_values", "actual.outside", *NEXT, "next.why.gain", "next.why.held"],
    ),
    "create with approval": (
        {
            "kind": "create", "at": 1.5, "seed": 7, "performative": "0.1.0", "jax": "0.4", "spec": "name = 1",
            "folder": None, "library": "abc",
            "identity": {"method": "PrimalDual", "method.start": None, "constraints": ["cap"]},
            "labels": WITHOUT_NAMES, "approval": True,
            "next": {"round": 4, "samples": 20, "draws": True},
        },
        ["method.step", "probed: decisions", "probed: samples 2", *NEXT],
    ),
    "proposal": (
        {"kind": "ask", "at": 2.5, "round": 3, "samples": 20, "attempt": 1, "proposal": True},
        ["decisions", "g", "decision", "multipliers"],
    ),
    "approve": ({"kind": "approve", "at": 3.5, "deployment": 1, "by": "Ada"}, []),
    "approve edited": (
        {"kind": "approve", "at": 3.5, "deployment": 1, "by": "Ada"},
        ["edited.decisions", "edited.constraint_values", "edited.outside"],
    ),
    "decline": ({"kind": "decline", "at": 3.5, "deployment": 1, "reason": "too dear", "by": "Ada"}, []),
    "decline with bounds": (
        {"kind": "decline", "at": 3.5, "deployment": 1, "reason": "too dear", "by": "Ada"},
        ["limits.lower", "limits.upper", "limits.anchor"],
    ),
    "amend": (
        {
            "kind": "amend", "at": 4.5, "reason": "costs", "by": "Ada", "before": 0, "width": 2, "columns": ["a", "b"], "told": 2,
            "performative": "0.1.0", "jax": "0.4", "spec": None, "folder": None, "library": "abc",
            "identity": {"method": "PrimalDual", "method.start": None, "constraints": ["cap"]}, "labels": NAMED.plain(),
            "in force": {"method": 9, "retracted": 4}, "next": {"round": 4, "samples": 20, "draws": True},
        },
        [
            *SUMS, "open.decisions", "open.constraint_values", "open.outside", "limits.lower", "limits.upper", "limits.anchor",
            "probed", "loss", "method.step", "probed: decisions", "probed: samples 2", *NEXT,
        ],
    ),
    "amend without data": (
        {
            "kind": "amend", "at": 4.5, "reason": "costs", "by": "Ada", "before": 0, "width": None, "columns": None, "told": 2,
            "performative": "0.1.0", "jax": "0.4", "spec": "name = 1", "folder": "shop", "library": "abc",
            "identity": {"method": "PrimalDual", "method.start": None, "constraints": ["cap"]},
            "labels": WITHOUT_NAMES, "approval": True,
            "in force": {"method": 2}, "next": {"round": 4, "samples": 20, "draws": True},
        },
        [*SUMS, "method.step", "probed: decisions", "probed: samples 2", *NEXT],
    ),
    "confirmed tell": (
        {
            "kind": "tell", "at": 3.5, "deployment": 1, "columns": None, "told": 2, "confirmed": ["milk: 9e9"],
            "next": {"round": 4, "samples": 20, "draws": True},
        },
        [*TOLD, *NEXT],
    ),
    "cancel": ({"kind": "cancel", "at": 4.5, "deployment": 3, "reason": "a holiday"}, []),
    "note": ({"kind": "note", "at": 5.5, "text": "snow"}, []),
}  # fmt: skip


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_is_stored_under_its_names(name):
    header, arrays = unpacked(encoded(EVENTS[name]))
    expected, names = STORED[name]
    assert json.dumps(header) == json.dumps(expected)  # in this order
    assert list(arrays) == names


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_comes_back_from_its_bytes(name):
    event = EVENTS[name]
    again = decoded(event.number, encoded(event))
    assert type(again) is type(event)
    assert encoded(again) == encoded(event)
    np.testing.assert_equal(dataclasses.asdict(again), dataclasses.asdict(event))


def test_an_event_of_an_unknown_kind_is_refused():
    body = packed({"kind": "undo", "at": 1.0}, {})
    with pytest.raises(StudyError, match=r"event 7 has the unknown kind 'undo'; was it written by a newer version\?"):
        decoded(7, body)


def test_an_event_in_plain_values_is_json_without_the_arrays_of_the_first():
    assert json.loads(json.dumps(plain(EVENTS["tell"])))["samples"] == PAIR[:, None].tolist()
    assert plain(EVENTS["create"]) == {"event": 0, **STORED["create"][0]}


def test_events_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        EVENTS["note"].text = "rain"
