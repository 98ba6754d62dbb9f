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
from performative.study.events import Asked, Canceled, Event, Observed
from performative.study.log import Log
from performative.study.memory import Memory, Remembered
from performative.study.samples import Samples
from performative.study.store import Moved

if TYPE_CHECKING:
    from collections.abc import Callable

    from performative.study.worker import Worker


class Session:
    """The next events of a study, from its position; `hire` makes a worker when one is first needed, if there is none yet."""

    def __init__(self, log: Log, worker: Worker | None, hire: Callable[[Log], Worker]) -> None:
        self.log, self._worker, self._hire = log, worker, hire
        self.position = log.position()
        self.memory = Memory()

    @property
    def worker(self) -> Worker:
        """The method at work."""
        if self._worker is None:
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

    def ask(self) -> Deployment | None:
        """Store that the next deployment was asked for; None if another process was faster."""
        planned, attempt = self.position.planned, self.position.attempt
        if attempt and planned.draws:
            planned = self.worker.ask(attempt)
        event = Asked(
            number=self.log.count,
            at=time.time(),
            round=planned.round,
            samples=planned.samples,
            attempt=attempt,
            decisions=planned.decisions,
            constraint_values=planned.constraint_values,
            decision=planned.decision,
            multipliers=planned.multipliers,
        )
        if not self.append(event):
            return None
        deployment = Deployment.of(event)
        self.position = self.position._replace(events=self.log.count, pending=deployment)
        return deployment

    def doubts(self, deployment: Deployment, given: Samples) -> tuple[str, ...]:
        """Why these samples seem to be wrong, after the last reports."""
        self.memory.catch_up(self.log)
        return doubts(self.memory.reports, deployment.decisions, given)

    def tell(
        self, deployment: Deployment, samples: Floats, columns: list[str] | None, confirmed: tuple[str, ...] = ()
    ) -> Told | None:
        """Tell the method what the open deployment brought and store it; None if another process was faster."""
        learned = self.worker.tell(deployment.decisions, samples, self.position.width)
        event = Observed(
            number=self.log.count,
            at=time.time(),
            deployment=deployment.id,
            columns=columns,
            samples=samples,
            losses=learned.losses,
            planned=learned.planned,
            so_far=self.position.so_far.after(deployment.id, -deployment.why.safety),
            probes=learned.probes,
            probe_losses=learned.probe_losses,
            confirmed=confirmed,
        )
        if not self.append(event, learned.packed):
            return None
        self.worker.learned(learned)
        report = Remembered.of(deployment.id, deployment.decisions, samples, bool(confirmed))
        self.memory.add(event.number, report)
        width = samples.shape[2]
        self.position = self.position._replace(
            events=self.log.count,
            pending=None,
            planned=event.planned,
            attempt=0,
            so_far=event.so_far,
            width=width,
            columns=columns,
        )
        return Told.of(deployment, event)

    def told_before(self, deployment: Deployment, samples: Floats) -> Told:
        """The answer to a `tell` of a deployment that is not open."""
        outcome = self.log.outcome(deployment.id)
        if isinstance(outcome, Canceled):
            raise AlreadyTold(f"deployment {deployment.id} cannot be reported, since it was canceled: {outcome.reason}")
        if outcome.samples.shape != samples.shape or outcome.samples.tobytes() != samples.tobytes():
            raise AlreadyTold(
                f"deployment {deployment.id} was already reported with other samples; nothing was changed"
            )
        return Told.of(deployment, outcome)

    def deployment(self, deployment: Deployment | int) -> Deployment:
        """A deployment as it is stored, by its id, open or not."""
        number: Any = deployment.id if isinstance(deployment, Deployment) else deployment
        if isinstance(number, bool) or not isinstance(number, int | np.integer):
            raise TypeError(f"`deployment` must be what `ask` returned or its id, but got {deployment!r}")
        pending = self.position.pending
        stored = pending if pending is not None and pending.id == number else self._past_deployment(int(number))
        if isinstance(deployment, Deployment) and not np.array_equal(deployment.decisions, stored.decisions):
            raise ValueError(
                f"`deployment` must belong to this study, but its number {number} asked for {stored.decisions.tolist()}, "
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
        return Deployment.of(event)
