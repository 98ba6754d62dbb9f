"""Rehearses a method: plays its first deployments in make-believe worlds, before a study of it begins or goes on with it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from performative.errors import SolverFailed
from performative.methods.protocol import Method, MethodState, require_method
from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64
from performative.numerics.programs import Program
from performative.problem import Problem
from performative.study.calls import Calls
from performative.study.creation import prepared
from performative.study.events import Limits, Planned
from performative.study.labels import UNNAMED, Labels
from performative.study.likeness import ASSUMED, Expected, Likeness, fitting, likely
from performative.study.pretended import World, risks, worlds
from performative.study.rehearsal import Performance, Rehearsal
from performative.study.spec import Described, describe, read_spec
from performative.study.states import not_finite
from performative.study.usable import computed
from performative.validation import MOST_SEED, shown, whole

DEPLOYMENTS = 20
"""How many deployments are played under each reaction."""
MOST_SAMPLES = 10_000
"""How many samples a decision brings at most; a method may want more."""


TENTH = 0.1
"""The share of a range that the example of a reaction goes."""
MOST_NAMED = 6
"""How many data are described one by one."""


class Opening(NamedTuple):
    """Where a rehearsal begins: the state and what it asks for, and today's decision (d,), which `stays` calls by a name."""

    state: MethodState
    planned: Planned
    today: Floats
    stays: str
    limits: Limits | None = None


def rehearse(
    other: Method | str | os.PathLike[str],
    *,
    mean: ArrayLike | None = None,
    spread: ArrayLike | None = None,
    labels: Labels | None = None,
    seed: int | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> Rehearsal:
    """Play twenty deployments of a method, or of the study that a description stands for, if data react not, weakly or strongly.

    `other` is a method, the text of a description or the path of one; `folder` is where the files that a text names are. `mean`
    and `spread` say what samples are like at the start: one number for all, or one for each number of a sample. Otherwise they
    are those of the description, of the method's history, or usual ones. The method decides with the random numbers of a study
    with this `seed`. A loss that is not finite, and whatever the method refuses, is an error. Nothing is stored.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> problem = pf.Problem(Revenue(), pf.Box([0.0], [5.0]), [pf.constraints.Linear([1.0], 4.0, name="cap")])
    >>> rehearsal = pf.study.rehearse(pf.repeated_gradient(problem, start=[2.0], step=0.01), mean=40.0, spread=0.0)
    >>> none = rehearsal.performances[0]
    >>> [round(float(one[0, 0]), 2) for one in none.decisions[:6]], none.touched
    ([2.0, 2.4, 2.8, 3.2, 3.6, 4.0], {0: 6})
    """
    if mean is None and spread is not None:
        raise ValueError(f"`spread` must come with `mean`, but got {shown(spread)} alone")
    expected = None if mean is None else Expected.of(mean, spread)
    if isinstance(other, os.PathLike):
        other, folder = read_spec(other), os.path.dirname(other) or "."
    if isinstance(other, str):
        described = describe(other, folder or ".")
        return rehearsed(
            described._replace(
                expected=described.expected if expected is None else expected,
                labels=described.labels if labels is None else labels,
                seed=described.seed if seed is None else seed,
            )
        )
    require_method("other", other)
    chosen = 0 if seed is None else whole("seed", seed, 0, MOST_SEED)
    return rehearsed(Described("", chosen, other, None, labels or UNNAMED, expected=expected))


@in_float64
def rehearsed(described: Described) -> Rehearsal:
    """The rehearsal of a study before it begins."""
    calls, _, _, labels = prepared(described.method, described.seed, described.labels)
    method, problem = calls.method, calls.method.problem
    state = calls.begin()
    planned = calls.ask(state, 0)
    history = getattr(method, "history", None)
    width = None if labels.data is None else len(labels.data)
    today = planned.decision
    like = fitting(problem, today, likely(problem, today, described.expected, history, width))
    return performed(calls, Opening(state, planned, today, "the start"), like, labels)


@in_float64
def performed(calls: Calls, opening: Opening, like: Likeness, labels: Labels) -> Rehearsal:
    """What a method does from an opening on, in a world for each reaction."""
    problem, today = calls.method.problem, opening.today
    all_worlds, widths = worlds(problem, today, like)
    performances: list[Performance] = []
    samples: tuple[int, ...] = ()
    for reaction, world in all_worlds.items():
        try:
            performance, samples = _played(calls, opening, world, reaction, widths, labels)
        except (ValueError, SolverFailed) as error:
            raise ValueError(f"rehearsal, reaction {reaction}: {error}; {_remedy(like)}") from error
        performances.append(performance)
    first = next(iter(all_worlds.values()))
    return Rehearsal(
        today=today,
        stays=opening.stays,
        loss=float(risks(problem, first, today[None])[0]),
        slack=-np.asarray(problem.g(jnp.asarray(today))),
        data=tuple(_said(like, labels, samples, opening.planned.samples)),
        samples=samples,
        widths=widths,
        labels=labels,
        constraint_names=problem.constraint_names,
        performances=tuple(performances),
    )


def _played(
    calls: Calls, opening: Opening, world: World, reaction: str, widths: Floats, labels: Labels
) -> tuple[Performance, tuple[int, ...]]:
    """The deployments under one reaction, and how many samples each brought."""
    problem = calls.method.problem
    state, planned = opening.state, opening.planned
    decisions: list[Floats] = []
    values: list[Floats] = []
    samples: list[int] = []
    for number in range(1, DEPLOYMENTS + 1):
        deployed, at = planned.decisions, planned.constraint_values
        if not np.all(np.isfinite(deployed)):
            raise ValueError(f"decisions must be finite, but deployment {number} is {shown(deployed.tolist())}")
        if opening.limits is not None and not opening.limits.met_by(deployed):
            deployed, at = calls.within(opening.limits, deployed)
        n = min(planned.samples, MOST_SAMPLES)
        noise = np.random.default_rng([number]).normal(size=(len(deployed), n, len(world.likeness.mean)))
        observed = np.stack([world.sample(*each) for each in zip(deployed, noise, strict=True)])
        before = state
        state, planned, (losses, _), is_finite = calls.tell(state, deployed, observed)
        if not np.all(np.isfinite(losses)):
            wrong = int(np.argmin(np.isfinite(losses)))
            means = shown(np.mean(observed[wrong], axis=0).tolist())
            raise ValueError(
                f"`loss` must be finite, but its mean is {losses[wrong]} at {shown(deployed[wrong].tolist())}, deployment "
                f"{number}, over data of the means {means}"
            )
        if not is_finite and not not_finite(before):
            raise ValueError(
                f"the state must stay finite, but {shown(not_finite(state))} would not after deployment {number}, at "
                f"{shown(deployed.tolist())}"
            )
        decisions.append(deployed)
        values.append(at)
        samples.append(n)
    counts = [len(one) for one in decisions]
    every = risks(problem, world, np.concatenate([opening.today[None], *decisions]))
    excess = every[1:] - every[0]
    if not np.all(np.isfinite(excess)):
        raise ValueError("`loss` must be finite on average, but is not at a decision that is deployed or at the start")
    steepness = np.asarray(computed(_steepness, problem, np.concatenate(decisions)))
    room = -np.concatenate(values) / np.maximum(np.sqrt(steepness), 1e-300) / np.max(widths)
    ends = np.cumsum(counts)[:-1]
    performance = Performance(
        reaction=reaction,
        means=_example(problem, world, widths, labels),
        decisions=tuple(decisions),
        constraint_values=tuple(values),
        room=tuple(np.split(room, ends)),
        excess=np.array([np.mean(part) for part in np.split(excess, ends)]),
        allowed=_allowed(planned),
    )
    return performance, tuple(samples)


def _allowed(planned: Planned) -> float | None:
    """What the budget of a method allows it to lose by now; None without a budget."""
    allowed = None if planned.reasons is None else planned.reasons.get("allowed")
    return None if allowed is None or not np.isfinite(allowed) else float(allowed)


def _example(problem: Problem, world: World, widths: Floats, labels: Labels) -> str:
    """What a reaction does, by the example of the datum that moves most."""
    across = np.abs(world.rates) * widths
    if not np.any(across):
        return "the data stay as they are, whatever is deployed"
    datum, place = np.unravel_index(np.argmax(across), across.shape)
    step = np.zeros_like(widths)
    step[place] = TENTH * widths[place]
    if not problem.decisions.contains(world.start + step):
        step = -step
    before, after = (world.mean(decision)[datum] for decision in (world.start, world.start + step))
    decided, observed = _name(labels.decisions, int(place), "number"), _name(labels.data, int(datum), "datum")
    start, end = float(world.start[place]), float(world.start[place] + step[place])
    return (
        f"if {decided} goes from {start:.4g} to {end:.4g}, the mean of {observed} goes from {before:.4g} to {after:.4g}"
    )


def _name(names: Iterable[str] | None, place: int, what: str) -> str:
    return f"{what} {place}" if names is None else list(names)[place]


def _said(like: Likeness, labels: Labels, samples: tuple[int, ...], wanted: int) -> list[str]:
    """What data are taken to be, in lines; at first, so many samples are `wanted`."""
    each = [f"{mean:.4g} ± {spread:.3g}" for mean, spread in zip(like.mean, like.spread, strict=True)]
    if len(set(each)) == 1:
        text = f"{each[0]}" + (" for each number" if len(each) > 1 else "")
    else:
        named = [f"{_name(labels.data, place, 'number')} {one}" for place, one in enumerate(each)]
        text = ", ".join(named[:MOST_NAMED]) + (
            f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
        )
    brought = str(samples[0]) if wanted == samples[0] else f"{samples[0]} of the {wanted} that are wanted"
    if samples[-1] != samples[0]:
        brought += f", then {samples[-1]}"
    lines = [f"data there: {text} ({like.source}); samples a deployment: {brought}"]
    if like.source == ASSUMED:
        lines.append(
            "  [rehearsal] in the description, with mean = [...] and spread = [...], says better what they are like"
        )
    return lines


def _remedy(like: Likeness) -> str:
    if like.source == ASSUMED:
        return "if data are not like that, [rehearsal] with mean = [...] and spread = [...] says what they are like"
    return "choose smaller steps or another method, or say what data are like"


@Program
def _steepness(problem: Problem, decisions: Array) -> Array:
    return jax.lax.map(problem.steepness, decisions)
