"""Where a study stands, in numbers and in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64
from performative.reasons import Explanation
from performative.solvers.derivatives import constraint_values_at
from performative.solvers.fixed_point import fixed_point
from performative.study import belief, cautions
from performative.study.belief import Believed, Gain, Predicted, Recent
from performative.study.events import VIOLATED
from performative.study.history import Reported, least
from performative.study.labels import Labels
from performative.study.screen import screen
from performative.study.terms import theory
from performative.study.words import row
from performative.wording import Outcome, counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import xarray as xr

    from performative.methods.protocol import Method, MethodState
    from performative.problem import Problem
    from performative.solvers.kkt import Solution
    from performative.study.deployments import Deployment
    from performative.study.history import Round
    from performative.study.log import Log


KEPT = ("deployment", "asked", "told", "samples", "decision", "deployed", "slack", "data", "loss")
"""What is kept of each deployment that was reported: see `history.MEANINGS`."""
MOST_SHARE = 10.0
"""A gain of more times what the start brings is not shown as a share."""


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

    `print` shows it in plain words, and `theory()` in those of the theory. `outcome` says what a loss is shown as. What is
    deployed `is_open` until it is reported, and leaves `deployed_slack` in each constraint. `start` is the predicted risk at the
    first decision, and `losses` (n,) are the mean losses of all deployments, over so many `samples` (n,) of each decision.

    >>> import tempfile, performative as pf
    >>> from performative.losses import Revenue
    >>> method = pf.repeated_gradient(pf.Problem(Revenue(), pf.Box([0.0], [5.0])))
    >>> with tempfile.TemporaryDirectory() as folder, pf.Study.create(f"{folder}/studies.db", "prices", method) as study:
    ...     status: pf.study.Status = study.status()
    >>> print(status)
    study prices: round 1, 0 deployments reported
    <BLANKLINE>
                best guess
      number 0           0
    <BLANKLINE>
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
    labels: Labels
    outcome: Outcome
    is_open: bool
    deployed_slack: dict[str, float]
    start: Predicted | None
    losses: Floats
    samples: NDArray[np.int64]

    def __str__(self) -> str:
        """The status in plain words."""
        return screen(self)

    def theory(self) -> str:
        """The status in the words of the theory: θ_t, multipliers, slack and risks."""
        return theory(self)

    @property
    def start_value(self) -> float | None:
        """What was lost or, as it is shown, earned at the start, if that is surely more than nothing."""
        if self.start is None or self.start.risk is None or self.start.low is None or self.start.high is None:
            return None
        value = self.outcome.sign * self.start.risk
        return value if value > self.start.high - self.start.low else None

    @property
    def gain_share(self) -> tuple[float, float, float] | None:
        """The gain and its interval as shares of what the start brings; None where that is not known, or next to nothing."""
        start, one = self.start_value, self.gain
        if start is None or one is None or one.gain is None or one.low is None or one.high is None:
            return None
        shares = one.gain / start, one.low / start, one.high / start
        return shares if abs(shares[0]) <= MOST_SHARE else None

    @property
    def known_effect(self) -> NDArray[np.bool_] | None:
        """Which entries (k, d) of the effect say anything: their standard errors are less than the largest that is sure."""
        if self.effect is None:
            return None
        rows = np.atleast_2d(self.effect)
        values = np.abs(rows.reshape(-1, rows.shape[-1]))
        if self.effect_error is None:
            return np.zeros(values.shape, bool)
        errors = self.effect_error.reshape(values.shape)
        sure = values[values > 2.0 * errors]
        return np.asarray(errors < np.max(sure, initial=0.0))

    def beside(self, past: xr.Dataset) -> xr.Dataset:
        """A history with what is believed: the effect, its standard errors, which of it is known, and the risk of the start."""
        known = self.known_effect
        if known is not None and self.effect is not None:
            error = (
                np.full(known.shape, np.nan) if self.effect_error is None else self.effect_error.reshape(known.shape)
            )
            parts = {"effect": self.effect.reshape(known.shape), "effect_error": error, "effect_known": known}
            past = past.assign({name: (("reaction", "of"), part) for name, part in parts.items()})
        if self.start is not None and self.start.risk is not None:
            risks = {"start_risk": self.start.risk, "start_low": self.start.low, "start_high": self.start.high}
            past = past.assign_attrs(risks)
        return past

    def plain(self) -> dict[str, Any]:
        """The status in lists, numbers and strings, as JSON has them: None for numbers that are not finite."""
        more = {"labels": self.labels.plain(), "gain_share": _plain(self.gain_share)}
        return {key: _plain(value) for key, value in self._asdict().items()} | more


class Words(NamedTuple):
    """What the numbers of a study are called, what a loss is shown as, and why the next decisions are what they are."""

    labels: Labels
    outcome: Outcome
    why: Explanation | None


class Progress:
    """The status of a study from time to time: what it needs of the log is kept, and read on from where it ended."""

    def __init__(self, name: str, method: Method, log: Log) -> None:
        self._name, self._method = name, method
        self._recent = Recent(getattr(method, "history", None))
        self._reported = Reported(
            log.dimension, log.constraint_names, log.names_at, log.method_at, log.loss_since, KEPT
        )
        self._outside: dict[int, float] = {}  # how far from Θ something was deployed that was not asked for
        self._next = 0
        self._last: Status | None = None

    def status(
        self,
        state: MethodState,
        pending: Deployment | None,
        reported: Callable[[int], Iterator[Round]],
        labels: Labels,
        outcome: Outcome,
        why: Explanation | None,
    ) -> Status:
        """The status in a state of the method; `reported` gives the deployments of the log from a number on.

        `why` explains the next decisions; without it the method is asked.
        """
        for one in reported(self._next):
            self._recent.add(one.asked.number, one.decisions, one.observed.samples)
            if one.observed.actual is not None and np.max(one.observed.actual.outside) > VIOLATED:
                self._outside[one.asked.number] = float(np.max(one.observed.actual.outside))
            self._reported.add(one)
            self._next = one.observed.number + 1
        words = Words(labels, outcome, why)
        self._last = _status(
            self._name, self._method, state, pending, self._reported, self._recent, self._outside, words, self._last
        )
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
    words: Words,
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
    now = None if world is None else belief.predicted(world, decision)
    lowest = least(slack) if slack.size else np.zeros((len(slack), len(names)))
    left = -values if not len(lowest) else lowest[-1]
    if pending is not None and pending.approved:
        left = np.min(pending.why.safety, axis=0)
    window = slice(-cautions.RECENT, None)
    decisions = np.concatenate([past["decision"], decision[None]])
    present = ~np.isnan(past["loss"])[window]
    counts = np.broadcast_to(past["samples"][window, None], present.shape)[present]
    safe = bool(getattr(method, "feasible", False))
    warnings = [
        *cautions.constraints(names, values, safe),
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
        slack_history=lowest,
        effect=effect,
        effect_error=effect_error,
        now=now,
        gain=None if world is None else belief.gain(world, decision, start),
        stable=None if world is None else _as_early(now, belief.solved(world, problem, _stable, _place(stable))),
        optimum=None
        if world is None
        else _as_early(now, belief.optimum(world, problem, decision, start, _place(optimum))),
        exploration_cost=None if world is None else belief.cost(world, deployed, past["decision"]),
        why=words.why if words.why is not None or not isinstance(method, Explains) else method.why(state),
        next_action=_next(pending, words.labels),
        warnings=tuple(warnings),
        labels=words.labels,
        outcome=words.outcome,
        is_open=pending is not None and pending.approved,
        deployed_slack=dict(zip(names, left.tolist(), strict=True)),
        start=None if world is None else belief.predicted(world, start),
        losses=_mean_of_arms(past["loss"]),
        samples=past["samples"].copy(),
    )


def _stable(problem: Problem, world: Believed, last: Floats | None) -> Solution:
    return fixed_point(problem, world, last, near=last is not None)


def _as_early(now: Predicted | None, other: Predicted | None) -> Predicted | None:
    """A prediction elsewhere; too early for it as long as it is too early for one at the current decision."""
    if now is None or other is None or now.risk is not None:
        return other
    return Predicted(other.decision, None, None, None, now.reason)


def _mean_of_arms(losses: Floats) -> Floats:
    """The mean (n,) of the losses (n, b) of what was deployed together."""
    there = ~np.isnan(losses)
    return np.where(there, losses, 0.0).sum(axis=1) / np.maximum(there.sum(axis=1), 1)


def _place(predicted: Predicted | None) -> Floats | None:
    return None if predicted is None else predicted.decision


def _next(pending: Deployment | None, labels: Labels) -> str:
    if pending is None:
        return "ask for the next decisions"
    rows = "; ".join(row(one, labels.decisions, labels.decision_units) for one in pending.decisions)
    if not pending.approved:
        return f"approve or decline proposal {pending.id}: {rows}"
    of_each = "" if len(pending.decisions) == 1 else " of each"
    return f"deploy {rows} and report {counted(pending.samples, 'row')}{of_each} for deployment {pending.id}"


def _filled(rows: Floats) -> Floats:
    return rows[~np.any(np.isnan(rows), axis=1)]


def _plain(value: object) -> Any:
    if isinstance(value, np.ndarray):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return float(value) if np.isfinite(value) else None
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, Predicted | Gain | Explanation | Outcome):
        return {key: _plain(part) for key, part in value._asdict().items()}
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, tuple | list) else value
