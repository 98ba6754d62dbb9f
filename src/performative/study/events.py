"""What happens in a study: one class for each kind of event (create, ask, tell, cancel, note), and how each is stored as bytes.

A record is a JSON header and named arrays (see `records`); the header's `kind` says which class it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from performative.errors import StudyError
from performative.numerics.arrays import Floats
from performative.study.labels import UNNAMED, Labels
from performative.study.records import Arrays, Packed, packed, unpacked

Identity = dict[str, bool | int | float | str | list[str] | NDArray[np.generic] | None]
"""What is known about a method before any data: plain values and arrays, by path."""
VIOLATED = 1e-9
"""By how much a constraint must be violated to count."""
_PROBED, _NEXT, _WHY, _SO_FAR = "probed: ", "next.", "why.", "so far."


@dataclass(frozen=True, slots=True, eq=False)
class Planned:
    """What the method asks for next, computed when it last learned something: what `ask` deploys.

    `decisions` (b, d) lie around θ_t = `decision`; `constraint_values` (b, m) are their g, `multipliers` is λ_t, and `samples` is
    how many are wanted of each. `draws` says whether another attempt asks for others. `reasons` are the numbers that say why, by
    name, if the method has any.

    >>> import tempfile, performative as pf
    >>> from performative.losses import Revenue
    >>> method = pf.repeated_gradient(pf.Problem(Revenue(), pf.Box([0.0], [5.0])))
    >>> with tempfile.TemporaryDirectory() as folder, pf.Study.create(f"{folder}/studies.db", "prices", method) as study:
    ...     created = next(study.events())
    >>> created.planned.round, created.planned.decisions.tolist(), created.planned.draws
    (1, [[0.0]], False)
    """

    round: int
    samples: int
    draws: bool
    decisions: Floats
    constraint_values: Floats
    decision: Floats
    multipliers: Floats
    reasons: dict[str, NDArray[np.generic]] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SoFar:
    """What a report adds up: how many deployments were reported, and what they did to each constraint.

    `least` (m,) is the least slack −g of all their decisions, `violated` (m,) how many of them violated it, and `worst` (m,)
    the number of the one that did so most.

    >>> import numpy as np
    >>> far = SoFar.nothing(1).after(1, np.array([[-0.5]])).after(4, np.array([[0.25]]))
    >>> far.told, far.least.tolist(), far.violated.tolist(), far.worst.tolist()
    (2, [-0.25], [1], [4])
    """

    told: int
    least: Floats
    violated: NDArray[np.int64]
    worst: NDArray[np.int64]

    @staticmethod
    def nothing(constraints: int) -> SoFar:
        """Before the first report."""
        none = np.zeros(constraints, np.int64)
        return SoFar(0, np.full(constraints, np.inf), none, none)

    def after(self, deployment: int, constraint_values: Floats) -> SoFar:
        """With one more deployment, whose decisions have these g (b, m)."""
        slack = -np.max(constraint_values, axis=0, initial=-np.inf)
        worse = slack < self.least
        return SoFar(
            told=self.told + 1,
            least=np.where(worse, slack, self.least),
            violated=self.violated + (slack < -VIOLATED),
            worst=np.where(worse, deployment, self.worst),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Created:
    """The study was created. `identity` is the method in values and arrays, by path; its functions were probed at `points`.

    `folder` is where the description `spec` was, if it names files, `library` the digest of this library's code, and `labels` are
    the names of the numbers of a decision and of a sample.

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
    planned: Planned
    library: str
    folder: str | None = None
    labels: Labels = UNNAMED


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
    """`samples` (b, n, k) were reported for a deployment; `planned` is what the method asks for after that.

    `losses` (b,) are the mean losses of its decisions; `columns` are the names of the k numbers, if known. The first such event
    also has the loss at `probes` like the data. `confirmed` are the reasons why the samples looked wrong, if somebody
    said that they are right all the same.

    >>> import tempfile, performative as pf
    >>> from performative.losses import Revenue
    >>> method = pf.repeated_gradient(pf.Problem(Revenue(), pf.Box([0.0], [5.0])))
    >>> with tempfile.TemporaryDirectory() as folder, pf.Study.create(f"{folder}/studies.db", "prices", method) as study:
    ...     told = study.tell(study.ask(), [[[3.0]]])
    ...     observed = [event for event in study.events() if isinstance(event, pf.study.Observed)]
    >>> observed[0].deployment, observed[0].samples.tolist(), observed[0].planned.decision.tolist(), observed[0].so_far.told
    (1, [[[3.0]]], [0.015], 1)
    """

    kind: ClassVar[str] = "tell"
    number: int
    at: float
    deployment: int
    columns: list[str] | None
    samples: Floats
    losses: Floats
    planned: Planned
    so_far: SoFar
    probes: Floats | None = None
    probe_losses: Floats | None = None
    confirmed: tuple[str, ...] = ()


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
    header, arrays = _known(number, body)
    return _DECODERS[header["kind"]](number, header, arrays)


class Report(NamedTuple):
    """What is reported in an `Observed` event, without what it led to."""

    number: int
    at: float
    samples: NDArray[np.float64]
    losses: NDArray[np.float64]
    confirmed: tuple[str, ...] = ()


def asked_or_reported(number: int, body: bytes) -> Asked | Report | None:
    """The part of an event that histories are made of; None if it has none."""
    header, arrays = _known(number, body)
    if header["kind"] == Asked.kind:
        return _asked(number, header, arrays)
    if header["kind"] == Observed.kind:
        return Report(number, header["at"], arrays["samples"], arrays["losses"], tuple(header.get("confirmed", ())))
    return None


def _known(number: int, body: bytes) -> tuple[dict[str, Any], Packed]:
    """The header and the arrays of an event of a known kind."""
    header, arrays = unpacked(body)
    if header["kind"] not in _DECODERS:
        raise StudyError(f"event {number} has the unknown kind {header['kind']!r}; was it written by a newer version?")
    return header, arrays


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
            header |= {"deployment": event.deployment, "columns": event.columns, "told": event.so_far.told}
            far = event.so_far
            arrays = {"samples": event.samples, "losses": event.losses}
            arrays |= {f"{_SO_FAR}{name}": getattr(far, name) for name in ("least", "violated", "worst")}
            if event.confirmed:
                header["confirmed"] = list(event.confirmed)
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
            header |= {"spec": event.spec, "folder": event.folder, "library": event.library, "identity": values}
            header["labels"] = event.labels.plain()
    if isinstance(event, Created | Observed):
        planned = event.planned
        header["next"] = {"round": planned.round, "samples": planned.samples, "draws": planned.draws}
        parts: dict[str, NDArray[Any]] = {
            "decisions": planned.decisions,
            "g": planned.constraint_values,
            "decision": planned.decision,
            "multipliers": planned.multipliers,
        }
        parts |= {f"{_WHY}{name}": number for name, number in (planned.reasons or {}).items()}
        arrays |= {_NEXT + name: part for name, part in parts.items()}
    return header, arrays


def _planned(header: dict[str, Any], arrays: Arrays) -> Planned:
    parts = {name.removeprefix(_NEXT): array for name, array in arrays.items() if name.startswith(_NEXT)}
    reasons = {name.removeprefix(_WHY): array for name, array in parts.items() if name.startswith(_WHY)}
    return Planned(
        round=header["next"]["round"],
        samples=header["next"]["samples"],
        draws=header["next"]["draws"],
        decisions=parts["decisions"],
        constraint_values=parts["g"],
        decision=parts["decision"],
        multipliers=parts["multipliers"],
        reasons=reasons or None,
    )


def _created(number: int, header: dict[str, Any], arrays: Arrays) -> Created:
    points = {name.removeprefix(_PROBED): array for name, array in arrays.items() if name.startswith(_PROBED)}
    others = {path: array for path, array in arrays.items() if not path.startswith((_PROBED, _NEXT))}
    return Created(
        number=number,
        at=header["at"],
        seed=header["seed"],
        performative=header["performative"],
        jax=header["jax"],
        spec=header["spec"],
        identity=header["identity"] | others,
        points=points,
        planned=_planned(header, arrays),
        library=header["library"],
        folder=header["folder"],
        labels=Labels.of_plain(header.get("labels", {})),
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
    )


def _observed(number: int, header: dict[str, Any], arrays: Arrays) -> Observed:
    far = (arrays[f"{_SO_FAR}{name}"] for name in ("least", "violated", "worst"))
    return Observed(
        number=number,
        at=header["at"],
        deployment=header["deployment"],
        columns=header["columns"],
        samples=arrays["samples"],
        losses=arrays["losses"],
        planned=_planned(header, arrays),
        so_far=SoFar(header["told"], *far),
        probes=arrays.get("probed"),
        probe_losses=arrays.get("loss"),
        confirmed=tuple(header.get("confirmed", ())),
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
