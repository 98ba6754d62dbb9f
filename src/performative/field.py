"""The neighbours of the paper's methods, each under the same constraints: a choice of parts, with its reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax import Array

from performative import solver
from performative.confidence import ConfidenceBounds, feasible_grid
from performative.environments.families import Family
from performative.environments.location import Shift, apply_effect, require_distinct, shift_tensor
from performative.estimators import (
    BaseSamples,
    FrozenData,
    FrozenPopulation,
    OnePointEstimate,
    PerformativeGradient,
    ScoreEstimate,
    TwoPointEstimate,
)
from performative.exploration import Alone, Around, Sphere
from performative.methods import common_parts, known_parts
from performative.minimising import RepeatedMinimisation, TwoStage
from performative.optimum import require_feasible
from performative.precision import in_float64
from performative.primal_dual import PrimalDual
from performative.problem import Problem
from performative.pytrees import callable_node
from performative.risk import knows_risk
from performative.steps import Step
from performative.validation import finite_array, jax_arrays, positive, whole

ARMS = {1: 50, 2: 15, 3: 7}
"""Points along each axis of the grid that confidence bounds search."""


def repeated_gradient(
    problem: Problem,
    *,
    step: Step = 5e-3,
    control: Step = 1.0,
    start: Any = None,
    samples: int = 1,
    environment: Any = None,
) -> PrimalDual:
    """Repeated (stochastic) gradient descent: each step on the data of the current decision, their reaction left out.

    It converges to the stable point where the reaction is weak against the curvature (Perdomo et al. 2020, Mendler-Dünner et al.
    2020), for any world. One deployment of `samples` samples a round. Given the `environment` it is the exact method, with the
    gradient of infinitely many samples.
    """
    if environment is None:
        return _framework(problem, FrozenData(), Alone(), step, control, start, samples)
    problem = _of(problem, start, environment)
    return _framework(problem, FrozenPopulation(_risk(problem, environment)), Alone(), step, control, start, samples)


def repeated_minimisation(
    problem: Problem, *, start: Any = None, samples: int = 100, environment: Any = None
) -> RepeatedMinimisation:
    """Repeated risk minimisation: deploy, minimise the loss on the data that answered, deploy that (Perdomo et al. 2020).

    It converges to the stable point if the loss is γ-strongly convex and β-smooth and the sensitivity ε is below γ/β, and
    may circle or diverge otherwise. Each minimisation is over the `samples` of one round, subject to the constraints; given the
    `environment` it is the exact method, on infinitely many samples.
    """
    problem = _of(problem, start, environment)
    return RepeatedMinimisation(
        problem=problem,
        risk=None if environment is None else _risk(problem, environment),
        start=None if start is None else finite_array("start", start, 1),
        width=np.float64(solver.width(problem.decisions)),
        samples=whole("samples", samples, 1),
    )


def two_stage(
    problem: Problem,
    *,
    stage: int = 1000,
    exploration: float = 1.0,
    warmup: int = 100,
    start: Any = None,
    samples: int = 1,
    shift: Shift | None = None,
    effect: Any = None,
) -> TwoStage:
    """The two-stage plug-in for location families (Miller, Perdomo, Zrnic 2021): explore, regress, optimise once.

    For `stage` rounds decisions N(start, exploration²·I), projected on Θ, are deployed; they may break g. Then Z is regressed on
    them, and the decision that minimises the loss on the data this predicts, moved samples of all rounds, is deployed for ever
    after. Assumes a location family; what is not known after the stage is never learnt. `warmup` samples at 0 come first, and
    where the loss is not quadratic in the data that is how many samples the minimisation is over.
    """
    problem, start, effect = known_parts(problem, start, shift, effect)
    problem = _of(problem, start)
    tensor = None
    if shift is not None:
        tensor = shift_tensor(shift, effect, problem.dimension)
        require_distinct(tensor)
    elif effect is not None:
        tensor = np.zeros((effect.shape[0], 0, problem.dimension))
    return TwoStage(
        problem=problem,
        shift=callable_node(apply_effect if shift is None else shift),
        prior=effect,
        tensor=tensor,
        base_samples=BaseSamples(True),
        exploration=Around(exploration, problem.decisions),
        start=start,
        width=np.float64(solver.width(problem.decisions)),
        stage=whole("stage", stage, problem.dimension + 1),
        warmup=whole("warmup", warmup, 1),
        samples=whole("samples", samples, 1),
        dense=shift is None,
    )


def perfgd(
    problem: Problem,
    *,
    family: Family,
    memory: int = 100,
    step: Step = 5e-3,
    control: Step = 1.0,
    exploration: float = 0.1,
    start: Any = None,
    samples: int = 1,
) -> PrimalDual:
    """Performative gradient descent (Izzo, Ying, Zou 2021), for data of a known `family` whose parameter moves unknown.

    How the parameter moves is read off the last `memory` deployments, which `exploration` keeps apart; see
    `estimators.PerformativeGradient`. It is the paper's framework with another gradient, as its first remark says.
    """
    if not getattr(family, "by_mean", False):
        raise ValueError(
            "`family` must be an exponential family whose parameter is the mean of the data, such as performative.Normal, since "
            f"samples tell no other parameter, but got {family!r}"
        )
    problem = _of(problem, start)
    estimator = PerformativeGradient(family, whole("memory", memory, problem.dimension + 1))
    return _framework(problem, estimator, Around(exploration, problem.decisions), step, control, start, samples)


def score_gradient(
    problem: Problem,
    *,
    log_density: Callable[[Array, Array], Array] | None,
    step: Step = 5e-3,
    control: Step = 1.0,
    start: Any = None,
    samples: int = 1,
) -> PrimalDual:
    """Descent along the score-function gradient (equation PR_grad), for those who know the density p(z; θ) in full.

    `log_density(z, theta)` is log p for one sample, in `jax.numpy`; see `estimators.ScoreEstimate`. Nothing is learnt.
    """
    if not callable(log_density):
        raise TypeError(
            f"`log_density` must be a function of (z, theta), the density being known, but got {log_density!r}"
        )
    estimator = ScoreEstimate(jax_arrays(callable_node(log_density)))
    return _framework(problem, estimator, Alone(), step, control, start, samples)


def one_point(
    problem: Problem,
    *,
    step: Step = 1e-3,
    control: Step = 1.0,
    exploration: float = 0.1,
    start: Any = None,
    samples: int = 1,
) -> PrimalDual:
    """Derivative-free descent from one loss a round (Flaxman, Kalai, McMahan 2005), for any world; `exploration` is δ."""
    explore = Sphere(exploration)
    return _framework(problem, OnePointEstimate(explore.radius), explore, step, control, start, samples)


def two_point(
    problem: Problem,
    *,
    step: Step = 1e-3,
    control: Step = 1.0,
    exploration: float = 0.1,
    start: Any = None,
    samples: int = 1,
) -> PrimalDual:
    """Derivative-free descent from the losses on both sides of θ_t (Shamir 2013), for any world; `exploration` is δ."""
    explore = Sphere(exploration, both=True)
    return _framework(problem, TwoPointEstimate(explore.radius), explore, step, control, start, samples)


def confidence_bounds(
    problem: Problem,
    *,
    sensitivity: float,
    arms: int | None = None,
    confidence: float = 1.0,
    start: Any = None,
    samples: int = 10,
) -> ConfidenceBounds:
    """Performative confidence bounds (Jagadeesan, Zrnic, Mendler-Dünner 2022), for any world in at most three dimensions.

    Args:
        problem: what the decision-maker knows.
        sensitivity: L, by how much the mean loss of any one decision changes for each unit that the deployed decision is moved;
            in theory L_Z·ε. It must be known: with too small an L the optimum may be ruled out.
        arms: points along each axis of the grid over Θ; by default 50, 15 or 7 in one, two or three dimensions. Only
            those that meet the constraints are ever deployed.
        confidence: a factor on the confidence radii, 1 for those of Gaussian losses.
        start: the first decision is the arm nearest to it; by default to the point of Θ nearest to 0.
        samples: how many samples each deployment brings, at least 2, since their spread makes the confidence radius.
    """
    problem = _of(problem, start)
    near = np.zeros(problem.dimension) if start is None else finite_array("start", start, 1)
    points = feasible_grid(problem, whole("arms", ARMS.get(problem.dimension, 2) if arms is None else arms, 2))
    return ConfidenceBounds(
        problem=problem,
        arms=points,
        sensitivity=np.float64(positive("sensitivity", sensitivity)),
        confidence=np.float64(positive("confidence", confidence)),
        first=np.int64(np.argmin(np.sum((points - near) ** 2, axis=1))),
        samples=whole("samples", samples, 2),
    )


def saddle(
    problem: Problem,
    *,
    ascending: Sequence[int],
    step: Step = 5e-3,
    control: Step = 1.0,
    start: Any = None,
    samples: int = 1,
) -> PrimalDual:
    """The primal-dual method for equilibria of min_x max_y E_{Z∼D(x,y)} φ(x, y; Z) (Wood, Dall'Anese 2022).

    The problem's loss is φ, its decision (x, y), and `ascending` lists which numbers of it are y. Descent in x and ascent in y
    on the data that (x, y) induced; it converges to the equilibrium point, which is a saddle point on the very data it
    induces, if φ is strongly convex in x and strongly concave in y and the reaction is weak against both. With nothing
    ascending it is `repeated_gradient`. An equilibrium is no minimum of φ: of what `simulate` records, `decision` and the
    constraints are to be looked at, and not the regret.
    """
    problem = _of(problem, start)
    signs = np.ones(problem.dimension)
    for index in ascending:
        signs[whole("ascending", index, 0, problem.dimension - 1)] = -1.0
    return _framework(problem, FrozenData(signs), Alone(), step, control, start, samples)


def _framework(
    problem: Problem, estimator: Any, exploration: Any, step: Step, control: Step, start: Any, samples: int
) -> PrimalDual:
    parts = common_parts(problem, step, control, 1, start, samples, None, None)
    for unused in ("warmup", "shift", "effect"):
        del parts[unused]
    return PrimalDual(estimator=estimator, exploration=exploration, **parts)


def _of(problem: Problem, start: Any, environment: Any = None) -> Problem:
    """The problem with its dimension, which must be known, and a feasible decision."""
    problem, start, _ = known_parts(problem, start, None, None)
    told = getattr(environment, "dimension", None)
    if told is not None:
        problem = problem.of_dimension(told)
    if problem.dimension is None:
        raise ValueError("the problem's dimension must be known; give Problem(..., dimension=d)")
    require_feasible(problem, candidate=start)
    return problem


@in_float64
def _risk(problem: Problem, environment: Any) -> Any:
    if not knows_risk(environment):
        raise TypeError(
            f"`environment` must be one whose truth is known, such as performative.LocationFamily, but got {environment!r}"
        )
    environment.check(problem)
    return environment.risk(problem)
