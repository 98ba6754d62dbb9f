"""Events: typed, and stored as the same bytes as ever."""

import dataclasses
import json

import numpy as np
import pytest

from performative.errors import StudyError
from performative.study.events import Asked, Canceled, Created, Noted, Observed, decoded, encoded, plain
from performative.study.records import packed, unpacked

PAIR, ONE = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0.5])
IDENTITY = {"method": "PrimalDual", "method.start": None, "method.step": np.asarray(0.25), "constraints": ["cap"]}
EVENTS = {
    "create": Created(0, 1.5, 7, "0.1.0", "0.4", "name = 1", IDENTITY, {"decisions": PAIR, "samples 2": PAIR}),
    "ask": Asked(1, 2.5, 3, 20, 1, PAIR, PAIR[:, :1], PAIR[0], ONE),
    "first tell": Observed(2, 3.5, 1, 4, ["a", "b"], PAIR[:, None], PAIR[1], ONE, PAIR, PAIR),
    "tell": Observed(3, 3.5, 1, 4, None, PAIR[:, None], PAIR[1], ONE),
    "cancel": Canceled(4, 4.5, 3, "a holiday"),
    "note": Noted(5, 5.5, "snow"),
}
STORED = {
    "create": (
        {
            "kind": "create", "at": 1.5, "seed": 7, "performative": "0.1.0", "jax": "0.4", "spec": "name = 1",
            "identity": {"method": "PrimalDual", "method.start": None, "constraints": ["cap"]},
        },
        ["method.step", "probed: decisions", "probed: samples 2"],
    ),
    "ask": ({"kind": "ask", "at": 2.5, "round": 3, "samples": 20, "attempt": 1}, ["decisions", "g", "decision", "multipliers"]),
    "first tell": (
        {"kind": "tell", "at": 3.5, "deployment": 1, "round": 4, "columns": ["a", "b"]},
        ["samples", "decision", "multipliers", "probed", "loss"],
    ),
    "tell": ({"kind": "tell", "at": 3.5, "deployment": 1, "round": 4, "columns": None}, ["samples", "decision", "multipliers"]),
    "cancel": ({"kind": "cancel", "at": 4.5, "deployment": 3, "reason": "a holiday"}, []),
    "note": ({"kind": "note", "at": 5.5, "text": "snow"}, []),
}  # fmt: skip


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_is_stored_under_the_names_of_the_first_version(name):
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
    for field in dataclasses.fields(event):
        np.testing.assert_equal(getattr(again, field.name), getattr(event, field.name))


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
