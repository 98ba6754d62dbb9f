"""The status of a study in the words of the theory: θ_t, multipliers, slack and risks."""

from __future__ import annotations

from typing import Any

import numpy as np

from performative.numerics.arrays import Floats
from performative.study.words import row

Status = Any
"""A `performative.study.Status`, which prints itself by this file."""

MOST_ROWS = 8
"""How many rows and columns of the effect are printed."""


def theory(status: Status) -> str:
    """The status in lines of text."""
    lines = [f"study {status.name}: round {status.round}, {status.told} deployments reported"]
    lines.append(f"θ_t        {_row(status, status.decision)}")
    if status.deployed is not None:
        lines.append(f"deployed   {'; '.join(_row(status, one) for one in status.deployed)}")
    for place, (name, slack) in enumerate(status.slack.items()):
        line = f"constraint {name}: slack {slack:.6g} at θ_t, multiplier {status.multipliers[name]:.6g}"
        past = status.slack_history[:, place]
        past = past[np.isfinite(past)]  # of deployments since there is this constraint
        if len(past):
            line += f"; deployed with slack {past[-1]:.6g} last, {past.min():.6g} at worst"
        lines.append(line)
    lines += _effect(status)
    for label, at in (("now", status.now), ("stable", status.stable), ("optimum", status.optimum)):
        if at is not None:
            where = "" if at.decision is None or at.risk is None else f" at {_row(status, at.decision)}"
            lines.append(f"risk {label:7} {_interval(at.risk, at.low, at.high, at.reason, where)}")
        elif status.now is not None:
            lines.append(f"risk {label:7} not found")
        if label == "now" and status.gain is not None:
            one, where = status.gain, f" over the start {_row(status, status.gain.start)}"
            lines.append(f"gain         {_interval(one.gain, one.low, one.high, one.reason, where)}")
    if status.exploration_cost is not None:
        lines.append(f"exploration has cost {status.exploration_cost:.6g} in risk so far")
    if status.why is not None:
        lines += [f"why: {sentence}" for sentence in status.why.theory or status.why.sentences]
        budget, moves = status.why.budget, status.why.max_move
        if budget is not None:
            lines.append(
                f"budget: {budget['allowed']:.4g} may be lost against the start by now, at most {budget['spent']:.4g} was, "
                f"{budget['left']:.4g} is left"
            )
        if moves is not None:
            lines.append(f"max_move: {_row(status, np.asarray(moves))} from one deployment to the next")
    lines += [f"warning: {warning}" for warning in status.warnings]
    return "\n".join([*lines, f"next: {status.next_action}"])


def _row(status: Status, decision: Floats) -> str:
    return row(decision, status.labels.decisions, status.labels.decision_units)


def _effect(status: Status) -> list[str]:
    if status.effect is None:
        return []
    if status.effect_error is None:
        reason = None if status.now is None else status.now.reason
        return [f"effect     {reason or 'too early, more samples'}"]
    rows = np.atleast_2d(status.effect)
    rows = rows.reshape(-1, rows.shape[-1])
    errors = status.effect_error.reshape(rows.shape)
    names = status.labels.data
    names = names if names is not None and len(names) == len(rows) else tuple(map(str, range(len(rows))))
    width = max(4, *(len(name) + 1 for name in names[:MOST_ROWS]))
    lines = [
        f"effect {names[place]:<{width}}"
        + ", ".join(f"{value:.4g} ± {error:.2g}" for value, error in zip(values[:MOST_ROWS], of_row, strict=False))
        + (", …" if len(values) > MOST_ROWS else "")
        for place, (values, of_row) in enumerate(zip(rows[:MOST_ROWS], errors, strict=False))
    ]
    if len(rows) > MOST_ROWS:
        lines.append(f"effect …   {len(rows) - MOST_ROWS} more rows")
    return lines


def _interval(value: float | None, low: float | None, high: float | None, reason: str | None, place: str) -> str:
    """A number with its interval, or why there is none."""
    if value is None:
        return f"{reason}"
    return f"{value:.6g} ({low:.6g} to {high:.6g}){place}" + ("" if reason is None else f"; {reason}")
