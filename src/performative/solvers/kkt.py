"""KKT points: decisions with multipliers, and their KKT residual, how far they are from satisfying the conditions."""

from __future__ import annotations

from typing import Literal, NamedTuple, SupportsFloat

import jax
import numpy as np
from jax import Array

from performative.numerics.arrays import Floats, as_field
from performative.numerics.pytrees import pytree
from performative.problem import Problem
from performative.solvers.derivatives import linearized, projected

TOLERANCE = 1e-7
"""The largest KKT residual of an accepted solution, relative to the gradient's usual size."""


class Point(NamedTuple):
    """A decision with its multipliers and how far they are from satisfying the KKT conditions."""

    decision: Floats
    multipliers: Floats
    residual: float


class Error(NamedTuple):
    """How far a decision (in Euclidean distance) and its risk may be off because averages are quadratures or means of samples.

    Both are 0 where averages are exact. They are estimates from a second rule with other nodes, not bounds.
    """

    decision: Array
    risk: Array


EXACT = Error(as_field(np.float64(0.0)), as_field(np.float64(0.0)))


@pytree("local", "message", "stable")
class Solution:
    """A KKT point: the decision θ, the multipliers λ of the constraints, its performative risk, and the certificate.

    `kkt_residual` is the largest of ‖θ − Π_Θ(θ − (v + λᵀ∇g)/s)‖, max g⁺ and max |λ g|/s. Here s is the usual size of the
    gradient on Θ, so that the unit of the loss does not matter, and v is ∇PR(θ) or, where that leaves a residual above 10⁻⁷
    because the risk has a kink, the best v found in the convex hull of the gradients at most 10⁻⁷ max(1, ‖θ‖) away from
    θ (a Goldstein subgradient). `performative.truth.optimum.certify` computes it the same way.

    `scope` is "global" if convexity is proved, so that no decision is better, and "local" otherwise; `message` says why, and
    how much of Θ was searched. `error` is what quadrature may have cost. For a stable point, `sensitivity` is εβ/γ where it is
    known, `others` are further stable points that were found, and the gradient v is that of the risk on frozen data.

    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> problem = pf.Problem(lambda theta, z: jnp.sum((theta - z) ** 2), pf.Box([0.0], [2.0]), lambda theta: theta - 1.0)
    >>> solution = pf.performative_optimum(problem, pf.LocationFamily(pf.Gaussian([3.0], [1.0]), [[0.0]]))
    >>> solution.decision.round(6).tolist(), solution.multipliers.round(6).tolist(), solution.scope
    ([1.0], [4.0], 'global')
    """

    decision: Array
    multipliers: Array
    risk: Array
    kkt_residual: Array
    local: bool
    message: str
    error: Error = EXACT
    sensitivity: Array = as_field(np.float64(np.nan))
    others: tuple[Solution, ...] = ()
    stable: bool = False

    @staticmethod
    def of(
        decision: Floats, multipliers: Floats, risk: SupportsFloat, residual: float, local: bool, message: str
    ) -> Solution:
        """A solution from NumPy arrays and plain numbers."""
        numbers = as_field(decision), as_field(multipliers), as_field(np.float64(risk)), as_field(np.float64(residual))
        return Solution(*numbers, local, message)

    @property
    def scope(self) -> Literal["global", "local"]:
        """Whether it is proved that no decision is better."""
        return "local" if self.local else "global"

    def __repr__(self) -> str:
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(self)):
            return f"Solution({self.scope}, traced)"
        name = "stable point" if self.stable else "optimum"
        lines = [
            f"{self.scope} {name}",
            f"decision      {_numbers(self.decision)}",
            f"risk          {float(self.risk):.9g}",
        ]
        if np.size(self.multipliers):
            lines.append(f"multipliers   {_numbers(self.multipliers)}")
        lines.append(f"KKT residual  {float(self.kkt_residual):.1e}")
        if self.error.decision or self.error.risk:
            lines.append(
                f"accuracy      decision ±{float(self.error.decision):.1e}, risk ±{float(self.error.risk):.1e}"
            )
        if np.isfinite(self.sensitivity):
            lines.append(f"sensitivity   {float(self.sensitivity):.6g}")
        lines += [f"another       {_numbers(other.decision)}, risk {float(other.risk):.9g}" for other in self.others]
        return "\n  ".join([*lines, self.message])


def _numbers(array: Array) -> str:
    return np.array2string(np.asarray(array), precision=6, max_line_width=100, threshold=20)


def kkt_residual(problem: Problem, theta: Floats, lam: Floats, gradient: Floats) -> float:
    """The largest of ‖θ − Π_Θ(θ − ∇PR − λᵀ∇g)‖, max g⁺ and max |λ g|: zero exactly at a KKT point (λ ≥ 0)."""
    g, jacobian = linearized(problem, theta)
    stationarity = float(np.linalg.norm(theta - projected(problem, theta - gradient - lam @ jacobian)))
    return max(stationarity, float(np.max(g, initial=0.0)), float(np.max(np.abs(lam * g), initial=0.0)))
