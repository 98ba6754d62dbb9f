"""A study under way: where it stands, and its next events, kept in step with the file.

Nothing here is safe between threads; `Study` locks. What needs the method is left to `worker`, so that asking for a decision that
is known, canceling, noting and reading wait for no compiler.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from performative.errors import AlreadyTold
from performative.numerics.arrays import Floats
from performative.study.deployments import Deployment, Told
from performative.study.doubts import doubts
from performative.study.events import (
    Amended,
    Approved,
    Asked,
    Canceled,
    Declined,
    Event,
    Limits,
    Observed,
    Planned,
    Retracted,
)
from performative.study.log import Log
from performative.study.memory import Memory, Remembered
from performative.study.samples import Samples
from performative.study.store import Moved

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from performative.study.amending import Change
    from performative.study.history import Round
    from performative.study.limits import Given
    from performative.study.worker import Worker


class Session:
    """The next events of a study, from its position; `hire` makes a worker when one is first needed, if there is none yet."""

    def __init__(self, log: Log, worker: Worker | None, hire: Callable[[Log], Worker]) -> None:
        self.log, self._worker, self._hire = log, worker, hire
        self.position = log.position()
        self.memory = Memory()

    @property
    def has_worker(self) -> bool:
        """Whether the method is at work already."""
        return self._worker is not None and self._worker.basis == self.log.current.number

    @property
    def worker(self) -> Worker:
        """The method at work."""
        if self._worker is None or self._worker.basis != self.log.current.number:  # another process has amended it
            self._worker = self._hire(self.log)
        return self._worker

    def is_current(self) -> bool:
        """Whether the position reflects every event read; it does not after an interruption right behind a commit."""
        return self.position.events == self.log.count

    def is_open(self, deployment: object) -> bool:
        """Whether this is the deployment, or the id of the deployment, that waits for its samples."""
        pending = self.position.pending
        number = getattr(deployment, "id", deployment)
        return pending is not None and isinstance(number, int | np.integer) and pending.id == number

    def refresh(self) -> None:
        """Take in what other processes wrote."""
        if self.log.store.refresh() or not self.is_current():
            self.catch_up()

    def catch_up(self) -> None:
        """Take the position from the log."""
        self.position = self.log.position()

    def append(self, event: Event, state: bytes | None = None) -> bool:
        """Whether the event was added; if not, another process was faster, and the position reflects what it wrote."""
        try:
            self.log.append(event, state)
        except Moved:
            self.refresh()
            return False
        return True

    def reported(self, before: int | None = None) -> Iterator[Round]:
        """The deployments whose reports count, up to those of events `before` a number."""
        return self.log.reported(without=self.position.retracted, before=before)

    def ask(self) -> Deployment | None:
        """Store that the next deployment was asked for; None if another process was faster."""
        planned, attempt = self.position.planned, self.position.attempt
        if attempt and planned.draws:
            planned = self.worker.ask(attempt)
        decisions, values = self._within_limits(planned)
        event = Asked(
            number=self.log.count,
            at=time.time(),
            round=planned.round,
            samples=planned.samples,
            attempt=attempt,
            decisions=decisions,
            constraint_values=values,
            decision=planned.decision,
            multipliers=planned.multipliers,
            proposal=self.log.current.approval,
        )
        if not self.append(event):
            return None
        deployment = Deployment.of(event)
        self.position = self.position._replace(events=self.log.count, pending=deployment, attempt=0)
        return deployment

    def doubts(self, deployment: Deployment, given: Samples, deployed: Floats | None) -> tuple[str, ...]:
        """Why these samples seem to be wrong, after the last reports; `deployed` see `tell`."""
        self.memory.catch_up(self.log, self.position.retracted)
        return doubts(self.memory.reports, deployment.decisions if deployed is None else deployed, given)

    def tell(
        self,
        deployment: Deployment,
        samples: Floats,
        columns: list[str] | None,
        deployed: Floats | None,
        confirmed: tuple[str, ...] = (),
    ) -> Told | None:
        """Tell the method what a deployment brought and store it; None if another process was faster.

        `deployed` are the decisions that were really deployed, if not those that were to be, and `confirmed` the doubts
        about the samples that somebody overruled.
        """
        is_older = deployment.id < self.position.in_force.method
        if deployed is None and (is_older or self.log.current.approval):
            asked = self.log.asked(deployment.id)
            if is_older or not np.array_equal(deployment.decisions, asked.decisions):
                deployed = deployment.decisions  # asked for under other constraints, or edited when it was approved
        actual = None if deployed is None else self.worker.actual(deployed)
        decisions = deployment.decisions if deployed is None else deployed
        values = -deployment.why.safety if actual is None else actual.constraint_values
        learned = self.worker.tell(decisions, samples, self.position.width)
        event = Observed(
            number=self.log.count,
            at=time.time(),
            deployment=deployment.id,
            columns=columns,
            samples=samples,
            losses=learned.losses,
            loss_errors=learned.loss_errors,
            planned=learned.planned,
            so_far=self.position.so_far.after(deployment.id, values),
            probes=learned.probes,
            probe_losses=learned.probe_losses,
            in_force=self.position.in_force,
            actual=actual,
            confirmed=confirmed,
        )
        if not self.append(event, learned.packed):
            return None
        self.worker.learned(learned.state)
        self.memory.add(event.number, Remembered.of(deployment.id, decisions, samples, bool(confirmed)))
        width, pending = samples.shape[2], self.position.pending
        self.position = self.position._replace(
            events=self.log.count,
            pending=None if pending is None or pending.id == deployment.id or not pending.approved else pending,
            planned=event.planned,
            attempt=0,
            so_far=event.so_far,
            width=width,
            columns=columns,
        )
        # What is told of the time before is what the method of that time said.
        before = self.log.deployment(deployment.id) if is_older else deployment
        return Told.of(before, event, self.log.constraint_names)

    def told_before(self, deployment: Deployment, samples: Floats, deployed: Floats | None) -> Told | None:
        """The answer to a `tell` of a deployment that is not open; None if its report was taken back: it can be told anew."""
        outcome = self.log.outcome(deployment.id, self.position.retracted)
        if outcome is None:
            return None
        if not isinstance(outcome, Observed):
            raise AlreadyTold(f"deployment {deployment.id} cannot be reported, since it was {ending(outcome)}")
        if outcome.samples.shape != samples.shape or outcome.samples.tobytes() != samples.tobytes():
            raise AlreadyTold(
                f"deployment {deployment.id} was already reported with other samples; nothing was changed. If those were wrong, "
                "`retract` them first"
            )
        before = deployment.decisions if outcome.actual is None else outcome.actual.decisions
        if not np.array_equal(before, deployment.decisions if deployed is None else deployed):
            raise AlreadyTold(
                f"deployment {deployment.id} was already reported as deployed with {before.tolist()}; nothing was changed. If "
                "that was wrong, `retract` it first"
            )
        return Told.of(self.log.deployment(deployment.id), outcome, self.log.names_at(outcome.number))

    def retract(self, deployment: Deployment, reason: str, by: str) -> bool:
        """Take back the report of a deployment and store what the others lead to; whether no other process was faster.

        Nothing is done if it was taken back for the same reason before.
        """
        position = self.position
        if self.is_open(deployment):
            raise ValueError(
                f"`deployment` must have been reported to be retracted, but deployment {deployment.id} is open; `cancel` it if "
                "it was not carried out"
            )
        told = self.log.outcome(deployment.id, position.retracted)
        if isinstance(told, Canceled | Declined):
            raise AlreadyTold(f"deployment {deployment.id} cannot be retracted, since it was {ending(told)}")
        if told is None:
            before = self.log.retraction(deployment.id)
            if before is None:
                raise ValueError(f"`deployment` must have been reported to be retracted, but {withdrawn(deployment)}")
            if before.reason == reason:
                return True
            raise AlreadyTold(
                f"deployment {deployment.id} cannot be retracted, since {before.by} retracted it before: {before.reason}"
            )
        reports = position.retracted | {told.number}
        after = self.worker.relearned(self.log.reported(without=reports))
        from performative.study.relearning import require_fitting  # JAX is at work by now

        require_fitting(position.pending, after.planned)
        last = None if after.last is None else self.log.event(after.last.observed.number)
        left = last if isinstance(last, Observed) else None
        event = Retracted(
            number=self.log.count,
            at=time.time(),
            deployment=deployment.id,
            told=told.number,
            reason=reason,
            by=by,
            reports=np.array(sorted(reports), np.int64),
            columns=None if left is None else left.columns,
            width=None if left is None else left.samples.shape[2],
            planned=after.planned,
            so_far=after.so_far,
            in_force=position.in_force._replace(retracted=self.log.count),
        )
        if not self.append(event, after.packed):
            return False
        self.worker.learned(after.state)
        self.catch_up()
        return True

    def amend(self, change: Change, reason: str, by: str) -> bool:
        """Go on with another method and store it; whether no other process was faster."""
        position, new = self.position, change.given
        number = self.log.count
        probes, losses = (None, None) if change.probes is None else change.probes
        event = Amended(
            number=number,
            at=time.time(),
            reason=reason,
            by=by,
            before=position.in_force.method,
            performative=change.performative,
            jax=change.jax,
            spec=new.spec,
            identity=change.prepared.identity,
            points=change.prepared.points,
            planned=change.corrected.planned,
            library=change.library,
            so_far=change.corrected.so_far,
            columns=position.columns,
            width=position.width,
            in_force=position.in_force._replace(method=number, limits=0 if change.limits is None else number),
            folder=new.folder,
            approval=new.approval,
            probes=probes,
            probe_losses=losses,
            open=change.open,
            limits=change.limits,
            labels=change.prepared.labels,
        )
        if not self.append(event, change.corrected.packed):
            return False
        self._worker = change.worker
        self.catch_up()
        self.worker.learned(change.corrected.state)
        return True

    def approve(self, deployment: Deployment, edited: Floats | None, by: str) -> Deployment | None:
        """Approve a proposal, as `edited` if given, and store it; None if another process was faster."""
        asked = self.log.asked(deployment.id)
        self._require_proposal(deployment, asked)
        wanted = asked.decisions if edited is None else edited
        if deployment.approved:
            if np.array_equal(deployment.decisions, wanted):
                return deployment
            raise AlreadyTold(
                f"deployment {deployment.id} was already approved with {deployment.decisions.tolist()}; `cancel` it if it was "
                "not carried out"
            )
        self._require_waiting(deployment, "approved")
        edit = None if np.array_equal(wanted, asked.decisions) else self.worker.actual(wanted)
        violated = {} if edit is None else edit.violations(self.log.constraint_names)
        if violated:
            limits = ", ".join(f"{name} by {excess:.6g}" for name, excess in violated.items())
            raise ValueError(f"`decisions` must be feasible, but {wanted.tolist()} violates {limits}")
        event = Approved(self.log.count, time.time(), deployment.id, by, edit)
        if not self.append(event):
            return None
        approved = Deployment.of(asked, event)
        self.position = self.position._replace(events=self.log.count, pending=approved)
        return approved

    def decline(
        self, deployment: Deployment, reason: str, lower: Given | None, upper: Given | None, by: str
    ) -> bool | None:
        """Decline a proposal and store it; whether the next one will be the same, and None if another process was faster."""
        self._require_proposal(deployment, self.log.asked(deployment.id))
        if deployment.approved:
            raise AlreadyTold(
                f"deployment {deployment.id} cannot be declined, since it was approved; `cancel` it if it was not carried out"
            )
        outcome = None if self.is_open(deployment) else self.log.outcome(deployment.id)
        limits = outcome.limits if isinstance(outcome, Declined) else self.position.limits
        limits = self._limits(limits, lower, upper, deployment.decisions[0])
        if isinstance(outcome, Declined) and outcome.reason == reason and _alike(outcome.limits, limits):
            return False
        self._require_waiting(deployment, "declined")
        event = Declined(self.log.count, time.time(), deployment.id, reason, by, limits)
        if not self.append(event):
            return None
        self.catch_up()
        planned = self.position.planned
        return not planned.draws and np.array_equal(self._within_limits(planned)[0], deployment.decisions)

    def _within_limits(self, planned: Planned) -> tuple[Floats, Floats]:
        """The decisions to ask for and their g: those that are planned, or near them within the limits that people set."""
        limits = self.position.limits
        if limits is None or limits.met_by(planned.decisions):
            return planned.decisions, planned.constraint_values
        return self.worker.within(limits, planned.decisions)

    def _limits(self, before: Limits | None, lower: Given | None, upper: Given | None, near: Floats) -> Limits | None:
        """The limits after these bounds were given as well; None if none were."""
        if lower is None and upper is None:
            return None
        free = np.full(self.log.dimension, np.inf)
        low, high = (-free, free) if before is None else (before.lower, before.upper)
        from performative.study.limits import bounds_after

        names = self.log.current.labels.decisions
        low, high = bounds_after("lower", lower, low, names), bounds_after("upper", upper, high, names)
        return self.worker.limits(low, high, near)

    def _require_proposal(self, deployment: Deployment, asked: Asked) -> None:
        if not asked.proposal:
            raise ValueError(
                f"`deployment` must be a proposal, but deployment {deployment.id} needs no approval; `cancel` it if it was not "
                "carried out"
            )

    def _require_waiting(self, deployment: Deployment, how: str) -> None:
        if not self.is_open(deployment):
            outcome = self.log.outcome(deployment.id)
            why = withdrawn(deployment) if outcome is None else f"it was {ending(outcome)}"
            raise AlreadyTold(f"deployment {deployment.id} cannot be {how}, since {why}")

    def proposal(self, deployment: Deployment | int) -> Deployment:
        """A deployment as it is stored, given as it was proposed or as it was approved."""
        stored = self.deployment(getattr(deployment, "id", deployment))
        if isinstance(deployment, Deployment) and not np.array_equal(deployment.decisions, stored.decisions):
            if np.array_equal(deployment.decisions, self.log.asked(stored.id).decisions):
                return stored
            return self.deployment(deployment)
        return stored

    def deployment(self, deployment: Deployment | int) -> Deployment:
        """A deployment as it is stored, by its id, open or not."""
        number: Any = deployment.id if isinstance(deployment, Deployment) else deployment
        if isinstance(number, bool) or not isinstance(number, int | np.integer):
            raise TypeError(f"`deployment` must be what `ask` returned or its id, but got {deployment!r}")
        pending = self.position.pending
        stored = pending if pending is not None and pending.id == number else self._past_deployment(int(number))
        if isinstance(deployment, Deployment) and not np.array_equal(deployment.decisions, stored.decisions):
            raise ValueError(
                f"`deployment` must belong to this study, but its number {number} is to deploy {stored.decisions.tolist()}, "
                f"not {np.asarray(deployment.decisions).tolist()}"
            )
        return stored

    def _past_deployment(self, number: int) -> Deployment:
        if not 0 < number < self.log.count:
            self.refresh()  # another process may have asked for it
        if not 0 < number < self.log.count:
            raise ValueError(f"`deployment` must be the number of a deployment, but there is no event {number}")
        event = self.log.event(number)
        if not isinstance(event, Asked):
            raise ValueError(f"`deployment` must be the number of a deployment, but event {number} is a {event.kind}")
        return self.log.deployment(number)


def ending(outcome: Observed | Canceled | Declined) -> str:
    """How a deployment ended, in words."""
    match outcome:
        case Canceled():
            return f"canceled: {outcome.reason}"
        case Declined():
            return f"declined by {outcome.by}: {outcome.reason}"
        case Observed():
            return "reported"


def withdrawn(deployment: Deployment) -> str:
    """Why a proposal is no longer open that nobody answered."""
    return f"proposal {deployment.id} was withdrawn when what is learned changed; ask for the next one"


def _alike(one: Limits | None, other: Limits | None) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one.lower, other.lower) and np.array_equal(one.upper, other.upper)
