"""What happens in a study: one class for each kind of event (create, ask, tell, cancel, note), and how each is stored as bytes.

A record is a JSON header and named arrays (see `records`); the header's `kind` says which class it is. The names of its keys are
those of the first version, so that every file ever written can be read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from performative.errors import StudyError
from performative.numerics.arrays import Floats
from performative.study.records import Arrays, packed, unpacked
from performative.study.renamed import Identity

_PROBED = "probed: "


@dataclass(frozen=True, slots=True, eq=False)
class Created:
    """The study was created. `identity` is the method in values and arrays, by path; its functions were probed at `points`.

    `folder` is where the description `spec` was, if it names files.

    >>> import tempfile, performative as pf
    >>> from performative.losses import Revenue
    >>> method = pf.repeated_gradient(pf.Problem(Revenue(), pf.Box([0.0], [5.0])))
    >>> with tempfile.TemporaryDirectory() as folder, pf.Study.create(f"{folder}/studies.db", "prices", method) as study:
    ...     study.cancel(study.ask(), "the shop was closed")
    ...     study.note("a holiday")
    ...     events = list(study.events())
    >>> isinstance(events[0], pf.study.Created), float(events[0].identity["method.step"])
    (True, 0.005)
    >>> [event.kind for event in events]
    ['create', 'ask', 'cancel', 'note']
    """

    kind: ClassVar[str] = "create"
    number: int
    at: float
    seed: int
    performative: str
    jax: str
    spec: str | None
    identity: Identity
    points: Arrays
    folder: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """`decisions` (b, d) were asked for around θ_t = `decision`; `constraint_values` (b, m) are their g, `multipliers` is λ_t.

    `attempt` counts the canceled deployments of the same round.

    >>> import tempfile, performative as pf
    >>> from performative.losses import Revenue
    >>> method = pf.repeated_gradient(pf.Problem(Revenue(), pf.Box([0.0], [5.0])))
    >>> with tempfile.TemporaryDirectory() as folder, pf.Study.create(f"{folder}/studies.db", "prices", method) as study:
    ...     deployment = study.ask()
    ...     asked = [event for event in study.events() if isinstance(event, pf.study.Asked)]
    >>> asked[0].number == deployment.id, asked[0].round, asked[0].decisions.tolist()
    (True, 1, [[0.0]])
    """

    kind: ClassVar[str] = "ask"
    number: int
    at: float
    round: int
    samples: int
    attempt: int
    decisions: Floats
    constraint_values: Floats
    decision: Floats
    multipliers: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """`samples` (b, n, k) were reported for a deployment, which led to `round`, `decision` and `multipliers`.

    `columns` are the names of the k numbers, if known. The first such event also has the loss at `probes` like the data.

    >>> import tempfile, performative as pf
    >>> from performative.losses import Revenue
    >>> method = pf.repeated_gradient(pf.Problem(Revenue(), pf.Box([0.0], [5.0])))
    >>> with tempfile.TemporaryDirectory() as folder, pf.Study.create(f"{folder}/studies.db", "prices", method) as study:
    ...     told = study.tell(study.ask(), [[[3.0]]])
    ...     observed = [event for event in study.events() if isinstance(event, pf.study.Observed)]
    >>> observed[0].deployment, observed[0].samples.tolist(), observed[0].decision.tolist()
    (1, [[[3.0]]], [0.015])
    """

    kind: ClassVar[str] = "tell"
    number: int
    at: float
    deployment: int
    round: int
    columns: list[str] | None
    samples: Floats
    decision: Floats
    multipliers: Floats
    probes: Floats | None = None
    probe_losses: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Canceled:
    """A deployment could not be carried out.

    >>> import performative as pf
    >>> pf.study.Canceled(number=2, at=0.0, deployment=1, reason="the shop was closed").reason
    'the shop was closed'
    """

    kind: ClassVar[str] = "cancel"
    number: int
    at: float
    deployment: int
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Noted:
    """A note was written into the log.

    >>> import performative as pf
    >>> pf.study.Noted(number=3, at=0.0, text="a holiday").text
    'a holiday'
    """

    kind: ClassVar[str] = "note"
    number: int
    at: float
    text: str


Event = Created | Asked | Observed | Canceled | Noted


def encoded(event: Event) -> bytes:
    """An event as it is stored; its number is its place in the log."""
    return packed(*_parts(event))


def decoded(number: int, body: bytes) -> Event:
    """The event that is stored as `body` at place `number` of the log."""
    header, arrays = unpacked(body)
    if header["kind"] not in _DECODERS:
        raise StudyError(f"event {number} has the unknown kind {header['kind']!r}; was it written by a newer version?")
    return _DECODERS[header["kind"]](number, header, arrays)


def plain(event: Event) -> dict[str, Any]:
    """An event in lists, numbers and strings, under its stored names. The arrays of a `Created` event are left out."""
    header, arrays = _parts(event)
    values = {} if isinstance(event, Created) else {key: array.tolist() for key, array in arrays.items()}
    return {"event": event.number, **header, **values}


def _parts(event: Event) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of an event."""
    header: dict[str, Any] = {"kind": event.kind, "at": event.at}
    arrays: dict[str, Any] = {}
    match event:
        case Asked():
            header |= {"round": event.round, "samples": event.samples, "attempt": event.attempt}
            arrays = {
                "decisions": event.decisions,
                "g": event.constraint_values,
                "decision": event.decision,
                "multipliers": event.multipliers,
            }
        case Observed():
            header |= {"deployment": event.deployment, "round": event.round, "columns": event.columns}
            arrays = {"samples": event.samples, "decision": event.decision, "multipliers": event.multipliers}
            if event.probes is not None:
                arrays |= {"probed": event.probes, "loss": event.probe_losses}
        case Canceled():
            header |= {"deployment": event.deployment, "reason": event.reason}
        case Noted():
            header["text"] = event.text
        case Created():
            values = {path: value for path, value in event.identity.items() if not isinstance(value, np.ndarray)}
            arrays = {path: value for path, value in event.identity.items() if isinstance(value, np.ndarray)}
            arrays |= {_PROBED + name: array for name, array in event.points.items()}
            header |= {"seed": event.seed, "performative": event.performative, "jax": event.jax}
            header |= {"spec": event.spec, "identity": values}
            header |= {} if event.folder is None else {"folder": event.folder}
    return header, arrays


def _created(number: int, header: dict[str, Any], arrays: Arrays) -> Created:
    points = {name.removeprefix(_PROBED): array for name, array in arrays.items() if name.startswith(_PROBED)}
    identity = header["identity"] | {path: array for path, array in arrays.items() if not path.startswith(_PROBED)}
    versions = header["performative"], header["jax"]
    return Created(
        number, header["at"], header["seed"], *versions, header["spec"], identity, points, header.get("folder")
    )


def _asked(number: int, header: dict[str, Any], arrays: Arrays) -> Asked:
    return Asked(
        number,
        header["at"],
        header["round"],
        header["samples"],
        header["attempt"],
        arrays["decisions"],
        arrays["g"],
        arrays["decision"],
        arrays["multipliers"],
    )


def _observed(number: int, header: dict[str, Any], arrays: Arrays) -> Observed:
    return Observed(
        number,
        header["at"],
        header["deployment"],
        header["round"],
        header["columns"],
        arrays["samples"],
        arrays["decision"],
        arrays["multipliers"],
        arrays.get("probed"),
        arrays.get("loss"),
    )


def _canceled(number: int, header: dict[str, Any], _: Arrays) -> Canceled:
    return Canceled(number, header["at"], header["deployment"], header["reason"])


def _noted(number: int, header: dict[str, Any], _: Arrays) -> Noted:
    return Noted(number, header["at"], header["text"])


_DECODERS: dict[str, Callable[[int, dict[str, Any], Arrays], Event]] = {
    Created.kind: _created,
    Asked.kind: _asked,
    Observed.kind: _observed,
    Canceled.kind: _canceled,
    Noted.kind: _noted,
}
