"""KKT points: decisions with multipliers, and how far they are from satisfying the KKT conditions."""

from __future__ import annotations

from typing import NamedTuple, SupportsFloat

import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.numerics.arrays import Floats, as_field
from performative.numerics.pytrees import pytree
from performative.problem import Problem
from performative.solvers.derivatives import linearized

TOLERANCE = 1e-7
"""The largest KKT residual of an accepted solution, relative to the gradient's usual size."""


class Point(NamedTuple):
    """A decision with its multipliers and how far they are from satisfying the KKT conditions."""

    decision: Floats
    multipliers: Floats
    residual: float


@pytree("local", "message")
class Solution:
    """A KKT point: the decision θ, the multipliers λ of the constraints, its performative risk, and the certificate.

    `kkt_residual` is the largest of ‖θ − Π_Θ(θ − (∇ + λᵀ∇g)/s)‖, max g⁺ and max |λ g|/s, where s is the usual size of the
    gradient on Θ, so that the unit of the loss does not matter. `local` says that the problem is not convex, so that there
    may be better decisions elsewhere; `message` gives the evidence.

    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> problem = pf.Problem(lambda theta, z: jnp.sum((theta - z) ** 2), pf.Box([0.0], [2.0]), lambda theta: theta - 1.0)
    >>> solution = pf.performative_optimum(problem, pf.LocationFamily(pf.Gaussian([3.0], [1.0]), [[0.0]]))
    >>> solution.decision.round(6).tolist(), solution.multipliers.round(6).tolist(), solution.local
    ([1.0], [4.0], False)
    """

    decision: Array
    multipliers: Array
    risk: Array
    kkt_residual: Array
    local: bool
    message: str

    @staticmethod
    def of(
        decision: Floats, multipliers: Floats, risk: SupportsFloat, residual: float, local: bool, message: str
    ) -> Solution:
        """A solution from NumPy arrays and plain numbers."""
        numbers = as_field(decision), as_field(multipliers), as_field(np.float64(risk)), as_field(np.float64(residual))
        return Solution(*numbers, local, message)


def kkt_residual(problem: Problem, theta: Floats, lam: Floats, gradient: Floats) -> float:
    """The largest of ‖θ − Π_Θ(θ − ∇PR − λᵀ∇g)‖, max g⁺ and max |λ g|: zero exactly at a KKT point (λ ≥ 0)."""
    g, jacobian = linearized(problem, theta)
    moved = problem.decisions.project(jnp.asarray(theta - gradient - lam @ jacobian))
    stationarity = float(np.linalg.norm(theta - np.asarray(moved)))
    return max(stationarity, float(np.max(g, initial=0.0)), float(np.max(np.abs(lam * g), initial=0.0)))
