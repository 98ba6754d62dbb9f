"""Is the derivative of a function zero wherever it is defined? Read off its program, not off samples."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.extend import core

from performative.numerics.expectations import dtype_of
from performative.numerics.precision import precise


def is_flat(function: Callable[..., Any], *arguments: Any, within: tuple[int, ...] = (0,)) -> bool:
    """Whether `function` depends on its first argument, but all its derivatives in the arguments `within` are zero.

    `function` is a pytree. So it is for a 0–1 loss: its program only compares and chooses. The answer depends on shapes alone.
    """
    leaves, tree = jax.tree.flatten((function, arguments))
    if not all(isinstance(dtype_of(leaf), np.dtype) for leaf in leaves):  # random keys
        return False
    return _is_flat(tree, tuple((np.shape(leaf), dtype_of(leaf)) for leaf in leaves), within)


@functools.lru_cache(maxsize=256)
def _is_flat(
    tree: jax.tree_util.PyTreeDef, shapes: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...], within: tuple[int, ...]
) -> bool:
    function, arguments = jax.tree.unflatten(tree, range(len(shapes)))
    first = len(jax.tree.leaves(function))

    def call(*leaves: Any) -> Any:
        function, arguments = jax.tree.unflatten(tree, leaves)
        return function(*arguments)

    places = tuple(first + place for place in within)  # each argument is one array
    assert len(jax.tree.leaves(arguments)) == len(arguments)
    with precise(), jax.ensure_compile_time_eval():
        leaves = [np.ones(shape, dtype) for shape, dtype in shapes]
        program = jax.make_jaxpr(call)(*leaves).jaxpr
        if not _reached(program, [program.invars[first]]):
            return False
        slope = jax.make_jaxpr(jax.grad(call, places))(*leaves)
        if _reached(slope.jaxpr, slope.jaxpr.invars):
            return False
        return not any(np.any(np.asarray(part)) for part in jax.grad(call, places)(*leaves))


def _reached(program: core.Jaxpr, inputs: list[core.Var]) -> bool:
    """Whether any result of a program depends on one of these inputs."""
    touched: set[Any] = set(inputs)
    for equation in program.eqns:
        if any(isinstance(atom, core.Var) and atom in touched for atom in equation.invars):
            touched.update(equation.outvars)
    return any(isinstance(atom, core.Var) and atom in touched for atom in program.outvars)
