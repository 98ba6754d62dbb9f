"""Map a function over lanes that lie on the last axis of every array.

`jax.vmap` with `in_axes=-1` gives the right numbers, but its rules move the mapped axis to the front wherever that is
easiest, and on a CPU the small contractions of one realisation then neither fuse nor vectorise. Here every primitive of
the function's program is applied with the lanes kept last: elementwise operations stay contiguous along the lanes,
short contractions become multiply-and-add, and whole rounds fuse into a few loops. Primitives without a rule of their own
go through `jax.vmap`, so that any function can be mapped.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core

from performative.polynomial import CALLS
from performative.pytrees import pytree

UNROLLED = 1 << 14
"""Contractions of at most so many products per lane become multiply-and-add; larger ones stay matrix products."""

SHARED = 1 << 9
"""The same where one factor is shared by all lanes, and the product is one of matrices."""

LONG = 20
"""Sums of at least so many terms to one number per lane become products with ones, which run along the lanes; XLA's own
loops over the terms do not."""

STRETCHES = 4
"""Taking known rows that lie in at most so many stretches becomes that many copies, which beats a gather."""

_ELEMENTWISE = {
    "abs", "acos", "add", "add_any", "and", "asin", "atan", "atan2", "cbrt", "ceil", "convert_element_type",
    "copy", "copy_p", "cos", "cosh", "div", "eq", "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "floor", "ge", "gt",
    "integer_pow", "is_finite", "le", "lgamma", "log", "log1p", "logistic", "lt", "max", "min", "mul", "ne", "neg",
    "nextafter", "not", "or", "population_count", "pow", "reduce_precision", "rem", "round", "rsqrt",
    "shift_left", "shift_right_arithmetic", "shift_right_logical", "sign", "sin", "sinh", "sqrt", "square",
    "stop_gradient", "sub", "tan", "tanh", "xor",
}  # fmt: skip
# They name axes by position from the front, which a last axis does not change.
_AXES_FIRST = {
    "argmax", "argmin", "concatenate", "cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum", "expand_dims",
    "reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_prod", "rev", "sort", "split", "squeeze",
}  # fmt: skip


# A value is an array and whether its last axis holds the lanes.
Value = tuple[Any, bool]


@pytree()
class Same:
    """An array that all lanes share, given to a function over lanes without an axis for them."""

    array: Any


def over_lanes(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` applied to each lane: all leaves of all arguments and results have one more axis, the last.

    Only what is wrapped in `Same` has none; the function sees the array itself.
    """

    def mapped(*arguments: Any) -> Any:
        leaves, tree = jax.tree.flatten(arguments, is_leaf=_is_same)
        inputs = [(leaf.array, False) if _is_same(leaf) else (leaf, True) for leaf in leaves]
        lanes = count_lanes(arguments)
        program, result = jax.make_jaxpr(
            lambda *flat: function(*jax.tree.unflatten(tree, flat)), return_shape=True
        )(*jax.tree.leaves(one_lane(arguments)))  # fmt: skip
        values = _evaluate(program.jaxpr, program.consts, inputs, lanes)
        return jax.tree.unflatten(jax.tree.structure(result), [_spread(value, lanes) for value in values])

    return mapped


def count_lanes(tree: Any) -> int:
    """How many lanes the arrays of `tree` have."""
    counts = {leaf.shape[-1] for leaf in jax.tree.leaves(tree, is_leaf=_is_same) if not _is_same(leaf)}
    if len(counts) != 1:
        raise ValueError(f"all arrays must have the same number of lanes on their last axis, but got {sorted(counts)}")
    (lanes,) = counts
    return int(lanes)


def one_lane(tree: Any) -> Any:
    """The shapes of a single lane."""

    def single(leaf: Any) -> jax.ShapeDtypeStruct:
        shape, kind = (leaf.array.shape, leaf.array.dtype) if _is_same(leaf) else (leaf.shape[:-1], leaf.dtype)
        return jax.ShapeDtypeStruct(shape, kind)

    return jax.tree.map(single, tree, is_leaf=_is_same)


def _is_same(leaf: Any) -> bool:
    return isinstance(leaf, Same)


def _evaluate(jaxpr: Any, consts: Any, inputs: list[Value], lanes: int) -> list[Value]:
    known: dict[Any, Value] = {}
    known.update(zip(jaxpr.constvars, [(const, False) for const in consts], strict=True))
    known.update(zip(jaxpr.invars, inputs, strict=True))

    def read(atom: Any) -> Value:
        return (atom.val, False) if isinstance(atom, core.Literal) else known[atom]

    for equation in jaxpr.eqns:
        outputs = _apply(equation, [read(atom) for atom in equation.invars], lanes)
        known.update(zip(equation.outvars, outputs, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _apply(equation: Any, operands: list[Value], lanes: int) -> list[Value]:
    primitive, params = equation.primitive, dict(equation.params)
    name, arrays = primitive.name, [array for array, _ in operands]
    if name in CALLS and CALLS[name] in params:
        inner = params[CALLS[name]]  # closed, or open for rematerialisation
        return _evaluate(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), operands, lanes)
    if name == "scan" and any(mapped for _, mapped in operands):
        return _scan(operands, params, lanes)
    if not any(mapped for _, mapped in operands):
        # What depends on constants alone is computed here and now, so that indices are known numbers below.
        known = not any(isinstance(array, jax.core.Tracer) for array in arrays)
        if known and _is_plain(equation):
            return [(_by_numpy(equation, arrays), False)]
        with jax.ensure_compile_time_eval() if known else contextlib.nullcontext():
            outputs = primitive.bind(*arrays, **params)
        return [(output, False) for output in (outputs if primitive.multiple_results else [outputs])]
    if name in _RULES:
        return [(_RULES[name](operands, params, lanes), True)]
    if name in _ELEMENTWISE:
        shape = next((aval.shape for aval in (var.aval for var in equation.outvars)), ())
        return [(primitive.bind(*[_filled(value, shape, lanes) for value in operands], **params), True)]
    if name in _AXES_FIRST:
        outputs = primitive.bind(*[_spread(value, lanes) for value in operands], **params)
        return [(output, True) for output in (outputs if primitive.multiple_results else [outputs])]
    return _through_vmap(equation, operands)


def _is_plain(equation: Any) -> bool:
    """Whether NumPy gives the same bits: numbers are moved about, or whole numbers are counted with."""
    name = equation.primitive.name
    if name not in _PLAIN:
        return False
    kinds = {atom.aval.dtype for atom in (*equation.invars, *equation.outvars)}
    whole = all(jnp.issubdtype(kind, jnp.integer) or jnp.issubdtype(kind, jnp.bool_) for kind in kinds)
    return whole or (name in _MOVES and kinds <= {np.dtype(bool), np.dtype(np.float64)})


def _by_numpy(equation: Any, arrays: list[Any]) -> Any:
    """The result of an equation between constants. Compiled, each would hold a megabyte or two, and there are many."""
    given = [np.asarray(array, atom.aval.dtype) for array, atom in zip(arrays, equation.invars, strict=True)]
    with np.errstate(over="ignore"), jax.ensure_compile_time_eval():
        return jax.device_put(_PLAIN[equation.primitive.name](*given, **equation.params))


def _spread(value: Value, lanes: int) -> Any:
    """The array with lanes last."""
    array, mapped = value
    if not mapped:
        array = jnp.broadcast_to(jnp.asarray(array)[..., None], (*jnp.shape(array), lanes))
    return array


def _filled(value: Value, shape: tuple[int, ...], lanes: int) -> Any:
    """The array in the full shape of an elementwise operation, which lets scalars stand for arrays."""
    array, mapped = value
    if mapped and array.ndim == 1 and shape:
        return lax.broadcast_in_dim(array, (*shape, lanes), (len(shape),))
    if not mapped and jnp.ndim(array) == 0:
        return lax.broadcast_in_dim(jnp.asarray(array), (*shape, lanes), ())
    return _spread(value, lanes)


def _through_vmap(equation: Any, operands: list[Value]) -> list[Value]:
    in_axes = tuple(-1 if mapped else None for _, mapped in operands)
    primitive, params = equation.primitive, equation.params
    outputs = jax.vmap(lambda *arrays: primitive.bind(*arrays, **params), in_axes=in_axes, out_axes=-1)(
        *[array for array, _ in operands]
    )
    return [(output, True) for output in (outputs if primitive.multiple_results else [outputs])]


def _scan(operands: list[Value], params: dict[str, Any], lanes: int) -> list[Value]:
    """A loop whose body keeps the lanes last; what it carries has lanes as soon as anything with lanes flows into it."""
    program, first, last = params["jaxpr"], params["num_consts"], params["num_consts"] + params["num_carry"]
    consts, carried, scanned = operands[:first], operands[first:last], operands[last:]
    kinds = [mapped for _, mapped in carried]

    def body(carry: list[Any], slices: list[Any]) -> tuple[list[Any], list[Any]]:
        values = [*consts, *zip(carry, kinds, strict=True)]
        values += [(piece, mapped) for piece, (_, mapped) in zip(slices, scanned, strict=True)]
        outputs = _evaluate(program.jaxpr, program.consts, values, lanes)
        for index, (_, mapped) in enumerate(outputs[: len(kinds)]):
            kinds[index] = kinds[index] or mapped
        after = [_spread(value, lanes) if kind else value[0] for value, kind in zip(outputs, kinds, strict=False)]
        return after, [_spread(value, lanes) for value in outputs[len(kinds) :]]

    def start() -> list[Any]:
        return [_spread(value, lanes) if kind else value[0] for value, kind in zip(carried, kinds, strict=True)]

    pieces = [array for array, _ in scanned]
    while True:  # until a round of the body gives no lanes to what had none
        before = list(kinds)
        jax.eval_shape(body, start(), [piece[0] for piece in pieces])
        if kinds == before:
            break
    length, reverse = params["length"], params["reverse"]
    after, stacked = lax.scan(body, start(), pieces, length=length, reverse=reverse)
    return [*zip(after, kinds, strict=True), *[(array, True) for array in stacked]]


def _select(operands: list[Value], params: dict[str, Any], lanes: int) -> Any:
    which, *cases = [_spread(value, lanes) for value in operands]
    if which.ndim < cases[0].ndim:  # one predicate for a whole array
        which = jnp.broadcast_to(which.reshape((1,) * (cases[0].ndim - 1) + (lanes,)), cases[0].shape)
    return lax.select_n(which, *cases)


def _clamp(operands: list[Value], params: dict[str, Any], lanes: int) -> Any:
    low, array, high = [_spread(value, lanes) for value in operands]
    spread = [jnp.broadcast_to(b.reshape((1,) * (array.ndim - b.ndim) + b.shape), array.shape) for b in (low, high)]
    return lax.clamp(spread[0], array, spread[1])


def _broadcast(operands: list[Value], params: dict[str, Any], lanes: int) -> Any:
    shape = (*params["shape"], lanes)
    return lax.broadcast_in_dim(operands[0][0], shape, (*params["broadcast_dimensions"], len(shape) - 1))


def _reshape(operands: list[Value], params: dict[str, Any], lanes: int) -> Any:
    return lax.reshape(operands[0][0], (*params["new_sizes"], lanes))


def _transpose(operands: list[Value], params: dict[str, Any], lanes: int) -> Any:
    return lax.transpose(operands[0][0], (*params["permutation"], len(params["permutation"])))


def _slice(operands: list[Value], params: dict[str, Any], lanes: int) -> Any:
    strides = params["strides"]
    return lax.slice(
        operands[0][0],
        (*params["start_indices"], 0),
        (*params["limit_indices"], lanes),
        None if strides is None else (*strides, 1),
    )


def _pad(operands: list[Value], params: dict[str, Any], lanes: int) -> Any:
    array, (filler, mapped) = _spread(operands[0], lanes), operands[1]
    config = (*params["padding_config"], (0, 0, 0))
    if not mapped:
        return lax.pad(array, filler, config)
    inside = lax.pad(jnp.ones(array.shape, bool), False, config)
    return jnp.where(inside, lax.pad(array, jnp.zeros((), array.dtype), config), filler)


def _dot(operands: list[Value], params: dict[str, Any], lanes: int) -> Any:
    (left, left_mapped), (right, right_mapped) = operands
    dtype = params["preferred_element_type"] or jnp.result_type(left, right)
    (left_axes, right_axes), (left_batch, right_batch) = params["dimension_numbers"]
    left_rank, right_rank = left.ndim - left_mapped, right.ndim - right_mapped
    left_free = [axis for axis in range(left_rank) if axis not in (*left_axes, *left_batch)]
    right_free = [axis for axis in range(right_rank) if axis not in (*right_axes, *right_batch)]
    products = math.prod(left.shape[:left_rank]) * math.prod(right.shape[axis] for axis in right_free)
    if products > SHARED and not left_axes:
        left, right = _settled(left), _settled(right)
    if lanes == 1:
        left, right = left[..., 0] if left_mapped else left, right[..., 0] if right_mapped else right
        return lax.dot_general_p.bind(left, right, **params)[..., None]
    if products > UNROLLED or (left_mapped != right_mapped and products > SHARED):
        in_axes = (-1 if left_mapped else None, -1 if right_mapped else None)
        return jax.vmap(lambda a, b: lax.dot_general_p.bind(a, b, **params), in_axes, -1)(left, right)
    # Axes in the order: shared batch, contracted, left's own, right's own, lanes.
    left = left.transpose(*left_batch, *left_axes, *left_free, *([left_rank] if left_mapped else []))
    right = right.transpose(*right_batch, *right_axes, *right_free, *([right_rank] if right_mapped else []))
    shared = len(left_batch) + len(left_axes)
    left = left.reshape(*left.shape[: shared + len(left_free)], *[1] * len(right_free), lanes if left_mapped else 1)
    right = right.reshape(
        *right.shape[:shared],
        *[1] * len(left_free),
        *right.shape[shared : shared + len(right_free)],
        lanes if right_mapped else 1,
    )
    axes = tuple(range(len(left_batch), shared))
    if dtype == jnp.bool_:
        return jnp.any(left & right, axis=axes)
    return jnp.sum(left.astype(dtype) * right.astype(dtype), axis=axes, dtype=dtype)


def _settled(array: Any) -> Any:
    """The same array, computed before it is used: an outer product would otherwise compute its factors for every entry.

    XLA fuses all that is elementwise into its users, and has no operation on a CPU that says otherwise; a product with a
    vector is never fused.
    """
    padded = jnp.stack([array, jnp.zeros_like(array)]).reshape(2, -1)
    return (jnp.ones(2, array.dtype) @ padded).reshape(array.shape)


def _sum(operands: list[Value], params: dict[str, Any], lanes: int) -> Any:
    array, axes = operands[0][0], tuple(params["axes"])
    terms = math.prod(array.shape[axis] for axis in axes)
    if terms < LONG or len(axes) < array.ndim - 1 or not jnp.issubdtype(array.dtype, jnp.floating):
        return lax.reduce_sum_p.bind(array, **params)
    return jnp.ones(terms, array.dtype) @ array.reshape(terms, lanes)


def _gather(operands: list[Value], params: dict[str, Any], lanes: int) -> Any:
    (array, mapped), (indices, indices_mapped) = operands
    if indices_mapped:
        in_axes = (-1 if mapped else None, -1)
        return jax.vmap(lambda a, b: lax.gather_p.bind(a, b, **params), in_axes, -1)(array, indices)
    numbers = params["dimension_numbers"]
    if not isinstance(indices, jax.core.Tracer) and _takes_rows(
        numbers, params["slice_sizes"], array.shape, indices.ndim
    ):
        rows = np.asarray(indices)[..., 0]
        stretches = _stretches(rows.reshape(-1))
        inside = rows.size > 0 and rows.min() >= 0 and rows.max() < array.shape[0]
        if inside and len(stretches) <= STRETCHES:
            pieces = [
                jnp.broadcast_to(array[first:last], (count, *array.shape[1:])) for first, last, count in stretches
            ]
            return jnp.concatenate(pieces).reshape(*rows.shape, *array.shape[1:])
    rank = len(numbers.offset_dims) + indices.ndim - 1
    params["dimension_numbers"] = numbers._replace(offset_dims=(*numbers.offset_dims, rank))
    params["slice_sizes"] = (*params["slice_sizes"], lanes)
    return lax.gather_p.bind(array, indices, **params)


def _takes_rows(numbers: Any, sizes: tuple[int, ...], shape: tuple[int, ...], index_rank: int) -> bool:
    """Whether a gather is array[rows] for an array whose last axis holds the lanes."""
    whole = tuple(sizes) == (1, *shape[1:-1]) and tuple(numbers.start_index_map) == (0,)
    behind = tuple(range(index_rank - 1, index_rank - 1 + len(shape) - 2))
    collapsed = tuple(numbers.collapsed_slice_dims) == (0,) and not numbers.operand_batching_dims
    return whole and collapsed and tuple(numbers.offset_dims) == behind


def _stretches(rows: np.ndarray[Any, Any]) -> list[tuple[int, int, int]]:
    """Known rows as (first, last, count): neighbours first, …, last−1, or one row repeated count times."""
    stretches, start = [], 0
    while start < len(rows):
        stop = start + 1
        step = int(rows[stop] - rows[start]) if stop < len(rows) else 0
        while stop < len(rows) and step in (0, 1) and rows[stop] - rows[stop - 1] == step:
            stop += 1
        first, count = int(rows[start]), stop - start
        stretches.append((first, first + count if step == 1 and count > 1 else first + 1, count))
        start = stop
    return stretches


_RULES: dict[str, Callable[[list[Value], dict[str, Any], int], Any]] = {
    "broadcast_in_dim": _broadcast,
    "clamp": _clamp,
    "dot_general": _dot,
    "gather": _gather,
    "pad": _pad,
    "reduce_sum": _sum,
    "reshape": _reshape,
    "select_n": _select,
    "slice": _slice,
    "transpose": _transpose,
}


def _placed(array: Any, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...], **_: Any) -> Any:
    sizes = dict(zip(broadcast_dimensions, array.shape, strict=True))
    return np.broadcast_to(array.reshape([sizes.get(axis, 1) for axis in range(len(shape))]), shape)


def _counted(dtype: Any, shape: tuple[int, ...], dimension: int, **_: Any) -> Any:
    return _placed(np.arange(shape[dimension], dtype=dtype), shape, (dimension,))


_MOVES = {"broadcast_in_dim", "concatenate", "reshape", "select_n"}
_PLAIN: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "broadcast_in_dim": _placed,
    "concatenate": lambda *arrays, dimension: np.concatenate(arrays, dimension),
    "convert_element_type": lambda array, new_dtype, **_: array.astype(new_dtype),
    "iota": _counted,
    "mul": lambda one, other, **_: one * other,
    "reshape": lambda array, new_sizes, **_: array.reshape(new_sizes),
    "select_n": lambda which, *cases: np.choose(which.astype(int), cases, mode="clip"),
}
