"""A study described in TOML: decision set, constraints, loss and method. All errors of a file are found at once."""

from __future__ import annotations

import contextlib
import os
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import TypeAdapter, ValidationError

from performative import constraints, field, losses, methods, sets
from performative.loading import load
from performative.problem import Problem
from performative.study.schema import TABLES, Spec, Table, is_matrix, is_row
from performative.validation import shown


class SpecError(ValueError):
    """What is wrong with a description: `lines` has one for each error, with its key and value."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        super().__init__("\n".join(lines))


class Described(NamedTuple):
    """What a description stands for."""

    name: str
    seed: int
    method: Any


def read_spec(path: str | os.PathLike[str]) -> str:
    """The text of a TOML file."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SpecError([f"{path} must be a text in UTF-8, but: {error}"]) from error


def describe(text: str) -> Described:
    """What a TOML text stands for, or `SpecError` with every error in it."""
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SpecError([f"the file must be TOML, but: {error}"]) from error
    wrong: list[str] = []
    spec = _checked(_FILE, "", table, wrong)
    parts = _parts(table)
    tables: dict[str, Table] = {
        key: checked
        for key, part in parts.items()
        if (checked := _checked(TABLES[key.partition("[")[0]], key, part, wrong)) is not None
    }
    made = {key: _made(key, part, wrong) for key, part in tables.items() if key != "method"}
    lengths = _lengths(parts, table.get("dimension"))
    wrong += _misfits(tables, lengths, made.get("decisions"))
    if wrong:
        raise SpecError(wrong)
    limits = [part for key, part in made.items() if key.startswith("constraints")]
    try:
        problem = Problem(made["loss"], made["decisions"], limits or None, dimension=lengths[0].length)
        with contextlib.suppress(ValueError):  # it may want samples of another width
            problem.check_samples(lengths[0].length)
        options = tables["method"].options()
        return Described(spec.name, spec.seed, _MADE[options.pop("type")](problem, **options))
    except Exception as error:  # functions of the user's own have been called
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise SpecError([f"the parts must fit together, but: {kind}{error}"]) from error


# Each table by itself.


def _parts(file: dict[str, Any]) -> dict[str, Any]:
    """The tables of a file as they are, by their keys."""
    listed = file.get("constraints")
    limits = {f"constraints[{place}]": part for place, part in enumerate(listed if isinstance(listed, list) else [])}
    parts = {"decisions": file.get("decisions"), **limits, "loss": file.get("loss"), "method": file.get("method")}
    return {key: part for key, part in parts.items() if part is not None}  # that it is not there is said of the file


def _checked(adapter: TypeAdapter[Any], key: str, value: Any, wrong: list[str]) -> Any:
    """The value as it should be; None, and lines in `wrong`, if it is not."""
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        wrong += [_line(key, item) for item in error.errors()]
        return None


def _made(key: str, part: Table, wrong: list[str]) -> Any:
    """What a table stands for; None, and a line in `wrong`, if the library refuses it."""
    options = part.options()
    kind = options.pop("type")
    try:
        if kind != "function":
            return _MADE[kind](**options)
        own = load(f"{key}.function", options.pop("function"))
        return constraints.Function(own, **options) if key.startswith("constraints") else own
    except (ValueError, TypeError) as error:
        wrong.append(f"{key}: {error}")
        return None


def _line(key: str, item: Any) -> str:
    """One of pydantic's errors: the key, the rule and the value."""
    place, kind = list(item["loc"]), item["type"]
    if key and not kind.startswith("union_tag"):  # the type of a table is part of the place, and no key of the file
        del place[:1]
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in [key, *place]).strip(".")
    if kind == "missing":
        return f"{key}: must be given"
    if kind == "extra_forbidden":
        return f"{key}: is no key of this table, but got {shown(item['input'])}"
    if kind == "union_tag_not_found":
        return f"{key}.type: must be given"
    if kind == "union_tag_invalid":
        return f"{key}.type: must be one of {item['ctx']['expected_tags']}, but got {shown(item['ctx']['tag'])}"
    rule = str(item["msg"]).removeprefix("Value error, ")
    return f"{key}: {rule[0].lower()}{rule[1:]}, but got {shown(item['input'])}"


# The tables together.


class _Length(NamedTuple):
    key: str
    length: int
    value: Any


def _lengths(parts: dict[str, Any], dimension: Any) -> list[_Length]:
    """Everything in the file that tells how long a decision is: first what most of it agrees on, then the rest."""
    found = [_Length("dimension", dimension, dimension)] if type(dimension) is int else []
    for key, part in parts.items():
        for name, value in part.items() if isinstance(part, dict) else ():
            if name in _AS_LONG_AS_THE_DECISION and (is_row(value) or is_matrix(value)):
                found.append(_Length(f"{key}.{name}", np.shape(value)[-1], value))
    agreed = Counter(one.length for one in found).most_common(1)
    return sorted(found, key=lambda one: one.length != agreed[0][0])


def _misfits(tables: dict[str, Table], lengths: list[_Length], decisions: Any) -> Iterator[str]:
    """Lists of another length than the decision's, a start outside the set, and a loss that does not suit the method."""
    nothing: dict[str, Any] = {"type": None}
    loss, method = (tables[key].options() if key in tables else nothing for key in ("loss", "method"))
    if method["type"] == "safe_apda" and loss["type"] == "pinball" and not loss.get("smoothing"):
        yield "loss.smoothing: must be > 0 with safe_apda, which needs a loss without kinks"
    if not lengths:
        if "decisions" in tables:
            yield "dimension: must be given, since no other key tells how long a decision is"
        return
    first, d, _ = lengths[0]
    wrong = [one for one in lengths if one.length != d]
    for key, length, value in wrong:
        yield f"{key}: must have the length {d} of {first}, but has {length}: {shown(value)}"
    width = d + 1 if loss["type"] in ("squared_error", "logistic") else d
    if "effect" in method and loss["type"] in _MADE and len(method["effect"]) != width:
        yield f"method.effect: must have {width} rows, one for each number of a sample, but has {len(method['effect'])}"
    known = "start" in method and decisions is not None and not wrong
    if known and not decisions.of_dimension(d).contains(np.asarray(method["start"], np.float64)):
        yield f"method.start: must lie in the decision set, but got {shown(method['start'])}"


_FILE = TypeAdapter(Spec)
_AS_LONG_AS_THE_DECISION = (
    "lower", "upper", "center", "coefficients", "matrix", "linear", "cost", "start", "anchor", "effect",
)  # fmt: skip
_MADE: dict[str, Callable[..., Any]] = {
    "box": sets.Box,
    "ball": sets.Ball,
    "simplex": sets.Simplex,
    "budget": sets.Budget,
    "linear": constraints.Linear,
    "quadratic": constraints.Quadratic,
    "squared_error": losses.SquaredError,
    "logistic": losses.Logistic,
    "revenue": losses.Revenue,
    "portfolio_return": losses.PortfolioReturn,
    "pinball": losses.Pinball,
    "safe_apda": methods.safe_apda,
    "apda": methods.apda,
    "pd_ps": methods.pd_ps,
    "repeated_gradient": field.repeated_gradient,
    "repeated_minimisation": field.repeated_minimisation,
    "two_stage": field.two_stage,
    "one_point": field.one_point,
    "two_point": field.two_point,
}
