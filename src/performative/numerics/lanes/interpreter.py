"""Map a function over lanes that lie on the last axis of every array.

`jax.vmap` with `in_axes=-1` gives the right numbers, but its rules move the mapped axis to the front wherever that is
easiest, and on a CPU the small contractions of one realization then neither fuse nor vectorize. Here every primitive of
the function's program is applied with the lanes kept last: elementwise operations stay contiguous along the lanes,
short contractions become multiply-and-add, and whole rounds fuse into a few loops. Primitives without a rule go through
`jax.vmap`, so that any function can be mapped.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.extend import core

from performative.numerics.arrays import as_field
from performative.numerics.lanes.constants import by_numpy, is_plain
from performative.numerics.lanes.rules import AXES_FIRST, ELEMENTWISE, RULES
from performative.numerics.lanes.values import Value, filled, is_same, spread_out
from performative.numerics.polynomial import CALLS, shape_of


def over_lanes(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` applied to each lane: all leaves of all arguments and results have one more axis, the last.

    Leaves wrapped in `Same` have no such axis; the function sees the array itself.
    """

    def mapped(*arguments: Any) -> Any:
        leaves, tree = jax.tree.flatten(arguments, is_leaf=is_same)
        inputs = [(as_field(leaf.array), False) if is_same(leaf) else (leaf, True) for leaf in leaves]
        lanes = count_lanes(arguments)
        program, result = jax.make_jaxpr(
            lambda *flat: function(*jax.tree.unflatten(tree, flat)), return_shape=True
        )(*jax.tree.leaves(one_lane(arguments)))  # fmt: skip
        values = _evaluate(program.jaxpr, program.consts, inputs, lanes)
        return jax.tree.unflatten(jax.tree.structure(result), [spread_out(value, lanes) for value in values])

    return mapped


def count_lanes(tree: Any) -> int:
    """How many lanes the arrays of `tree` have."""
    counts = {leaf.shape[-1] for leaf in jax.tree.leaves(tree, is_leaf=is_same) if not is_same(leaf)}
    if len(counts) != 1:
        raise ValueError(f"all arrays must have the same number of lanes on their last axis, but got {sorted(counts)}")
    (lanes,) = counts
    return int(lanes)


def one_lane(tree: Any) -> Any:
    """The shapes of a single lane."""

    def single(leaf: Any) -> jax.ShapeDtypeStruct:
        shape, kind = (leaf.array.shape, leaf.array.dtype) if is_same(leaf) else (leaf.shape[:-1], leaf.dtype)
        return jax.ShapeDtypeStruct(shape, kind)

    return jax.tree.map(single, tree, is_leaf=is_same)


def _evaluate(jaxpr: core.Jaxpr, consts: Sequence[Array], inputs: list[Value], lanes: int) -> list[Value]:
    values: dict[core.Var, Value] = {}
    values.update(zip(jaxpr.constvars, [(const, False) for const in consts], strict=True))
    values.update(zip(jaxpr.invars, inputs, strict=True))

    def read(atom: core.Var | core.Literal) -> Value:
        return (atom.val, False) if isinstance(atom, core.Literal) else values[atom]

    for equation in jaxpr.eqns:
        outputs = _apply(equation, [read(atom) for atom in equation.invars], lanes)
        values.update(zip(equation.outvars, outputs, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _apply(equation: core.JaxprEqn, operands: list[Value], lanes: int) -> list[Value]:
    primitive, params = equation.primitive, dict(equation.params)
    name, arrays = primitive.name, [array for array, _ in operands]
    if name in CALLS and CALLS[name] in params:
        inner = params[CALLS[name]]  # closed, or open for rematerialization
        return _evaluate(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), operands, lanes)
    if name in LOOPS and any(mapped for _, mapped in operands):
        return LOOPS[name](operands, params, lanes)
    if not any(mapped for _, mapped in operands):
        # What depends only on constants is computed now, so that indices are concrete numbers below.
        concrete = not any(isinstance(array, jax.core.Tracer) for array in arrays)
        if concrete and is_plain(equation):
            return [(output, False) for output in by_numpy(equation, arrays)]
        with jax.ensure_compile_time_eval() if concrete else contextlib.nullcontext():
            outputs = primitive.bind(*arrays, **params)
        return [(output, False) for output in (outputs if primitive.multiple_results else [outputs])]
    if name in RULES:
        return [(RULES[name](operands, params, lanes), True)]
    if name in ELEMENTWISE:
        shape = next((shape_of(var) for var in equation.outvars), ())
        return [(primitive.bind(*[filled(value, shape, lanes) for value in operands], **params), True)]
    if name in AXES_FIRST:
        outputs = primitive.bind(*[spread_out(value, lanes) for value in operands], **params)
        return [(output, True) for output in (outputs if primitive.multiple_results else [outputs])]
    return _through_vmap(equation, operands)


def _through_vmap(equation: core.JaxprEqn, operands: list[Value]) -> list[Value]:
    in_axes = tuple(-1 if mapped else None for _, mapped in operands)
    primitive, params = equation.primitive, equation.params
    outputs = jax.vmap(lambda *arrays: primitive.bind(*arrays, **params), in_axes=in_axes, out_axes=-1)(
        *[array for array, _ in operands]
    )
    return [(output, True) for output in (outputs if primitive.multiple_results else [outputs])]


def _scan(operands: list[Value], params: dict[str, Any], lanes: int) -> list[Value]:
    """A loop whose body keeps the lanes last; a carried value has lanes as soon as anything with lanes flows into it."""
    program, first, last = params["jaxpr"], params["num_consts"], params["num_consts"] + params["num_carry"]
    consts, carried, scanned = operands[:first], operands[first:last], operands[last:]
    kinds = [mapped for _, mapped in carried]

    def body(carry: list[Array], slices: list[Array]) -> tuple[list[Array], list[Array]]:
        values = [*consts, *zip(carry, kinds, strict=True)]
        values += [(piece, mapped) for piece, (_, mapped) in zip(slices, scanned, strict=True)]
        outputs = _evaluate(program.jaxpr, program.consts, values, lanes)
        for index, (_, mapped) in enumerate(outputs[: len(kinds)]):
            kinds[index] = kinds[index] or mapped
        after = [spread_out(value, lanes) if kind else value[0] for value, kind in zip(outputs, kinds, strict=False)]
        return after, [spread_out(value, lanes) for value in outputs[len(kinds) :]]

    def start() -> list[Array]:
        return [spread_out(value, lanes) if kind else value[0] for value, kind in zip(carried, kinds, strict=True)]

    pieces = [array for array, _ in scanned]
    one = [jax.ShapeDtypeStruct(piece.shape[1:], piece.dtype) for piece in pieces]  # there may be none to look at
    _settle(kinds, lambda: jax.eval_shape(body, start(), one))
    length, reverse = params["length"], params["reverse"]
    after, stacked = lax.scan(body, start(), pieces, length=length, reverse=reverse)
    return [*zip(after, kinds, strict=True), *[(array, True) for array in stacked]]


def _while(operands: list[Value], params: dict[str, Any], lanes: int) -> list[Value]:
    """A loop that goes on while any lane does; the others keep what they have."""
    test, program = params["cond_jaxpr"], params["body_jaxpr"]
    first, last = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    test_consts, consts, carried = operands[:first], operands[first:last], operands[last:]
    kinds = [mapped for _, mapped in carried]

    def evaluated(program: core.ClosedJaxpr, consts: list[Value], carry: list[Array]) -> list[Value]:
        return _evaluate(program.jaxpr, program.consts, [*consts, *zip(carry, kinds, strict=True)], lanes)

    def body(carry: list[Array]) -> list[Array]:
        before = [*zip(carry, kinds, strict=True)]
        ((going, apart),), outputs = evaluated(test, test_consts, carry), evaluated(program, consts, carry)
        for index, (_, mapped) in enumerate(outputs):
            kinds[index] = kinds[index] or mapped or apart
        after = [spread_out(value, lanes) if kind else value[0] for value, kind in zip(outputs, kinds, strict=True)]
        if not apart:
            return after
        return [jnp.where(going, now, spread_out(old, lanes)) for now, old in zip(after, before, strict=True)]

    def start() -> list[Array]:
        return [spread_out(value, lanes) if kind else value[0] for value, kind in zip(carried, kinds, strict=True)]

    _settle(kinds, lambda: jax.eval_shape(body, start()))
    after = lax.while_loop(lambda carry: jnp.any(evaluated(test, test_consts, carry)[0][0]), body, start())
    return [*zip(after, kinds, strict=True)]


def _cond(operands: list[Value], params: dict[str, Any], lanes: int) -> list[Value]:
    """The branch of each lane; one that no lane takes is not computed."""
    (which, apart), rest = operands[0], operands[1:]

    def computed(program: core.ClosedJaxpr, arrays: list[Array]) -> list[Array]:
        values = [(array, mapped) for array, (_, mapped) in zip(arrays, rest, strict=True)]
        outputs = _evaluate(program.jaxpr, program.consts, values, lanes)
        return [spread_out(value, lanes) for value in outputs]

    arrays = [array for array, _ in rest]
    branches = [functools.partial(computed, program) for program in params["branches"]]
    if not apart:
        return [(array, True) for array in lax.switch(which, branches, arrays)]
    chosen = None
    for place, branch in enumerate(branches):
        mine = which == place
        none = [jnp.zeros(one.shape, one.dtype) for one in jax.eval_shape(branch, arrays)]
        outputs = lax.cond(jnp.any(mine), branch, lambda _, none=none: none, arrays)
        chosen = outputs if chosen is None else [jnp.where(mine, *pair) for pair in zip(outputs, chosen, strict=True)]
    assert chosen is not None
    return [(array, True) for array in chosen]


def _settle(kinds: list[bool], once: Callable[[], object]) -> None:
    """Repeat until a round of a loop's body gives lanes to no further value."""
    while True:
        before = list(kinds)
        once()
        if kinds == before:
            break


LOOPS = {"scan": _scan, "while": _while, "cond": _cond}
