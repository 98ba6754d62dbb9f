"""How events are stored as bytes: a JSON header, whose `kind` says which class it is, and named arrays (see `records`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from performative.errors import StudyError
from performative.study.events import (
    Actual,
    Amended,
    Approved,
    Asked,
    Basis,
    Canceled,
    Created,
    Declined,
    Event,
    InForce,
    Limits,
    Noted,
    Observed,
    Planned,
    Report,
    Retracted,
    Signed,
    SoFar,
)
from performative.study.labels import Labels
from performative.study.records import Arrays, Packed, packed, unpacked

_PROBED, _NEXT, _WHY, _SO_FAR = "probed: ", "next.", "why.", "so far."
_ACTUAL, _EDITED, _OPEN, _LIMITS = "actual.", "edited.", "open.", "limits."
_REPEATS = {"decision": "decision", "decisions": "decisions", "planned": "decisions", "multipliers": "multipliers"}
"""Reasons that are a part of the plan they are given for, as a rule: then only their names are stored."""


def encoded(event: Event) -> bytes:
    """An event as it is stored; its number is its place in the log."""
    return packed(*_parts(event))


def decoded(number: int, body: bytes) -> Event:
    """The event that is stored as `body` at place `number` of the log."""
    header, arrays = _known(number, body)
    return _DECODERS[header["kind"]](number, header, arrays)


def asked_or_reported(number: int, body: bytes) -> Asked | Report | None:
    """The part of an event that histories are made of; None if it has none."""
    header, arrays = _known(number, body)
    if header["kind"] == Asked.kind:
        return _asked(number, header, arrays)
    if header["kind"] == Observed.kind:
        return Report(
            number=number,
            at=header["at"],
            deployment=header["deployment"],
            samples=arrays["samples"],
            losses=arrays["losses"],
            actual=_actual(_ACTUAL, arrays),
            confirmed=tuple(header.get("confirmed", ())),
            loss_errors=arrays.get("loss errors"),
        )
    return None


def _known(number: int, body: bytes) -> tuple[dict[str, Any], Packed]:
    """The header and the arrays of an event of a known kind."""
    header, arrays = unpacked(body)
    if header["kind"] not in _DECODERS:
        raise StudyError(f"event {number} has the unknown kind {header['kind']!r}; was it written by a newer version?")
    return header, arrays


def plain(event: Event) -> dict[str, Any]:
    """An event in lists, numbers and strings, under its stored names. The arrays of `Created` and `Amended` are left out."""
    header, arrays = _parts(event)
    values = {} if isinstance(event, Basis) else {key: array.tolist() for key, array in arrays.items()}
    return {"event": event.number, **header, **values}


def _parts(event: Event) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of an event."""
    header: dict[str, Any] = {"kind": event.kind, "at": event.at}
    arrays: dict[str, Any] = {}
    match event:
        case Asked():
            header |= {"round": event.round, "samples": event.samples, "attempt": event.attempt}
            header |= {"proposal": True} if event.proposal else {}
            arrays = {
                "decisions": event.decisions,
                "g": event.constraint_values,
                "decision": event.decision,
                "multipliers": event.multipliers,
            }
        case Approved():
            header |= {"deployment": event.deployment, "by": event.by}
            arrays = _deployed(_EDITED, event.edited)
        case Declined():
            header |= {"deployment": event.deployment, "reason": event.reason, "by": event.by}
            arrays = _limits(event.limits)
        case Observed():
            header |= {"deployment": event.deployment, "columns": event.columns, "told": event.so_far.told}
            arrays = {"samples": event.samples, "losses": event.losses} | _sums(event.so_far)
            arrays |= {} if event.loss_errors is None else {"loss errors": event.loss_errors}
            if event.confirmed:
                header["confirmed"] = list(event.confirmed)
            if event.probes is not None:
                arrays |= {"probed": event.probes, "loss": event.probe_losses}
            arrays |= _deployed(_ACTUAL, event.actual)
        case Retracted():
            header |= {"deployment": event.deployment, "report": event.told, "reason": event.reason, "by": event.by}
            header |= {"columns": event.columns, "width": event.width, "told": event.so_far.told}
            arrays = {"reports": event.reports} | _sums(event.so_far)
        case Canceled():
            header |= {"deployment": event.deployment, "reason": event.reason}
        case Noted():
            header["text"] = event.text
        case Signed():
            header |= {"key": event.key, "signature": event.signature}
        case Created():
            header |= {"seed": event.seed, "performative": event.performative, "jax": event.jax}
        case Amended():
            header |= {"reason": event.reason, "by": event.by, "before": event.before, "width": event.width}
            header |= {"columns": event.columns, "told": event.so_far.told}
            header |= {"performative": event.performative, "jax": event.jax}
            arrays = _sums(event.so_far) | _deployed(_OPEN, event.open) | _limits(event.limits)
            if event.probes is not None:
                arrays |= {"probed": event.probes, "loss": event.probe_losses}
    if isinstance(event, Basis):
        values = {path: value for path, value in event.identity.items() if not isinstance(value, np.ndarray)}
        arrays |= {path: value for path, value in event.identity.items() if isinstance(value, np.ndarray)}
        arrays |= {_PROBED + name: array for name, array in event.points.items()}
        header |= {"spec": event.spec, "folder": event.folder, "library": event.library, "identity": values}
        header["labels"] = event.labels.plain()
        header |= {"approval": True} if event.approval else {}
    if isinstance(event, Observed | Retracted | Amended) and event.in_force.plain():
        header["in force"] = event.in_force.plain()
    if isinstance(event, Basis | Observed | Retracted):
        planned = event.planned
        header["next"] = {"round": planned.round, "samples": planned.samples, "draws": planned.draws}
        parts: dict[str, NDArray[Any]] = {
            "decisions": planned.decisions,
            "g": planned.constraint_values,
            "decision": planned.decision,
            "multipliers": planned.multipliers,
        }
        reasons = planned.reasons or {}
        repeated = [name for name, part in reasons.items() if _repeats(planned, name, part)]
        header["next"] |= {"repeated": repeated} if repeated else {}
        parts |= {f"{_WHY}{name}": part for name, part in reasons.items() if name not in repeated}
        arrays |= {_NEXT + name: part for name, part in parts.items()}
    return header, arrays


def _repeats(planned: Planned, name: str, part: NDArray[Any]) -> bool:
    """Whether a reason is a part of its plan, to the bit."""
    if name not in _REPEATS:
        return False
    own = getattr(planned, _REPEATS[name])
    return (own.dtype, own.shape) == (part.dtype, part.shape) and own.tobytes() == part.tobytes()


def _deployed(prefix: str, actual: Actual | None) -> dict[str, NDArray[Any]]:
    return {} if actual is None else {f"{prefix}{name}": part for name, part in actual._asdict().items()}


def _limits(limits: Limits | None) -> dict[str, NDArray[Any]]:
    return {} if limits is None else {f"{_LIMITS}{name}": part for name, part in limits._asdict().items()}


def _sums(far: SoFar) -> dict[str, NDArray[Any]]:
    return {f"{_SO_FAR}{name}": getattr(far, name) for name in ("least", "violated", "worst")}


def _so_far(header: dict[str, Any], arrays: Arrays) -> SoFar:
    return SoFar(header["told"], *(arrays[f"{_SO_FAR}{name}"] for name in ("least", "violated", "worst")))


def _in_force(header: dict[str, Any]) -> InForce:
    return InForce(**header.get("in force", {}))


def _planned(header: dict[str, Any], arrays: Arrays) -> Planned:
    parts = {name.removeprefix(_NEXT): array for name, array in arrays.items() if name.startswith(_NEXT)}
    reasons = {name.removeprefix(_WHY): array for name, array in parts.items() if name.startswith(_WHY)}
    following = header["next"]
    reasons |= {name: parts[_REPEATS[name]] for name in following.get("repeated", ())}
    return Planned(
        round=following["round"],
        samples=following["samples"],
        draws=following["draws"],
        decisions=parts["decisions"],
        constraint_values=parts["g"],
        decision=parts["decision"],
        multipliers=parts["multipliers"],
        reasons=reasons or None,
    )


def _of_basis(number: int, header: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
    """What `Created` and `Amended` say of a method."""
    others = (_PROBED, _NEXT, _SO_FAR, _OPEN, _LIMITS)
    named = {path: array for path, array in arrays.items() if not path.startswith(others)}
    return {
        "number": number,
        "at": header["at"],
        "performative": header["performative"],
        "jax": header["jax"],
        "spec": header["spec"],
        "identity": header["identity"]
        | {path: array for path, array in named.items() if path not in ("probed", "loss")},
        "points": {name.removeprefix(_PROBED): array for name, array in arrays.items() if name.startswith(_PROBED)},
        "planned": _planned(header, arrays),
        "library": header["library"],
        "folder": header["folder"],
        "labels": Labels.of_plain(header.get("labels", {})),
        "approval": header.get("approval", False),
    }


def _created(number: int, header: dict[str, Any], arrays: Arrays) -> Created:
    return Created(seed=header["seed"], **_of_basis(number, header, arrays))


def _amended(number: int, header: dict[str, Any], arrays: Arrays) -> Amended:
    return Amended(
        reason=header["reason"],
        by=header["by"],
        before=header["before"],
        so_far=_so_far(header, arrays),
        columns=header["columns"],
        width=header["width"],
        in_force=_in_force(header),
        probes=arrays.get("probed"),
        probe_losses=arrays.get("loss"),
        open=_actual(_OPEN, arrays),
        limits=_stored_limits(arrays),
        **_of_basis(number, header, arrays),
    )


def _asked(number: int, header: dict[str, Any], arrays: Arrays) -> Asked:
    return Asked(
        number=number,
        at=header["at"],
        round=header["round"],
        samples=header["samples"],
        attempt=header["attempt"],
        decisions=arrays["decisions"],
        constraint_values=arrays["g"],
        decision=arrays["decision"],
        multipliers=arrays["multipliers"],
        proposal=header.get("proposal", False),
    )


def _observed(number: int, header: dict[str, Any], arrays: Arrays) -> Observed:
    return Observed(
        number=number,
        at=header["at"],
        deployment=header["deployment"],
        columns=header["columns"],
        samples=arrays["samples"],
        losses=arrays["losses"],
        planned=_planned(header, arrays),
        so_far=_so_far(header, arrays),
        probes=arrays.get("probed"),
        probe_losses=arrays.get("loss"),
        in_force=_in_force(header),
        actual=_actual(_ACTUAL, arrays),
        confirmed=tuple(header.get("confirmed", ())),
        loss_errors=arrays.get("loss errors"),
    )


def _actual(prefix: str, arrays: Arrays) -> Actual | None:
    if f"{prefix}decisions" not in arrays:
        return None
    return Actual(*(arrays[f"{prefix}{name}"] for name in Actual._fields))


def _approved(number: int, header: dict[str, Any], arrays: Arrays) -> Approved:
    return Approved(number, header["at"], header["deployment"], header["by"], _actual(_EDITED, arrays))


def _declined(number: int, header: dict[str, Any], arrays: Arrays) -> Declined:
    return Declined(number, header["at"], header["deployment"], header["reason"], header["by"], _stored_limits(arrays))


def _stored_limits(arrays: Arrays) -> Limits | None:
    if f"{_LIMITS}anchor" not in arrays:
        return None
    return Limits(*(arrays[f"{_LIMITS}{name}"] for name in Limits._fields))


def _retracted(number: int, header: dict[str, Any], arrays: Arrays) -> Retracted:
    return Retracted(
        number=number,
        at=header["at"],
        deployment=header["deployment"],
        told=header["report"],
        reason=header["reason"],
        by=header["by"],
        reports=arrays["reports"],
        columns=header["columns"],
        width=header["width"],
        planned=_planned(header, arrays),
        so_far=_so_far(header, arrays),
        in_force=_in_force(header),
    )


def _canceled(number: int, header: dict[str, Any], _: Arrays) -> Canceled:
    return Canceled(number, header["at"], header["deployment"], header["reason"])


def _noted(number: int, header: dict[str, Any], _: Arrays) -> Noted:
    return Noted(number, header["at"], header["text"])


def _signed(number: int, header: dict[str, Any], _: Arrays) -> Signed:
    return Signed(number, header["at"], header["key"], header["signature"])


_DECODERS: dict[str, Callable[[int, dict[str, Any], Arrays], Event]] = {
    Created.kind: _created,
    Amended.kind: _amended,
    Asked.kind: _asked,
    Approved.kind: _approved,
    Declined.kind: _declined,
    Observed.kind: _observed,
    Retracted.kind: _retracted,
    Canceled.kind: _canceled,
    Noted.kind: _noted,
    Signed.kind: _signed,
}
