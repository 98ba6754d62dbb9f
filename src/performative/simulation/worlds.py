"""One world per instance, everything checked against everything else."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from performative.environments.protocol import knows_risk
from performative.errors import SolverFailed
from performative.methods.protocol import require_method
from performative.numerics.pytrees import as_node
from performative.numerics.randomness import new_key
from performative.problem import Problem
from performative.provenance import describe
from performative.simulation.engine import World
from performative.solvers.feasibility import require_feasible
from performative.solvers.kkt import Solution
from performative.truth.metrics import Truth
from performative.truth.optimum import performative_optimum


def make_worlds(
    methods: Mapping[str, Any], environment: Any, problem: Any, optimum: Any, outside: bool = False
) -> list[World]:
    """One `World` per instance, everything checked against everything else."""
    if not isinstance(methods, Mapping) or not methods or not all(isinstance(name, str) for name in methods):
        raise ValueError(
            f"`methods` must be a mapping from names (strings) to methods, with at least one, but got {methods!r}"
        )
    lists = {f"methods[{name!r}]": given for name, given in methods.items()}
    lists |= {"environment": environment, "problem": problem, "optimum": optimum}
    lengths = {name: len(given) for name, given in lists.items() if isinstance(given, list | tuple)}
    if len(set(lengths.values())) > 1 or 0 in lengths.values():
        raise ValueError(f"lists of instances must have one length, at least 1, but got {lengths}")
    count = next(iter(lengths.values()), 1)

    def instance(given: Any, index: int) -> Any:
        return given[index] if isinstance(given, list | tuple) else given

    parts: list[Any] = []
    solved: dict[tuple[int, int], Solution | None] = {}
    for index in range(count):
        place = instance(environment, index)
        if not callable(getattr(place, "sample", None)):
            raise TypeError(f"`environment` must have sample(key, theta, n), but got {place!r}")
        chosen = {name: instance(methods[name], index) for name in sorted(methods, key=str)}
        for name, method in chosen.items():
            require_method(f"methods[{name!r}]", method)
        known = instance(problem, index)
        if known is not None and not isinstance(known, Problem):
            raise TypeError(f"`problem` must be a performative.Problem, but got {known!r}")
        if known is None:
            known = _only_problem(chosen)
        dimension = known.dimension or getattr(place, "dimension", None)
        if dimension is not None:
            known = known.of_dimension(dimension)
            chosen = {
                name: method if method.problem.dimension == dimension else method.of_dimension(dimension)
                for name, method in chosen.items()
            }
        best = instance(optimum, index)
        if best is not None and not isinstance(best, Solution):
            raise TypeError(f"`optimum` must be a performative.Solution, but got {best!r}")
        if best is not None and (np.shape(best.decision), np.shape(best.multipliers)) != (
            (known.dimension,),
            (len(known.constraint_names),),
        ):
            raise ValueError(
                f"`optimum` must have a decision of length {known.dimension} and {len(known.constraint_names)} multipliers, "
                f"but got {np.shape(best.decision)} and {np.shape(best.multipliers)}"
            )
        if knows_risk(place):
            place.check(known)
        for name, method in chosen.items():
            _check_names(name, method, known)
        if index == 0:
            for method in chosen.values():
                rehearse(method, place)
        if knows_risk(place):
            if best is None:
                same = (id(instance(problem, index) or known), id(place))
                if same not in solved:
                    solved[same] = _optimum_or_none(known, place)
                best = solved[same]
        else:
            require_feasible(known)
        nodes = {name: as_node(method) for name, method in chosen.items()}
        parts.append((nodes, as_node(place), known, best))
    grids = {place.coarse_enough(known) if hasattr(place, "coarse_enough") else None for _, place, known, _ in parts}
    steps = None if None in grids else max(grid for grid in grids if grid)  # one grid, which will do for all instances
    return [World(nodes, place, Truth.of(known, place, best, steps, outside)) for nodes, place, known, best in parts]


def rehearse(method: Any, environment: Any) -> list[int]:
    """How many deployments the first two rounds take: traced without computing anything, parts that do not fit are refused."""
    costs = []

    def two_rounds(key: Any) -> Any:
        state = method.init(key)
        for _ in range(2):  # a warm-up and a round
            decisions, wanted = method.ask(state, key), method.wanted(state)
            if decisions.ndim != 2 or decisions.shape[1] != method.problem.dimension:
                raise ValueError(
                    f"`ask` must return decisions (b, {method.problem.dimension}), but returned {decisions.shape}"
                )
            costs.append(int(decisions.shape[0]) * int(wanted))
            samples = jnp.stack([environment.sample(key, decision, wanted) for decision in decisions])
            if samples.ndim != 3 or samples.shape[1] != wanted:
                raise ValueError(
                    "`environment.sample(key, theta, n)` must return samples (n, k), "
                    f"but returned {samples.shape[1:]} for n={wanted}"
                )
            state = method.tell(state, decisions, samples)
        return state

    jax.eval_shape(two_rounds, new_key(0))
    return costs


def _only_problem(methods: Mapping[str, Any]) -> Problem:
    """The problem that all methods know."""
    first, *others = methods
    sizes = [method.problem.dimension for method in methods.values() if method.problem.dimension is not None]

    def known(method: Any) -> Any:
        return describe(method.problem.of_dimension(sizes[0]) if sizes else method.problem)

    for name in others:
        if methods[name].problem is not methods[first].problem and known(methods[name]) != known(methods[first]):
            raise ValueError(
                f"methods must know the same problem, but {first!r} and {name!r} differ; say which by `problem=`"
            )
    return methods[first].problem.of_dimension(sizes[0]) if sizes else methods[first].problem


def _optimum_or_none(problem: Problem, environment: Any) -> Solution | None:
    try:
        return performative_optimum(problem, environment)
    except SolverFailed as error:
        warnings.warn(f"regret is not measured: the optimum was not found ({error}); give `optimum=`", stacklevel=5)
        return None


def _check_names(name: str, method: Any, known: Any) -> None:
    names = method.problem.constraint_names
    if names != known.constraint_names:
        raise ValueError(
            f"`methods[{name!r}]` must have the constraints {known.constraint_names} that are measured, but has {names}"
        )
