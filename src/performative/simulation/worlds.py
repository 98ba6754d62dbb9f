"""The cast of a simulation: methods, environments and problems, by instance and variant, checked against each other."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from performative.environments.protocol import knows_risk
from performative.errors import SolverFailed
from performative.methods.protocol import require_method
from performative.numerics.pytrees import as_node
from performative.numerics.randomness import new_key
from performative.numerics.reads import reads
from performative.problem import Problem, with_dimension
from performative.provenance import describe
from performative.simulation.engine import World
from performative.solvers.feasibility import require_feasible
from performative.solvers.kkt import Solution
from performative.truth.metrics import Truth
from performative.truth.optimum import performative_optimum
from performative.validation import shown


class Cast(NamedTuple):
    """What takes part in a simulation: each part is one object, a list of instances, or a mapping of those by variant."""

    methods: Mapping[str, Any]
    environment: Any
    problem: Any = None
    optimum: Any = None

    def variants(self) -> list[Hashable] | None:
        """The labels of the variants; None if no part names any."""
        labels = {name: list(part) for name, part in self._parts().items() if isinstance(part, Mapping)}
        if not labels:
            return None
        first = next(iter(labels.values()))
        if any(set(others) != set(first) for others in labels.values()) or not first:
            raise ValueError(f"all mappings of variants must have the same keys, at least one, but got {labels}")
        plain = all(isinstance(label, str) for label in first) or all(
            isinstance(label, int | float) and not isinstance(label, bool) for label in first
        )
        if not plain:
            raise ValueError(f"labels of variants must be all strings or all numbers, but got {first}")
        return first

    def variant(self, label: Hashable) -> Cast:
        """The parts of one variant."""

        def part(whole: Any) -> Any:
            return whole[label] if isinstance(whole, Mapping) else whole

        methods = {name: part(method) for name, method in self.methods.items()}
        return Cast(methods, part(self.environment), part(self.problem), part(self.optimum))

    def instances(self) -> int | None:
        """How many instances the lists hold; None if there is no list."""
        lengths = {name: len(part) for name, part in self._parts().items() if isinstance(part, list | tuple)}
        if len(set(lengths.values())) > 1 or 0 in lengths.values():
            raise ValueError(f"lists of instances must have one length, at least 1, but got {lengths}")
        return next(iter(lengths.values()), None)

    def instance(self, index: int) -> Cast:
        """The parts of one instance."""

        def part(whole: Any) -> Any:
            return whole[index] if isinstance(whole, list | tuple) else whole

        methods = {name: part(method) for name, method in sorted(self.methods.items())}
        return Cast(methods, part(self.environment), part(self.problem), part(self.optimum))

    def _parts(self) -> dict[str, Any]:
        methods = {f"methods[{name!r}]": method for name, method in self.methods.items()}
        return methods | {"environment": self.environment, "problem": self.problem, "optimum": self.optimum}


def make_worlds(cast: Cast, outside: bool = False) -> list[list[World]]:
    """For each instance its worlds, one per variant; a cast without variants has one.

    With `outside`, the truth measures for every deployment how far from Θ it is.
    """
    methods = cast.methods
    if not isinstance(methods, Mapping) or not methods or not all(isinstance(name, str) for name in methods):
        raise ValueError(
            "`methods` must be a mapping from names (strings) to methods, with at least one, but got "
            f'{shown(methods)}; write {{"name": method}}'
        )
    labels = cast.variants()
    variants = [cast] if labels is None else [cast.variant(label) for label in labels]
    lengths = {count for count in (variant.instances() for variant in variants) if count is not None}
    if len(lengths) > 1:
        raise ValueError(f"all variants must have the same number of instances, but got {sorted(lengths)}")
    count = max(lengths, default=1)
    rows = [[_checked(variant.instance(index)) for variant in variants] for index in range(count)]
    for method in rows[0][0].methods.values():  # all instances and variants have the structure of the first
        rehearse(method, rows[0][0].environment)
    rows = _solved(rows)
    parts = [part for row in rows for part in row]
    grids = {
        part.environment.coarse_enough(part.problem) if hasattr(part.environment, "coarse_enough") else None
        for part in parts
    }
    steps = None if None in grids else max(grid for grid in grids if grid)  # one grid, which will do for all instances
    return [[_world(part, steps, outside) for part in row] for row in rows]


def _world(part: Cast, steps: int | None, outside: bool) -> World:
    nodes = {name: as_node(method) for name, method in part.methods.items()}
    environment = as_node(part.environment)
    truth = Truth.of(part.problem, environment, part.optimum, steps, outside)
    return World(nodes, environment, truth, tuple(reads(thing) for thing in (*nodes.values(), environment)))


def _checked(part: Cast) -> Cast:
    """One instance of one variant, its parts checked against each other and its dimension resolved."""
    environment, methods = part.environment, part.methods
    if not callable(getattr(environment, "sample", None)):
        raise TypeError(
            f"`environment` must have sample(key, theta, n), but got {shown(environment)}; give a world such as LocationFamily"
        )
    for name, method in methods.items():
        require_method(f"methods[{name!r}]", method)
    if part.problem is not None and not isinstance(part.problem, Problem):
        raise TypeError(f"`problem` must be a performative.Problem, but got {part.problem!r}")
    problem = _only_problem(methods) if part.problem is None else part.problem
    problem = with_dimension(problem, required=False, environment=getattr(environment, "dimension", None))
    if problem.dimension is not None:
        methods = {
            name: method if method.problem.dimension == problem.dimension else method.of_dimension(problem.dimension)
            for name, method in methods.items()
        }
    if part.optimum is not None:
        _check_optimum(part.optimum, problem)
    if knows_risk(environment):
        environment.check(problem)
    for name, method in methods.items():
        _check_names(name, method, problem)
    return Cast(methods, environment, problem, part.optimum)


def _solved(rows: list[list[Cast]]) -> list[list[Cast]]:
    """The same parts with their optima; what is the same problem in the same world is solved once."""
    solutions: dict[tuple[int, int], Solution | None] = {}

    def solved(part: Cast) -> Cast:
        if not knows_risk(part.environment):
            require_feasible(part.problem)
            return part
        if part.optimum is not None:
            return part
        place = (id(part.problem), id(part.environment))
        if place not in solutions:
            solutions[place] = _optimum_or_none(part.problem, part.environment)
        return part._replace(optimum=solutions[place])

    return [[solved(part) for part in row] for row in rows]


def _check_optimum(optimum: Any, problem: Problem) -> None:
    if not isinstance(optimum, Solution):
        raise TypeError(
            f"`optimum` must be a performative.Solution, but got {optimum!r}; performative_optimum returns one"
        )
    shapes = np.shape(optimum.decision), np.shape(optimum.multipliers)
    if shapes != ((problem.dimension,), (len(problem.constraint_names),)):
        raise ValueError(
            f"`optimum` must have a decision of length {problem.dimension} and {len(problem.constraint_names)} multipliers, "
            f"but got {shapes[0]} and {shapes[1]}"
        )


def rehearse(method: Any, environment: Any) -> list[int]:
    """How many deployments the first two rounds take; nothing is computed, and parts that do not fit are refused."""
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
                    f"but returned {samples.shape[1:]} for n={wanted}; n rows, one for each sample"
                )
            state = method.tell(state, decisions, samples)
        return state

    jax.eval_shape(two_rounds, new_key(0))
    return costs


def _only_problem(methods: Mapping[str, Any]) -> Problem:
    """The problem that all methods know."""
    first, *others = methods
    sizes = [method.problem.dimension for method in methods.values() if method.problem.dimension is not None]

    def description(method: Any) -> Any:
        return describe(method.problem.of_dimension(sizes[0]) if sizes else method.problem)

    for name in others:
        same = methods[name].problem is methods[first].problem
        if not same and description(methods[name]) != description(methods[first]):
            raise ValueError(
                f"methods must know the same problem, but {first!r} and {name!r} differ; choose one with `problem=`"
            )
    return methods[first].problem.of_dimension(sizes[0]) if sizes else methods[first].problem


def _optimum_or_none(problem: Problem, environment: Any) -> Solution | None:
    try:
        return performative_optimum(problem, environment)
    except SolverFailed as error:
        warnings.warn(f"regret is not measured: no optimum was found ({error}); pass `optimum=`", stacklevel=5)
        return None


def _check_names(name: str, method: Any, problem: Problem) -> None:
    names = method.problem.constraint_names
    if names != problem.constraint_names:
        raise ValueError(
            f"`methods[{name!r}]` must have the measured constraints {problem.constraint_names}, but has {names}"
        )
