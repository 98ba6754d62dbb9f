"""What `ask` and `tell` return, and what the log keeps of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from performative.numerics.arrays import Floats
from performative.study.records import Arrays


class Why(NamedTuple):
    """Why these decisions: θ_t, how far each lies from it (b, d), its slack −g in every constraint (b, m), and λ_t (m,)."""

    decision: Floats
    exploration: Floats
    safety: Floats
    multipliers: Floats


class Deployment(NamedTuple):
    """Decisions (b, d) to deploy, and how many samples are wanted of each."""

    id: int
    round: int
    decisions: Floats
    samples: int
    why: Why


class Told(NamedTuple):
    """What a `tell` changed: θ and λ before and after. `round` is the next one."""

    round: int
    decision_before: Floats
    decision: Floats
    multipliers_before: Floats
    multipliers: Floats


def asked_for(number: int, header: dict[str, Any], arrays: Arrays) -> Deployment:
    """The deployment that event `number`, an ask, wrote down."""
    decisions = arrays["decisions"]
    why = Why(arrays["decision"], decisions - arrays["decision"], -arrays["g"], arrays["multipliers"])
    return Deployment(number, header["round"], decisions, header["samples"], why)


def changes(asked: Deployment, header: dict[str, Any], arrays: Arrays) -> Told:
    """What the tell of a deployment changed."""
    before = asked.why
    return Told(header["round"], before.decision, arrays["decision"], before.multipliers, arrays["multipliers"])
