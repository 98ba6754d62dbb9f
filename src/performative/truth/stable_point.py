"""The stable point: the decision that is best on the very data it induces."""

from __future__ import annotations

from numpy.typing import ArrayLike

from performative.environments.protocol import Environment
from performative.numerics.precision import in_float64
from performative.problem import Problem
from performative.solvers.fixed_point import fixed_point
from performative.solvers.kkt import Solution
from performative.truth.risk import true_risk


@in_float64
def stable_point(problem: Problem, environment: Environment, start: ArrayLike | None = None) -> Solution:
    """θ_PS, which minimizes the risk on the very data it induces: θ_PS = argmin_θ E_{Z∼D(θ_PS)} ℓ(θ; Z), g(θ) ≤ 0.

    Computed by repeated risk minimization with Anderson acceleration, and with shorter steps if necessary, so that it also
    works where plain repetition circles or diverges. `risk` is PR(θ_PS). Where the risk on frozen data is not convex, its
    minimizer is searched from nine starts; `message` says whether the decision is that minimizer or only a KKT point.

    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> loss = lambda theta, z: 0.5 * jnp.sum((theta - z) ** 2)
    >>> problem = pf.Problem(loss, pf.Ball(10.0), dimension=1)
    >>> world = pf.LocationFamily(pf.Gaussian([1.0], [0.25]), effect=[[0.5]])
    >>> pf.stable_point(problem, world).decision.round(6).tolist()  # θ = 1 + θ/2
    [2.0]
    """
    risk = true_risk(problem, environment)
    return fixed_point(risk.problem, risk, start)
