"""Convex quadratic programs over the same feasible set, one after another.

cvxpy takes far longer to put a small program into Clarabel's form than Clarabel takes to solve it. So it does that once for Θ and
for the constraints with a convex form; the other constraints are linear rows, and the objective is two arrays. Where all sides
are flat, cvxpy is not needed at all; with balls, it is not needed for the largest slack.
"""

from __future__ import annotations

import copy
import threading
import types
import warnings
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from performative.constraints import Linear
from performative.errors import SolverFailed
from performative.numerics.arrays import Floats
from performative.problem import Problem
from performative.sets import declared_by_rows
from performative.solvers.conic import TIGHT, UNSCALED

_known: weakref.WeakKeyDictionary[Problem, Sides | ConeProgram] = weakref.WeakKeyDictionary()


def programs(problem: Problem) -> Sides | ConeProgram:
    """Those of a problem, put together when they are first asked for."""
    if problem not in _known:
        flat = all(type(item) is Linear or not item.has_convex_form for item in problem.constraints)
        sides = Sides(problem) if flat and declared_by_rows(problem.decisions) else None
        # cvxpy's form of a ball is the one whose accuracy is known.
        _known[problem] = ConeProgram(problem) if sides is None or sides.has_balls else sides
    return _known[problem]


def slack_program(problem: Problem) -> Sides | None:
    """What finds the largest slack without cvxpy; None if that is needed."""
    flat = all(type(item) is Linear for item in problem.constraints)
    return Sides(problem) if flat and declared_by_rows(problem.decisions) else None


class Rows:
    """Affine functions Mx + c of a decision x, in place of cvxpy's where nothing else is needed."""

    __array_ufunc__ = None  # so that NumPy leaves products to this class

    def __init__(self, matrix: Floats, constant: Floats) -> None:
        self.matrix, self.constant = matrix, constant

    @property
    def shape(self) -> tuple[int, ...]:
        """How many functions there are."""
        return self.constant.shape

    def __getitem__(self, places: Any) -> Rows:
        return Rows(self.matrix[places], self.constant[places])

    def __rmatmul__(self, left: Floats) -> Rows:
        return Rows(np.asarray(left) @ self.matrix, np.asarray(left) @ self.constant)

    def __sub__(self, right: Floats) -> Rows:
        return Rows(self.matrix, self.constant - np.asarray(right))

    def __le__(self, bound: Floats) -> Rows:
        """The functions that are at most 0 where the inequality holds."""
        return self - bound

    def __ge__(self, bound: Floats) -> Rows:
        return Rows(-self.matrix, np.asarray(bound) - self.constant)

    def within(self, size: Floats) -> Round:
        """‖Mx + c‖₂ ≤ size."""
        return Round(self.matrix, self.constant, float(size))


class Round(NamedTuple):
    """‖Mx + c‖₂ ≤ size."""

    matrix: Floats
    constant: Floats
    size: float


class Sides:
    """Θ and the constraints of a problem as Mx + c ≤ 0, and as balls; constraints that are not affine are linearized."""

    def __init__(self, problem: Problem) -> None:
        x = Rows(np.eye(problem.d), np.zeros(problem.d))
        declared = problem.decisions.declare(x)
        self._round = [side for side in declared if isinstance(side, Round)]
        sides = [side for side in declared if not isinstance(side, Round)]
        self._matrix = np.concatenate([np.zeros((0, problem.d)), *(np.atleast_2d(side.matrix) for side in sides)])
        self._constant = np.concatenate([np.zeros(0), *(np.atleast_1d(side.constant) for side in sides)])

    @property
    def has_balls(self) -> bool:
        """Whether some sides are not flat."""
        return bool(self._round)

    def minimize(
        self, theta: Floats, hessian: Floats, gradient: Floats, g: Floats, jacobian: Floats
    ) -> tuple[Floats, Floats]:
        """See `ConeProgram.minimize`."""
        rows = np.concatenate([self._matrix, jacobian])
        constant = np.concatenate([self._matrix @ theta + self._constant, g])
        move, duals = quadratic_minimum(hessian, gradient, rows, constant, self._balls(theta))
        return theta + move, duals[len(self._matrix) : len(rows)]

    def least_of_largest(self, theta: Floats, g: Floats, jacobian: Floats, lowest: float) -> tuple[Floats, Floats]:
        """The decision that minimizes max g, or one where it is at most `lowest`, and the multipliers; g is affine."""
        d, m = len(theta), len(g)
        rows = np.zeros((len(self._matrix) + m + 1, d + 1))  # of the decision and of max g
        rows[: len(self._matrix), :d], rows[-m - 1 : -1, :d] = self._matrix, jacobian
        rows[-m - 1 :, d] = -1.0
        slope = np.append(np.zeros(d), 1.0)
        constant = np.concatenate([self._matrix @ theta + self._constant, g, [lowest]])
        balls = [ball._replace(matrix=np.pad(ball.matrix, ((0, 0), (0, 1)))) for ball in self._balls(theta)]
        move, duals = quadratic_minimum(np.zeros((d + 1, d + 1)), slope, rows, constant, balls)
        return theta + move[:d], duals[len(rows) - m - 1 : len(rows) - 1]

    def _balls(self, theta: Floats) -> list[Round]:
        """Of the way from θ."""
        return [ball._replace(constant=ball.matrix @ theta + ball.constant) for ball in self._round]


def quadratic_minimum(
    hessian: Floats, gradient: Floats, rows: Floats, constant: Floats, balls: Sequence[Round] = ()
) -> tuple[Floats, Floats]:
    """The minimizer u of ½uᵀHu + ⟨gradient, u⟩ with rows·u + constant ≤ 0 in all balls, and the multipliers, or `SolverFailed`.

    The multipliers of the rows come first.
    """
    import clarabel

    cones = [clarabel.NonnegativeConeT(len(rows))] if len(rows) else []
    cones += [clarabel.SecondOrderConeT(1 + len(ball.matrix)) for ball in balls]
    for ball in balls:  # the size and Mu + c lie in the cone
        rows = np.concatenate([rows, np.zeros((1, rows.shape[1])), -ball.matrix])
        constant = np.concatenate([constant, [-ball.size], -ball.constant])
    quadratic, sides = _Sparse.of(np.triu(hessian)), _Sparse.of(rows)
    for options in (TIGHT, TIGHT | UNSCALED):
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        for name, value in options.items():
            setattr(settings, name, value)
        found = clarabel.DefaultSolver(quadratic, gradient, sides, -constant, cones, settings).solve()
        if not _goes_on(found.status):
            return np.asarray(found.x), np.maximum(np.asarray(found.z), 0.0)
    raise _failed(found.status)


class _Sparse(NamedTuple):
    """A matrix by its columns, as Clarabel reads those of SciPy, which take longer to import than a program to solve."""

    data: Floats
    indices: NDArray[np.int64]
    indptr: NDArray[np.int64]
    shape: tuple[int, ...]
    nnz: int
    has_canonical_format: bool = True

    @staticmethod
    def of(matrix: Floats) -> _Sparse:
        columns, rows = np.nonzero(matrix.T)
        ends = np.cumsum(np.bincount(columns, minlength=matrix.shape[1]))
        return _Sparse(matrix[rows, columns], rows, np.concatenate([[0], ends]), matrix.shape, len(rows))


def _goes_on(status: Any) -> bool:
    """Whether other settings may do better; refused if there is no solution."""
    if str(status) in ("PrimalInfeasible", "DualInfeasible"):
        raise _failed(status)
    return str(status) not in ("Solved", "AlmostSolved")


def _failed(status: Any) -> SolverFailed:
    return SolverFailed(f"the convex subproblem is not solved: Clarabel says {status}")


class ConeProgram:
    """Θ and the constraints of a problem as Ax + s = b with s in a cone; the first numbers of x are the decision."""

    def __init__(self, problem: Problem) -> None:
        import cvxpy as cp

        x = cp.Variable(problem.d)
        values = [item.declare(x) if item.has_convex_form else None for item in problem.constraints]
        straight = [np.full(len(item.names), v is None) for item, v in zip(problem.constraints, values, strict=True)]
        self._linearized = np.concatenate([*straight, np.zeros(0, bool)])
        self._limits = [value <= 0 for value in values if value is not None]
        self._program = cp.Problem(cp.Minimize(cp.sum_squares(x)), self._limits + problem.decisions.declare(x))
        self._unpacking = threading.Lock()
        self._data, self._chain, self._inverse = self._program.get_problem_data(cp.CLARABEL, solver_opts=TIGHT)
        first = self._data["param_prob"].var_id_to_col[x.id]
        self._place = slice(first, first + problem.d)

    def minimize(
        self, theta: Floats, hessian: Floats, gradient: Floats, g: Floats, jacobian: Floats
    ) -> tuple[Floats, Floats]:
        """The minimizer of a convex model at θ, and the multipliers of all constraints, or `SolverFailed`.

        Constraints without a convex form are linearized at θ, by the values `g` and the `jacobian` of all constraints.
        """
        from scipy import sparse

        place, size = self._place, self._data["A"].shape[1]
        more = np.zeros((int(self._linearized.sum()), size))
        more[:, place] = jacobian[self._linearized]
        dims = copy.copy(self._data["dims"])
        at = dims.zero + dims.nonneg  # further inequalities go here
        dims.nonneg += len(more)
        # The program is about the way from θ, which may be short beside θ.
        a, b = self._data["A"].tocsr(), self._data["b"] - self._data["A"][:, place] @ theta
        quadratic, slope = np.zeros((size, size)), np.zeros(size)
        quadratic[place, place], slope[place] = hessian, gradient
        found = self._solved(
            A=sparse.vstack([a[:at], sparse.csr_array(more), a[at:]], format="csc"),
            b=np.concatenate([b[:at], -g[self._linearized], b[at:]]),
            P=sparse.csc_array(quadratic),
            c=slope,
            dims=dims,
        )
        duals = np.asarray(found.z)
        rows = slice(at, at + len(more))
        multipliers = np.zeros(len(self._linearized))
        multipliers[self._linearized] = duals[rows]
        multipliers[~self._linearized] = self._declared(found, np.delete(duals, rows))
        return theta + np.asarray(found.x)[place], np.maximum(multipliers, 0.0)

    def _solved(self, **parts: Any) -> Any:
        """Clarabel's answer to the program with these parts, if it is one."""
        for options in (TIGHT, TIGHT | UNSCALED):
            found = self._chain.solve_via_data(self._program, self._data | parts, solver_opts=options)
            if not _goes_on(found.status):
                return found
        raise _failed(found.status)

    def _declared(self, found: Any, duals: Floats) -> Floats:
        """The multipliers of the constraints with a convex form, which cvxpy finds among the dual numbers."""
        names = ("x", "status", "obj_val", "solve_time", "iterations")
        answer = types.SimpleNamespace(z=duals, **{name: getattr(found, name) for name in names})
        with self._unpacking, warnings.catch_warnings():  # cvxpy puts them into the constraints, which threads share
            warnings.simplefilter("ignore")  # accuracy is certified by the KKT residual, not by the solver's status
            self._program.unpack_results(answer, self._chain, self._inverse)
            parts = [np.ravel(limit.dual_value) for limit in self._limits]
        return np.concatenate([*parts, np.zeros(0)])
