"""The cast of a simulation: methods, environments and problems, by instance and variant, checked against each other."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from performative.environments.answers import answer, initial_state
from performative.environments.host import HostWorld
from performative.environments.protocol import check_fits, knows_risk
from performative.methods.protocol import require_method
from performative.numerics.pytrees import as_node
from performative.numerics.randomness import new_key
from performative.problem import Problem, with_dimension
from performative.provenance import describe
from performative.purity import is_own, require_key_decides, unchanged
from performative.simulation.engine import World
from performative.simulation.truths import Measures, make_truths
from performative.solvers.kkt import Solution
from performative.truth.metrics import Truth


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


def make_worlds(cast: Cast, measures: Measures | None = None) -> list[list[World]]:
    """For each instance its worlds, one per variant; a cast without variants has one. Without `measures`, no optimum is found."""
    methods = cast.methods
    if not isinstance(methods, Mapping) or not methods or not all(isinstance(name, str) for name in methods):
        raise ValueError(
            f"`methods` must be a mapping from names (strings) to methods, with at least one, but got {methods!r}"
        )
    labels = cast.variants()
    variants = [cast] if labels is None else [cast.variant(label) for label in labels]
    lengths = {count for count in (variant.instances() for variant in variants) if count is not None}
    if len(lengths) > 1:
        raise ValueError(f"all variants must have the same number of instances, but got {sorted(lengths)}")
    count = max(lengths, default=1)
    rows = [[_checked(variant.instance(index)) for variant in variants] for index in range(count)]
    first = rows[0][0]
    for name, method in first.methods.items():  # all instances and variants have the structure of the first
        rehearse(method, first.environment, f"methods[{name!r}]")
    truths = make_truths([[(part.problem, part.environment, part.optimum) for part in row] for row in rows], measures)
    return [
        [_world(part, truth) for part, truth in zip(row, beside, strict=True)]
        for row, beside in zip(rows, truths, strict=True)
    ]


def _world(part: Cast, truth: Truth) -> World:
    nodes = {name: as_node(method) for name, method in part.methods.items()}
    return World(nodes, as_node(part.environment), truth)


def _checked(part: Cast) -> Cast:
    """One instance of one variant, its parts checked against each other and its dimension resolved."""
    environment, methods = part.environment, part.methods
    if not callable(getattr(environment, "sample", None)):
        raise TypeError(f"`environment` must have sample(key, theta, n), but got {environment!r}")
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
        check_fits(environment, problem)
    for name, method in methods.items():
        _check_names(name, method, problem)
    return Cast(methods, environment, problem, part.optimum)


def _check_optimum(optimum: Any, problem: Problem) -> None:
    if not isinstance(optimum, Solution):
        raise TypeError(f"`optimum` must be a performative.Solution, but got {optimum!r}")
    shapes = np.shape(optimum.decision), np.shape(optimum.multipliers)
    if shapes != ((problem.dimension,), (len(problem.constraint_names),)):
        raise ValueError(
            f"`optimum` must have a decision of length {problem.dimension} and {len(problem.constraint_names)} multipliers, "
            f"but got {shapes[0]} and {shapes[1]}"
        )


def rehearse(method: Any, environment: Any, name: str = "the method") -> list[int]:
    """How many deployments the first two rounds take; parts that do not fit or are not pure are refused."""
    costs = []

    def two_rounds(key: Any) -> Any:
        state, moved = method.init(key), initial_state(environment, key)
        for t in range(2):  # a warm-up and a round
            decisions, wanted = method.ask(state, key), method.wanted(state)
            if decisions.ndim != 2 or decisions.shape[1] != method.problem.dimension:
                raise ValueError(
                    f"`ask` must return decisions (b, {method.problem.dimension}), but returned {decisions.shape}"
                )
            costs.append(int(decisions.shape[0]) * int(wanted))
            samples = []
            for decision in decisions:
                drawn, moved = answer(environment, key, decision, wanted, t, moved)
                if drawn.ndim != 2 or drawn.shape[0] != wanted:
                    raise ValueError(
                        "`environment.sample(key, theta, n)` must return samples (n, k), "
                        f"but returned {drawn.shape} for n={wanted}"
                    )
                samples.append(drawn)
            state = method.tell(state, decisions, jnp.stack(samples))
        return state

    with unchanged({name: method, "the environment": environment}):
        if is_own(environment) or isinstance(environment, HostWorld):
            _draw_by_hand(method, environment)
        jax.eval_shape(two_rounds, new_key(0))
    return costs


def _draw_by_hand(method: Any, environment: Any) -> None:
    """Call a user's world outside of any program, where it must answer by its key alone."""
    key = new_key(0)
    decision, wanted = jax.jit(lambda key: method.ask(method.init(key), key))(key)[0], method.wanted(method.init(key))

    def draw(key: Any) -> Any:
        return answer(environment, key, decision, wanted, 1, initial_state(environment, key))[0]

    if isinstance(environment, HostWorld):
        draw(key)
    else:
        require_key_decides("the environment", draw, key, jax.random.fold_in(key, 1))


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


def _check_names(name: str, method: Any, problem: Problem) -> None:
    names = method.problem.constraint_names
    if names != problem.constraint_names:
        raise ValueError(
            f"`methods[{name!r}]` must have the measured constraints {problem.constraint_names}, but has {names}"
        )
