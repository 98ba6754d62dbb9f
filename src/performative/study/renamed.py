"""Parts of methods that had other names in earlier versions: files written then are opened, continued and verified.

The digest of a state covers the names of its leaves, so these are stored under their first names. The identity of a method is
stored under its present names, and one with the first names is translated when it is read.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from performative.past import Past

Identity = dict[str, bool | int | float | str | list[str] | NDArray[np.generic] | None]
"""What is known about a method before any data: plain values and arrays, by path."""
_LEAVES = {
    ".scales.curvature": ".curvature",
    ".scales.price": ".price",
    ".scales.learning": ".learning",
    ".scales.length": ".scale",
}
_SURVEY = ".belief.moments."
_OPTIONAL_LEAVES = {".belief.reservoir": ".belief.kept"}
_SAFE_PATHS = {
    "method.exploration": "method.exploration.factor",
    "method.widest": "method.exploration.widest",
} | {f"method.{name}": f"method.learner.{name}" for name in ("prior", "structured", "overlap", "reservoir", "memory")}
_SAFE_PREFIXES = {"method.unmoved": "method.learner.unmoved", "method.shift": "method.learner.shift"}
_SAFE_PARTS = {"method.learner": "LeastSquares", "method.exploration": "Fading", "method.steps": "CurvatureSteps"}
_CLASSES = {"PullTowards": "PullToward"}
_FIRST_CLASSES = {"Pull": "PullToward", "Nearest": "NearestFeasible"}
_PARTS = ("method.safety", "method.safety.pull")


def stored_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names under which the leaves of a state are stored."""
    first = _LEAVES | _OPTIONAL_LEAVES if _LEAVES.keys() <= set(names) else {}
    return tuple(first.get(name, name.replace(_SURVEY, ".belief.")) for name in names)


def present_identity(identity: Identity) -> Identity:
    """An identity as this version would store it."""
    if identity.get("method") == "RepeatedMinimisation":
        return {**identity, "method": "RepeatedMinimization"}
    if identity.get("method") != "SafePrimalDual":
        return dict(identity)
    is_first = "method.learner" not in identity
    classes = _FIRST_CLASSES if is_first else _CLASSES
    values = {path: classes.get(str(value), value) if path in _PARTS else value for path, value in identity.items()}
    if is_first:
        values = {**{_present_path(path): value for path, value in values.items()}, **_SAFE_PARTS}
    return _with_past(values)


def _with_past(values: Identity) -> Identity:
    """A history that was stored as decisions and samples, as past deployments; with it, the first round was round 1."""
    pair: list[Any] = [values.get(f"method.history[{place}]") for place in (0, 1)]
    if any(part is None for part in pair):
        return values
    rest = {path: value for path, value in values.items() if not path.startswith("method.history[")}
    past = Past.of(*pair)
    parts = {field.name: getattr(past, field.name) for field in dataclasses.fields(past)}
    rows = {f"rows[{place}]": part for place, part in enumerate(parts.pop("rows"))}
    present = {f"method.history.{name}": np.asarray(part) for name, part in (parts | rows).items()}
    return rest | {"method.history": "Past", "method.init().round": np.asarray(0)} | present


def present_spec(text: str) -> str:
    """A stored description with the present names of methods."""
    return re.sub(r"""(type\s*=\s*["'])repeated_minimisation(["'])""", r"\1repeated_minimization\2", text)


def _present_path(path: str) -> str:
    for first, present in _SAFE_PREFIXES.items():
        if path.startswith(first):
            return present + path.removeprefix(first)
    return _SAFE_PATHS.get(path, path)
