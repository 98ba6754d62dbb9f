"""Why the next decisions are what they are, in the words of the people who deploy them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from performative.numerics.arrays import Floats
from performative.reasons import Explanation, Plan, explained, plan_of
from performative.study.labels import Labels
from performative.study.words import costs, moved, names_of
from performative.wording import Outcome, counted, number

BEST = "best guess"
"""What the method's decision is called: what it would deploy if it had nothing to learn."""
ROUNDING = 1e-9
"""Moves by less than this share of the range are rounding."""


def explanation(
    reasons: dict[str, Any] | None, limits: Sequence[str], labels: Labels, outcome: Outcome
) -> Explanation | None:
    """The words for numbers that were stored by name; `limits` are the names of the constraints. None if there are none."""
    plan = plan_of(reasons)
    if plan is None:
        return None
    why = explained(plan, limits)
    return why._replace(sentences=tuple(_sentences(plan, why, limits, labels, outcome)), theory=why.sentences)


def _sentences(plan: Plan, why: Explanation, limits: Sequence[str], labels: Labels, outcome: Outcome) -> Iterator[str]:
    if why.numbers["action"] == "start":
        yield "begins at the start, as it always does"
        return
    decision, decisions, planned, widths, deployed = (
        np.asarray(part) for part in (plan.decision, plan.decisions, plan.planned, plan.widths, plan.deployed)
    )
    on_its_way = bool(np.any(np.abs(decisions - planned) > ROUNDING * widths))
    trying = bool(np.any(np.abs(planned - decision) > ROUNDING * widths))
    if why.numbers["action"] == "explore":
        far = np.any(np.abs(decisions - decision) > ROUNDING * widths, axis=1)
        tried = "; ".join(dict.fromkeys(moved(one - decision, labels) for one in decisions[far]))
        repeats = int(plan.repeats)
        yield f"tries something out around its {BEST}: {tried}" + (
            f", {counted(repeats, outcome.period)} long" if repeats > 1 else ""
        )
    elif on_its_way:
        goal = "what it wants to try" if trying else f"its {BEST}"
        yield f"moves toward {goal}{_since(decisions, deployed, widths, labels)}"
    else:
        yield f"deploys its {BEST}{_since(decisions, deployed, widths, labels)}"
    yield _expected(float(plan.gain), outcome)
    if why.numbers["action"] == "explore":
        yield _paid(float(plan.price), float(plan.worth), outcome)
        if plan.wide:
            yield "the step is a large one, since nothing else would show what it leads to"
    yield from _held(plan, on_its_way, limits, labels, outcome)


def _since(decisions: Floats, deployed: Floats, widths: Floats, labels: Labels) -> str:
    """By how much one decision differs from the one that was deployed last."""
    if len(decisions) != 1 or deployed.shape != decisions.shape:
        return ""
    move = decisions[0] - deployed[0]
    if np.all(np.abs(move) <= ROUNDING * widths):
        return ", as last time"
    return f"; since last time {moved(move, labels)}"


def _expected(gain: float, outcome: Outcome) -> str:
    if gain == 0:
        return f"expects as much {outcome.word} as at the start"
    better = "more" if (gain > 0) == outcome.turned else "less"
    return f"expects {outcome.amount(abs(gain))} {better} {outcome.word} than at the start"


def _paid(price: float, worth: float, outcome: Outcome) -> str:
    if price <= 0:
        return "trying this is expected to cost nothing"
    return (
        f"trying this is expected to cost {number(price, 2)} {outcome.rate}, and what it teaches to bring back about "
        f"{number(worth / price, 2)} times that"
    )


def _held(plan: Plan, on_its_way: bool, limits: Sequence[str], labels: Labels, outcome: Outcome) -> Iterator[str]:
    """What keeps the decision from going farther."""
    names = names_of(labels, len(np.asarray(plan.decision)))
    if plan.limited:
        most = number(100 * float(plan.radius), 2)
        yield f"goes no farther than {most} % of the range at once, since it knows too little beyond"
    if plan.held:
        yield "goes no farther, since more could be lost than is left of the loss budget"
    if on_its_way and plan.max_move is not None:
        yield f"goes no farther at once, since max_move allows {moves(np.asarray(plan.max_move), labels)}"
    for name, tight, multiplier in zip(limits, np.asarray(plan.tight), np.asarray(plan.multipliers), strict=True):
        if tight and multiplier > 0:
            yield f"{name} holds it, and {costs(float(multiplier), outcome)}"
    for side, there in (("lower", plan.at_lower), ("upper", plan.at_upper)):
        for place in np.flatnonzero(np.asarray(there)):
            yield f"{names[place]} is at its {side} bound"


def moves(most: Floats, labels: Labels) -> str:
    """How far each number of a decision may move at once.

    >>> moves(np.array([0.1, 0.2]), Labels.of(["milk", "bread"]))
    'milk 0.1, bread 0.2'
    """
    units = labels.decision_units or ("",) * len(most)
    if np.all(most == most[0]) and len(set(units)) == 1:
        return f"{number(float(most[0]), 3)} {units[0]}".strip()
    each = zip(names_of(labels, len(most)), most.tolist(), units, strict=True)
    return ", ".join(f"{name} {number(one, 3)} {unit}".strip() for name, one, unit in each)
