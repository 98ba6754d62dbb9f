"""Convex programs in cvxpy, solved by Clarabel."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from performative.errors import SolverFailed
from performative.numerics.arrays import Floats
from performative.problem import Problem
from performative.solvers.derivatives import linearized

if TYPE_CHECKING:
    from cvxpy import Expression, Variable
    from cvxpy import Problem as Program


TIGHT = {"tol_gap_abs": 1e-13, "tol_gap_rel": 1e-13, "tol_feas": 1e-13, "max_iter": 400}
"""Settings of Clarabel: to the last digits."""
UNSCALED = {"equilibrate_enable": False}
"""Where numbers differ widely in size, Clarabel's own scaling may be what fails."""


def constraint_values(problem: Problem, theta: Floats, variable: Variable) -> list[Expression]:
    """The constraints' values at `variable`: in convex form if there is one, linearized at θ if not."""
    g, jacobian = linearized(problem, theta)
    values, row = [], 0
    for item in problem.constraints:
        rows = slice(row, row + len(item.names))
        row = rows.stop
        declared = item.declare(variable)
        values.append(g[rows] + jacobian[rows] @ (variable - theta) if declared is None else declared)
    return values


def undeclared(problem: Problem) -> Floats:
    """1 for each constraint without a convex form, 0 for the others."""
    marks = [np.full(len(item.names), float(not item.has_convex_form)) for item in problem.constraints]
    return np.concatenate([*marks, np.zeros(0)])


def solve(program: Program) -> None:
    """Solve a cvxpy program with Clarabel to its last digits, or raise `SolverFailed`."""
    import cvxpy as cp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # accuracy is certified by the KKT residual, not by the solver's status
        try:
            program.solve(solver=cp.CLARABEL, **TIGHT)
        except cp.SolverError:
            try:
                program.solve(solver=cp.CLARABEL, warm_start=False, **TIGHT, **UNSCALED)
            except cp.SolverError as error:
                raise SolverFailed(f"Clarabel failed: {error}") from error
    if program.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
        raise SolverFailed(f"the convex subproblem is {program.status}")
