"""Things that a user names: `module:attribute`, from the working directory or from what is installed."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from performative.validation import shown


def load(argument: str, name: str) -> Any:
    """The callable that `name`, `module:attribute`, stands for; `argument` is where it was written, for errors."""
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise ValueError(f"`{argument}` must be module:function of your own, but got {name!r}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:  # whatever a user's module does when it is imported
        raise ValueError(
            f"`{argument}` names {name!r}, which cannot be imported: {type(error).__name__}: {error}"
        ) from error
    if not callable(found):
        raise ValueError(f"`{argument}` names {name!r}, which must be a function, but is {shown(found)}")
    return found
