"""Reasons: why a careful decision-maker deploys what it deploys, in words and in numbers."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from performative.numerics.arrays import Floats
from performative.problem import Problem
from performative.sets import Box

MOST_MOVES = 6
"""How many coordinates of a probe are named."""
CLOSE = 1e-4
"""The share of the range within which a decision is said to lie at a bound."""


class Explanation(NamedTuple):
    """Why the next decisions are what they are: sentences, and the numbers in them, as JSON has them.

    `budget` is what may be lost by now against staying at the start, what was at most, and what is left, and `max_move` how far
    each coordinate may move; None without a limit.

    >>> Explanation(("deploys the start",), {"action": "start"}).sentences
    ('deploys the start',)
    """

    sentences: tuple[str, ...]
    numbers: dict[str, object]
    budget: dict[str, float] | None = None
    max_move: tuple[float, ...] | None = None


class Plan(NamedTuple):
    """What a decision-maker has planned, in plain numbers.

    `decisions` (b, d) come next, after those `deployed` (b, d) last; `planned` (b, d) is what they would be without a limit on
    moves. `gain` is what the `decision` is expected to gain over the start, and `price` and `worth` are those of the probes, of
    which the last may be a `wide` one (`pace`).
    """

    started: bool
    decision: Floats
    planned: Floats
    decisions: Floats
    deployed: Floats
    repeats: int
    gain: float
    price: float
    worth: float
    wide: bool
    radius: float
    limited: bool
    held: bool
    allowed: float
    spent: float
    max_move: Floats | None
    widths: Floats
    multipliers: Floats


def explained(problem: Problem, plan: Plan) -> Explanation:
    """A plan in words and numbers."""
    if not plan.started:
        return Explanation(("starts: the first decision is always the start",), {"action": "start"})
    moves = plan.decisions - plan.decision
    far = np.any(np.abs(moves) > 1e-9 * plan.widths, axis=1)
    near = np.all(np.abs(plan.decisions - plan.planned) <= 1e-9 * plan.widths)
    exploring = bool(np.any(far)) and bool(near)
    probing = bool(np.any(np.abs(plan.planned - plan.decision) > 1e-9 * plan.widths))
    limits = _limits(problem, plan, not near)
    numbers: dict[str, object] = {
        "action": "explore" if exploring else "exploit",
        "moves": moves.tolist(),
        "gain": plan.gain,
        "price": plan.price if exploring else 0.0,
        "worth": plan.worth if exploring else 0.0,
        "wide": exploring and plan.wide,
        "rounds": max(plan.repeats, 1) if exploring else 1,
        "limits": list(limits),
    }
    if exploring:
        said = "; ".join(_moved(move) for move in moves[far])
        again = f", for {plan.repeats} rounds" if plan.repeats > 1 else ""
        sentences = [f"explores: {said} from the current decision{again}"]
    else:
        toward = "moves toward a probe" if probing else "moves toward the current decision"
        sentences = ["exploits: deploys the current decision" if near else toward]
    better = "a gain" if plan.gain >= 0 else "a loss"
    there = "" if near or probing else ", once the current decision is reached"
    sentences.append(f"the plan counts on {better} of {abs(plan.gain):.4g} over the start{there}")
    if exploring:
        price = f"costs about {plan.price:.3g}" if plan.price > 0 else "is expected to cost nothing"
        sentences.append(f"the probe {price} in risk, and what it teaches is worth about {plan.worth:.3g}")
        if plan.wide:
            sentences.append("the probe is a wide one, since deployments so far say too little about its direction")
    sentences += [f"held by {limit}" for limit in limits.values()]
    most = None if plan.max_move is None else tuple(plan.max_move.tolist())
    return Explanation(tuple(sentences), numbers, budget_of(plan), most)


def budget_of(plan: Plan) -> dict[str, float] | None:
    """What may be lost by now against staying at the start, a bound on what was, and what is left; None without a limit."""
    if not np.isfinite(plan.allowed):
        return None
    spent = max(plan.spent, 0.0)
    return {"allowed": plan.allowed, "spent": spent, "left": max(plan.allowed - spent, 0.0)}


def _moved(move: Floats) -> str:
    """Which coordinates move by how much, the farthest first if there are many."""
    moving = np.flatnonzero(move)
    named = sorted(moving[np.argsort(-np.abs(move[moving]))][:MOST_MOVES])
    words = ", ".join(f"coordinate {place} moves by {move[place]:+.4g}" for place in named)
    more = len(moving) - len(named)
    return words + (f" and {more} more by less" if more else "")


def _limits(problem: Problem, plan: Plan, short: bool) -> dict[str, str]:
    """What keeps the decision from going farther, by name, in words."""
    limits: dict[str, str] = {}
    if plan.limited:
        limits["trust region"] = f"the trust region: no farther than {plan.radius:.2g} of the range in one round"
    if plan.held:
        limits["budget"] = "the budget: more could be lost than is left of it"
    if short and plan.max_move is not None:
        limits["max_move"] = f"max_move: no coordinate farther than {_numbers(plan.max_move)} from the last deployment"
    if problem.constraint_names:
        theta = jnp.asarray(plan.decision)
        slack = -np.asarray(problem.g(theta))
        steep = np.maximum(np.sqrt(np.asarray(problem.steepness(theta))), 1e-300)
        close = slack / steep <= CLOSE * float(np.max(plan.widths))
        for name, tight, multiplier in zip(problem.constraint_names, close, plan.multipliers, strict=True):
            if tight and multiplier > 0:
                limits[f"constraint {name}"] = f"constraint {name}: one unit more would be worth {multiplier:.3g}"
    if isinstance(problem.decisions, Box):
        ends = (("lower", np.asarray(problem.decisions.lower)), ("upper", np.asarray(problem.decisions.upper)))
        for side, end in ends:
            for place in np.flatnonzero(np.abs(plan.decision - end) <= CLOSE * plan.widths):
                limits[f"{side} bound of {place}"] = f"the {side} bound of coordinate {place}"
    return limits


def _numbers(values: Floats) -> str:
    return f"{values[0]:.4g}" if np.all(values == values[0]) else ", ".join(f"{value:.4g}" for value in values)
