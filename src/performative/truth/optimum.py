"""The performative optimum, certified by its KKT residual."""

from __future__ import annotations

from typing import Any

from performative.numerics.precision import in_float64
from performative.problem import Problem
from performative.solvers import certificate
from performative.solvers.kkt import Solution
from performative.solvers.minimum import minimum
from performative.truth.risk import TrueRisk, resolved


@in_float64
def performative_optimum(problem: Problem, environment: Any, start: Any = None) -> Solution:
    """θ_PO, the minimizer of PR(θ) over θ ∈ Θ with g(θ) ≤ 0.

    Exact convex programming where PR is quadratic, sequential convex programming otherwise. Where the problem is found not
    to be convex, the best of the KKT points that are reached from nine starts.

    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> problem = pf.Problem(lambda price, demand: -jnp.sum(price * demand), pf.Box([0.0], [5.0]))
    >>> market = pf.LocationFamily(pf.Gaussian([4.0], [0.25]), effect=[[-1.0]])
    >>> best = pf.performative_optimum(problem, market)
    >>> best.decision.round(6).tolist(), round(float(best.risk), 6), best.local
    ([2.0], -4.0, False)
    """
    problem = resolved(problem, environment)
    return minimum(problem, TrueRisk(problem, environment), start)


@in_float64
def certify(problem: Problem, environment: Any, decision: Any, multipliers: Any) -> Solution:
    """A `Solution` from a decision and multipliers found elsewhere, in closed form say, with its KKT residual."""
    problem = resolved(problem, environment)
    return certificate.certify(problem, TrueRisk(problem, environment), decision, multipliers)
