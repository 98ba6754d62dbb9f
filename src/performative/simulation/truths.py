"""What a simulation measures against: the optimum of every problem in its world, computed, sampled or given."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from performative.environments.answers import signature_of
from performative.environments.protocol import KnownWorld, knows_risk
from performative.errors import LocalOptimumWarning, SolverFailed
from performative.numerics.arrays import Floats, as_field
from performative.numerics.pytrees import as_node, changed
from performative.numerics.randomness import new_key
from performative.problem import Problem
from performative.solvers.feasibility import require_feasible
from performative.solvers.kkt import Solution
from performative.solvers.minimum import minimum
from performative.truth.induced import resolved
from performative.truth.metrics import Track, Truth, bare
from performative.truth.optimum import performative_optimum
from performative.truth.sample_average import sample_average_optimum
from performative.truth.sampled import AverageRisk, MovingExcess, MovingRisk, SampledExcess, SampledRisk
from performative.validation import caller_level

Place = tuple[Problem, Any, Solution | None]
"""A problem, its world, and its optimum where one is given."""
DRAWS = 50_000
"""Samples that an optimum is computed from where the world only samples."""
FEW = 1000
"""Samples that limits on what a decision causes are measured with where the world only samples: the same ones in every round."""
ROUNDS = 1000
"""The most rounds whose average risk the best fixed decision minimizes; of more, one is drawn from each of as many parts."""


class Measures(NamedTuple):
    """What is measured: at which rounds, with how many samples a round where the world only samples, and whether `outside`."""

    rounds: Sequence[int]
    samples: int
    outside: bool = False


def samples_per_round(rounds: int) -> int:
    """How many samples measure one round by default: about 100,000 over all rounds, at most 1000."""
    return int(np.clip(100_000 // rounds, 2, 1000))


def make_truths(rows: list[list[Place]], measures: Measures | None) -> list[list[Truth]]:
    """The truth of every place. What is the same problem in the same world is solved once."""
    if measures is None:
        return [[Truth(resolved(problem, world, samples=FEW), None, None) for problem, world, _ in row] for row in rows]
    grids = {
        world.coarse_enough(problem) if hasattr(world, "coarse_enough") else None
        for row in rows
        for problem, world, _ in row
    }
    steps = None if None in grids else max(grid for grid in grids if grid)  # one grid, which will do for all instances
    solved: dict[tuple[int, int, int], Truth] = {}

    def truth(place: Place) -> Truth:
        problem, world, optimum = place
        identity = (id(problem), id(world), id(optimum))
        if identity not in solved:
            solved[identity] = _truth(problem, world, optimum, measures, steps)
        return solved[identity]

    truths = [[truth(place) for place in row] for row in rows]
    _warn_of_local_optima([found for row in truths for found in row])
    return [[_bare(found) for found in row] for row in truths]


def _bare(truth: Truth) -> Truth:
    """The truth in numbers alone, so that instances have one structure."""
    if truth.optimum is None:
        return truth
    return changed(truth, optimum=bare(truth.optimum), local=as_field(np.float64(truth.optimum.local)))


def _truth(problem: Problem, world: Any, optimum: Solution | None, measures: Measures, steps: int | None) -> Truth:
    environment = as_node(world)
    signature = signature_of(world)
    problem = resolved(problem, world, samples=FEW)
    if signature.carries_state and not knows_risk(world):
        require_feasible(problem)
        truth = Truth(problem, None, optimum, observed=True)
    elif knows_risk(world):
        truth = _known(problem, world, optimum, steps)
    elif signature.takes_round:
        truth = _moving(problem, environment, optimum, measures)
    else:
        found = optimum or _solution(lambda: performative_optimum(problem, world, samples=DRAWS), problem)
        excess = None if found is None else SampledExcess(problem, environment, measures.samples)
        truth = Truth(problem, excess, found, observed=True)
    return changed(truth, outside=measures.outside)


def _known(problem: Problem, world: KnownWorld, optimum: Solution | None, steps: int | None) -> Truth:
    found = optimum or _solution(lambda: performative_optimum(problem, world), problem)
    return Truth(problem, None, None) if found is None else Truth.known(problem, as_node(world), found, steps)


def _moving(problem: Problem, world: Any, fixed: Solution | None, measures: Measures) -> Truth:
    """The best fixed decision, and the optimum of every recorded round."""
    key = new_key(0)
    if callable(getattr(world, "at", None)) and knows_risk(world.at(1)):
        at: Any = MovingRisk(problem, world, jnp.asarray(1))
        excess: Any = MovingExcess(problem, world)
        observed = False
    else:
        at = SampledRisk(problem, world, key, jnp.asarray(1), DRAWS)
        excess = SampledExcess(problem, world, measures.samples)
        observed = True

    def solve(risk: Any, start: Floats | None) -> Solution:
        return sample_average_optimum(problem, risk, key, start, again=0) if observed else minimum(problem, risk, start)

    last = measures.rounds[-1]
    grid = _grid(last)
    if fixed is None:
        average = changed(at, samples=max(DRAWS // len(grid), 2)) if observed else at
        fixed = _solution(lambda: solve(AverageRisk(average, jnp.asarray(grid)), None), problem)
    if fixed is not None and len(grid) < last and not fixed.local:
        fixed = changed(fixed, local=True, message=f"local: best on average over {len(grid)} of {last} rounds")
    if fixed is None:
        return Truth(problem, None, None, observed=observed)
    decisions, start = [], np.asarray(fixed.decision)
    for t in measures.rounds:
        found = _solution(lambda: solve(changed(at, t=jnp.asarray(int(t))), start), problem)  # noqa: B023
        if found is None:
            return Truth(problem, excess, fixed, observed=observed)
        start = np.asarray(found.decision)
        decisions.append(start)
    track = Track(as_field(np.asarray(measures.rounds, np.float64)), as_field(np.stack(decisions)))
    return Truth(problem, excess, fixed, track=track, observed=observed)


def _grid(last: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Rounds 1, …, `last`, or one at random from each of many equal parts: regular ones could keep step with a season."""
    if last <= ROUNDS:
        return np.arange(1, last + 1)
    ends = np.linspace(1, last + 1, ROUNDS + 1).astype(int)
    return np.random.default_rng(0).integers(ends[:-1], ends[1:])


def _solution(solve: Callable[[], Solution], problem: Problem) -> Solution | None:
    require_feasible(problem)
    try:
        return solve()
    except SolverFailed as error:
        warnings.warn(
            f"regret is not measured: no optimum was found ({error}); pass `optimum=`", stacklevel=caller_level()
        )
        return None


def _warn_of_local_optima(truths: Sequence[Truth]) -> None:
    local = [truth.optimum for truth in truths if truth.optimum is not None and truth.optimum.local]
    if local:
        warnings.warn(
            f"regret is measured against a decision that is not proved to be the best ({local[0].message}); if you know the "
            "best, pass `optimum=`",
            LocalOptimumWarning,
            stacklevel=caller_level(),
        )
