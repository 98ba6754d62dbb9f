"""Reasons: why a careful decision-maker deploys what it deploys, in words and in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from performative.numerics.arrays import Floats

MOST_MOVES = 6
"""How many coordinates of a probe are named."""
ArrayLike = Any
"""A number or an array, of NumPy or JAX."""


class Explanation(NamedTuple):
    """Why the next decisions are what they are: sentences, and the numbers in them, as JSON has them.

    `budget` is what may be lost by now against staying at the start, what was at most, and what is left, and `max_move` how far
    each coordinate may move; None without a limit. A study, which knows what its numbers are called, has sentences in their
    words, and keeps these in `theory`.

    >>> Explanation(("deploys the start",), {"action": "start"}).sentences
    ('deploys the start',)
    """

    sentences: tuple[str, ...]
    numbers: dict[str, object]
    budget: dict[str, float] | None = None
    max_move: tuple[float, ...] | None = None
    theory: tuple[str, ...] = ()


class Plan(NamedTuple):
    """What a decision-maker has planned, in numbers.

    `decisions` (b, d) come next, after those `deployed` (b, d) last; `planned` (b, d) is what they would be without a limit on
    moves. `gain` is what the `decision` is expected to gain over the start, and `price` and `worth` are those of the probes, of
    which the last may be a `wide` one (`pace`). `tight` (m,) says which constraints hold the decision, and `at_lower` and
    `at_upper` (d,) at which bounds it lies.
    """

    round: ArrayLike
    decision: ArrayLike
    planned: ArrayLike
    decisions: ArrayLike
    deployed: ArrayLike
    repeats: ArrayLike
    gain: ArrayLike
    price: ArrayLike
    worth: ArrayLike
    wide: ArrayLike
    radius: ArrayLike
    limited: ArrayLike
    held: ArrayLike
    allowed: ArrayLike
    spent: ArrayLike
    max_move: ArrayLike | None
    widths: ArrayLike
    multipliers: ArrayLike
    tight: ArrayLike
    at_lower: ArrayLike
    at_upper: ArrayLike


def explained(plan: Plan, names: Sequence[str]) -> Explanation:
    """A plan in words and numbers; `names` are those of the constraints."""
    if int(np.asarray(plan.round)) == 0:
        return Explanation(("starts: the first decision is always the start",), {"action": "start"})
    decision, decisions, planned, widths = (
        np.asarray(part) for part in (plan.decision, plan.decisions, plan.planned, plan.widths)
    )
    gain, price, worth = float(plan.gain), float(plan.price), float(plan.worth)
    repeats, wide = int(plan.repeats), bool(plan.wide)
    moves = decisions - decision
    far = np.any(np.abs(moves) > 1e-9 * widths, axis=1)
    near = np.all(np.abs(decisions - planned) <= 1e-9 * widths)
    exploring = bool(np.any(far)) and bool(near)
    probing = bool(np.any(np.abs(planned - decision) > 1e-9 * widths))
    limits = _limits(plan, names, not near)
    numbers: dict[str, object] = {
        "action": "explore" if exploring else "exploit",
        "moves": moves.tolist(),
        "gain": gain,
        "price": price if exploring else 0.0,
        "worth": worth if exploring else 0.0,
        "wide": exploring and wide,
        "rounds": max(repeats, 1) if exploring else 1,
        "limits": list(limits),
    }
    if exploring:
        said = "; ".join(_moved(move) for move in moves[far])
        again = f", for {repeats} rounds" if repeats > 1 else ""
        sentences = [f"explores: {said} from θ_t{again}"]
    else:
        toward = "moves toward a probe" if probing else "moves toward θ_t"
        sentences = ["exploits: deploys θ_t" if near else toward]
    better = "a gain" if gain >= 0 else "a loss"
    there = "" if near or probing else ", once θ_t is reached"
    sentences.append(f"the plan counts on {better} of {abs(gain):.4g} over the start{there}")
    if exploring:
        costs = f"costs about {price:.3g}" if price > 0 else "is expected to cost nothing"
        sentences.append(f"the probe {costs} in risk, and what it teaches is worth about {worth:.3g}")
        if wide:
            sentences.append("the probe is a wide one, since deployments so far say too little about its direction")
    sentences += [f"held by {limit}" for limit in limits.values()]
    most = None if plan.max_move is None else tuple(np.asarray(plan.max_move).tolist())
    return Explanation(tuple(sentences), numbers, budget_of(plan), most)


def plan_of(reasons: dict[str, Any] | None) -> Plan | None:
    """The plan whose numbers were stored by name; None if there are none."""
    return None if reasons is None else Plan(**({"max_move": None} | reasons))


def budget_of(plan: Plan) -> dict[str, float] | None:
    """What may be lost by now against staying at the start, a bound on what was, and what is left; None without a limit."""
    allowed, spent = float(plan.allowed), max(float(plan.spent), 0.0)
    if not np.isfinite(allowed):
        return None
    return {"allowed": allowed, "spent": spent, "left": max(allowed - spent, 0.0)}


def _moved(move: Floats) -> str:
    """Which coordinates move by how much, the farthest first if there are many."""
    moving = np.flatnonzero(move)
    named = sorted(moving[np.argsort(-np.abs(move[moving]))][:MOST_MOVES])
    words = ", ".join(f"coordinate {place} moves by {move[place]:+.4g}" for place in named)
    more = len(moving) - len(named)
    return words + (f" and {more} more by less" if more else "")


def _limits(plan: Plan, names: Sequence[str], short: bool) -> dict[str, str]:
    """What keeps the decision from going farther, by name, in words."""
    limits: dict[str, str] = {}
    if plan.limited:
        limits["trust region"] = f"the trust region: no farther than {float(plan.radius):.2g} of the range in one round"
    if plan.held:
        limits["budget"] = "the budget: more could be lost than is left of it"
    if short and plan.max_move is not None:
        most = _numbers(np.asarray(plan.max_move))
        limits["max_move"] = f"max_move: no coordinate farther than {most} from the last deployment"
    for name, tight, multiplier in zip(names, np.asarray(plan.tight), np.asarray(plan.multipliers), strict=True):
        if tight and multiplier > 0:
            limits[f"constraint {name}"] = f"constraint {name}: one unit more would be worth {multiplier:.3g}"
    for side, there in (("lower", plan.at_lower), ("upper", plan.at_upper)):
        for place in np.flatnonzero(np.asarray(there)):
            limits[f"{side} bound of {place}"] = f"the {side} bound of coordinate {place}"
    return limits


def _numbers(values: Floats) -> str:
    return f"{values[0]:.4g}" if np.all(values == values[0]) else ", ".join(f"{value:.4g}" for value in values)
