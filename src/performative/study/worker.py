"""A study's method at work: its compiled calls on the state that the store holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np

from performative.errors import StudyError
from performative.methods.protocol import Method, MethodState
from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import as_node
from performative.study.calls import Calls
from performative.study.deployments import Replay
from performative.study.events import Actual, Basis, Limits, Planned, SoFar
from performative.study.identity import loss_at
from performative.study.limits import limits_of
from performative.study.records import unpacked
from performative.study.relearning import relearned
from performative.study.replay import replay
from performative.study.states import leaf_names, not_finite, packed_state, unpacked_state, with_keys
from performative.validation import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from performative.study.history import Round
    from performative.study.log import Log


class Learned(NamedTuple):
    """What a report leads to: the state, as an object and as it is stored, what is asked for next, and the mean losses (b,).

    These have standard errors (b,) if there are several samples. The first report of a study also has the loss at `probes` like
    the data.
    """

    state: MethodState
    packed: bytes
    planned: Planned
    losses: Floats
    loss_errors: Floats | None
    probes: Floats | None
    probe_losses: Floats | None


class Corrected(NamedTuple):
    """What reports that are told again lead to: the state, as an object and as it is stored, the plan, and see `Relearned`."""

    state: MethodState
    packed: bytes
    planned: Planned
    so_far: SoFar
    last: Round | None


class Worker:
    """The method of a log, and its state."""

    def __init__(self, log: Log, method: Method, basis: int | None = None) -> None:
        self.log = log
        self.basis = log.current.number if basis is None else basis
        """The number of the event that says what the method is."""
        self.method: Method = as_node(method)
        self.calls = Calls(self.method, log.created.seed)
        self._state: tuple[bytes, MethodState] | None = None
        self._like: MethodState | None = None

    @property
    @in_float64
    def state(self) -> MethodState:
        """The state after everything that was reported."""
        stored = self.log.store.state
        if self._state is None or self._state[0] is not stored:
            self._state = stored, unpacked_state(stored, self._structure(stored))
        return self._state[1]

    @in_float64
    def plain_state(self) -> MethodState:
        """The state in NumPy arrays and random keys."""
        return with_keys(jax.tree.map(np.asarray, self.state))

    @in_float64
    def replay(self, allow_code: bool) -> Replay:
        """Everything computed again and compared: see `replay`."""
        return replay(self.log, lambda basis: self._calls_of(basis, allow_code))

    def _calls_of(self, basis: Basis, allow_code: bool) -> Calls | str:
        """The calls of the method in a stretch of the log, or why it is not at hand."""
        if basis.number == self.basis:
            return self.calls
        from performative.study.creation import described_before

        method = described_before(basis, allow_code)
        return method if isinstance(method, str) else Calls(as_node(method), self.log.created.seed)

    @in_float64
    def ask(self, attempt: int) -> Planned:
        """What the method asks for in another attempt at the same round."""
        return _required(self.calls.ask(self.state, attempt))

    @in_float64
    def tell(self, decisions: Floats, samples: Floats, width: int | None) -> Learned:
        """What samples (b, n, k) at decisions (b, d) teach; earlier ones had `width` numbers each."""
        if width is None:
            self.method.problem.check_samples(samples.shape[2])
        elif width != samples.shape[2]:
            raise ValueError(
                f"`samples` must hold {width} numbers each, as in earlier rounds, but got {samples.shape[2]}"
            )
        before = self.state
        after, planned, (means, errors), finite = self.calls.tell(before, decisions, samples)
        if not finite and not not_finite(before):
            raise ValueError(
                f"`samples` must lead to a finite state, but {shown(not_finite(after))} would not be finite"
            )
        probes = losses = None
        if width is None:
            rows = samples.reshape(-1, samples.shape[2])
            probes, losses = loss_at(self.method.problem, self.log.current.points["decisions"], rows)
        spread = errors if samples.shape[1] > 1 else None
        return Learned(after, packed_state(after), _required(planned), means, spread, probes, losses)

    @in_float64
    def actual(self, decisions: Floats) -> Actual:
        """Decisions that were really deployed, as they are stored."""
        return self.calls.measured(decisions)

    @in_float64
    def within(self, limits: Limits, decisions: Floats) -> tuple[Floats, Floats]:
        """Decisions that meet the limits, near those given, and their g."""
        return self.calls.within(limits, decisions)

    @in_float64
    def limits(self, lower: Floats, upper: Floats, near: Floats) -> Limits:
        """Limits on decisions, checked."""
        return limits_of(self.method.problem, lower, upper, near)

    @in_float64
    def relearned(self, reports: Iterable[Round]) -> Corrected:
        """What these reports alone lead to."""
        named = ((one, self.log.names_at(one.observed.number)) for one in reports)
        state, planned, so_far, last = relearned(self.calls, self.method.problem.constraint_names, named)
        return Corrected(state, packed_state(state), _required(planned), so_far, last)

    def learned(self, state: MethodState) -> None:
        """Go on from the state that was stored."""
        self._state = self.log.store.state, state

    def _structure(self, stored: bytes) -> MethodState:
        """A state with the structure of the stored one: that of the first state in the log that has its leaves."""
        names = list(unpacked(stored)[1])
        if self._like is not None and leaf_names(self._like) == names:
            return self._like
        like = self.calls.first_shape()
        if leaf_names(like) != names:
            like = self.calls.begin()
            for one in self.log.reported(without=self.log.position().retracted):
                like = self.calls.shape_after(like, one.decisions, np.asarray(one.observed.samples))
                if leaf_names(like) == names:
                    break
            else:
                parts = sorted(set(names) ^ set(leaf_names(like)))
                raise StudyError(
                    f"the stored state has other parts than this version's ({', '.join(parts)}): another version of performative "
                    "wrote it; export the data with that version, and give them to a new study as `history`"
                )
        self._like = like
        return like


def _required(planned: Planned) -> Planned:
    if not np.all(np.isfinite(planned.decisions)):
        raise StudyError(f"decisions must be finite, but the method asks for {planned.decisions.tolist()}")
    return planned
