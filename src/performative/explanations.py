"""Explanations of errors inside your functions: the line at which they failed, and what to write there instead."""

from __future__ import annotations

import linecache
import traceback

import jax

from performative.numerics.reads import is_installed

_LATER = "a number that is known only when the compiled function runs"
_REMEDIES = {
    jax.errors.TracerBoolConversionError: (
        f"Python cannot branch on {_LATER}; write jnp.where(condition, a, b) for `if`, jnp.maximum for `max`, and & for `and`"
    ),
    jax.errors.TracerArrayConversionError: (
        f"NumPy cannot compute with {_LATER}; write jnp.exp for np.exp, and so on, with jax.numpy as jnp"
    ),
    jax.errors.TracerIntegerConversionError: f"Python cannot take {_LATER} as an index; write jnp.take(values, index)",
    jax.errors.ConcretizationTypeError: (
        f"Python cannot convert {_LATER}; leave out float(), int() and .item(), or write x.astype(float)"
    ),
}


def explained(error: Exception) -> str:
    """What went wrong in a function of yours, ready to follow the words "but failed"."""
    reason = next((remedy for kind, remedy in _REMEDIES.items() if isinstance(error, kind)), None) or str(error)
    return f"{_line(error)}: {reason}"


def _line(error: Exception) -> str:
    """The last line of the user's code that an error went through, if there is one."""
    for frame, number in reversed(list(traceback.walk_tb(error.__traceback__))):
        if not is_installed(frame.f_globals.get("__name__")):
            name = frame.f_code.co_filename
            text = linecache.getline(name, number, frame.f_globals).strip()
            return f" at {name}:{number}" + (f", `{text}`" if text else "")
    return ""
