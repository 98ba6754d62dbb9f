"""Is a function convex in one of its arguments? Proved from its program by the rules of composition, or not at all.

These are the rules of disciplined convex programming (Grant, Boyd and Ye 2006): sums and non-negative multiples of convex
functions are convex, so are their maxima, and a convex non-decreasing function of a convex one. Every entry of every
intermediate result is known as far as it can be: its curvature in the argument, its sign, and whether it is a sum of
squares of affine functions, whose root is a norm. Products of two affine functions with known coefficients have a known
Hessian, kept apart and judged by its eigenvalues at the end: so −θᵀ(z + Aθ) + ‖θ‖² is convex if 2I − A − Aᵀ is
positive semidefinite. All other arguments are arbitrary constants of unknown sign.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from numpy.typing import NDArray

from performative.numerics.arrays import Floats
from performative.numerics.definite import is_semidefinite
from performative.numerics.polynomial import CALLS
from performative.numerics.precision import in_float64

CONSTANT, AFFINE, CONVEX, CONCAVE, UNKNOWN = 0, 1, 2, 3, 4
_LARGE = 1 << 22
"""Hessians of more numbers than this are not kept."""
_FLIPPED = np.array([CONSTANT, AFFINE, CONCAVE, CONVEX, UNKNOWN])
_MOVES = {"broadcast_in_dim", "concatenate", "expand_dims", "gather", "dynamic_slice", "reshape", "rev", "slice", "squeeze",
          "transpose", "stack", "tile", "copy", "copy_p", "convert_element_type", "real", "reduce_precision"}  # fmt: skip
# Convex functions of one variable and the sign of their slope: 1 everywhere up, −1 everywhere down, 0 neither.
_CONVEX = {"exp": 1, "exp2": 1, "expm1": 1, "abs": 0, "square": 0, "cosh": 0}
_NON_NEGATIVE = {"exp", "exp2", "abs", "square", "cosh", "logistic"}
_CONCAVE_UP = {"log", "log1p", "sqrt"}


class Shape(NamedTuple):
    """What is known of each entry of an array.

    `curve` is its curvature without its quadratic part, `low` and `high` bound its value, `slope` (*shape, d) holds the
    coefficients of an affine entry (NaN where they are not known), `bend` (*shape, d, d) is the Hessian of the quadratic part
    or None, and `squares` says that it is a sum of squares of affine functions.
    """

    curve: NDArray[np.integer]
    low: Floats
    high: Floats
    slope: Floats
    bend: Floats | None
    squares: NDArray[np.bool]


@in_float64
def is_convex(function: Callable[..., Any], argument: Any, *others: Any) -> bool:
    """Whether every value of `function(argument, *others)` is proved convex in `argument` (d,), whatever the others are."""
    program = jax.make_jaxpr(function)(argument, *others)
    reader = _Reader(int(np.size(argument)))
    theta = reader.argument(np.shape(argument))
    free = [reader.anything(np.shape(leaf)) for tree in others for leaf in jax.tree.leaves(tree)]
    consts = [
        const if not isinstance(const, jax.core.Tracer) else reader.anything(np.shape(const))
        for const in program.consts
    ]
    outputs = reader.read(program.jaxpr, consts, [theta, *free])
    return all(bool(np.all(_settled(reader.shape(output)).curve <= CONVEX)) for output in outputs)


class _Reader:
    """One reading of a program; plain arrays are constants whose value is known."""

    def __init__(self, size: int) -> None:
        self.size = size

    def argument(self, shape: tuple[int, ...]) -> Shape:
        slope = np.eye(self.size).reshape(*shape, self.size)
        infinite = np.full(shape, np.inf)
        return Shape(np.full(shape, AFFINE), -infinite, infinite, slope, None, np.zeros(shape, bool))

    def anything(self, shape: tuple[int, ...]) -> Shape:
        infinite = np.full(shape, np.inf)
        nothing = np.zeros((*shape, self.size))
        return Shape(np.full(shape, CONSTANT), -infinite, infinite, nothing, None, np.zeros(shape, bool))

    def unknown(self, shape: tuple[int, ...]) -> Shape:
        lost = np.full((*shape, self.size), np.nan)
        return self.anything(shape)._replace(curve=np.full(shape, UNKNOWN), slope=lost)

    def shape(self, value: Any) -> Shape:
        if isinstance(value, Shape):
            return value
        value = np.asarray(value)
        if value.dtype == bool or not np.issubdtype(value.dtype, np.number):
            return self.anything(value.shape)
        number = value.astype(float)
        return self.anything(value.shape)._replace(low=number, high=number, squares=number >= 0)

    def read(self, jaxpr: Any, consts: Any, inputs: list[Any]) -> list[Any]:
        values: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
        values.update(zip(jaxpr.invars, inputs, strict=True))

        def of(atom: Any) -> Any:
            return atom.val if isinstance(atom, core.Literal) else values[atom]

        for equation in jaxpr.eqns:
            outputs = self.apply(equation, [of(atom) for atom in equation.invars])
            values.update(zip(equation.outvars, outputs, strict=True))
        return [of(atom) for atom in jaxpr.outvars]

    def apply(self, equation: Any, operands: list[Any]) -> list[Any]:
        name, params = equation.primitive.name, equation.params
        if name in CALLS and CALLS[name] in params:
            inner = params[CALLS[name]]
            if name == "custom_jvp_call" and _is_logaddexp(equation):
                return [self._logaddexp(*operands)]
            return self.read(getattr(inner, "jaxpr", inner), getattr(inner, "consts", []), operands)
        if not any(isinstance(operand, Shape) for operand in operands):
            with jax.ensure_compile_time_eval():
                result = equation.primitive.bind(*(jnp.asarray(operand) for operand in operands), **params)
            return [np.asarray(one) for one in (result if equation.primitive.multiple_results else [result])]
        shapes = [tuple(var.aval.shape) for var in equation.outvars]
        rule = getattr(self, f"_{name.replace('-', '_')}", None)
        if name in _MOVES:
            return [self._move(equation, operands)]
        if name in _CONVEX or name in _CONCAVE_UP or name == "logistic":
            return [self._of_one(name, _settled(self.shape(operands[0])))]
        result = rule([self.shape(operand) for operand in operands], params, operands) if rule else None
        if result is not None:
            return [_filled(_simplified(result), shapes[0], self.size)]
        if all(np.all(self.shape(operand).curve == CONSTANT) for operand in operands):
            return [self.anything(shape) for shape in shapes]  # some constant
        return [self.unknown(shape) for shape in shapes]

    def _move(self, equation: Any, operands: list[Any]) -> Shape:
        """What only moves entries moves what is known of them."""
        if any(isinstance(operand, Shape) for operand in operands[1:]) and equation.primitive.name in (
            "gather",
            "dynamic_slice",
        ):
            return self.unknown(equation.outvars[0].aval.shape)
        parts = [self.shape(operand) for operand in operands]
        indices = equation.primitive.name in ("gather", "dynamic_slice")
        params = dict(equation.params)
        if equation.primitive.name == "convert_element_type":
            return parts[0] if jnp.issubdtype(params["new_dtype"], np.inexact) else self._truncated(parts[0])

        def moved(fields: list[Any]) -> Any:
            arrays = [fields[0], *operands[1:]] if indices else fields
            with jax.ensure_compile_time_eval():
                return np.asarray(equation.primitive.bind(*(jnp.asarray(array) for array in arrays), **params))

        def last(fields: list[Floats]) -> Floats:
            count = int(np.prod(fields[0].shape[parts[0].curve.ndim :]))  # also of arrays without entries
            flat = [field.reshape(*parts[i].curve.shape, count) for i, field in enumerate(fields)]
            return np.stack([moved([one[..., k] for one in flat]) for k in range(count)], axis=-1)

        bend = None
        if any(part.bend is not None for part in parts):
            bend = last([_bend(part, self.size) for part in parts])
            bend = bend.reshape(*bend.shape[:-1], self.size, self.size)
        curve, low, high, squares = (
            moved([getattr(part, field) for part in parts]) for field in ("curve", "low", "high", "squares")
        )
        return Shape(curve, low, high, last([part.slope for part in parts]), bend, squares)

    def _truncated(self, part: Shape) -> Shape:
        """Converted to integers or truth values: a step function, of which only constants stay what they are."""
        constant, lost = part.curve == CONSTANT, self.unknown(part.curve.shape)
        slope = np.where(constant[..., None], 0.0, lost.slope)
        return lost._replace(curve=np.where(constant, CONSTANT, UNKNOWN), slope=slope)

    def _add(self, parts: list[Shape], params: Any, operands: Any) -> Shape:
        return _sum(parts, self.size)

    _add_any = _add

    def _sub(self, parts: list[Shape], params: Any, operands: Any) -> Shape:
        return _sum([parts[0], _scaled(parts[1], np.array(-1.0))], self.size)

    def _neg(self, parts: list[Shape], params: Any, operands: Any) -> Shape:
        return _scaled(parts[0], np.array(-1.0))

    def _mul(self, parts: list[Shape], params: Any, operands: Any) -> Shape:
        one, other = parts
        if isinstance(operands[0], Shape) and isinstance(operands[1], Shape) and operands[0] is operands[1]:
            return self._of_square(one)
        return _product(one, other, self.size)

    def _div(self, parts: list[Shape], params: Any, operands: Any) -> Shape | None:
        if np.any(parts[1].curve != CONSTANT):
            return None
        with np.errstate(all="ignore"):
            same = (parts[1].low > 0) | (parts[1].high < 0)
            ends = np.where(same, 1.0 / parts[1].low, -np.inf), np.where(same, 1.0 / parts[1].high, np.inf)
        factor = parts[1]._replace(low=np.minimum(*ends), high=np.maximum(*ends), squares=np.minimum(*ends) >= 0)
        return _product(parts[0], factor, self.size)

    def _integer_pow(self, parts: list[Shape], params: Any, operands: Any) -> Shape | None:
        power = params["y"]
        if power == 1:
            return parts[0]
        if power == 2:
            return self._of_square(parts[0])
        if power > 0 and power % 2 == 0:
            return self._of_one("square", _settled(self._of_square(parts[0]))) if power == 4 else None
        return None

    def _square(self, parts: list[Shape], params: Any, operands: Any) -> Shape:
        return self._of_square(parts[0])

    def _of_square(self, part: Shape) -> Shape:
        affine = (
            (part.curve <= AFFINE) & (_bend(part, self.size) == 0).all(axis=(-1, -2))
            if part.bend is not None
            else part.curve <= AFFINE
        )
        squared = self._of_one("square", _settled(part))
        if bool(np.all(affine)) and np.all(np.isfinite(part.slope)) and part.slope.size * self.size <= _LARGE:
            bend = 2.0 * part.slope[..., :, None] * part.slope[..., None, :]
            curve = np.where(part.curve == CONSTANT, CONSTANT, AFFINE)
            squared = squared._replace(curve=curve, bend=bend)
        return squared._replace(squares=affine)

    def _of_one(self, name: str, part: Shape) -> Shape:
        """A convex or concave function of one variable."""
        curve = part.curve
        if name == "logistic":
            result = np.where(curve == CONSTANT, CONSTANT, UNKNOWN)
        elif name in _CONCAVE_UP:
            result = np.where(
                curve == CONSTANT, CONSTANT, np.where((curve == AFFINE) | (curve == CONCAVE), CONCAVE, UNKNOWN)
            )
            result = np.where((name == "sqrt") & part.squares & (curve != CONSTANT), CONVEX, result)
        else:
            up = (_CONVEX[name] == 1) | ((_CONVEX[name] == 0) & (part.low >= 0))
            down = (_CONVEX[name] == 0) & (part.high <= 0)
            fits = (curve == AFFINE) | ((curve == CONVEX) & up) | ((curve == CONCAVE) & down)
            result = np.where(curve == CONSTANT, CONSTANT, np.where(fits, CONVEX, UNKNOWN))
        low = np.full(curve.shape, 0.0 if name in _NON_NEGATIVE or name == "sqrt" else -np.inf)
        high = np.full(curve.shape, 1.0 if name == "logistic" else np.inf)
        return Shape(
            result, low, high, np.full((*curve.shape, self.size), np.nan), None, (result == CONSTANT) & (low >= 0)
        )

    def _logaddexp(self, one: Any, other: Any) -> Shape:
        largest = self._extreme([self.shape(one), self.shape(other)], CONVEX)
        return largest._replace(high=largest.high + np.log(2.0))

    def _max(self, parts: list[Shape], params: Any, operands: Any) -> Shape:
        return self._extreme(parts, CONVEX)

    def _min(self, parts: list[Shape], params: Any, operands: Any) -> Shape:
        return self._extreme(parts, CONCAVE)

    def _extreme(self, parts: list[Shape], wanted: int) -> Shape:
        parts = [_settled(part) for part in _together(parts, self.size)]
        constant = np.all([part.curve == CONSTANT for part in parts], axis=0)
        fits = np.all([(part.curve <= AFFINE) | (part.curve == wanted) for part in parts], axis=0)
        curve = np.where(constant, CONSTANT, np.where(fits, wanted, UNKNOWN))
        choose = np.maximum if wanted == CONVEX else np.minimum
        low, high = choose(parts[0].low, parts[1].low), choose(parts[0].high, parts[1].high)
        slope = np.full((*curve.shape, self.size), np.nan)
        return Shape(curve, low, high, slope, None, constant & (low >= 0))

    def _reduce_max(self, parts: list[Shape], params: Any, operands: Any) -> Shape:
        part, axes = _settled(parts[0]), tuple(params["axes"])
        constant = np.all(part.curve == CONSTANT, axis=axes)
        curve = np.where(constant, CONSTANT, np.where(np.all(part.curve <= CONVEX, axis=axes), CONVEX, UNKNOWN))
        slope = np.full((*curve.shape, self.size), np.nan)
        high = np.max(part.high, axis=axes, initial=-np.inf)
        return Shape(
            curve, np.max(part.low, axis=axes, initial=-np.inf), high, slope, None, np.zeros(curve.shape, bool)
        )

    def _reduce_sum(self, parts: list[Shape], params: Any, operands: Any) -> Shape:
        return _summed(parts[0], tuple(int(axis) for axis in params["axes"]), self.size)

    def _dot_general(self, parts: list[Shape], params: Any, operands: Any) -> Shape | None:
        (left, right), (left_batch, right_batch) = params["dimension_numbers"]
        one, other = parts
        if left_batch or right_batch or len(left) != 1 or one.curve.ndim > 2 or other.curve.ndim > 2:
            return None
        one, other = _last(one, left[0], self.size), _last(other, right[0], self.size)
        if one.curve.size * max(int(np.prod(other.curve.shape[:-1])), 1) * self.size > _LARGE:
            return None
        for _ in other.curve.shape[:-1]:
            one = _mapped(one, functools.partial(np.expand_dims, axis=one.curve.ndim - 1))
        if isinstance(operands[0], Shape) and operands[0] is operands[1] and one.curve.ndim == 1:
            return _summed(self._of_square(one), (0,), self.size)
        return _summed(_product(one, other, self.size), (max(one.curve.ndim, other.curve.ndim) - 1,), self.size)

    def _select_n(self, parts: list[Shape], params: Any, operands: Any) -> Shape | None:
        if np.any(parts[0].curve != CONSTANT):
            return None
        cases = [_settled(part) for part in _together(parts[1:], self.size)]
        worst = np.maximum.reduce([case.curve for case in cases])
        mixed = np.any([case.curve == CONVEX for case in cases], axis=0) & np.any(
            [case.curve == CONCAVE for case in cases], axis=0
        )
        low, high = np.minimum.reduce([c.low for c in cases]), np.maximum.reduce([c.high for c in cases])
        slope = np.where(np.all([case.slope == cases[0].slope for case in cases], axis=0), cases[0].slope, np.nan)
        squares = np.all([case.squares for case in cases], axis=0)
        return Shape(np.where(mixed, UNKNOWN, worst), low, high, slope, None, squares)


def _bend(part: Shape, size: int) -> Floats:
    return np.zeros((*part.curve.shape, size, size)) if part.bend is None else part.bend


def _settled(part: Shape) -> Shape:
    """The same with its quadratic part judged and merged into the curvature."""
    if part.bend is None:
        return part
    up, down = is_semidefinite(part.bend), is_semidefinite(-part.bend)
    quadratic = np.where(up & down, part.curve, np.where(up, CONVEX, np.where(down, CONCAVE, UNKNOWN)))
    flat = part.curve <= AFFINE
    curve = np.where(flat, quadratic, np.where((quadratic == part.curve) | (up & down), part.curve, UNKNOWN))
    slope = np.where((up & down)[..., None], part.slope, np.nan)
    return part._replace(curve=curve, bend=None, slope=slope)


def _simplified(part: Shape) -> Shape:
    """An affine entry whose coefficients are all 0 is a constant."""
    flat = (part.curve == AFFINE) & np.all(part.slope == 0, axis=-1)
    if part.bend is not None:
        flat &= np.all(part.bend == 0, axis=(-1, -2))
    return part._replace(curve=np.where(flat, CONSTANT, part.curve))


def _together(parts: list[Shape], size: int) -> list[Shape]:
    shape = np.broadcast_shapes(*(part.curve.shape for part in parts))
    return [_filled(part, shape, size) for part in parts]


def _filled(part: Shape, shape: tuple[int, ...], size: int) -> Shape:
    curve, low, high, squares = (
        np.broadcast_to(array, shape) for array in (part.curve, part.low, part.high, part.squares)
    )
    bend = None if part.bend is None else np.broadcast_to(part.bend, (*shape, size, size))
    return Shape(curve, low, high, np.broadcast_to(part.slope, (*shape, size)), bend, squares)


def _joined(curves: list[Any]) -> Any:
    """The curvature of a sum."""
    joint = np.maximum.reduce(curves)
    mixed = np.any([curve == CONVEX for curve in curves], axis=0) & np.any(
        [curve == CONCAVE for curve in curves], axis=0
    )
    return np.where(mixed, UNKNOWN, joint)


def _sum(parts: list[Shape], size: int) -> Shape:
    one, other = _together(parts, size)
    bend = None if one.bend is None and other.bend is None else _bend(one, size) + _bend(other, size)
    squares = one.squares & other.squares
    low, high = one.low + other.low, one.high + other.high
    return Shape(_joined([one.curve, other.curve]), low, high, one.slope + other.slope, bend, squares)


def _summed(part: Shape, axes: tuple[int, ...], size: int) -> Shape:
    for axis in sorted(axes, reverse=True):
        if part.curve.shape[axis] == 0:
            shape = tuple(n for i, n in enumerate(part.curve.shape) if i != axis)
            zero = np.zeros(shape)
            part = Shape(np.full(shape, CONSTANT), zero, zero, np.zeros((*shape, size)), None, np.ones(shape, bool))
            continue
        curve = _joined(list(np.moveaxis(part.curve, axis, 0)))
        low, high = np.sum(part.low, axis=axis), np.sum(part.high, axis=axis)
        bend = None if part.bend is None else np.sum(part.bend, axis=axis)
        part = Shape(curve, low, high, np.sum(part.slope, axis=axis), bend, np.all(part.squares, axis=axis))
    return part


def _scaled(part: Shape, factor: Floats) -> Shape:
    """Times a known number."""
    curve = np.where(factor >= 0, part.curve, _FLIPPED[part.curve])
    ends = [_times(end, factor) for end in (part.low, part.high)]
    bend = None if part.bend is None else part.bend * np.asarray(factor)[..., None, None]
    slope = part.slope * np.asarray(factor)[..., None]
    return Shape(curve, np.minimum(*ends), np.maximum(*ends), slope, bend, part.squares & (factor >= 0))


def _product(one: Shape, other: Shape, size: int) -> Shape:
    one, other = _together([one, other], size)
    if np.any(other.curve != CONSTANT):
        one, other = other, one
    if np.all(other.curve == CONSTANT) and other.bend is None:
        if np.array_equal(other.low, other.high):
            return _scaled(one, other.low)
        settled = _settled(one)
        up, down = other.low >= 0, other.high <= 0
        curve = np.where(
            settled.curve <= AFFINE,
            settled.curve,
            np.where(up, settled.curve, np.where(down, _FLIPPED[settled.curve], UNKNOWN)),
        )
        ends = [_times(a, b) for a in (one.low, one.high) for b in (other.low, other.high)]
        # Coefficients times an unknown number: unknown unless they are 0.
        slope = np.where(one.slope == 0, 0.0, np.nan)
        return Shape(curve, np.minimum.reduce(ends), np.maximum.reduce(ends), slope, None, one.squares & up)
    infinite = np.full(one.curve.shape, np.inf)
    flat = (one.curve <= AFFINE) & (other.curve <= AFFINE)
    known = np.all(np.isfinite(one.slope)) and np.all(np.isfinite(other.slope)) and one.slope.size * size <= _LARGE
    nothing = np.full((*one.curve.shape, size), np.nan)
    if bool(np.all(flat)) and known and one.bend is None and other.bend is None:
        outer = one.slope[..., :, None] * other.slope[..., None, :]
        bend = outer + np.swapaxes(outer, -1, -2)
        return Shape(
            np.full(one.curve.shape, AFFINE), -infinite, infinite, nothing, bend, np.zeros(one.curve.shape, bool)
        )
    return Shape(np.full(one.curve.shape, UNKNOWN), -infinite, infinite, nothing, None, np.zeros(one.curve.shape, bool))


def _times(one: Floats, other: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        return np.where((one == 0) | (other == 0), 0.0, one * other)


def _mapped(part: Shape, change: Callable[[Any], Any]) -> Shape:
    return Shape._make(None if field is None else change(field) for field in part)


def _last(part: Shape, axis: int, size: int) -> Shape:
    """The same with this axis last."""
    rank = part.curve.ndim
    order = [i for i in range(rank) if i != axis] + [axis]
    extra = lambda array: [*order, *range(rank, np.ndim(array))]  # noqa: E731
    return _mapped(part, lambda array: np.transpose(array, extra(array)))


def _is_logaddexp(equation: Any) -> bool:
    from performative.numerics.polynomial import _logaddexp

    return str(equation.params["call_jaxpr"]) == _logaddexp(tuple(var.aval for var in equation.invars))
