"""Descent without derivatives: from one loss per round, or from two."""

from __future__ import annotations

from numpy.typing import ArrayLike

from performative.estimators import OnePointEstimate, TwoPointEstimate
from performative.exploration import Sphere
from performative.methods.options import framework
from performative.methods.primal_dual import PrimalDual
from performative.problem import Problem
from performative.steps import Step


def one_point(
    problem: Problem,
    *,
    step: Step = 1e-3,
    control: Step = 1.0,
    exploration: float = 0.1,
    start: ArrayLike | None = None,
    samples: int = 1,
) -> PrimalDual:
    """Derivative-free descent from one loss per round (Flaxman, Kalai, McMahan 2005), for any world; `exploration` is δ.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> problem = pf.Problem(Revenue(), pf.Box([0.0, 0.0], [5.0, 5.0]))
    >>> method = pf.one_point(problem, exploration=0.5)
    """
    explore = Sphere(exploration)
    return framework(problem, OnePointEstimate(explore.radius), explore, step, control, start, samples)


def two_point(
    problem: Problem,
    *,
    step: Step = 1e-3,
    control: Step = 1.0,
    exploration: float = 0.1,
    start: ArrayLike | None = None,
    samples: int = 1,
) -> PrimalDual:
    """Derivative-free descent from the losses on both sides of θ_t (Shamir 2013), for any world; `exploration` is δ.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> problem = pf.Problem(Revenue(), pf.Box([0.0, 0.0], [5.0, 5.0]))
    >>> method = pf.two_point(problem, exploration=0.5)
    """
    explore = Sphere(exploration, both=True)
    return framework(problem, TwoPointEstimate(explore.radius), explore, step, control, start, samples)
