"""Float64 arithmetic and one random generator, whatever the user's global JAX settings are."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

import jax

P = ParamSpec("P")
T = TypeVar("T")


@contextlib.contextmanager
def precise() -> Iterator[None]:
    """The context in which the library computes everything.

    For the current thread only, and whatever the user has configured: 64-bit arrays, NumPy's promotion rules and one
    definition of a key's random bits.
    """
    with (
        jax.enable_x64(True),
        jax.numpy_dtype_promotion("standard"),
        jax.numpy_rank_promotion("allow"),
        jax.threefry_partitionable(True),
    ):
        yield


def in_float64(function: Callable[P, T]) -> Callable[P, T]:
    """Run `function` inside `precise()`."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        with precise():
            return function(*args, **kwargs)

    return wrapped
