"""Where a study stands, in numbers and in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64
from performative.reasons import Explanation
from performative.solvers.derivatives import constraint_values_at
from performative.solvers.fixed_point import fixed_point
from performative.study import belief, cautions
from performative.study.belief import Believed, Gain, Predicted, Recent
from performative.study.events import VIOLATED
from performative.study.history import Reported, least
from performative.study.labels import UNNAMED, Labels
from performative.study.words import row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from performative.methods.protocol import Method, MethodState
    from performative.problem import Problem
    from performative.solvers.kkt import Solution
    from performative.study.deployments import Deployment
    from performative.study.history import Round
    from performative.study.log import Log


KEPT = ("deployment", "asked", "told", "samples", "decision", "deployed", "slack", "data", "loss")
"""What is kept of each deployment that was reported: see `history.MEANINGS`."""
MOST_ROWS = 8
"""How many rows and columns of the effect are printed."""


@runtime_checkable
class Explains(Protocol):
    """A method that can say why it decides as it does."""

    def why(self, state: Any) -> Explanation:
        """Why the next decisions are what they are."""


class Status(NamedTuple):
    """A study at one moment.

    `deployed` (b, d) is what is deployed now, or was last; `slack` is −g at the current decision by constraint, and
    `slack_history` (n, m) the least slack of each reported deployment. `effect` and `effect_error` are the estimate and its
    standard errors. `now`, `stable` and `optimum` are the current decision, the stable point and the optimum of the estimated
    world, with predicted risks; None before anything was reported, and where the solver finds none. `gain` is how much lower the
    risk is now than at the first decision. Each has a 95% interval, or the reason why it is too early for one.
    `exploration_cost` is the predicted risk of all deployments less that of the decisions they explored around, added up. `why`
    says why the next decisions are what they are, what may be lost and what was, if the method can say.

    >>> import tempfile, performative as pf
    >>> from performative.losses import Revenue
    >>> method = pf.repeated_gradient(pf.Problem(Revenue(), pf.Box([0.0], [5.0])))
    >>> with tempfile.TemporaryDirectory() as folder, pf.Study.create(f"{folder}/studies.db", "prices", method) as study:
    ...     status: pf.study.Status = study.status()
    >>> print(status)
    study prices: round 1, 0 deployments reported
    decision   [0]
    next: ask for the next decisions
    """

    name: str
    round: int
    told: int
    decision: Floats
    deployed: Floats | None
    multipliers: dict[str, float]
    slack: dict[str, float]
    slack_history: Floats
    effect: Floats | None
    effect_error: Floats | None
    now: Predicted | None
    gain: Gain | None
    stable: Predicted | None
    optimum: Predicted | None
    exploration_cost: float | None
    why: Explanation | None
    next_action: str
    warnings: tuple[str, ...]
    labels: Labels = UNNAMED

    def __str__(self) -> str:
        """The status in lines of text."""
        lines = [f"study {self.name}: round {self.round}, {self.told} deployments reported"]
        lines.append(f"decision   {self._row(self.decision)}")
        if self.deployed is not None:
            lines.append(f"deployed   {'; '.join(self._row(one) for one in self.deployed)}")
        for place, (name, slack) in enumerate(self.slack.items()):
            line = f"constraint {name}: slack {slack:.6g}, multiplier {self.multipliers[name]:.6g}"
            past = self.slack_history[:, place]
            past = past[np.isfinite(past)]  # of deployments since there is this constraint
            if len(past):
                line += f"; deployed with slack {past[-1]:.6g} last, {past.min():.6g} at worst"
            lines.append(line)
        lines += self._effect()
        for label, at in (("now", self.now), ("stable", self.stable), ("optimum", self.optimum)):
            if at is not None:
                where = "" if at.decision is None or at.risk is None else f" at {self._row(at.decision)}"
                lines.append(f"risk {label:7} {_interval(at.risk, at.low, at.high, at.reason, where)}")
            elif self.now is not None:
                lines.append(f"risk {label:7} not found")
            if label == "now" and self.gain is not None:
                one, where = self.gain, f" over the start {self._row(self.gain.start)}"
                lines.append(f"gain         {_interval(one.gain, one.low, one.high, one.reason, where)}")
        if self.exploration_cost is not None:
            cost = self.exploration_cost
            lines.append(f"exploration has {'cost' if cost >= 0 else 'gained'} {abs(cost):.6g} in risk so far")
        if self.why is not None:
            lines += [f"why: {sentence}" for sentence in self.why.sentences]
            budget, moves = self.why.budget, self.why.max_move
            if budget is not None:
                lines.append(
                    f"budget: {budget['allowed']:.4g} may be lost against the start by now, at most {budget['spent']:.4g} was, "
                    f"{budget['left']:.4g} is left"
                )
            if moves is not None:
                lines.append(f"max_move: {self._row(np.asarray(moves))} from one deployment to the next")
        lines += [f"warning: {warning}" for warning in self.warnings]
        return "\n".join([*lines, f"next: {self.next_action}"])

    def _row(self, decision: Floats) -> str:
        return row(decision, self.labels.decisions, self.labels.decision_units)

    def _effect(self) -> list[str]:
        if self.effect is None:
            return []
        if self.effect_error is None:
            reason = None if self.now is None else self.now.reason
            return [f"effect     {reason or 'too early, more samples'}"]
        rows = np.atleast_2d(self.effect)
        rows = rows.reshape(-1, rows.shape[-1])
        errors = self.effect_error.reshape(rows.shape)
        names = self.labels.data
        names = names if names is not None and len(names) == len(rows) else tuple(map(str, range(len(rows))))
        width = max(4, *(len(name) + 1 for name in names[:MOST_ROWS]))
        lines = [
            f"effect {names[place]:<{width}}"
            + ", ".join(
                f"{value:.4g} ± {error:.2g}" for value, error in zip(values[:MOST_ROWS], errors_of_row, strict=False)
            )
            + (", …" if len(values) > MOST_ROWS else "")
            for place, (values, errors_of_row) in enumerate(zip(rows[:MOST_ROWS], errors, strict=False))
        ]
        if len(rows) > MOST_ROWS:
            lines.append(f"effect …   {len(rows) - MOST_ROWS} more rows")
        return lines

    def plain(self) -> dict[str, Any]:
        """The status in lists, numbers and strings, as JSON has them: None for numbers that are not finite."""
        return {key: _plain(value) for key, value in self._asdict().items()} | {"labels": self.labels.plain()}


class Progress:
    """The status of a study from time to time: what it needs of the log is kept, and read on from where it ended."""

    def __init__(self, name: str, method: Method, log: Log) -> None:
        self._name, self._method = name, method
        self._recent = Recent(getattr(method, "history", None))
        self._reported = Reported(log.dimension, log.constraint_names, log.names_at, KEPT)
        self._outside: dict[int, float] = {}  # how far from Θ something was deployed that was not asked for
        self._next = 0
        self._last: Status | None = None

    def status(
        self,
        state: MethodState,
        pending: Deployment | None,
        reported: Callable[[int], Iterator[Round]],
        labels: Labels,
    ) -> Status:
        """The status in a state of the method; `reported` gives the deployments of the log from a number on."""
        for one in reported(self._next):
            self._recent.add(one.asked.number, one.decisions, one.observed.samples)
            if one.observed.actual is not None and np.max(one.observed.actual.outside) > VIOLATED:
                self._outside[one.asked.number] = float(np.max(one.observed.actual.outside))
            self._reported.add(one)
            self._next = one.observed.number + 1
        last = _status(
            self._name, self._method, state, pending, self._reported, self._recent, self._outside, self._last
        )
        self._last = last._replace(labels=labels, next_action=_next(pending, labels))
        return self._last


@in_float64
def _status(
    name: str,
    method: Method,
    state: MethodState,
    pending: Deployment | None,
    past: Reported,
    recent: Recent,
    outside: dict[int, float],
    last: Status | None,
) -> Status:
    """See `Status`; `past` is the history, `recent` holds its last samples and `outside` what left Θ.

    Solvers begin where the `last` status ended.
    """
    problem = method.problem
    decision, multipliers = np.asarray(state.decision), np.asarray(state.multipliers)
    values, names = constraint_values_at(problem, decision), problem.constraint_names
    world = belief.believed(method, state, recent)
    deployed, slack = past["deployed"], past["slack"]
    shown = (
        pending.decisions
        if pending is not None and pending.approved
        else (_filled(deployed[-1]) if len(deployed) else None)
    )
    start = past["decision"][0] if len(deployed) else decision
    effect, effect_error = (None, None) if world is None else belief.effect(world)
    window = slice(-cautions.RECENT, None)
    decisions = np.concatenate([past["decision"], decision[None]])
    present = ~np.isnan(past["loss"])[window]
    counts = np.broadcast_to(past["samples"][window, None], present.shape)[present]
    safe = bool(getattr(method, "feasible", False))
    warnings = [
        *cautions.constraints(names, values, multipliers, decision, safe),
        *cautions.deployments(names, slack, past["deployment"]),
        *cautions.clock(past["deployment"], past["asked"], past["told"]),
        *cautions.outside(outside, len(past)),
        *cautions.step(method, world, decisions),
        *cautions.data(
            deployed[window][present],
            past["data"][window][present],
            counts,
            belief.memory_of(method) is not None,
        ),
    ]
    stable, optimum = (None, None) if last is None else (last.stable, last.optimum)
    return Status(
        name=name,
        round=int(state.round),
        told=len(past),
        decision=decision,
        deployed=shown,
        multipliers=dict(zip(names, multipliers.tolist(), strict=True)),
        slack=dict(zip(names, (-values).tolist(), strict=True)),
        slack_history=least(slack) if slack.size else np.zeros((len(slack), len(names))),
        effect=effect,
        effect_error=effect_error,
        now=None if world is None else belief.predicted(world, decision),
        gain=None if world is None else belief.gain(world, decision, start),
        stable=None if world is None else belief.solved(world, problem, _stable, _place(stable)),
        optimum=None if world is None else belief.optimum(world, problem, decision, start, _place(optimum)),
        exploration_cost=None if world is None else belief.cost(world, deployed, past["decision"]),
        why=method.why(state) if isinstance(method, Explains) else None,
        next_action="",
        warnings=tuple(warnings),
    )


def _stable(problem: Problem, world: Believed, last: Floats | None) -> Solution:
    return fixed_point(problem, world, last, near=last is not None)


def _place(predicted: Predicted | None) -> Floats | None:
    return None if predicted is None else predicted.decision


def _next(pending: Deployment | None, labels: Labels) -> str:
    if pending is None:
        return "ask for the next decisions"
    rows = "; ".join(row(one, labels.decisions, labels.decision_units) for one in pending.decisions)
    if not pending.approved:
        return f"approve or decline proposal {pending.id}: {rows}"
    return f"deploy {rows} and report {pending.samples} samples of each for deployment {pending.id}"


def _filled(rows: Floats) -> Floats:
    return rows[~np.any(np.isnan(rows), axis=1)]


def _interval(value: float | None, low: float | None, high: float | None, reason: str | None, place: str) -> str:
    """A number with its interval, or why there is none."""
    if value is None:
        return f"{reason}"
    return f"{value:.6g} ({low:.6g} to {high:.6g}){place}" + ("" if reason is None else f"; {reason}")


def _plain(value: object) -> Any:
    if isinstance(value, np.ndarray):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return float(value) if np.isfinite(value) else None
    if isinstance(value, Predicted | Gain | Explanation):
        return {key: _plain(part) for key, part in value._asdict().items()}
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, tuple | list) else value
