"""Where a study stands: its decision and what holds it, what is believed of the world, what to do next and what to watch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from performative.precision import in_float64
from performative.study import belief, cautions
from performative.study.belief import Predicted
from performative.validation import Floats

if TYPE_CHECKING:
    from performative.study.study import Study


class Status(NamedTuple):
    """A study at one moment.

    `deployed` (b, d) is what is deployed, or was last; `slack` is −g at the current decision by constraint, and `slack_history`
    (n, m) the least of each deployment that was told. `effect` and `effect_error` are the estimate and its standard errors.
    `now`, `stable` and `optimum` are the current decision, the stable point and the optimum of the world as it is believed to be,
    with predicted risks; None where the method does not predict or nothing was told. `exploration_cost` is the predicted risk of
    all deployments less that of the decisions they explored around, added up.
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
    stable: Predicted | None
    optimum: Predicted | None
    exploration_cost: float | None
    next_action: str
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        """The same in lines of text."""
        lines = [f"study {self.name}: round {self.round}, {self.told} deployments told"]
        lines.append(f"decision   {_row(self.decision)}")
        if self.deployed is not None:
            lines.append(f"deployed   {'; '.join(_row(row) for row in self.deployed)}")
        for name, slack in self.slack.items():
            lines.append(f"constraint {name}: slack {slack:.6g}, multiplier {self.multipliers[name]:.6g}")
        for label, at in (("now", self.now), ("stable", self.stable), ("optimum", self.optimum)):
            if at is not None:
                interval = "" if at.low is None else f" ({at.low:.6g} to {at.high:.6g})"
                lines.append(f"risk {label:7} {at.risk:.6g}{interval} at {_row(at.decision)}")
        if self.exploration_cost is not None:
            lines.append(f"exploration has cost {self.exploration_cost:.6g} of risk so far")
        lines += [f"warning: {warning}" for warning in self.warnings]
        return "\n".join([*lines, f"next: {self.next_action}"])


@in_float64
def status(study: Study) -> Status:
    """See `Status`."""
    method: Any = study.method
    state, problem = study.state, study.method.problem
    past = study.history()
    decision, multipliers = np.asarray(state.decision), np.asarray(state.multipliers)
    values, names = np.asarray(problem.g(jnp.asarray(decision))), problem.constraint_names
    world = belief.believed(method, state)
    deployed, slack = past["deployed"].values, past["slack"].values
    pending = study.pending
    last = pending.decisions if pending is not None else (_filled(deployed[-1]) if len(deployed) else None)
    effect, effect_error = belief.effect(method, state)
    recent = slice(-cautions.RECENT, None)
    decisions = np.concatenate([past["decision"].values, decision[None]])
    seen = ~np.isnan(past["loss"].values)[recent]
    flat = deployed[recent][seen], past["data"].values[recent][seen]
    warnings = [
        *cautions.constraints(names, values, multipliers, decision, bool(getattr(method, "feasible", False))),
        *cautions.deployments(names, slack, past["deployment"].values),
        *cautions.step(method, world, decisions),
        *cautions.data(*flat),
    ]
    return Status(
        name=study.name,
        round=int(state.round),
        told=past.sizes["deployment"],
        decision=decision,
        deployed=last,
        multipliers=dict(zip(names, multipliers.tolist(), strict=True)),
        slack=dict(zip(names, (-values).tolist(), strict=True)),
        slack_history=np.nanmin(slack, axis=1) if slack.size else np.zeros((len(slack), len(names))),
        effect=effect,
        effect_error=effect_error,
        now=None if world is None else belief.predicted(world, state, decision),
        stable=None if world is None else belief.solved(world, state, "stable"),
        optimum=None if world is None else belief.solved(world, state, "optimum"),
        exploration_cost=None if world is None else belief.cost(world, deployed, past["decision"].values),
        next_action=_next(pending),
        warnings=tuple(warnings),
    )


def _next(pending: Any) -> str:
    if pending is None:
        return "ask for the next decisions"
    rows = "; ".join(_row(row) for row in pending.decisions)
    return f"deploy {rows} and tell {pending.samples} samples of each for deployment {pending.id}"


def _filled(rows: Floats) -> Floats:
    return rows[~np.any(np.isnan(rows), axis=1)]


def _row(decision: Floats) -> str:
    return "[" + ", ".join(f"{value:.6g}" for value in decision) + "]"
