"""Smooth functions under constraints on the unit cube, from many starts together and without second derivatives.

Sequential quadratic programming: at u, with B the damped BFGS estimate of the Hessian of the Lagrangian, the step p solves

    min ½pᵀBp + ⟨∇f(u), p⟩,        c(u) + ∇c(u)p ≤ 0,        0 ≤ u + p ≤ 1,

and is halved until f + μ Σ max(c, 0) falls. All starts take their steps together, so that a step calls the functions once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from performative.errors import SolverFailed
from performative.numerics.arrays import Floats
from performative.solvers.quadratic import quadratic_minimum

STEPS, HALVINGS = 50, 20
CLOSE = 1e-9
"""A step that promises to lower f by less than this share of its size is the last."""
_SLOPE, _DAMPED = 1e-4, 0.2

Values = Callable[[Floats], tuple[Floats, Floats]]
"""Values and derivatives at many points: (s,) and (s, d), or (s, m) and (s, m, d)."""


class _Points(NamedTuple):
    """Where the search stands, and the values and slopes of f and c there."""

    u: Floats
    f: Floats
    slope: Floats
    c: Floats
    steep: Floats

    @staticmethod
    def at(u: Floats, function: Values, constraints: Values) -> _Points:
        return _Points(u, *function(u), *constraints(u))

    def merit(self, weight: Floats) -> Floats:
        return self.f + weight * _violation(self.c)

    def lagrangian(self, multipliers: Floats) -> Floats:
        """Its slope."""
        return self.slope + np.sum(multipliers[:, :, None] * self.steep, axis=1)

    def where(self, chosen: NDArray[np.bool_], others: _Points) -> _Points:
        """These points where they are chosen, and the others."""
        return _Points(
            *(
                np.where(chosen.reshape(-1, *(part.ndim - 1) * [1]), part, other)
                for part, other in zip(self, others, strict=True)
            )
        )


def minimized_together(function: Values, constraints: Values, starts: Floats) -> Floats:
    """Where the steps from each of the starts (s, d) end: minimizers of f with c ≤ 0, as far as there are any."""
    here, going = _Points.at(starts, function, constraints), np.ones(len(starts), bool)
    bent, weight = np.tile(np.eye(starts.shape[1]), (len(starts), 1, 1)), np.zeros(len(starts))
    for step in range(STEPS):
        moves, multipliers = np.zeros_like(here.u), np.zeros_like(here.c)
        for lane in np.flatnonzero(going).tolist():
            try:
                moves[lane], multipliers[lane] = _step(here, bent, lane)
            except SolverFailed:
                going[lane] = False
        weight = np.maximum(weight, 2.0 * np.max(multipliers, axis=1, initial=0.0))
        promised = np.sum(here.slope * moves, axis=1) - weight * _violation(here.c)
        going &= promised < -CLOSE * np.maximum(1.0, np.abs(here.f))
        there, going = _moved(here, moves, promised, weight, going, (function, constraints))
        if not np.any(going):
            break
        change = there.lagrangian(multipliers) - here.lagrangian(multipliers)
        for lane in np.flatnonzero(going).tolist():
            bent[lane] = _bent(bent[lane], there.u[lane] - here.u[lane], change[lane], first=step == 0)
        here = there
    return here.u


def _moved(
    here: _Points,
    moves: Floats,
    promised: Floats,
    weight: Floats,
    going: NDArray[np.bool_],
    functions: tuple[Values, Values],
) -> tuple[_Points, NDArray[np.bool_]]:
    """The points after the first of 1, ½, ¼, … of each move that lowers the merit by its share of what was promised.

    And which of those that were going have moved.
    """
    reached, waiting, length = here, going, 1.0
    for _ in range(HALVINGS):
        if not np.any(waiting):
            break
        there = _Points.at(np.clip(here.u + length * moves, 0.0, 1.0), *functions)
        lower = waiting & (there.merit(weight) <= here.merit(weight) + _SLOPE * length * promised)
        reached, waiting, length = there.where(lower, reached), waiting & ~lower, 0.5 * length
    return reached, going & ~waiting


def _step(here: _Points, bent: Floats, lane: int) -> tuple[Floats, Floats]:
    """The step of one of the points, and the multipliers of c."""
    u, _, slope, c, steep = (part[lane] for part in here)
    eye = np.eye(len(u))
    move, duals = quadratic_minimum(
        bent[lane], slope, np.concatenate([steep, eye, -eye]), np.concatenate([c, u - 1.0, -u])
    )
    return move, duals[: len(c)]


def _bent(bent: Floats, s: Floats, change: Floats, first: bool) -> Floats:
    """The estimate of the Hessian after a step s over which the slope has changed, kept positive (Powell 1978)."""
    if not np.any(s) or not np.all(np.isfinite(change)):
        return bent
    if first and s @ change > 0.0:
        bent = bent * (change @ change) / (s @ change)
    along = bent @ s
    size, curved = float(s @ along), float(s @ change)
    if curved < _DAMPED * size:
        share = (1.0 - _DAMPED) * size / (size - curved)
        change = share * change + (1.0 - share) * along
        curved = float(s @ change)
    return bent - np.outer(along, along) / size + np.outer(change, change) / curved


def _violation(c: Floats) -> Floats:
    return np.sum(np.maximum(c, 0.0), axis=1)
