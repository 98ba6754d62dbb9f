"""The status of a study as people read it, in a terminal of 80 columns."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from performative.numerics.arrays import Floats
from performative.study.because import BEST, moves
from performative.study.words import WIDTH, costs, holds, names_of, sparkline, table
from performative.wording import alike, interval, number, plural, room

if TYPE_CHECKING:
    from performative.study.belief import Predicted

Status = Any
"""A `performative.study.Status`, which prints itself by this file."""
MOST_ROWS = 30
"""How many numbers of a decision are listed."""
MOST_ARMS = 3
"""How many decisions that are deployed at once have columns of their own."""
MOST_NAMED = 6
"""How many numbers of a decision are written into a line."""


def screen(status: Status) -> str:
    """The status in plain words; `terms.theory` has those of the theory."""
    blocks = [_head(status), _decisions(status), _outcome(status), [*_rooms(status)], _effect(status), [*_next(status)]]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _head(status: Status) -> list[str]:
    outcome = status.outcome
    told = f"{outcome.periods(status.told)} reported"
    if outcome.period == "deployment":
        told = f"round {status.round}, {told}"
    return [f"study {status.name}: {told}"]


def _decisions(status: Status) -> list[str]:
    """What is deployed, what would be if nothing were tried out, and what was at first."""
    labels, d = status.labels, len(status.decision)
    columns: dict[str, Floats] = {}
    if status.deployed is not None:
        head = "deployed now" if status.is_open else "deployed last"
        arms = status.deployed
        if len(arms) > MOST_ARMS:
            columns |= {f"{head}: least": arms.min(axis=0), "greatest": arms.max(axis=0)}
        else:
            heads = [head] if len(arms) == 1 else [f"decision {place}" for place in range(len(arms))]
            columns |= dict(zip(heads, arms, strict=True))
    columns[BEST] = status.decision
    if status.gain is not None:
        columns["start"] = status.gain.start
    units = labels.decision_units
    names = names_of(labels, d)
    firsts = names if units is None else [f"{name} {unit}".strip() for name, unit in zip(names, units, strict=True)]
    rows = [[first, *(f"{column[i]:.5g}" for column in columns.values())] for i, first in enumerate(firsts[:MOST_ROWS])]
    return [*table(["", *columns], rows), *_more(d - MOST_ROWS)]


def _outcome(status: Status) -> list[str]:
    """The outcome at the start, now and at best, what was gained, and a line of bars."""
    outcome = status.outcome
    rows: list[tuple[str, str]] = []
    if status.now is not None and status.now.risk is None:
        rows += [("now, and against the start", _reason(status, status.now.reason))]
    elif status.now is not None:
        rows += [("at the start", _start(status)), (f"at the {BEST}", _level(status, status.now))]
        rows += [("possible at best", _level(status, status.optimum, place=True))]
        rows += [("gain over the start", _gain(status))]
        if status.exploration_cost is not None and status.now.risk is not None:
            mean = status.exploration_cost / max(status.told, 1)
            rows.append(
                (
                    "trying things out cost",
                    f"{number(mean, 2)} {outcome.rate} on average" if mean > 0 else "nothing so far",
                )
            )
    if status.told:
        known = status.losses[np.isfinite(status.losses)] * outcome.sign
        if len(known):
            spread = float(np.ptp(known)) or float(abs(known[-1]))
            low, high, last = alike([float(known.min()), float(known.max()), float(known[-1])], spread / 20)
            ends = number(float(known[0])) if len(known) == 1 else f"{low} to {high}, last {last}"
            rows.append((f"{outcome.period} by {outcome.period}", ends))
    if not rows:
        return []
    lines = [outcome.each + (f", in {outcome.unit}" if outcome.unit else "")]
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        lines += _wrapped(f"  {name:<{width}}  {text}", " " * (width + 4))
    if status.told:
        lines.append(f"  {sparkline(status.losses * outcome.sign)}")
    return lines


def _start(status: Status) -> str:
    """The outcome at the start; by the gain over it, where it is so near to nothing that its own interval says nothing."""
    one = status.gain
    if status.start is not None and status.start.risk is None and one is not None and one.gain is not None:
        return f"about {alike([status.outcome.sign * (status.now.risk + one.gain)], abs(one.high - one.low) / 2)[0]}"
    return _level(status, status.start)


def _level(status: Status, at: Predicted | None, place: bool = False) -> str:
    if at is None:
        return "not found"
    if at.risk is None or at.low is None or at.high is None:
        return _reason(status, at.reason)
    sign = status.outcome.sign
    value, low, high = interval(sign * at.risk, sign * at.low, sign * at.high)
    where = ""
    if place and at.decision is not None and len(at.decision) <= MOST_NAMED:
        each = zip(names_of(status.labels, len(at.decision)), at.decision.tolist(), strict=True)
        where = ", with " + ", ".join(f"{name} {number(one)}" for name, one in each)
    return f"{value} (95 %: {low} to {high}){where}" + ("" if at.reason is None else f"; {at.reason}")


def _reason(status: Status, reason: str | None) -> str:
    """Why there is no number yet, with the word for a deployment."""
    early = re.fullmatch(r"too early, (\d+) more deployments?", reason or "")
    if early is None:
        return str(reason)
    count, noun = early[1], status.outcome.period
    return f"too early, {count} more {noun if count == '1' else plural(noun)}"


def _gain(status: Status) -> str:
    one = status.gain
    if one is None or one.gain is None or one.low is None or one.high is None:
        return "not known yet" if one is None else _reason(status, one.reason)
    if one.low == one.high == 0:
        return f"none: the {BEST} is the start"
    value, low, high = interval(one.gain, one.low, one.high, sign=True)
    share = status.gain_share
    rest = "" if one.reason is None else f"; {one.reason}"
    if share is None:
        return f"{value} (95 %: {low} to {high}){rest}"
    half = 50 * (share[2] - share[1])
    parts = alike([100 * part for part in share], 10.0 if max(map(abs, share)) >= 0.1 else min(1.0, half), sign=True)
    return f"{parts[0]} % (95 %: {parts[1]} to {parts[2]}), that is {value} ({low} to {high}){rest}"


def _rooms(status: Status) -> Iterator[str]:
    """The room left in each limit by what is deployed, and what a limit costs."""
    size = float(np.max(np.abs(status.decision), initial=0.0))
    for place, (name, slack) in enumerate(status.slack.items()):
        left = status.deployed_slack.get(name, slack)
        line = f"room left in {name}: {room(left, size)}"
        past = status.slack_history[:, place]
        past = past[np.isfinite(past)]  # of deployments since there is this limit
        if len(past):
            line += f" (least so far: {room(float(past.min()), size)})"
        if left < -1e-6 * max(1.0, size):
            line += "; what is deployed violates it"
        if holds(slack, status.multipliers[name], status.decision):
            line += f"; it {costs(status.multipliers[name], status.outcome)}"
        yield from _wrapped(line)


def _effect(status: Status) -> list[str]:
    """What one unit more of each number of a decision does to the data."""
    known = status.known_effect
    if known is None:
        return []
    if not np.any(known):
        return _wrapped("how the data react: not known yet, since what was deployed differs too little so far")
    assert status.effect is not None
    assert status.effect_error is not None
    values = np.atleast_2d(status.effect)
    values = values.reshape(-1, values.shape[-1])
    errors = status.effect_error.reshape(values.shape)
    k, d = values.shape
    labels = status.labels
    columns = names_of(labels, d)
    firsts = list(labels.data) if labels.data is not None and len(labels.data) == k else [f"data {i}" for i in range(k)]
    units = (set(labels.decision_units or ("",)), set(labels.data_units or ("",)))
    more = units[0].pop() if len(units[0]) == 1 else ""
    unit = units[1].pop() if len(units[1]) == 1 else ""
    title = f"what one {more or 'unit'} more does"
    whole = f"{title} (column) to what is reported (row){f', in {unit}' if unit else ''}, ± standard error"
    cells = [[_cell(values[i, j], errors[i, j], bool(known[i, j])) for j in range(d)] for i in range(k)]
    wide = table(["", *columns], [[first, *row] for first, row in zip(firsts, cells, strict=True)])
    if k <= MOST_ROWS and max(map(len, wide)) <= WIDTH:
        return [*_wrapped(whole), *wide]
    if firsts == columns or (labels.decisions is None and k == d):
        own = [[name, cells[i][i]] for i, name in enumerate(columns[:MOST_ROWS])]
        own_title = f"{title} to its own data{f', in {unit}' if unit else ''}, ± standard error"
        others = "  how each acts on others: `performative study plot`, or --json"
        return [*_wrapped(own_title), *table(["", ""], own)[1:], *_more(d - MOST_ROWS), others]
    fit = [
        d2
        for d2 in range(1, d + 1)
        if max(
            map(len, table(["", *columns[:d2]], [[first, *row[:d2]] for first, row in zip(firsts, cells, strict=True)]))
        )
        <= WIDTH
    ]
    shown = max(fit, default=1)
    rows = [[first, *row[:shown]] for first, row in zip(firsts[:MOST_ROWS], cells, strict=False)]
    return [*_wrapped(whole), *table(["", *columns[:shown]], rows), *_more(max(d - shown, k - MOST_ROWS))]


def _cell(value: float, error: float, known: bool) -> str:
    if not known:
        return "not known yet"
    shown = alike([value, error], error)
    return f"{shown[0]} ± {shown[1]}"


def _more(count: int) -> list[str]:
    return [f"  … and {count} more: `performative study plot`, or --json"] if count > 0 else []


def _next(status: Status) -> Iterator[str]:
    """Why, within which limits, what is wrong, and what to do."""
    if status.why is not None:
        for sentence in status.why.sentences:
            yield from _wrapped(f"why: {sentence}", "     ")
        if status.why.budget is not None:
            yield from _wrapped(_budget(status, status.why.budget), "  ")
        if status.why.max_move is not None:
            most = moves(np.asarray(status.why.max_move), status.labels)
            yield from _wrapped(f"max_move: {most} from one deployment to the next", "  ")
    for warning in status.warnings:
        yield from _wrapped(f"warning: {warning}", "  ")
    yield from _wrapped(f"next: {status.next_action}", "  ")


def _budget(status: Status, budget: dict[str, float]) -> str:
    """The loss budget in deployments' worth of the start's outcome, where there is one."""
    outcome, start = status.outcome, status.start_value
    parts = [budget[name] / (start or 1.0) for name in ("allowed", "spent", "left")]
    allowed, spent, left = (number(part, 2 if start else 3) for part in parts)
    what = (
        f"{allowed} in {outcome.each}, added up,"
        if start is None
        else f"what {allowed} {outcome.period if allowed == '1' else plural(outcome.period)} at the start bring"
    )
    return f"loss budget: {what} may be lost against the start by now; at most {spent} was, {left} is left"


def _wrapped(text: str, indent: str = "  ") -> list[str]:
    return textwrap.wrap(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, drop_whitespace=True
    )
