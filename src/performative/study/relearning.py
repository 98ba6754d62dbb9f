"""What a method makes of reports that were made before: all of them told again, from the beginning."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from performative.methods.protocol import MethodState
from performative.numerics.precision import in_float64
from performative.study.calls import Calls
from performative.study.events import Planned, SoFar
from performative.study.history import Round
from performative.study.states import not_finite


class Relearned(NamedTuple):
    """The state after some reports, what the method asks for in it, the sums of these reports, and the last of them."""

    state: MethodState
    planned: Planned
    so_far: SoFar
    last: Round | None


@in_float64
def relearned(calls: Calls, constraints: int, reports: Iterable[Round]) -> Relearned:
    """tell(… tell(init, x₁, z₁) …, x_n, z_n) for decisions x and samples z: the bits of a study that had these reports alone."""
    state, last = calls.begin(), None
    planned, so_far = calls.ask(state, 0), SoFar.nothing(constraints)
    for one in reports:
        number = one.asked.number
        try:
            after, planned, _, finite = calls.tell(state, one.decisions, np.asarray(one.observed.samples))
        except ValueError as error:
            raise ValueError(f"what is left cannot be learned from: deployment {number}: {error}") from error
        if not finite and not not_finite(state):
            raise ValueError(f"what is left cannot be learned from: after deployment {number} the state is not finite")
        state, so_far, last = after, so_far.after(number, one.constraint_values), one
    return Relearned(state, planned, so_far, last)
