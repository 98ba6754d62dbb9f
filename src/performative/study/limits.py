"""Limits that people set when they decline a proposal: what they may be, and decisions moved to meet them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from performative.constraints import Linear
from performative.errors import NoStrictlyFeasibleDecision
from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64
from performative.problem import Problem
from performative.safety import Pull, PullToward
from performative.solvers.feasibility import strictly_feasible
from performative.study.events import Limits
from performative.study.sheet import normal
from performative.validation import bounds, shown

Given = Mapping[int, float] | Mapping[str, float] | ArrayLike
"""Bounds as people give them: {place: bound}, {name: bound}, or one for every number of a decision."""


class Mover(NamedTuple):
    """Moves decisions within limits: the problem with the limits as constraints, and the pull toward their anchor."""

    problem: Problem
    safety: PullToward

    def __call__(self, decision: Array) -> Array:
        """A decision near this one that meets the limits and all constraints."""
        return self.safety(self.problem, self.problem.decisions.project(decision))


@in_float64
def mover(problem: Problem, limits: Limits) -> Mover:
    """What moves decisions of a problem within limits."""
    within = _limited(problem, limits.lower, limits.upper)
    return Mover(within, Pull().prepared(within, limits.anchor))


@in_float64
def limits_of(problem: Problem, lower: Floats, upper: Floats, near: Floats) -> Limits:
    """These bounds, with a decision that meets them and all constraints with room to spare; refused if there is none."""
    if not np.all(lower < upper):
        raise ValueError(f"`lower < upper` must hold, but got lower={lower.tolist()}, upper={upper.tolist()}")
    try:
        anchor = strictly_feasible(_limited(problem, lower, upper), start=near)
    except NoStrictlyFeasibleDecision as error:
        raise ValueError(
            f"`lower` and `upper` must leave decisions that meet every constraint with room to spare, but leave none: "
            f"{', '.join(error.blocking)} are in the way"
        ) from error
    return Limits(lower, upper, anchor)


def bounds_after(argument: str, given: Given | None, before: Floats, names: tuple[str, ...] | None = None) -> Floats:
    """The bounds (d,) `before`, changed as `given`: the newest word on a number counts, and infinity lifts a bound.

    >>> bounds_after("upper", {1: 5.0}, np.array([np.inf, 3.0, 4.0])).tolist()
    [inf, 5.0, 4.0]
    >>> bounds_after("upper", {"bread": 5.0}, np.array([np.inf, np.inf]), ("milk", "bread")).tolist()
    [inf, 5.0]
    """
    if given is None:
        return before
    none = np.inf if argument == "upper" else -np.inf
    if not isinstance(given, Mapping):
        after = bounds(argument, given, -none)
        if after.shape != before.shape:
            raise ValueError(
                f"`{argument}` must have shape {before.shape}, but got {after.shape}; or write {{name or place: bound}}"
            )
        return after
    changed = before.copy()
    seen: dict[int, object] = {}
    for key, bound in given.items():
        place = _place(argument, key, len(before), names)
        if place in seen:
            raise ValueError(f"`{argument}` must name each number once, but {seen[place]!r} and {key!r} are the same")
        seen[place] = key
        changed[place] = bounds(argument, bound, -none)
    return changed


def _place(argument: str, key: object, dimension: int, names: tuple[str, ...] | None) -> int:
    """Which number of a decision it is."""
    if isinstance(key, str) and names is not None and normal(key) in names:
        return names.index(normal(key))
    if isinstance(key, int | np.integer) and not isinstance(key, bool) and 0 <= key < dimension:
        return int(key)
    known = "" if names is None else f"by name, {', '.join(names)}, or "
    raise ValueError(
        f"`{argument}` must say which number of a decision it is {known}by its place, 0 to {dimension - 1}, but got {shown(key)}"
    )


def _limited(problem: Problem, lower: Floats, upper: Floats) -> Problem:
    """The problem with the finite bounds as constraints."""
    most, least = np.flatnonzero(np.isfinite(upper)), np.flatnonzero(np.isfinite(lower))
    if not len(most) + len(least):
        return problem
    unit = np.eye(problem.d)
    rows = np.concatenate([unit[most], -unit[least]])
    names = [f"number {place} at most {upper[place]:.6g}" for place in most]
    names += [f"number {place} at least {lower[place]:.6g}" for place in least]
    limit = Linear(rows, np.concatenate([upper[most], -lower[least]]), names)
    return Problem(problem.loss, problem.decisions, [*problem.constraints, limit], problem.d)


def meet(limits: Limits, decision: Array) -> Array:
    """Whether a decision meets the limits."""
    return jnp.all((limits.lower <= decision) & (decision <= limits.upper))
