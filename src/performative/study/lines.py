"""Deployments and events as `ask` and `log` print them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from performative.numerics.arrays import Floats
from performative.study.because import BEST
from performative.study.events import (
    Amended,
    Approved,
    Asked,
    Canceled,
    Created,
    Declined,
    Event,
    Noted,
    Observed,
    Retracted,
    Signed,
)
from performative.study.words import names_of, row, table
from performative.wording import counted, number, room

if TYPE_CHECKING:
    from performative.study.deployments import Deployment
    from performative.study.labels import Labels
    from performative.wording import Outcome

ARMS = 4
"""How many decisions of a deployment have columns of their own."""


def deployment_lines(
    deployment: Deployment, told: int, limits: Sequence[str], labels: Labels, outcome: Outcome
) -> list[str]:
    """What to deploy, and the room it leaves; `limits` are the names of the constraints, and so many were reported before."""
    kind, ending = ("deployment", "") if deployment.approved else ("proposal", "; it waits for approval")
    count = len(deployment.decisions)
    wanted = f"{counted(deployment.samples, 'row')} wanted" + (" for each decision" if count > 1 else "")
    lines = [f"{kind} {deployment.id}, {outcome.place(told, deployment.round)}: {wanted}{ending}"]
    offsets = deployment.why.exploration
    apart = np.abs(offsets) > 1e-9 * np.maximum(1.0, np.abs(deployment.why.decision))
    if count > ARMS:
        return [*lines, *(f"  decision {place}: {_row(one, labels)}" for place, one in enumerate(deployment.decisions))]
    units = labels.decision_units or ("",) * deployment.decisions.shape[1]
    heads = ["deploy"] if count == 1 else [f"decision {place}" for place in range(count)]
    if count == 1 and apart.any():
        heads.append(f"off {BEST}")
    rows = []
    for i, name in enumerate(names_of(labels, len(units))):
        cells = [f"{one[i]:.6g} {units[i]}".strip() for one in deployment.decisions]
        if count == 1 and apart.any():
            cells.append(number(float(offsets[0, i]), 3, sign=True) if apart[0, i] else "")
        rows.append([name, *cells])
    lines += table(["", *heads], rows)
    size = float(np.max(np.abs(deployment.decisions), initial=0.0))
    for place, name in enumerate(limits):
        left = ", ".join(room(float(one), size) for one in deployment.why.safety[:, place])
        lines.append(f"  room left in {name}: {left}")
    return lines


def theory_lines(deployment: Deployment, limits: Sequence[str], labels: Labels) -> list[str]:
    """The same in the words of the theory."""
    kind, ending = ("deployment", "") if deployment.approved else ("proposal", "; it waits for approval")
    lines = [
        f"{kind} {deployment.id}, round {deployment.round}: {deployment.samples} samples wanted for each decision{ending}",
        f"  θ_t: {_row(deployment.why.decision, labels)}",
    ]
    for place, decision in enumerate(deployment.decisions):
        offset = deployment.why.exploration[place]
        slack = ", ".join(
            f"{name} {value:.4g}" for name, value in zip(limits, deployment.why.safety[place], strict=True)
        )
        line = f"  decision {place}: {_row(decision, labels)}"
        line += f"  (exploring by {_row(offset, labels)})" if offset.any() else "  (θ_t)"
        lines.append(line + (f"  slack: {slack}" if slack else ""))
    multipliers = ", ".join(
        f"{name} {value:.4g}" for name, value in zip(limits, deployment.why.multipliers, strict=True)
    )
    return [*lines, *([f"  multipliers: {multipliers}"] if multipliers else [])]


class Teller:
    """Says what each event of a log says, in a line, one event after another from the first on."""

    def __init__(self, limits: Sequence[str], labels: Labels, outcome: Outcome, theory: bool = False) -> None:
        self._limits, self._labels, self._outcome, self._theory = limits, labels, outcome, theory
        self._told: set[int] = set()
        self._places: dict[int, str] = {}

    def line(self, event: Event) -> str:
        """What an event says."""
        match event:
            case Created():
                return f"performative {event.performative}, seed {event.seed}"
            case Amended():
                return f"{event.reason} ({event.by}){self._after(event.planned.decision)}"
            case Asked():
                place = self._outcome.place(len(self._told), event.round)
                self._places[event.number] = "" if place.startswith("round") else f" ({place})"
                proposed = " proposed" if event.proposal else ""
                shown = "; ".join(map(self._row, event.decisions))
                return f"{place}, {counted(event.samples, 'row')} of {shown}{proposed}"
            case Approved():
                edited = "" if event.edited is None else f" as {'; '.join(map(self._row, event.edited.decisions))}"
                return f"{self._which(event.deployment)}{edited} ({event.by})"
            case Declined():
                limits = ""
                if event.limits is not None:
                    limits = f", limits {self._row(event.limits.lower)} to {self._row(event.limits.upper)}"
                return f"{self._which(event.deployment)}: {event.reason} ({event.by}){limits}"
            case Observed():
                self._told.add(event.deployment)
                return self._observed(event)
            case Retracted():
                self._told.discard(event.deployment)
                said = f"{self._which(event.deployment)}: {event.reason} ({event.by})"
                return said + self._after(event.planned.decision)
            case Canceled():
                return f"{self._which(event.deployment)}: {event.reason}"
            case Noted():
                return event.text
            case Signed():
                return f"all events before this one, with the key {event.key}"

    def _observed(self, event: Observed) -> str:
        b, n, _ = event.samples.shape
        rows = counted(n, "row") if b == 1 else f"{b} × {counted(n, 'row')}"
        said = f"{self._which(event.deployment)}, {rows}, "
        said += f"{self._outcome.word} {self._outcome.amount(self._outcome.sign * float(np.mean(event.losses)))}"
        if event.actual is not None:
            said += f", deployed {'; '.join(map(self._row, event.actual.decisions))}"
            if violated := event.actual.violations(self._limits):
                said += f", which violates {', '.join(f'{limit} by {by:.4g}' for limit, by in violated.items())}"
        said += self._after(event.planned.decision)
        return said + (f"; confirmed: {'; '.join(event.confirmed)}" if event.confirmed else "")

    def _which(self, deployment: int) -> str:
        return f"deployment {deployment}{self._places.get(deployment, '')}"

    def _after(self, decision: Floats) -> str:
        return f", {'θ_t' if self._theory else BEST} {self._row(decision)}"

    def _row(self, decision: Floats) -> str:
        return _row(decision, self._labels)


def _row(decision: Floats, labels: Labels) -> str:
    return row(decision, labels.decisions, labels.decision_units)
