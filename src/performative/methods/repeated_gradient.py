"""Repeated gradient descent (Perdomo et al. 2020; Mendler-Dünner et al. 2020)."""

from __future__ import annotations

from numpy.typing import ArrayLike

from performative.environments.protocol import Environment, decoupled_risk
from performative.estimators import FrozenData, FrozenPopulation
from performative.exploration import Alone
from performative.methods.options import feasible_parts, framework
from performative.methods.primal_dual import PrimalDual
from performative.problem import Problem
from performative.steps import Step


def repeated_gradient(
    problem: Problem,
    *,
    step: Step = 5e-3,
    control: Step = 1.0,
    start: ArrayLike | None = None,
    samples: int = 1,
    environment: Environment | None = None,
) -> PrimalDual:
    """Repeated (stochastic) gradient descent: each step is on the data of the current decision, without their reaction.

    It converges to the stable point where the reaction is weak compared with the curvature (Perdomo et al. 2020,
    Mendler-Dünner et al. 2020), for any world. It deploys once a round, for `samples` samples. With the `environment` it is the
    exact method, with the gradient of infinitely many samples.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> problem = pf.Problem(Revenue(), pf.Box([0.0, 0.0], [5.0, 5.0]))
    >>> method = pf.repeated_gradient(problem, step=0.05, samples=20)
    """
    if environment is None:
        return framework(problem, FrozenData(), Alone(), step, control, start, samples)
    problem, start = feasible_parts(problem, start, environment)
    return framework(
        problem, FrozenPopulation(decoupled_risk(problem, environment)), Alone(), step, control, start, samples
    )
