"""A method's `init`, `ask` and `tell` on plain arrays, compiled.

A study makes the same compiled calls whether it was just created, continues, was opened again or is replayed, so the bits agree.
States come and go without random keys, so that they are plain arrays on both sides of the store.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from performative.errors import ChangedFunction
from performative.methods.protocol import Method, MethodState, PlanningMethod, plans_ahead
from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64
from performative.numerics.randomness import new_key
from performative.numerics.reads import Reading, reads
from performative.study.records import with_keys, without_keys


class Calls:
    """The calls of one method in a study with one seed.

    A method whose Python code branches on its numbers cannot be compiled and is called as it is.
    """

    def __init__(self, method: Method, seed: int) -> None:
        leaves, self._structure = jax.tree.flatten(method)
        self._leaves, self._compiled = jax.device_put(leaves), _compiled(self._structure, reads(method))
        self._method, self._seed, self._reads = method, seed, reads(method)
        self._lane_words = np.asarray(jax.random.key_data(_lane(seed)))

    def begin(self) -> MethodState:
        """The state before the first `ask`."""
        key = jax.random.fold_in(_lane(self._seed), 0)
        return jax.tree.map(np.asarray, without_keys(self._method.init(key)))

    def ask(self, state: MethodState, attempt: int) -> tuple[Floats, Floats]:
        """Decisions (b, d) and their constraints' values (b, m)."""
        decisions, values = self._called(_ask, state, self._lane_words, np.int64(attempt))
        return np.asarray(decisions), np.asarray(values)

    def tell(self, state: MethodState, decisions: Floats, samples: Floats) -> MethodState:
        """The state after `samples` (b, n, k) were observed."""
        return self.tell_and_check(state, decisions, samples)[0]

    def tell_and_check(self, state: MethodState, decisions: Floats, samples: Floats) -> tuple[MethodState, bool]:
        """The same, and whether all numbers of the state are finite.

        A plan is compiled apart: it takes long, and does not depend on the number of samples.
        """
        told = state, decisions, samples
        if plans_ahead(self._method):
            after, finite = self._called(_plan, self._called(_learn, *told), state.round)
        else:
            after, finite = self._called(_tell, *told)
        return after, bool(finite)

    def shape_after(self, state: MethodState, decisions: Floats, samples: Floats) -> MethodState:
        """A state with the structure that `tell` returns; it may hold shapes in place of numbers."""
        shapes = self._traced(state, decisions, samples)
        return self.tell(state, decisions, samples) if shapes is None else shapes

    @in_float64
    def rehearse(self, widths: list[int]) -> None:
        """Refuse a method whose first `tell` fails whatever the samples are; `widths` are some that its loss accepts."""
        state = self.begin()
        decisions, _ = self.ask(state, 0)
        wanted, failures = int(self._method.wanted(with_keys(state))), []
        for width in widths:
            samples = jax.ShapeDtypeStruct((len(decisions), wanted, width), np.float64)
            try:
                self._traced(state, decisions, samples)
                return
            except ValueError as error:
                failures.append(error)
        if len({str(error) for error in failures}) == 1:  # whatever the width
            raise failures[0]

    def _traced(self, state: MethodState, decisions: Any, samples: Any) -> MethodState | None:
        """The shapes of the state that `tell` returns; None if it cannot be compiled.

        A plan, which takes long to trace, changes none of them.
        """
        told = self._leaves, state, decisions, samples
        try:
            if plans_ahead(self._method):
                return self._compiled[_learn].eval_shape(*told)
            return self._compiled[_tell].eval_shape(*told)[0]
        except jax.errors.JAXTypeError:
            return None

    def _called(self, function: Callable[..., Any], *rest: Any) -> Any:
        structure: Any = jax.tree.structure(self._method)
        if structure != self._structure or reads(self._method) != self._reads:
            raise ChangedFunction(
                "a method must stay as it was when its study was opened, but its attributes, or values that its class reads, "
                "changed; open the study again with a method like the stored one"
            )
        try:
            return self._compiled[function](self._leaves, *rest)
        except jax.errors.JAXTypeError:
            method = jax.tree.unflatten(self._structure, self._leaves)
            return function(method, *jax.tree.map(jnp.asarray, rest))


@functools.lru_cache
def _compiled(structure: jax.tree_util.PyTreeDef, values: Reading) -> dict[Callable[..., Any], Any]:
    """`_ask` and `_tell`, whole and in parts, for methods of one structure whose class reads these values."""

    def compiled(function: Callable[..., Any]) -> Any:
        def call(leaves: list[Any], *rest: Any) -> Any:
            return function(jax.tree.unflatten(structure, leaves), *rest)

        call.__name__ = function.__name__  # in the logs of compilations
        return jax.jit(call)

    return {function: compiled(function) for function in (_ask, _tell, _learn, _plan)}


def _lane(seed: int) -> Array:
    """The key of realization 0."""
    return jax.random.fold_in(new_key(seed), 0)


def _ask(method: Method, state: MethodState, words: Array, attempt: Array) -> tuple[Array, Array]:
    lane = jax.random.wrap_key_data(words, impl="threefry2x32")
    key = jax.random.fold_in(jax.random.fold_in(lane, state.round + 1), 0)  # as `engine.round_keys` does
    again = jax.random.fold_in(key, attempt)
    data = jnp.where(attempt > 0, jax.random.key_data(again), jax.random.key_data(key))
    decisions = jnp.asarray(method.ask(with_keys(state), jax.random.wrap_key_data(data, impl="threefry2x32")))
    return decisions, jnp.stack([method.problem.g(decision) for decision in decisions])


def _tell(method: Method, state: MethodState, decisions: Array, samples: Array) -> tuple[MethodState, Array]:
    return _checked(method.tell(with_keys(state), decisions, samples))


def _learn(method: PlanningMethod, state: MethodState, decisions: Array, samples: Array) -> MethodState:
    return _checked(method.learn(with_keys(state), decisions, samples))[0]


def _plan(method: PlanningMethod, state: MethodState, told: Array) -> tuple[MethodState, Array]:
    return _checked(lax.cond(method.plans(told), method.plan, lambda state: state, with_keys(state)))


def _checked(state: MethodState) -> tuple[MethodState, Array]:
    """The state as it is stored, and whether all its numbers are finite.

    Its types are those that the store gives back, so that a study that goes on and one that is opened again run one program.
    """
    after = jax.tree.map(lambda leaf: lax.convert_element_type(leaf, jnp.asarray(leaf).dtype), without_keys(state))
    numbers = [leaf for leaf in jax.tree.leaves(after) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    return after, jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in numbers]))
