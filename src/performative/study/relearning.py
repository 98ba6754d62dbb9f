"""What a method makes of reports that were made before: all of them told again, from the beginning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from performative.methods.protocol import MethodState
from performative.numerics.precision import in_float64
from performative.study.calls import Calls
from performative.study.deployments import Deployment
from performative.study.events import Planned, SoFar
from performative.study.history import Round, by_name
from performative.study.states import not_finite


class Relearned(NamedTuple):
    """The state after some reports, what the method asks for in it, the sums of these reports, and the last of them."""

    state: MethodState
    planned: Planned
    so_far: SoFar
    last: Round | None


Named = tuple[Round, Sequence[str]]
"""A report, and the names of the constraints at the time."""


def with_report(so_far: SoFar, names: Sequence[str], one: Round, then: Sequence[str]) -> SoFar:
    """The sums with one more report. Only constraints that were there at the time can have been violated."""
    return so_far.after(one.asked.number, by_name(one.constraint_values, then, names, -np.inf))


def sums(names: Sequence[str], reports: Iterable[Named]) -> SoFar:
    """The sums of some reports."""
    so_far = SoFar.nothing(len(names))
    for one, then in reports:
        so_far = with_report(so_far, names, one, then)
    return so_far


def require_fitting(pending: Deployment | None, planned: Planned) -> None:
    """Refuse a correction after which the method deploys another number at once than is open, which it could not be told."""
    if pending is not None and pending.approved and len(pending.decisions) != len(planned.decisions):
        raise ValueError(
            f"after that the method asks for {len(planned.decisions)} decisions at once and could not learn from the "
            f"{len(pending.decisions)} of deployment {pending.id}, which is open; report or cancel it first"
        )


@in_float64
def relearned(calls: Calls, names: Sequence[str], reports: Iterable[Named]) -> Relearned:
    """tell(… tell(init, x₁, z₁) …, x_n, z_n) for decisions x and samples z: the bits of a study that had these reports alone."""
    state, last = calls.begin(), None
    planned, so_far = calls.ask(state, 0), SoFar.nothing(len(names))
    for one, then in reports:
        number = one.asked.number
        try:
            after, planned, _, finite = calls.tell(state, one.decisions, np.asarray(one.observed.samples))
        except ValueError as error:
            raise ValueError(f"the reports cannot be told to the method: deployment {number}: {error}") from error
        if not finite and not not_finite(state):
            raise ValueError(
                f"the reports cannot be told to the method: after deployment {number} the state is not finite"
            )
        state, so_far, last = after, with_report(so_far, names, one, then), one
    return Relearned(state, planned, so_far, last)
