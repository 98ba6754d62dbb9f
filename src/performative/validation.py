"""Checks of arguments: each error names the argument, the rule and the value."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from performative.numerics.arrays import Floats

MOST_SEED = 2**63 - 1
_LONGEST = 300
Array = TypeVar("Array", bound=NDArray[Any])


def finite_array(
    name: str, value: Any, ndim: int | tuple[int, ...] | None = None, lacking: str = "add brackets"
) -> Floats:
    """A read-only copy of `value` as float64, of the allowed number of axes, every entry finite.

    It is a copy, so later changes to the caller's array have no effect. `lacking` is the remedy for too few axes.
    """
    array = _numbers(name, value, ndim, lacking)
    if not np.all(np.isfinite(array)):
        where = np.argwhere(~np.isfinite(array))[0].tolist()
        place = f" at index {where}" * bool(where)
        raise ValueError(f"`{name}` must be finite, but got {array[tuple(where)]}{place}; put a finite number there")
    return read_only(array)


def vector(name: str, value: Any) -> Floats:
    """A read-only copy of `value` as a vector of finite float64; one number is a vector of one."""
    return read_only(np.atleast_1d(finite_array(name, value, (0, 1))))


def matrix(name: str, value: Any) -> Floats:
    """A read-only copy of `value` as a matrix of finite float64; one number is a matrix of one."""
    array = finite_array(name, value, (0, 2), f"give a matrix, such as np.diag({shown(value)})")
    return array if array.ndim else read_only(array.reshape(1, 1))


def require_samples(samples: Any, count: int, scalars: bool) -> Any:
    """Samples (b, n, k) of `count` decisions; with `scalars`, one number for each decision will do."""
    if scalars and samples.ndim < 2 and samples.size == count:
        samples = samples.reshape(count, 1, 1)
    if samples.ndim != 3 or samples.shape[0] != count or 0 in samples.shape:
        lacks_axis = count == 1 and samples.ndim == 2
        remedy = "samples[None] adds the first axis" if lacks_axis else "give n samples of k numbers for each decision"
        raise ValueError(f"`samples` must have shape ({count}, n, k), but got {samples.shape}; {remedy}")
    return samples


def bounds(name: str, value: Any, forbidden: float) -> Floats:
    """A read-only copy of `value` as float64, a number or a vector that may be infinite, but not nan or `forbidden`."""
    array = _numbers(name, value, (0, 1), "add brackets")
    for where in np.argwhere(np.isnan(array) | (array == forbidden))[:1].tolist():
        raise ValueError(
            f"`{name}` must hold numbers or {-forbidden}, but got {array[tuple(where)]}"
            + (f" at index {where}" * bool(where))
        )
    return read_only(array)


def _numbers(name: str, value: Any, ndim: int | tuple[int, ...] | None, lacking: str) -> Floats:
    try:
        if value is None:
            raise TypeError("None is not a number")
        if np.asarray(value).dtype.kind in "USO" and _holds_text(value):
            raise TypeError("text is not a number")
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"`{name}` must be numbers, but got {shown(value)}{_remedy(value)}") from error
    allowed = (ndim,) if isinstance(ndim, int) else ndim
    if allowed is not None and array.ndim not in allowed:
        counts = " or ".join(str(axes) for axes in allowed)
        remedy = "take off brackets" if array.ndim > max(allowed) else lacking
        raise ValueError(f"`{name}` must have {counts} axes, but got shape {array.shape}; {remedy}")
    return array


def _holds_text(value: Any) -> bool:
    return any(isinstance(item, str | bytes) for item in np.asarray(value, dtype=object).ravel().tolist())


def _remedy(value: Any) -> str:
    """What to do about something that is not numbers."""
    if isinstance(value, str | bytes) or (isinstance(value, list | tuple | np.ndarray) and _text_inside(value)):
        return "; write numbers without quotes"
    if isinstance(value, list | tuple):
        return "; all rows must have one length"
    return "; give what it returns" if callable(value) else ""


def _text_inside(value: Any) -> bool:
    return any(
        isinstance(item, str | bytes) or (isinstance(item, list | tuple) and _text_inside(item)) for item in value
    )


def like(name: str, names: Iterable[str]) -> str:
    """The remedy for a name that is not among `names`: the one that was perhaps meant."""
    folded = {one.lower(): one for one in names}
    near = difflib.get_close_matches(str(name).lower(), folded, n=1)
    return f"; did you mean {folded[near[0]]!r}?" if near else ""


def shown(value: Any) -> str:
    """A value as error messages show it, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 40]} … {text[-20:]}"


def read_only(array: Array) -> Array:
    """The same array, made read-only."""
    array.setflags(write=False)
    return array


def caller_level() -> int:
    """The `stacklevel` with which a warning in the calling function points at the user's line."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == __package__:
        frame, level = frame.f_back, level + 1
    return level


def positive(name: str, value: Any) -> float:
    """`value` as a float, checked to be positive and finite."""
    number = float(finite_array(name, value, 0))
    if not number > 0:
        raise ValueError(f"`{name} > 0` must hold, but got {name}={number}")
    return number


def whole(name: str, value: Any, at_least: int, at_most: int | None = None) -> int:
    """`value` as an int, checked to be whole, large enough and not too large."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < at_least:
        is_whole = isinstance(value, float | np.floating) and np.isfinite(value) and value == int(value) >= at_least
        remedy = f"; write {int(value)}" if is_whole else ""
        raise ValueError(f"`{name}` must be a whole number >= {at_least}, but got {name}={value!r}{remedy}")
    if at_most is not None and value > at_most:
        raise ValueError(f"`{name}` must be at most {at_most}, but got {name}={value!r}")
    return int(value)


def symmetric(name: str, matrix: Floats) -> Floats:
    """The matrix, checked to be square and symmetric."""
    if matrix.ndim < 2 or matrix.shape[-1] != matrix.shape[-2]:
        raise ValueError(f"`{name}` must be square, but got shape {matrix.shape}")
    gap = float(np.max(np.abs(matrix - np.swapaxes(matrix, -1, -2)), initial=0.0))
    if gap > 1e-9 * max(1.0, float(np.max(np.abs(matrix), initial=0.0))):
        raise ValueError(
            f"`{name}` must be symmetric, but entries differ from their mirror by up to {gap:.3g}; (Q + Qᵀ)/2 gives the same form"
        )
    return matrix
