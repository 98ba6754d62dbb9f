"""A study under way: its log, its method's compiled calls and where it stands, kept in step with the file.

Nothing here is safe between threads; `Study` locks.
"""

from __future__ import annotations

import time

import numpy as np

from performative.errors import AlreadyTold, StudyError
from performative.methods.protocol import Method
from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import as_node
from performative.study.calls import Calls
from performative.study.deployments import Deployment, Told
from performative.study.events import Asked, Canceled, Event, Observed
from performative.study.identity import loss_at
from performative.study.log import Log, Position
from performative.study.records import not_finite, packed_tree
from performative.study.store import Moved
from performative.validation import shown


class Session:
    """The next events of a study, computed from its position."""

    def __init__(self, log: Log, method: Method) -> None:
        self.log = log
        self.method: Method = as_node(method)
        self.calls = Calls(method, self.log.created.seed)
        self.position: Position = self.log.position(self.calls)

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
        self.position = self.log.position(self.calls)

    def append(self, event: Event, state: bytes | None = None) -> bool:
        """Whether the event was added; if not, another process was faster, and the position reflects what it wrote."""
        try:
            self.log.append(event, state)
        except Moved:
            self.refresh()
            return False
        return True

    @property
    def columns(self) -> list[str] | None:
        """The names of the data's columns, from the last report or the method's history, if they are known."""
        past = getattr(getattr(self.method, "history", None), "columns", None)
        return self.position.columns or (None if past is None else list(past))

    @in_float64
    def ask(self) -> Deployment | None:
        """Ask the method for the next deployment and store it; None if another process was faster."""
        state, attempt = self.position.state, self.position.attempt
        decisions, values = self.calls.ask(state, attempt)
        if not np.all(np.isfinite(decisions)):
            raise StudyError(f"decisions must be finite, but the method asks for {decisions.tolist()}")
        event = Asked(
            number=self.log.count,
            at=time.time(),
            round=int(state.round),
            samples=int(self.method.wanted(state)),
            attempt=attempt,
            decisions=decisions,
            constraint_values=values,
            decision=np.asarray(state.decision),
            multipliers=np.asarray(state.multipliers),
        )
        if not self.append(event):
            return None
        deployment = Deployment.of(event)
        self.position = self.position._replace(events=self.log.count, pending=deployment)
        return deployment

    @in_float64
    def tell(self, deployment: Deployment, samples: Floats, columns: list[str] | None) -> Told | None:
        """Tell the method what the open deployment brought and store it; None if another process was faster."""
        before, width = self.position.state, self.position.width
        self._check_width(samples)
        after, finite = self.calls.tell_and_check(before, deployment.decisions, samples)
        if not finite and not not_finite(before):
            raise ValueError(
                f"`samples` must lead to a finite state, but {shown(not_finite(after))} would not be finite"
            )
        probes = losses = None
        if width is None:
            rows = samples.reshape(-1, samples.shape[2])
            probes, losses = loss_at(self.method.problem, self.log.created.points["decisions"], rows)
        event = Observed(
            number=self.log.count,
            at=time.time(),
            deployment=deployment.id,
            round=int(after.round),
            columns=columns,
            samples=samples,
            decision=np.asarray(after.decision),
            multipliers=np.asarray(after.multipliers),
            probes=probes,
            probe_losses=losses,
        )
        if not self.append(event, packed_tree(after)):
            return None
        self.position = Position(self.log.count, after, None, 0, samples.shape[2], columns)
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
        number = deployment.id if isinstance(deployment, Deployment) else deployment
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

    def _check_width(self, samples: Floats) -> None:
        width = self.position.width
        if width is None:
            self.method.problem.check_samples(samples.shape[2])
        elif width != samples.shape[2]:
            raise ValueError(
                f"`samples` must hold {width} numbers each, as in earlier rounds, but got {samples.shape[2]}"
            )
