"""How far a decision may go from where it starts: the range of each coordinate, at first and at most."""

from __future__ import annotations

import numpy as np

from performative.numerics.arrays import Floats
from performative.problem import Problem
from performative.sets import separable

SPAN = 1.5
"""The first range of a coordinate of one sign, in multiples of its start."""


def ranges(problem: Problem, start: Floats, moves: Floats, nil: float) -> tuple[Floats, Floats]:
    """The widths of each coordinate's range, at first and at most: those of Θ; where it is unbounded ten moves, or infinite.

    A coordinate of one sign, such as a price, first ranges over SPAN times its start if that is less: whoever allows prices of up
    to a hundred times today's does not expect them soon. A start of less than `nil` times the range says nothing. Where
    coordinates have no range of their own, directions are alike, and all get the widest.
    """
    at = np.asarray(start, np.float64)
    far = 1e6 * (1.0 + min(float(problem.decisions.radius), 1e6) + np.abs(at))
    ends = [
        [float(problem.decisions.project(at + sign * far * axis)[j]) for j, axis in enumerate(np.eye(problem.d))]
        for sign in (-1.0, 1.0)
    ]
    low, high = np.asarray(ends)
    bounded = (high - low < 0.5 * far) & (high > low)
    width = np.where(bounded, high - low, 10.0 * moves)
    if not separable(problem.decisions):
        widest = np.full(problem.d, float(np.max(width)))
        return widest, widest
    size, range_ = np.abs(at), high - low
    one_signed = bounded & (low * high >= 0.0) & (size > nil * range_)
    return np.where(one_signed, np.minimum(SPAN * size, range_), width), width
