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
    """Whether NumPy gives the same bits: the equation moves numbers, or computes with integers."""
    name = equation.primitive.name
    if name not in _PLAIN:
        return False
    kinds = {_dtype(atom) for atom in (*equation.invars, *equation.outvars)}
    whole = all(jnp.issubdtype(kind, jnp.integer) or jnp.issubdtype(kind, jnp.bool_) for kind in kinds)
    return whole or (name in _MOVES and kinds <= {np.dtype(bool), np.dtype(np.float64)})


def by_numpy(equation: core.JaxprEqn, arrays: Sequence[ArrayLike]) -> Array:
    """The result of an equation between constants. Compiled, each would take a megabyte or two, and there are many."""
    operands = [np.asarray(array, _dtype(atom)) for array, atom in zip(arrays, equation.invars, strict=True)]
    with np.errstate(over="ignore"), jax.ensure_compile_time_eval():
        return jax.device_put(_PLAIN[equation.primitive.name](*operands, **equation.params))


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
