"""Loads functions that a user names as `module:attribute`, from the working directory or an installed package."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
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
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        function = getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:  # a user's module may do anything when it is imported
        raise ValueError(
            f"`{argument}` names {name!r}, which cannot be imported: {type(error).__name__}: {error}"
        ) from error
    if not callable(function):
        raise ValueError(f"`{argument}` names {name!r}, which must be a function, but is {shown(function)}")
    return function
