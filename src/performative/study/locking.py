"""Threads that share an object wait for each other."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")


def one_at_a_time(call: Callable[Given, Result]) -> Callable[Given, Result]:
    """A method of an object that holds its `_lock` while it runs."""

    @functools.wraps(call)
    def locked(*given: Given.args, **named: Given.kwargs) -> Result:
        shared: Any = given[0]
        with shared._lock:
            return call(*given, **named)

    return locked
