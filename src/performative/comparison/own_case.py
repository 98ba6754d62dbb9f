"""A user's problem in a user's world as a case: what can be computed or sampled of its answers."""

from __future__ import annotations

import functools
import warnings

import numpy as np
from jax.tree_util import Partial

from performative.environments import LocationFamily, ParametricFamily
from performative.environments.answers import signature_of
from performative.environments.protocol import Environment, knows_risk
from performative.errors import LocalOptimumWarning, SolverFailed
from performative.problem import Problem, with_dimension
from performative.problems import Case
from performative.problems.case import log_density
from performative.solvers.kkt import Solution
from performative.truth.optimum import performative_optimum
from performative.truth.risk import performative_risk
from performative.truth.stable_point import stable_point
from performative.validation import caller_level


def own_case(problem: Problem, world: Environment) -> Case:
    """The case with its optimum, its stable point where the truth is known, and what methods may be told of the world."""
    signature = signature_of(world)
    if signature.carries_state:
        raise TypeError(
            f"a world with a state has no optimum to compare with, but {type(world).__name__} has one; "
            "use performative.simulate, whose `loss` is what was observed"
        )
    problem = with_dimension(problem, environment=world)
    optimum = None if signature.takes_round else performative_optimum(problem, world)
    if optimum is not None and optimum.local:
        warn_of_local_optimum(optimum.message)
    location = world if isinstance(world, LocationFamily) else None
    structured = location if location is not None and location.dimension is None else None
    family = world if isinstance(world, ParametricFamily) else None
    return Case(
        name="problem",
        title="your problem",
        reference="",
        problem=problem,
        environment=world,  # type: ignore[arg-type]
        risk=functools.partial(performative_risk, problem, world),
        optimum=optimum,
        stable=_stable(problem, world),
        shift=None if structured is None else structured.shift,
        prior=None if structured is None else np.zeros_like(structured.effect),
        family=None if family is None else family.family,
        density=None if family is None else Partial(log_density, family),
        known_effect=None if location is None else np.asarray(location.effect),
    )


def warn_of_local_optimum(reason: str) -> None:
    """Say that a comparison measures regret against a decision that may not be the best."""
    warnings.warn(
        f"regret is measured against a decision that is not proved to be the best ({reason})",
        LocalOptimumWarning,
        stacklevel=caller_level(),
    )


def _stable(problem: Problem, world: Environment) -> Solution | None:
    if not knows_risk(world):
        return None
    try:
        return stable_point(problem, world)
    except SolverFailed:  # the column stays empty
        return None
