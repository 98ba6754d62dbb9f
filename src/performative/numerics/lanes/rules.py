"""How single operations are applied with the lanes kept on the last axis."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from performative.numerics.lanes.values import Value, spread_out

UNROLLED = 1 << 12
"""Contractions of at most this many products per lane become multiply-and-add; larger ones stay matrix products."""
SHARED = 1 << 9
"""The same where all lanes share one factor, so that the contraction is one product of matrices."""
LONG = 20
"""Sums of at least this many terms to one number per lane become products with ones, which run along the lanes; XLA's own
loops over the terms do not."""
STRETCHES = 4
"""Known rows that lie in at most this many stretches are taken by that many copies, which beats a gather."""
ELEMENTWISE = {
    "abs", "acos", "add", "add_any", "and", "asin", "atan", "atan2", "cbrt", "ceil", "convert_element_type",
    "copy", "copy_p", "cos", "cosh", "div", "eq", "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "floor", "ge", "gt",
    "integer_pow", "is_finite", "le", "lgamma", "log", "log1p", "logistic", "lt", "max", "min", "mul", "ne", "neg",
    "nextafter", "not", "or", "population_count", "pow", "reduce_precision", "rem", "round", "rsqrt",
    "shift_left", "shift_right_arithmetic", "shift_right_logical", "sign", "sin", "sinh", "sqrt", "square",
    "stop_gradient", "sub", "tan", "tanh", "xor",
}  # fmt: skip
# These count axes from the front, so that one more axis at the end changes nothing.
AXES_FIRST = {
    "argmax", "argmin", "concatenate", "cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum", "expand_dims",
    "reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_prod", "rev", "sort", "split", "squeeze",
}  # fmt: skip


def _select(operands: list[Value], params: dict[str, Any], lanes: int) -> Array:
    which, *cases = [spread_out(value, lanes) for value in operands]
    if which.ndim < cases[0].ndim:  # one predicate for a whole array
        which = jnp.broadcast_to(which.reshape((1,) * (cases[0].ndim - 1) + (lanes,)), cases[0].shape)
    return lax.select_n(which, *cases)


def _clamp(operands: list[Value], params: dict[str, Any], lanes: int) -> Array:
    low, array, high = [spread_out(value, lanes) for value in operands]
    spread = [jnp.broadcast_to(b.reshape((1,) * (array.ndim - b.ndim) + b.shape), array.shape) for b in (low, high)]
    return lax.clamp(spread[0], array, spread[1])


def _broadcast(operands: list[Value], params: dict[str, Any], lanes: int) -> Array:
    shape = (*params["shape"], lanes)
    return lax.broadcast_in_dim(operands[0][0], shape, (*params["broadcast_dimensions"], len(shape) - 1))


def _reshape(operands: list[Value], params: dict[str, Any], lanes: int) -> Array:
    return lax.reshape(operands[0][0], (*params["new_sizes"], lanes))


def _transpose(operands: list[Value], params: dict[str, Any], lanes: int) -> Array:
    return lax.transpose(operands[0][0], (*params["permutation"], len(params["permutation"])))


def _slice(operands: list[Value], params: dict[str, Any], lanes: int) -> Array:
    strides = params["strides"]
    return lax.slice(
        operands[0][0],
        (*params["start_indices"], 0),
        (*params["limit_indices"], lanes),
        None if strides is None else (*strides, 1),
    )


def _pad(operands: list[Value], params: dict[str, Any], lanes: int) -> Array:
    array, (filler, mapped) = spread_out(operands[0], lanes), operands[1]
    config = (*params["padding_config"], (0, 0, 0))
    if not mapped:
        return lax.pad(array, filler, config)
    inside = lax.pad(jnp.ones(array.shape, bool), False, config)
    return jnp.where(inside, lax.pad(array, jnp.zeros((), array.dtype), config), filler)


def _dot(operands: list[Value], params: dict[str, Any], lanes: int) -> Array:
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


def _settled(array: Array) -> Array:
    """The same array, computed before it is used: an outer product would otherwise compute its factors for every entry.

    XLA fuses elementwise operations into their users and, on a CPU, has no operation that prevents it; but it never fuses a
    product with a vector.
    """
    padded = jnp.stack([array, jnp.zeros_like(array)]).reshape(2, -1)
    return (jnp.ones(2, array.dtype) @ padded).reshape(array.shape)


def _sum(operands: list[Value], params: dict[str, Any], lanes: int) -> Array:
    array, axes = operands[0][0], tuple(params["axes"])
    terms = math.prod(array.shape[axis] for axis in axes)
    if terms < LONG or len(axes) < array.ndim - 1 or not jnp.issubdtype(array.dtype, jnp.floating):
        return lax.reduce_sum_p.bind(array, **params)
    return jnp.ones(terms, array.dtype) @ array.reshape(terms, lanes)


def _gather(operands: list[Value], params: dict[str, Any], lanes: int) -> Array:
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


def _takes_rows(
    numbers: lax.GatherDimensionNumbers, sizes: tuple[int, ...], shape: tuple[int, ...], index_rank: int
) -> bool:
    """Whether a gather is array[rows] for an array whose last axis holds the lanes."""
    whole = tuple(sizes) == (1, *shape[1:-1]) and tuple(numbers.start_index_map) == (0,)
    behind = tuple(range(index_rank - 1, index_rank - 1 + len(shape) - 2))
    collapsed = tuple(numbers.collapsed_slice_dims) == (0,) and not numbers.operand_batching_dims
    return whole and collapsed and tuple(numbers.offset_dims) == behind


def _stretches(rows: np.ndarray[Any, Any]) -> list[tuple[int, int, int]]:
    """Known rows as (first, last, count): the neighbors first, …, last−1, or one row repeated count times."""
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


RULES: dict[str, Callable[[list[Value], dict[str, Any], int], Array]] = {
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
