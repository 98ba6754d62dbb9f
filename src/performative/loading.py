"""Loads functions that a user names as `module:attribute`, from where Python itself finds modules."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from performative.validation import shown


def load(argument: str, name: str) -> Callable[..., Any]:
    """The callable that `name`, written as `module:attribute`, stands for; `argument` is what errors call it.

    >>> load("loss", "math:hypot")(3.0, 4.0)
    5.0
    """
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise ValueError(f"`{argument}` must be module:function, but got {name!r}")
    try:
        function = getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:  # a user's module may do anything when it is imported
        raise ValueError(
            f"`{argument}` names {name!r}, which cannot be imported: {type(error).__name__}: {error}{remedy(error)}"
        ) from error
    if not callable(function):
        raise ValueError(f"`{argument}` names {name!r}, which must be a function, but is {shown(function)}")
    return function


def remedy(error: BaseException) -> str:
    """How to have Python find a module that it did not find, as the end of a message."""
    if not isinstance(error, ModuleNotFoundError):
        return ""
    return (
        "; Python finds modules that are installed or in PYTHONPATH: put `PYTHONPATH=FOLDER` before the command, `PYTHONPATH=.` "
        "for the folder you are in"
    )
