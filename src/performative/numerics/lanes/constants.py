"""Equations between constants, computed by NumPy while a program is mapped over lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.extend import core
from jax.typing import ArrayLike
from numpy.typing import NDArray


def is_plain(equation: core.JaxprEqn) -> bool:
    """Whether NumPy gives the same bits: the equation moves numbers, computes with integers, or rounds once."""
    name, inputs, outputs = (
        equation.primitive.name,
        *({_dtype(atom) for atom in atoms} for atoms in (equation.invars, equation.outvars)),
    )
    if name not in _PLAIN:
        return False
    kinds = inputs | outputs
    if all(jnp.issubdtype(kind, jnp.integer) or jnp.issubdtype(kind, jnp.bool_) for kind in kinds):
        return name not in _FLOATS
    if name == "convert_element_type":
        return outputs == {np.dtype(np.float64)}
    return name in _EXACT and kinds <= {np.dtype(bool), np.dtype(np.float64)}


def by_numpy(equation: core.JaxprEqn, arrays: Sequence[ArrayLike]) -> list[Array]:
    """The results of an equation between constants. Compiled, each would take a megabyte or two, and there are many."""
    name = equation.primitive.name
    settle = np.asarray if name in _MOVES else _flushed
    operands = [settle(np.asarray(array, _dtype(atom))) for array, atom in zip(arrays, equation.invars, strict=True)]
    with np.errstate(all="ignore"), jax.ensure_compile_time_eval():
        found = _PLAIN[name](*operands, **equation.params)
        return [jax.device_put(settle(one)) for one in (found if equation.primitive.multiple_results else [found])]


def _flushed(array: NDArray[Any]) -> NDArray[Any]:
    """Numbers next to 0 as 0, which compiled programs take them for and make of them."""
    if array.dtype != np.float64:
        return array
    return np.where(np.abs(array) < np.finfo(np.float64).tiny, np.copysign(0.0, array), array)


def _dtype(atom: core.Var | core.Literal) -> np.dtype[Any]:
    aval: Any = atom.aval  # of an array, whatever JAX's types say
    return aval.dtype


def _placed(
    array: NDArray[Any], shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...], **_: Any
) -> NDArray[Any]:
    sizes = dict(zip(broadcast_dimensions, array.shape, strict=True))
    return np.broadcast_to(array.reshape([sizes.get(axis, 1) for axis in range(len(shape))]), shape)


def _counted(dtype: np.dtype[Any], shape: tuple[int, ...], dimension: int, **_: Any) -> NDArray[Any]:
    return _placed(np.arange(shape[dimension], dtype=dtype), shape, (dimension,))


def _parts(array: NDArray[Any], sizes: tuple[int, ...], axis: int) -> list[NDArray[Any]]:
    return np.split(array, np.cumsum(sizes)[:-1], axis)


_FLOATS = {"div", "is_finite"}
_MOVES = {"broadcast_in_dim", "concatenate", "neg", "reshape", "select_n", "split", "squeeze", "transpose"}
_EXACT = {"add", "eq", "ge", "gt", "le", "lt", "mul", "ne", "sub"} | _FLOATS | _MOVES
_PLAIN: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "broadcast_in_dim": _placed,
    "concatenate": lambda *arrays, dimension: np.concatenate(arrays, dimension),
    "convert_element_type": lambda array, new_dtype, **_: array.astype(new_dtype),
    "div": lambda one, other, **_: one / other,
    "eq": lambda one, other, **_: one == other,
    "ge": lambda one, other, **_: one >= other,
    "gt": lambda one, other, **_: one > other,
    "iota": _counted,
    "is_finite": lambda array, **_: np.isfinite(array),
    "le": lambda one, other, **_: one <= other,
    "lt": lambda one, other, **_: one < other,
    "mul": lambda one, other, **_: one * other,
    "ne": lambda one, other, **_: one != other,
    "neg": lambda array, **_: -array,
    "reshape": lambda array, new_sizes, **_: array.reshape(new_sizes),
    "select_n": lambda which, *cases: np.choose(which.astype(int), cases, mode="clip"),
    "split": _parts,
    "squeeze": lambda array, dimensions: np.squeeze(array, dimensions),
    "sub": lambda one, other, **_: one - other,
    "transpose": lambda array, permutation: np.transpose(array, permutation),
}
