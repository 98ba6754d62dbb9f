"""Is a function a polynomial of low degree in one of its arguments? Read off its program, not off samples.

The average of a loss of degree at most two in the data depends only on the mean and covariance of the data, and a risk of
degree at most two in the decision is minimized exactly by a quadratic program. Both must be known for certain: a
piecewise loss such as the pinball loss has a vanishing Hessian almost everywhere and would fool any numerical probe.

The program is run on the degree of each number instead of the number: sums take the larger degree, products add degrees,
reshaping moves them, and whatever is not known to be a polynomial has degree infinity.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64, precise

Atom = core.Var | core.Literal
Params = dict[str, Any]
Shape = tuple[int, ...]

_SUMS = {"add", "sub", "add_any"}
_UNCHANGED = {"neg", "copy", "copy_p", "reduce_precision", "real", "optimization_barrier"}
# Linear in all operands except these, which are indices and must not depend on the argument.
_INDICES = {
    "gather": slice(1, None), "dynamic_slice": slice(1, None), "scatter-add": slice(1, 2), "scatter": slice(1, 2),
    "dynamic_update_slice": slice(2, None),
}  # fmt: skip
# Primitives that call an inner program, and the parameter that holds it.
CALLS = {"pjit": "jaxpr", "jit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr",
          "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr", "remat2": "jaxpr"}  # fmt: skip
# Analytic wherever they are finite (a square root is not, at 0): a derivative of such a function that vanishes at random
# points vanishes everywhere.
_ANALYTIC = {"exp", "log", "log1p", "expm1", "tanh", "logistic", "sin", "cos", "rsqrt", "div", "erf",
             "erfc", "exp2", "sinh", "cosh", "asinh", "atan", "integer_pow"}  # fmt: skip
_LARGE = 1 << 22
"""Contractions of more products than this get one bound for all their results."""


@in_float64
def degree(function: Callable[..., Any], argument: Any, *others: Any) -> float:
    """The degree of `function(argument, *others)` as a polynomial in `argument` (arrays), or infinity."""
    return _analyze(function, (argument, *others), 0)[0]


@in_float64
def joint_degree(function: Callable[..., Any], *arguments: Any) -> float:
    """The degree of `function` as a polynomial in all its arguments together, or infinity."""
    return _analyze(function, arguments, None)[0]


@in_float64
def is_analytic(function: Callable[..., Any], *arguments: Any) -> bool:
    """Whether `function` is built only of analytic operations."""
    return _analyze(function, arguments, None)[1]


def _analyze(function: Callable[..., Any], arguments: tuple[Any, ...], position: int | None) -> tuple[float, bool]:
    """The degree in the argument at `position`, or in all together, and whether the function is analytic in it."""
    # All arguments are traced: the program must not depend on their values.
    program = jax.make_jaxpr(function)(*arguments).jaxpr
    counted = [float(position in (None, index)) for index, tree in enumerate(arguments) for _ in jax.tree.leaves(tree)]
    inputs = [np.full(var.aval.shape, one) for var, one in zip(program.invars, counted, strict=True)]
    state = {"analytic": True}
    degrees = _walk(program, inputs, state)
    return max((float(np.max(d, initial=0.0)) for d in degrees), default=0.0), state["analytic"]


def _walk(jaxpr: core.Jaxpr, inputs: list[Floats], state: dict[str, bool]) -> list[Floats]:
    degrees: dict[Atom, Floats] = dict(zip(jaxpr.invars, inputs, strict=True))

    def of(atom: Atom) -> Floats:
        if isinstance(atom, core.Literal):
            return np.zeros(np.shape(atom.val))
        return degrees[atom] if atom in degrees else np.zeros(shape_of(atom))

    for equation in jaxpr.eqns:
        operands = [of(atom) for atom in equation.invars]
        if all(not np.any(operand) for operand in operands):
            continue  # constants
        degrees.update(zip(equation.outvars, _outputs(equation, operands, state), strict=True))
    return [of(atom) for atom in jaxpr.outvars]


def shape_of(var: core.Var) -> Shape:
    """The shape of a variable of a program."""
    aval: Any = var.aval  # of an array, whatever JAX's types say
    return aval.shape


def _outputs(equation: core.JaxprEqn, operands: list[Floats], state: dict[str, bool]) -> list[Floats]:
    name, params = equation.primitive.name, equation.params
    shapes = [shape_of(var) for var in equation.outvars]
    first = operands[0]
    if name in CALLS and CALLS[name] in params:
        inner = params[CALLS[name]]  # closed, or open for rematerialization
        if name == "custom_jvp_call" and str(inner) == _logaddexp(tuple(var.aval for var in equation.invars)):
            return [np.full(shapes[0], math.inf)]  # analytic, though computed from a maximum and an absolute value
        return _walk(getattr(inner, "jaxpr", inner), operands, state)
    if name in _MOVES:
        return [np.asarray(_MOVES[name](operands, params)).reshape(shapes[0])]
    if name in _SUMS:
        return [np.broadcast_to(functools.reduce(np.maximum, operands), shapes[0])]
    if name in _UNCHANGED or (name == "convert_element_type" and np.issubdtype(params["new_dtype"], np.inexact)):
        return operands
    if name == "split":
        return list(np.split(first, np.cumsum(params["sizes"])[:-1], axis=params["axis"]))
    if name == "mul":
        return [np.broadcast_to(first + operands[1], shapes[0])]
    if name == "square":
        return [2 * first]
    if name == "integer_pow" and params["y"] >= 0:
        return [params["y"] * first]
    if name == "div" and not np.any(operands[1]):
        return [np.broadcast_to(first, shapes[0])]
    if name in ("reduce_sum", "cumsum"):
        axes = params["axes"] if name == "reduce_sum" else (params["axis"],)
        largest = np.max(first, axis=tuple(int(axis) for axis in axes), keepdims=name == "cumsum", initial=0.0)
        return [np.broadcast_to(largest, shapes[0])]
    if name in _INDICES and not any(np.any(index) for index in operands[_INDICES[name]]):
        return [np.full(shapes[0], max(float(np.max(operand, initial=0.0)) for operand in operands))]
    if name == "select_n" and not np.any(first):
        return [functools.reduce(np.maximum, operands[1:])]
    if name not in _ANALYTIC:
        state["analytic"] = False
    return [np.full(shape, math.inf) for shape in shapes]


@functools.lru_cache(maxsize=64)
def _logaddexp(arguments: tuple[Any, ...]) -> str | None:
    """The program of `jax.numpy.logaddexp`, which softplus and the logarithm of a sigmoid use too."""
    if len(arguments) != 2:
        return None
    with precise():
        like = [jax.ShapeDtypeStruct(argument.shape, argument.dtype) for argument in arguments]
        call = jax.make_jaxpr(jnp.logaddexp)(*like).jaxpr.eqns[-1]
    return str(call.params.get("call_jaxpr"))


def _contract(operands: list[Floats], params: Params) -> Floats:
    left, right = operands
    (left_axes, right_axes), (left_batch, right_batch) = params["dimension_numbers"]
    left_free = [axis for axis in range(left.ndim) if axis not in (*left_axes, *left_batch)]
    right_free = [axis for axis in range(right.ndim) if axis not in (*right_axes, *right_batch)]
    left = left.transpose(*left_batch, *left_free, *left_axes)
    right = right.transpose(*right_batch, *right_free, *right_axes)
    batch, contracted = len(left_batch), len(left_axes)
    shape = (*left.shape[: left.ndim - contracted], *right.shape[batch : right.ndim - contracted])
    if left.size * math.prod(right.shape[batch : right.ndim - contracted]) > _LARGE:
        return np.full(shape, np.max(left, initial=0.0) + np.max(right, initial=0.0))
    left = left.reshape(
        (*left.shape[: batch + len(left_free)], *[1] * len(right_free), *left.shape[left.ndim - contracted :])
    )
    right = right.reshape((*right.shape[:batch], *[1] * len(left_free), *right.shape[batch:]))
    return np.asarray(np.max(left + right, axis=tuple(range(-contracted, 0)), initial=0.0))


def _pad(operands: list[Floats], params: Params) -> Floats:
    first, filler = operands
    low, high, inner = zip(*params["padding_config"], strict=True) if params["padding_config"] else ((), (), ())
    if any(inner) or min((*low, *high), default=0) < 0:
        return np.full(_padded_shape(first.shape, low, high, inner), max(np.max(first, initial=0.0), float(filler)))
    return np.pad(first, list(zip(low, high, strict=True)), constant_values=float(filler))


def _padded_shape(shape: Shape, low: Shape, high: Shape, inner: Shape) -> Shape:
    return tuple(int(n + a + b + max(n - 1, 0) * c) for n, a, b, c in zip(shape, low, high, inner, strict=True))


def _broadcast(operands: list[Floats], params: Params) -> Floats:
    first, shape = operands[0], params["shape"]
    expanded = np.ones(len(shape), dtype=int)
    for axis, target in enumerate(params["broadcast_dimensions"]):
        expanded[target] = first.shape[axis]
    return np.broadcast_to(first.reshape(expanded), shape)


def _slice(operands: list[Floats], params: Params) -> Floats:
    strides = params["strides"] or [1] * operands[0].ndim
    ranges = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
    return operands[0][tuple(slice(*bounds) for bounds in ranges)]


# Operations that move numbers without changing them, and the contraction.
_MOVES: dict[str, Callable[[list[Floats], Params], Floats]] = {
    "broadcast_in_dim": _broadcast,
    "concatenate": lambda operands, params: np.concatenate(operands, axis=params["dimension"]),
    "dot_general": _contract,
    "expand_dims": lambda operands, params: operands[0],
    "pad": _pad,
    "reshape": lambda operands, params: operands[0],
    "rev": lambda operands, params: np.flip(operands[0], params["dimensions"]),
    "slice": _slice,
    "squeeze": lambda operands, params: operands[0],
    "stack": lambda operands, params: np.stack(operands, axis=params["axis"]),
    "tile": lambda operands, params: np.tile(operands[0], params["reps"]),
    "transpose": lambda operands, params: operands[0].transpose(params["permutation"]),
}
