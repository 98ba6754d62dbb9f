"""The cast of a simulation: methods, environments and problems, by instance and variant, checked against each other."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.environments.answers import answer, initial_state, signature_of
from performative.environments.host import HostWorld
from performative.environments.protocol import Environment, check_fits, knows_risk
from performative.methods.protocol import Method, of_dimension, plans_ahead, require_method
from performative.numerics.programs import Program, is_installed_throughout
from performative.numerics.pytrees import as_node
from performative.numerics.randomness import new_key
from performative.numerics.reads import reads
from performative.numerics.structure import difference
from performative.problem import Problem, with_dimension
from performative.provenance import describe
from performative.purity import SEVERAL, is_own, require_key_decides, unchanged
from performative.simulation.engine import World
from performative.simulation.truths import Measures, make_truths
from performative.solvers.kkt import Solution
from performative.truth.metrics import Truth
from performative.validation import shown

T = TypeVar("T")
Instances: TypeAlias = Sequence[T] | T
"""One object, or a list of instances of it."""
Given: TypeAlias = Instances[T] | Mapping[str, Instances[T]] | Mapping[int, Instances[T]] | Mapping[float, Instances[T]]
"""One object, a list of instances, or a mapping of those by variant."""


class Cast(NamedTuple):
    """What takes part in a simulation: each part is one object, a list of instances, or a mapping of those by variant."""

    methods: Mapping[str, Given[Method]]
    environment: Given[Environment]
    problem: Given[Problem | None] = None
    optimum: Given[Solution | None] = None

    def variants(self) -> list[Hashable] | None:
        """The labels of the variants; None if no part names any."""
        labels = {name: list(part) for name, part in self._parts().items() if isinstance(part, Mapping)}
        if not labels:
            return None
        first = next(iter(labels.values()))
        if any(set(others) != set(first) for others in labels.values()) or not first:
            raise ValueError(f"all mappings of variants must be nonempty and have the same keys, but got {labels}")
        plain = all(isinstance(label, str) for label in first) or all(
            isinstance(label, int | float) and not isinstance(label, bool) for label in first
        )
        if not plain:
            raise ValueError(f"labels of variants must be all strings or all numbers, but got {first}")
        return first

    def variant(self, label: Hashable) -> Cast:
        """The parts of one variant."""
        methods = {name: _variant(method, label) for name, method in self.methods.items()}
        return Cast(
            methods, _variant(self.environment, label), _variant(self.problem, label), _variant(self.optimum, label)
        )

    def instances(self) -> int | None:
        """How many instances the lists hold; None if there is no list."""
        lengths = {name: len(part) for name, part in self._parts().items() if isinstance(part, list | tuple)}
        if len(set(lengths.values())) > 1 or 0 in lengths.values():
            raise ValueError(f"lists of instances must be nonempty and of the same length, but got {lengths}")
        return next(iter(lengths.values()), None)

    def instance(self, index: int) -> Part:
        """The parts of one instance of a variant, checked against each other, their dimension resolved."""
        methods = {name: _instance(method, index) for name, method in sorted(self.methods.items())}
        return _checked(
            methods, _instance(self.environment, index), _instance(self.problem, index), _instance(self.optimum, index)
        )

    def _parts(self) -> dict[str, object]:
        methods = {f"methods[{name!r}]": method for name, method in self.methods.items()}
        return methods | {"environment": self.environment, "problem": self.problem, "optimum": self.optimum}


def _variant(whole: Given[T], label: Hashable) -> Instances[T]:
    if not isinstance(whole, Mapping):
        return whole
    by_label: Mapping[Any, Instances[T]] = whole
    return by_label[label]


def _instance(whole: Given[T], index: int) -> T:
    """One instance of a part of one variant, which is no mapping."""
    one: Any = whole[index] if isinstance(whole, list | tuple) else whole
    return one


class Part(NamedTuple):
    """One instance of one variant: objects, neither lists nor mappings."""

    methods: dict[str, Method]
    environment: Environment
    problem: Problem
    optimum: Solution | None


def make_worlds(cast: Cast, measures: Measures | None = None) -> list[list[World]]:
    """For each instance its worlds, one per variant; a cast without variants has one. Without `measures`, no optimum is found."""
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
    rows = [[variant.instance(index) for variant in variants] for index in range(count)]
    _require_alike(rows, labels)
    first = rows[0][0]
    for name, method in first.methods.items():  # all instances and variants have the structure of the first
        rehearse(method, first.environment, f"methods[{name!r}]")
    truths = make_truths([[(part.problem, part.environment, part.optimum) for part in row] for row in rows], measures)
    worlds = [
        [_world(part, truth) for part, truth in zip(row, beside, strict=True)]
        for row, beside in zip(rows, truths, strict=True)
    ]
    _require_alike(worlds, labels)  # an optimum may have been found for some of them only
    return worlds


def _world(part: Part, truth: Truth) -> World:
    values = tuple(reads(thing) for thing in (*part.methods.values(), part.environment))
    return World(dict(part.methods), part.environment, truth, values)


def _require_alike(rows: Sequence[Sequence[Part | World]], labels: list[Hashable] | None) -> None:
    """Refuse instances and variants that differ in more than their numbers."""
    names = [
        " of ".join(
            [f"instance {index}"] * (len(rows) > 1 or labels is None)
            + ([] if labels is None else [f"variant {label!r}"])
        )
        for index in range(len(rows))
        for label in labels or [None]
    ]
    first, *others = zip(names, (part for row in rows for part in row), strict=True)
    for name, part in others:
        found = difference(first[1], part)
        if found is not None:
            raise ValueError(
                f"{name} must have the structure of {first[0]} and differ only in its numbers, but {found}"
            )


def _checked(
    methods: dict[str, Method], environment: Environment, measured: Problem | None, optimum: Solution | None
) -> Part:
    """One instance of one variant; `measured` is the problem to measure on, where it is not the one that the methods know."""
    signature_of(environment)  # refuses what is not a world
    for name, method in methods.items():
        require_method(f"methods[{name!r}]", method)
    if measured is not None and not isinstance(measured, Problem):
        raise TypeError(f"`problem` must be a performative.Problem, but got {measured!r}")
    known = {f"methods[{name!r}]": method.problem for name, method in methods.items()}
    problem = next(iter(known.values())) if measured is None else measured
    problem = with_dimension(problem, True, environment, **known)
    methods = {name: of_dimension(method, problem.d) for name, method in methods.items()}
    if measured is None:
        _require_one_problem(methods)
    if optimum is not None:
        _check_optimum(optimum, problem)
    if knows_risk(environment):
        check_fits(environment, problem)
    for name, method in methods.items():
        _check_names(name, method, problem)
    nodes = {name: as_node(method) for name, method in methods.items()}
    return Part(nodes, as_node(environment), problem, optimum)


def _check_optimum(optimum: Solution, problem: Problem) -> None:
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


def rehearse(method: Method, environment: Environment, name: str = "the method") -> list[tuple[int, int]]:
    """How many decisions the first two rounds deploy, and for how many samples each; parts that do not fit are refused."""
    with unchanged({name: method, "the environment": environment}):
        if is_own(environment) or isinstance(environment, HostWorld):
            _draw_by_hand(method, environment)
        if is_installed_throughout((method, environment)):  # known from an earlier process, perhaps
            samples = _TWO_ROUNDS.shapes(method, environment)
        else:
            samples = jax.eval_shape(lambda: _two_rounds(method, environment))
    if isinstance(environment, HostWorld):
        environment.release()
    return [(int(drawn.shape[0]), int(drawn.shape[1])) for drawn in samples]


def _two_rounds(method: Method, environment: Environment) -> list[Array]:
    """The samples (b, n, k) of a warm-up and a round."""
    key, rounds = new_key(0), []
    learn = method.learn if plans_ahead(method) else method.tell  # a plan takes long to trace, and changes no shapes
    state, moved = method.init(key), initial_state(environment, key)
    for t in range(2):
        decisions, wanted = method.ask(state, key), method.wanted(state)
        if decisions.ndim != 2 or decisions.shape[1] != method.problem.dimension:
            raise ValueError(
                f"`ask` must return decisions (b, {method.problem.dimension}), but returned {decisions.shape}"
            )
        samples = []
        for decision in decisions:
            drawn, moved = answer(environment, key, decision, wanted, t, moved)
            if drawn.ndim != 2 or drawn.shape[0] != wanted:
                raise ValueError(
                    "`environment.sample(key, theta, n)` must return samples (n, k), "
                    f"but returned {drawn.shape} for n={wanted}; n rows, one for each sample"
                )
            samples.append(drawn)
        rounds.append(jnp.stack(samples))
        state = learn(state, decisions, rounds[-1])
    return rounds


_TWO_ROUNDS = Program(_two_rounds)


def _draw_by_hand(method: Method, environment: Environment) -> None:
    """Call a user's world outside of any program, where it must answer by its key alone."""
    key = new_key(0)
    decision, wanted = jax.jit(lambda key: method.ask(method.init(key), key))(key)[0], method.wanted(method.init(key))

    def draw(key: Array) -> Array:
        return answer(environment, key, decision, max(wanted, SEVERAL), 1, initial_state(environment, key))[0]

    if isinstance(environment, HostWorld) and signature_of(environment).carries_state:
        draw(key)  # a simulator with a memory may answer differently
    else:
        require_key_decides("the environment", draw, key, jax.random.fold_in(key, 1))


def _require_one_problem(methods: Mapping[str, Method]) -> None:
    """Refuse methods that know different problems, of which one would have to be measured on."""
    first, *others = methods
    for name in others:
        one, other = methods[first].problem, methods[name].problem
        if one is not other and describe(one) != describe(other):
            raise ValueError(
                f"methods must know the same problem, but {first!r} and {name!r} differ; choose one with `problem=`"
            )


def _check_names(name: str, method: Method, problem: Problem) -> None:
    names = method.problem.constraint_names
    if names != problem.constraint_names:
        raise ValueError(
            f"`methods[{name!r}]` must have the measured constraints {problem.constraint_names}, but has {names}"
        )
