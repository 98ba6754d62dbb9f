"""The performative optimum, certified by its KKT residual."""

from __future__ import annotations

from numpy.typing import ArrayLike

from performative.environments.protocol import Environment
from performative.numerics.precision import in_float64
from performative.problem import Problem
from performative.solvers import certificate
from performative.solvers.kkt import Solution
from performative.solvers.minimum import minimum
from performative.truth.risk import true_risk


@in_float64
def performative_optimum(problem: Problem, environment: Environment, start: ArrayLike | None = None) -> Solution:
    """θ_PO, the minimizer of PR(θ) over θ ∈ Θ with g(θ) ≤ 0.

    By exact convex programming where PR is quadratic, by sequential convex programming otherwise. If the problem turns out not
    to be convex, it is the best of the KKT points reached from nine starts.

    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> problem = pf.Problem(lambda price, demand: -jnp.sum(price * demand), pf.Box([0.0], [5.0]))
    >>> market = pf.LocationFamily(pf.Gaussian([4.0], [0.25]), effect=[[-1.0]])
    >>> best = pf.performative_optimum(problem, market)
    >>> best.decision.round(6).tolist(), round(float(best.risk), 6), best.local
    ([2.0], -4.0, False)
    """
    risk = true_risk(problem, environment)
    return minimum(risk.problem, risk, start)


@in_float64
def certify(problem: Problem, environment: Environment, decision: ArrayLike, multipliers: ArrayLike) -> Solution:
    """A `Solution` from a decision and multipliers computed elsewhere, in closed form say, with its KKT residual."""
    risk = true_risk(problem, environment)
    return certificate.certify(risk.problem, risk, decision, multipliers)
