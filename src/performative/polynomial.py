"""Is a function a polynomial of low degree in one of its arguments? Read off its program, not off samples.

A loss of degree at most two in the data acts on a distribution only through its mean and covariance, and a risk of
degree at most two in the decision is minimised exactly by a quadratic program. Both are worth knowing for certain: a
piecewise loss such as the pinball loss has a vanishing Hessian almost everywhere and would fool any numerical probe.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
from jax.extend import core

from performative.precision import in_float64

# Linear in all operands together: the degree is the largest of the operands'.
_LINEAR = {
    "add", "sub", "neg", "reduce_sum", "broadcast_in_dim", "reshape", "transpose", "squeeze", "slice", "concatenate",
    "pad", "rev", "expand_dims", "convert_element_type", "copy", "copy_p", "add_any", "cumsum", "split", "stop_gradient",
    "real", "symbolic_zeros", "reduce_precision", "optimization_barrier",
}  # fmt: skip
# Multilinear: the degrees of the operands add up.
_PRODUCTS = {"mul", "dot_general", "conv_general_dilated"}
# Linear in everything but these operands, which are indices and must not depend on the argument.
_INDICES = {
    "gather": slice(1, None), "dynamic_slice": slice(1, None), "scatter-add": slice(1, 2), "scatter": slice(1, 2),
    "dynamic_update_slice": slice(2, None),
}  # fmt: skip
_CALLS = {
    "pjit",
    "jit",
    "closed_call",
    "core_call",
    "custom_jvp_call",
    "custom_vjp_call",
    "remat",
    "checkpoint",
}
# Functions that are analytic wherever they are finite: a derivative that vanishes at random points vanishes everywhere.
_ANALYTIC = {
    "exp",
    "log",
    "log1p",
    "expm1",
    "tanh",
    "logistic",
    "sin",
    "cos",
    "sqrt",
    "rsqrt",
    "div",
    "pow",
    "erf",
}


@in_float64
def degree(function: Callable[[Any], Any], argument: Any) -> float:
    """The degree of `function` as a polynomial in `argument` (an array or its shape), or infinity."""
    return _analyse(function, argument)[0]


@in_float64
def is_analytic(function: Callable[..., Any], *arguments: Any) -> bool:
    """Whether `function` is built of analytic operations alone."""

    def in_one(position: int, value: Any) -> Any:
        return function(*arguments[:position], value, *arguments[position + 1 :])

    return all(_analyse(functools.partial(in_one, i), value)[1] for i, value in enumerate(arguments))


def _analyse(function: Callable[[Any], Any], argument: Any) -> tuple[float, bool]:
    closed = jax.make_jaxpr(function)(argument)
    state = {"analytic": True}
    degrees = _walk(closed.jaxpr, [1.0] * len(closed.jaxpr.invars), state)
    return max(degrees, default=0.0), state["analytic"]


def _walk(jaxpr: Any, inputs: list[float], state: dict[str, bool]) -> list[float]:
    degrees: dict[Any, float] = dict(zip(jaxpr.invars, inputs, strict=True))

    def of(atom: Any) -> float:
        return 0.0 if isinstance(atom, core.Literal) else degrees.get(atom, 0.0)

    for equation in jaxpr.eqns:
        operands = [of(atom) for atom in equation.invars]
        outputs = _outputs(equation, operands, state)
        degrees.update(zip(equation.outvars, outputs, strict=True))
    return [of(atom) for atom in jaxpr.outvars]


def _outputs(equation: Any, operands: list[float], state: dict[str, bool]) -> list[float]:
    name = equation.primitive.name
    count = len(equation.outvars)
    if max(operands, default=0.0) == 0.0:
        return [0.0] * count
    if name in _CALLS:
        inner = next((equation.params[p] for p in ("jaxpr", "call_jaxpr", "fun_jaxpr") if p in equation.params), None)
        if inner is not None:
            inner = getattr(inner, "jaxpr", inner)
            if len(inner.invars) == len(operands):
                return _walk(inner, operands, state)
    if name in _LINEAR:
        return [max(operands)] * count
    if name in _PRODUCTS:
        return [sum(operands)] * count
    if name == "square":
        return [2 * operands[0]] * count
    if name == "integer_pow" and equation.params["y"] >= 0:
        return [equation.params["y"] * operands[0]] * count
    if name == "div" and operands[1] == 0.0:
        return [operands[0]] * count
    if name in _INDICES and max(operands[_INDICES[name]], default=0.0) == 0.0:
        return [max(operands)] * count
    if name == "select_n" and operands[0] == 0.0:
        return [max(operands[1:])] * count
    if name not in _ANALYTIC and name != "integer_pow":
        state["analytic"] = False
    return [math.inf] * count
