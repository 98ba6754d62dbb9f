"""What depends on constants alone, computed by NumPy while a program is mapped over lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def is_plain(equation: Any) -> bool:
    """Whether NumPy gives the same bits: numbers are moved about, or whole numbers are counted with."""
    name = equation.primitive.name
    if name not in _PLAIN:
        return False
    kinds = {atom.aval.dtype for atom in (*equation.invars, *equation.outvars)}
    whole = all(jnp.issubdtype(kind, jnp.integer) or jnp.issubdtype(kind, jnp.bool_) for kind in kinds)
    return whole or (name in _MOVES and kinds <= {np.dtype(bool), np.dtype(np.float64)})


def by_numpy(equation: Any, arrays: list[Any]) -> Any:
    """The result of an equation between constants. Compiled, each would hold a megabyte or two, and there are many."""
    given = [np.asarray(array, atom.aval.dtype) for array, atom in zip(arrays, equation.invars, strict=True)]
    with np.errstate(over="ignore"), jax.ensure_compile_time_eval():
        return jax.device_put(_PLAIN[equation.primitive.name](*given, **equation.params))


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
