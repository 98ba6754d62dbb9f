"""Performative gradient descent (Izzo, Ying, Zou 2021)."""

from __future__ import annotations

from numpy.typing import ArrayLike

from performative.environments.families import Family
from performative.estimators import PerformativeGradient
from performative.exploration import Around
from performative.methods.options import feasible_parts, framework
from performative.methods.primal_dual import PrimalDual
from performative.problem import Problem
from performative.steps import Step
from performative.validation import whole


def perfgd(
    problem: Problem,
    *,
    family: Family,
    memory: int = 100,
    step: Step = 5e-3,
    control: Step = 1.0,
    exploration: float = 0.1,
    start: ArrayLike | None = None,
    samples: int = 1,
) -> PrimalDual:
    """Performative gradient descent (Izzo, Ying, Zou 2021), for data of a known `family` whose parameter moves in unknown ways.

    How the parameter moves is estimated from the last `memory` deployments, which `exploration` keeps apart; see
    `estimators.PerformativeGradient`. It is the paper's framework with another gradient, as in its first remark.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> problem = pf.Problem(Revenue(), pf.Box([0.0], [5.0]))
    >>> method = pf.perfgd(problem, family=pf.Normal(0.25), memory=20)
    """
    if not getattr(family, "by_mean", False):
        raise ValueError(
            "`family` must be an exponential family whose parameter is the mean of the data, such as performative.Normal, "
            f"but got {family!r}"
        )
    problem, start = feasible_parts(problem, start)
    estimator = PerformativeGradient(family, whole("memory", memory, problem.d + 1))
    return framework(problem, estimator, Around(exploration, problem.decisions), step, control, start, samples)
