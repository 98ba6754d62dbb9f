"""Parts of methods that had other names in earlier versions: files written then are opened, continued and verified.

The digest of a state covers the names of its leaves, so these are stored under their first names. The identity of a method is
stored under its present names, and one with the first names is translated when it is read. One method is another one now.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

Identity = dict[str, bool | int | float | str | list[str] | NDArray[np.generic] | None]
"""What is known about a method before any data: plain values and arrays, by path."""
_SURVEY = ".belief.moments."


def stored_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names under which the leaves of a state are stored."""
    return tuple(name.replace(_SURVEY, ".belief.") for name in names)


def present_identity(identity: Identity) -> Identity:
    """An identity as this version would store it."""
    if identity.get("method") == "RepeatedMinimisation":
        return {**identity, "method": "RepeatedMinimization"}
    return dict(identity)


def is_earlier_safe_apda(identity: Identity) -> bool:
    """Whether this is an earlier safe_apda: its states have other parts, so its studies cannot continue."""
    return identity.get("method") == "SafePrimalDual" and "method.learner.by_group" not in identity


def present_spec(text: str) -> str:
    """A stored description with the present names of methods."""
    return re.sub(r"""(type\s*=\s*["'])repeated_minimisation(["'])""", r"\1repeated_minimization\2", text)
