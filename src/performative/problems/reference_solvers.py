"""Two small solvers in NumPy for answers in closed form, independent of the library's solvers."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from performative.numerics.arrays import Floats

NEWTON = 100
"""The most Newton steps."""


def active_set(matrix: Floats, vector: Floats, rows: Floats, bounds: Floats) -> tuple[Floats, Floats]:
    """x and λ with M x − v + Cᵀλ = 0 and 0 ≤ λ ⊥ b − C x ≥ 0: tries every set of active rows of C, small ones first.

    A symmetric positive definite M gives the minimizer of ½xᵀMx − vᵀx under C x ≤ b; any other M whose symmetric part is
    positive definite gives the one point that solves this variational inequality. Each trial is one linear system.
    """
    size = len(vector)
    for count in range(size + 1):
        for active in map(list, itertools.combinations(range(len(bounds)), count)):
            active_rows = rows[active]
            if np.linalg.matrix_rank(active_rows) < count:
                continue
            system = np.block([[matrix, active_rows.T], [active_rows, np.zeros((count, count))]])
            solution = np.linalg.solve(system, np.concatenate([vector, bounds[active]]))
            x, multipliers = solution[:size], np.zeros(len(bounds))
            multipliers[active] = solution[size:]
            if np.all(rows @ x <= bounds + 1e-12) and np.all(multipliers >= -1e-12):
                return x, np.maximum(multipliers, 0.0)
    raise ValueError(f"`rows @ x <= bounds` must hold for some x, but no active set gives one with {bounds=}")


def box_rows(lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """A box as rows C and bounds b of C x ≤ b."""
    return np.vstack([np.eye(len(upper)), -np.eye(len(lower))]), np.concatenate([upper, -lower])


def newton(field: Callable[[Floats], tuple[Floats, Floats]], start: Floats) -> Floats:
    """The root of a field that comes with its Jacobian: Newton steps, halved until the field gets smaller."""
    x = start
    value, jacobian = field(x)
    for _ in range(NEWTON):
        step, size = np.linalg.solve(jacobian, -value), float(np.linalg.norm(value))
        for halving in range(30):
            there = x + 0.5**halving * step
            reached, jacobian_there = field(there)
            if np.linalg.norm(reached) < size:
                break
        else:
            break  # rounding is all that is left
        x, value, jacobian = there, reached, jacobian_there
    if not np.linalg.norm(value) <= 1e-12 * max(1.0, float(np.linalg.norm(x))):
        raise ValueError(
            f"the options must be mild enough for Newton's method, but it ends at {x} with a gradient of {value}"
        )
    return x
