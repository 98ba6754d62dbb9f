"""Another method from now on: what it would change, and what it makes of all that was reported."""

from __future__ import annotations

import os
import tomllib
from typing import TYPE_CHECKING, Any, NamedTuple

import jax

from performative import __version__
from performative.errors import SpecError
from performative.methods.protocol import Method, require_method
from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64
from performative.numerics.programs import library
from performative.numerics.pytrees import as_node
from performative.study import identity
from performative.study.creation import Prepared, prepared
from performative.study.events import Actual, Limits
from performative.study.labels import Labels
from performative.study.likeness import Expected, fitting, likely, of_reports
from performative.study.memory import Memory
from performative.study.rehearsing import Opening, performed
from performative.study.relearning import require_fitting
from performative.study.spec import describe
from performative.study.usable import accepts, require_numbers
from performative.study.worker import Corrected, Worker
from performative.validation import shown

if TYPE_CHECKING:
    from performative.study.log import Log, Position
    from performative.study.rehearsal import Rehearsal

_MOST_LINES = 40
"""How many differences are listed at most."""
_START = "method.start: must"
_MOVE = (
    "; what was deployed and learned stays, but gains and the budget are counted from this start from now on, so put one there "
    "that may be deployed under the new constraints"
)


class Amendment(NamedTuple):
    """What another method would change: `differences` in lines, and the decisions (b, d) that come next without it and with it.

    `rehearsal` plays the next deployments with it, if that was asked for.

    >>> import numpy as np
    >>> print(Amendment(["loss.cost: 1.0 -> 1.5"], np.array([[2.0]]), np.array([[2.25]])))
    loss.cost: 1.0 -> 1.5
    next decision: [2] -> [2.25]
    """

    differences: list[str]
    before: Floats
    after: Floats
    rehearsal: Rehearsal | None = None

    def __str__(self) -> str:
        """The differences and the next decisions, line by line."""
        from performative.study.words import row

        old, new = ("; ".join(map(row, decisions)) for decisions in (self.before, self.after))
        played = [] if self.rehearsal is None else ["", str(self.rehearsal)]
        return "\n".join([*self.differences, f"next decision: {old} -> {new}", *played])


class Given(NamedTuple):
    """Another method as it was given: with its description, if there is one, names, and whether proposals must be approved."""

    method: Method
    spec: str | None
    folder: str | None
    approval: bool
    labels: Labels
    expected: Expected | None = None


class Change(NamedTuple):
    """Everything that an amendment stores: the method at work, what it makes of all reports, the limits and what is open."""

    given: Given
    prepared: Prepared
    performative: str
    jax: str
    library: str
    worker: Worker
    corrected: Corrected
    limits: Limits | None
    open: Actual | None
    probes: tuple[Floats, Floats] | None
    amendment: Amendment


def given(
    log: Log, name: str, other: str | Method, folder: str | os.PathLike[str] | None, approval: bool | None
) -> Given:
    """Another method for study `name`: an object, or the text of a description, which must be of the same study."""
    if not isinstance(other, str):
        require_method("other", other)
        return Given(other, None, None, log.current.approval if approval is None else approval, log.current.labels)
    try:
        described = describe(other, folder or ".")
    except SpecError as error:
        raise SpecError([f"{line}{_MOVE if line.startswith(_START) else ''}" for line in error.lines]) from error
    if described.name != name:
        raise ValueError(f"`name` must be that of the study, {name!r}, but the description has {described.name!r}")
    if described.seed != log.created.seed:
        raise ValueError(
            f"`seed` must be that of the study, {log.created.seed}, but the description has {described.seed}; a study keeps its "
            "random numbers"
        )
    approval = described.approval if approval is None else approval
    return Given(described.method, other, described.folder, approval, described.labels, described.expected)


@in_float64
def change(log: Log, position: Position, new: Given) -> Change:
    """What a method makes of all that was reported; refused if it does not fit the study or changes nothing."""
    dimension = new.method.problem.dimension
    if dimension != log.dimension:
        raise ValueError(f"a decision must have {log.dimension} numbers as before, but got {dimension}")
    if position.width is not None:
        new.method.problem.check_samples(position.width)
    differences = _differences(log, new)
    if not differences:
        raise ValueError("an amendment must change something, but this is the method that the study has")
    ready = prepared(new.method, log.created.seed, new.labels.after(log.current.labels.told(position.columns)))
    worker = Worker(log, new.method, log.count)
    corrected = worker.relearned(log.reported(without=position.retracted))
    limits = position.limits
    if limits is not None:
        limits = worker.limits(limits.lower, limits.upper, limits.anchor)
    live = position.pending if position.pending is not None and position.pending.approved else None
    require_fitting(live, corrected.planned)
    probes = None
    if corrected.last is None:  # else the loss was computed
        require_numbers(new.method.problem, corrected.planned.decisions[0], slopes=False)
    if corrected.last is not None:
        samples = corrected.last.observed.samples
        rows = samples.reshape(-1, samples.shape[2])
        probes = identity.loss_at(new.method.problem, ready.points["decisions"], rows)
    before, after = position.planned.decisions, corrected.planned.decisions
    if limits is not None and not limits.met_by(after):
        after = worker.within(limits, after)[0]
    return Change(
        given=new,
        prepared=ready,
        performative=__version__,
        jax=jax.__version__,
        library=library(),
        worker=worker,
        corrected=corrected,
        limits=limits,
        open=None if live is None else worker.actual(live.decisions),
        probes=probes,
        amendment=Amendment(differences, before, after),
    )


@in_float64
def rehearsed(log: Log, position: Position, new: Change) -> Amendment:
    """What a change would change, with the next deployments played in worlds where data are like those of the last report."""
    method, after, calls = new.worker.method, new.corrected, new.worker.calls
    if after.last is None:
        today, stays = after.planned.decision, "the start"
        width = None if new.prepared.labels.data is None else len(new.prepared.labels.data)
        candidates = likely(method.problem, today, new.given.expected, getattr(method, "history", None), width)
    else:
        today, stays = after.last.decisions[0], "what was deployed last"
        memory = Memory()
        memory.catch_up(log, position.retracted)
        candidates = of_reports(memory.reports)
    opening = Opening(after.state, after.planned, today, stays, new.limits)
    like = fitting(method.problem, today, candidates)
    return new.amendment._replace(rehearsal=performed(calls, opening, like, new.prepared.labels))


def _differences(log: Log, new: Given) -> list[str]:
    """What changes, one line for each: keys of the descriptions, or parts of the methods where there is no description."""
    old = log.current
    lines = [] if old.approval == new.approval else [f"approval: {old.approval} -> {new.approval}"]
    if old.spec is not None and new.spec is not None:
        skipped = ("approval", "rehearsal", "seed")
        tables = [
            {key: part for key, part in tomllib.loads(text).items() if key not in skipped}
            for text in (old.spec, new.spec)
        ]
        described = list(_keys("", *tables))
        if described:
            return [*lines, *described[:_MOST_LINES], *_rest(described)]
    stored = dict(old.identity)
    problem = new.method.problem
    points = {name: part for name, part in old.points.items() if name == "decisions" or accepts(problem, part.shape[1])}
    now = identity.identity(as_node(new.method), points)
    probed = log.probed()
    if probed is not None and probed.probes is not None and accepts(problem, probed.probes.shape[1]):
        path = "loss(probes like the data)"
        stored[path] = probed.probe_losses
        now[path] = identity.losses(problem, old.points["decisions"], probed.probes)
    parts = [
        line.replace(": stored ", ": ").replace(", but got ", " -> ") for line in identity.differences(stored, now)
    ]
    lines += _renamed(old.labels, new.labels)
    plain = [line.removeprefix("method.problem.") for line in parts if "(" not in line.partition(":")[0]]
    parts = plain + _computed(parts)
    return [*lines, *parts[:_MOST_LINES], *_rest(parts)]


def _computed(lines: list[str]) -> list[str]:
    """What functions return is named, not listed: the numbers mean nothing to a reader."""
    paths = {line.partition(":")[0] for line in lines}
    found = []
    if any(path.startswith("loss(") for path in paths):
        found.append("the loss returns other numbers")
    if any(path.startswith("g(") for path in paths):
        found.append("the constraints return other numbers")
    if any("(" in path and not path.startswith(("loss(", "g(")) for path in paths):
        found.append("a part of the method returns other numbers")
    return found


def _renamed(old: Labels, new: Labels) -> list[str]:
    parts = zip(old._asdict().items(), new, strict=True)
    return [f"labels.{key}: {_named(then)} -> {_named(now)}" for (key, then), now in parts if then != now]


def _named(names: tuple[str, ...] | str | None) -> str:
    return "nothing" if names is None else shown(list(names) if isinstance(names, tuple) else names)


def _rest(lines: list[str]) -> list[str]:
    return [f"and {len(lines) - _MOST_LINES} more"] if len(lines) > _MOST_LINES else []


def _keys(path: str, old: Any, new: Any) -> Any:
    """The keys at which two tables of a description differ, with the values before and after."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            place = f"{path}.{key}" if path else str(key)
            yield from _keys(place, old.get(key, _NOTHING), new.get(key, _NOTHING))
    elif _are_tables(old) and _are_tables(new):
        for index in range(max(len(old), len(new))):
            parts = (side[index] if index < len(side) else _NOTHING for side in (old, new))
            yield from _keys(f"{path}[{index}]", *parts)
    elif old != new:
        yield f"{path}: {_said(old)} -> {_said(new)}"


_NOTHING = object()


def _said(value: Any) -> str:
    return "nothing" if value is _NOTHING else shown(value)


def _are_tables(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(part, dict) for part in value)
