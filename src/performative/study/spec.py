"""A study described in TOML: decision set, constraints, loss and method. All errors of a file are found at once."""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError

from performative import constraints, field, losses, methods, sets
from performative.loading import load
from performative.problem import Problem
from performative.validation import MOST_SEED


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
    except tomllib.TOMLDecodeError as error:
        raise SpecError([f"the file must be TOML, but: {error}"]) from error
    try:
        spec = _Spec.model_validate(table)
    except ValidationError as error:
        raise SpecError([_line(item) for item in error.errors()]) from error
    wrong: list[str] = []
    decisions = _made("decisions", spec.decisions, wrong)
    limits = [_made(f"constraints[{place}]", part, wrong) for place, part in enumerate(spec.constraints)]
    loss = _made("loss", spec.loss, wrong)
    if wrong:
        raise SpecError(wrong)
    try:
        problem = Problem(loss, decisions, limits or None, dimension=spec.dimension)
    except (ValueError, TypeError) as error:
        raise SpecError([f"decisions, constraints and loss must fit together, but: {error}"]) from error
    options = spec.method.options()
    make = _MADE[options.pop("type")]
    try:
        return Described(spec.name, spec.seed, make(problem, **options))
    except (ValueError, TypeError) as error:
        raise SpecError([f"method: {error}"]) from error


def _made(key: str, part: _Table, wrong: list[str]) -> Any:
    """What a table of the file stands for; None, and a line in `wrong`, if the library refuses it."""
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


def _line(item: Any) -> str:
    """One of pydantic's errors: the key, the rule and the value."""
    place = list(item["loc"])
    kind = item["type"]
    if not kind.startswith("union_tag"):  # the type of a table is part of the place, and no key of the file
        del place[2 if place[0] == "constraints" else 1 : 3 if place[0] == "constraints" else 2]
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")
    if kind == "missing":
        return f"{key}: must be given"
    if kind == "extra_forbidden":
        return f"{key}: is no key of this table, but got {item['input']!r}"
    if kind == "union_tag_not_found":
        return f"{key}.type: must be given"
    if kind == "union_tag_invalid":
        return f"{key}.type: must be one of {item['ctx']['expected_tags']}, but got {item['ctx']['tag']!r}"
    rule = str(item["msg"]).removeprefix("Value error, ")
    return f"{key}: {rule[0].lower()}{rule[1:]}, but got {item['input']!r}"


# What may stand in the file. What is left out is left to the library's own defaults.


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_row(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(map(_is_number, value))


def _is_matrix(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(map(_is_row, value)) and len({*map(len, value)}) == 1


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _kind(what: str, *fits: Callable[[Any], bool]) -> PlainValidator:
    def checked(value: Any) -> Any:
        if not any(fit(value) for fit in fits):
            raise ValueError(f"must be {what}")
        return value

    return PlainValidator(checked)


Number = Annotated[Any, _kind("a finite number", _is_number)]
Positive = Annotated[Any, _kind("a number > 0", lambda value: _is_number(value) and value > 0)]
Row = Annotated[Any, _kind("a list of finite numbers", _is_row)]
NumberOrRow = Annotated[Any, _kind("a finite number or a list of them", _is_number, _is_row)]
Matrix = Annotated[Any, _kind("a list of rows of finite numbers, all of one length", _is_matrix)]
RowOrMatrix = Annotated[Any, _kind("a list of finite numbers or of rows of them", _is_row, _is_matrix)]
Name = Annotated[Any, _kind("a name", _is_name)]
Names = Annotated[
    Any,
    _kind("a name or a list of names", _is_name, lambda value: isinstance(value, list) and all(map(_is_name, value))),
]
Count = Annotated[Any, _kind("a whole number >= 1", lambda value: type(value) is int and value >= 1)]
Own = Annotated[Any, _kind("module:function", lambda value: _is_name(value) and value.count(":") == 1)]
_left_out: Any = Field(default=None)


class _Table(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    def options(self) -> dict[str, Any]:
        """What the file sets."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class _Box(_Table):
    type: Literal["box"]
    lower: NumberOrRow
    upper: NumberOrRow


class _Ball(_Table):
    type: Literal["ball"]
    radius: Positive
    center: Row = _left_out


class _Simplex(_Table):
    type: Literal["simplex", "budget"]
    total: Positive


class _Linear(_Table):
    type: Literal["linear"]
    coefficients: RowOrMatrix
    bound: NumberOrRow
    name: Names = _left_out


class _Quadratic(_Table):
    type: Literal["quadratic"]
    matrix: Matrix
    bound: Number
    linear: Row = _left_out
    name: Name = _left_out


class _OwnConstraint(_Table):
    type: Literal["function"]
    function: Own
    names: Names = _left_out


class _Ridge(_Table):
    type: Literal["squared_error", "logistic"]
    ridge: Number = _left_out


class _Revenue(_Table):
    type: Literal["revenue"]
    cost: NumberOrRow = _left_out


class _PortfolioReturn(_Table):
    type: Literal["portfolio_return"]
    aversion: Number = _left_out


class _Pinball(_Table):
    type: Literal["pinball"]
    level: Number
    smoothing: Number = _left_out


class _OwnLoss(_Table):
    type: Literal["function"]
    function: Own


class _Method(_Table):
    type: Literal["repeated_minimisation"]
    start: Row = _left_out
    samples: Count = _left_out


class _SafeApda(_Method):
    type: Literal["safe_apda"]  # type: ignore[assignment]
    exploration: Positive = _left_out
    anchor: Row = _left_out
    safety: Name = _left_out
    effect: Matrix = _left_out
    reservoir: Count = _left_out
    forgetting: Positive = _left_out


class _Stepping(_Method):
    type: Literal["repeated_gradient"]  # type: ignore[assignment]
    step: Positive = _left_out
    control: Positive = _left_out


class _Apda(_Stepping):
    type: Literal["apda", "pd_ps"]  # type: ignore[assignment]
    estimation_step: Positive = _left_out
    warmup: Count = _left_out
    exploration: Positive = _left_out
    effect: Matrix = _left_out
    recycle: bool = _left_out
    forgetting: Positive = _left_out


class _DerivativeFree(_Stepping):
    type: Literal["one_point", "two_point"]  # type: ignore[assignment]
    exploration: Positive = _left_out


class _TwoStage(_Method):
    type: Literal["two_stage"]  # type: ignore[assignment]
    stage: Count = _left_out
    exploration: Positive = _left_out
    warmup: Count = _left_out
    effect: Matrix = _left_out


class _Spec(_Table):
    name: Name
    seed: Annotated[int, Field(ge=0, le=MOST_SEED)] = 0
    dimension: Count = _left_out
    decisions: Annotated[_Box | _Ball | _Simplex, Field(discriminator="type")]
    constraints: list[Annotated[_Linear | _Quadratic | _OwnConstraint, Field(discriminator="type")]] = []
    loss: Annotated[_Ridge | _Revenue | _PortfolioReturn | _Pinball | _OwnLoss, Field(discriminator="type")]
    method: Annotated[
        _SafeApda | _Apda | _Stepping | _DerivativeFree | _TwoStage | _Method, Field(discriminator="type")
    ]


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
