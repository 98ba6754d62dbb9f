"""The objects that the tables of a description stand for, once these are valid."""

from __future__ import annotations

import functools
import importlib
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from performative.loading import load
from performative.numerics.arrays import Floats

if TYPE_CHECKING:
    from performative.methods.protocol import Method
    from performative.past import Past
    from performative.problem import Problem

_HOMES = {
    "box": "sets:Box",
    "ball": "sets:Ball",
    "simplex": "sets:Simplex",
    "budget": "sets:Budget",
    "linear": "constraints:Linear",
    "quadratic": "constraints:Quadratic",
    "squared_error": "losses:SquaredError",
    "logistic": "losses:Logistic",
    "revenue": "losses:Revenue",
    "portfolio_return": "losses:PortfolioReturn",
    "pinball": "losses:Pinball",
    "safe_apda": "methods.safe_apda:safe_apda",
    "apda": "methods.paper:apda",
    "pd_ps": "methods.paper:pd_ps",
    "repeated_gradient": "methods.repeated_gradient:repeated_gradient",
    "repeated_minimization": "methods.repeated_minimization:repeated_minimization",
    "two_stage": "methods.two_stage:two_stage",
    "one_point": "methods.zeroth_order:one_point",
    "two_point": "methods.zeroth_order:two_point",
    "pull": "safety:Pull",
    "nearest": "safety:Nearest",
}
"""Where each type is made; a description loads what it names alone."""
_WORDS = {"decisions": ("columns", "units"), "loss": ("show", "unit", "per")}
"""The keys of tables that say how things are called, and change nothing else."""


class Kept(NamedTuple):
    """What a study has kept of its method: the past deployments, if it had any, and the anchor that was found for it."""

    history: Past | None = None
    anchor: Floats | None = None


def part(key: str, table: dict[str, Any]) -> Any:
    """The set, constraint or loss that a table stands for; `key` is its place in the file."""
    options = {name: value for name, value in table.items() if name not in _WORDS.get(key, ())}
    kind = options.pop("type")
    if kind != "function":
        return maker(kind)(**options)
    function = load(f"{key}.function", options.pop("function"))
    return maker_of_functions()(function, **options) if key.startswith("constraints") else function


def method_of(problem: Problem, table: dict[str, Any], past: Past | None, anchor: Floats | None) -> Method:
    """The method that a table stands for."""
    options = dict(table)
    kind = options.pop("type")
    if "safety" in options:
        options["safety"] = maker(options["safety"])()
    if past is not None:
        options["history"] = past
    if anchor is not None:
        options["anchor"] = anchor
    return maker(kind)(problem, **options)


def past_of(table: dict[str, Any], folder: Path, kept: Past | None) -> Past | None:
    """The past deployments in a file, or those that were kept if it is gone."""
    from performative.past import Past

    options = dict(table)
    path = folder / options.pop("file")
    return Past.from_csv(path, **options) if path.exists() else kept


def functions_named(text: str) -> list[str]:
    """The functions, as `module:name`, that make parts of a description: `rebuilt` imports these modules and no others."""
    return [table["function"] for table in _parts(tomllib.loads(text)).values() if table["type"] == "function"]


def _parts(file: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The tables that `part` makes objects of, by key."""
    limits = {f"constraints[{place}]": table for place, table in enumerate(file.get("constraints", []))}
    return {**limits, "decisions": file["decisions"], "loss": file["loss"]}


def rebuilt(text: str, folder: Path, dimension: int, kept: Kept) -> Method:
    """The method of a description that was valid when a study was created from it."""
    from performative.problem import Problem

    file = tomllib.loads(text)
    *limits, decisions, loss = (part(key, table) for key, table in _parts(file).items())
    problem = Problem(loss, decisions, limits or None, dimension=dimension)
    past = past_of(file["history"], folder, kept.history) if "history" in file else None
    return method_of(problem, file["method"], past, kept.anchor)


def is_plain(text: str) -> bool:
    """Whether a description names neither functions nor files, so that it stands for the same wherever it is read."""
    return "history" not in tomllib.loads(text) and not functions_named(text)


@functools.cache
def maker(kind: str) -> Callable[..., Any]:
    """The class or function that makes objects of a type."""
    home, name = _HOMES[kind].split(":")
    made: Callable[..., Any] = getattr(importlib.import_module(f"performative.{home}"), name)
    return made


def maker_of_functions() -> Callable[..., Any]:
    """The class of constraints that are functions of the user's."""
    from performative.constraints import Function

    return Function
