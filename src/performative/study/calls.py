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
from jax import Array

from performative.errors import ChangedFunction
from performative.methods.protocol import Method, MethodState
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
        """The same, and whether all numbers of the state are finite."""
        after, finite = self._called(_tell, state, decisions, samples)
        return after, bool(finite)

    def shape_after(self, state: MethodState, decisions: Floats, samples: Floats) -> MethodState:
        """A state with the structure that `tell` returns; it may hold shapes in place of numbers."""
        try:
            return self._compiled[_tell].eval_shape(self._leaves, state, decisions, samples)[0]
        except jax.errors.JAXTypeError:
            return self.tell(state, decisions, samples)

    @in_float64
    def rehearse(self, widths: list[int]) -> None:
        """Refuse a method whose first `tell` fails whatever the samples are; `widths` are some that its loss accepts."""
        state = self.begin()
        decisions, _ = self.ask(state, 0)
        wanted, failures = int(self._method.wanted(with_keys(state))), []
        for width in widths:
            samples = jax.ShapeDtypeStruct((len(decisions), wanted, width), np.float64)
            try:
                self._compiled[_tell].eval_shape(self._leaves, state, decisions, samples)
                return
            except jax.errors.JAXTypeError:  # it cannot be compiled
                return
            except ValueError as error:
                failures.append(error)
        if len({str(error) for error in failures}) == 1:  # whatever the width
            raise failures[0]

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
    """`_ask` and `_tell` for methods of one structure whose class reads these values."""
    return {
        function: jax.jit(lambda leaves, *rest, call=function: call(jax.tree.unflatten(structure, leaves), *rest))
        for function in (_ask, _tell)
    }


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
    after = without_keys(method.tell(with_keys(state), decisions, samples))
    numbers = [leaf for leaf in map(jnp.asarray, jax.tree.leaves(after)) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    return after, jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in numbers]))
