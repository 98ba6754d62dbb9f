"""The schema of a study's description: its tables, their keys and allowed values.

Keys that are left out get the library's defaults.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PlainValidator, TypeAdapter, ValidationInfo, field_validator

from performative.study.samples import MOST_NUMBERS
from performative.validation import MOST_SEED


def _is_number(value: Any) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def is_row(value: Any) -> bool:
    """Whether it is a list of finite numbers."""
    return isinstance(value, list) and len(value) > 0 and all(map(_is_number, value))


def is_bounds(value: Any) -> bool:
    """Whether it is a list of numbers, of which some may be infinite."""
    return isinstance(value, list) and len(value) > 0 and all(isinstance(one, int | float) for one in value)


def is_matrix(value: Any) -> bool:
    """Whether it is a list of rows, all of one length."""
    return isinstance(value, list) and len(value) > 0 and all(map(is_row, value)) and len({*map(len, value)}) == 1


def is_table(value: Any, fits: Callable[[float], bool] = lambda one: True) -> bool:
    """Whether it is a list of rows of numbers that fit, nan among them if it does, all of one length."""
    rows = isinstance(value, list) and len(value) > 0 and all(isinstance(row, list) and row for row in value)
    return (
        rows
        and all(_is_number(one) or one != one for row in value for one in row)
        and (len({*map(len, value)}) == 1 and all(fits(one) for row in value for one in row))
    )


def is_moves(value: Any) -> bool:
    """Whether it is a list of limits on moves: numbers, or shares such as "5%"."""
    return isinstance(value, list) and len(value) > 0 and all(map(_is_move, value))


def _is_move(value: Any) -> bool:
    if not isinstance(value, str):
        return _is_number(value) and value > 0
    number, percent, rest = value.partition("%")
    try:
        return percent + rest == "%" and 0.0 < float(number) < math.inf
    except ValueError:
        return False


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _kind(what: str, *fits: Callable[[Any], bool]) -> PlainValidator:
    def checked(value: Any) -> Any:
        if not any(fit(value) for fit in fits):
            raise ValueError(f"must be {what}")
        return value

    return PlainValidator(checked)


def _is_bound(infinite: float) -> Callable[[Any], bool]:
    """Whether it is a finite number or `infinite`."""
    return lambda value: _is_number(value) or (isinstance(value, float) and value == infinite)


def _bounds(infinite: float) -> PlainValidator:
    fits = _is_bound(infinite)
    sign = "-" if infinite < 0 else ""
    return _kind(
        f"a number, {sign}inf or a list of them",
        fits,
        lambda value: isinstance(value, list) and len(value) > 0 and all(map(fits, value)),
    )


Lower = Annotated[float | list[float], _bounds(-math.inf)]
Upper = Annotated[float | list[float], _bounds(math.inf)]
Number = Annotated[float, _kind("a finite number", _is_number)]
NotNegative = Annotated[float, _kind("a number >= 0", lambda value: _is_number(value) and value >= 0)]
Positive = Annotated[float, _kind("a number > 0", lambda value: _is_number(value) and value > 0)]
PositiveOrInfinite = Annotated[
    float, _kind("a number > 0, or inf", lambda value: _is_bound(math.inf)(value) and value > 0)
]
Row = Annotated[list[float], _kind("a list of finite numbers", is_row)]
NumberOrRow = Annotated[float | list[float], _kind("a finite number or a list of them", _is_number, is_row)]
SpreadOrRow = Annotated[
    float | list[float],
    _kind(
        "a number >= 0 or a list of them",
        lambda value: _is_number(value) and value >= 0,
        lambda value: is_row(value) and min(value) >= 0,
    ),
]
Move = Annotated[
    float | str | list[float | str],
    _kind(
        'a number > 0, a share such as "5%", or a list of them',
        _is_move,
        is_moves,
    ),
]
Matrix = Annotated[list[list[float]], _kind("a list of rows of finite numbers, all of one length", is_matrix)]
PositiveOrMatrix = Annotated[
    float | list[list[float]],
    _kind(
        "a number > 0 or a list of rows of them, nan where it is not known",
        lambda value: (_is_number(value) and value > 0) or is_table(value, lambda one: one > 0 or one != one),
    ),
]
Signs = Annotated[
    list[list[float]],
    _kind(
        "a list of rows of -1, 0, 1 or nan", lambda value: is_table(value, lambda one: one in (-1, 0, 1) or one != one)
    ),
]
RowOrMatrix = Annotated[
    list[float] | list[list[float]], _kind("a list of finite numbers or of rows of them", is_row, is_matrix)
]
Name = Annotated[str, _kind("a name", _is_name)]
Names = Annotated[
    str | list[str],
    _kind("a name or a list of names", _is_name, lambda value: isinstance(value, list) and all(map(_is_name, value))),
]
Columns = Annotated[
    list[str], _kind("a list of names", lambda value: isinstance(value, list) and value and all(map(_is_name, value)))
]
Units = Annotated[
    str | list[str],
    _kind(
        "a unit or a list of units",
        lambda value: (
            isinstance(value, str) or (isinstance(value, list) and all(isinstance(one, str) for one in value))
        ),
    ),
]
Share = Annotated[float, _kind("a number > 0 and <= 1", lambda value: _is_number(value) and 0 < value <= 1)]
Between = Annotated[float, _kind("a number > 0 and < 1", lambda value: _is_number(value) and 0 < value < 1)]
Safety = Annotated[str, _kind("'pull' or 'nearest'", lambda value: value in ("pull", "nearest"))]
Count = Annotated[
    int,
    _kind(f"a whole number from 1 to {MOST_NUMBERS}", lambda value: type(value) is int and 1 <= value <= MOST_NUMBERS),
]
UserFunction = Annotated[str, _kind("module:function", lambda value: _is_name(value) and value.count(":") == 1)]
_optional: Any = Field(default=None)


class Table(BaseModel):
    """A table of the file."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    def options(self) -> dict[str, Any]:
        """The keys that the file sets, and their values."""
        return {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}


def all_keys() -> set[str]:
    """The keys of all tables, except the type that each has."""
    tables, found = [Table], set[str]()
    while tables:
        table = tables.pop()
        tables += table.__subclasses__()
        found |= set(table.model_fields)
    return found - {"type"}


class _Set(Table):
    columns: Columns = _optional
    units: Units = _optional


class _Box(_Set):
    type: Literal["box"]
    lower: Lower
    upper: Upper

    @field_validator("upper")
    @classmethod
    def _above(cls, upper: float | list[float], info: ValidationInfo) -> float | list[float]:
        lower = info.data.get("lower")
        alike = lower is not None and len({*map(np.size, (lower, upper))} - {1}) < 2
        if alike and np.any(np.asarray(lower) > np.asarray(upper)):
            raise ValueError(f"must be at least lower = {lower}")
        return upper


class _Ball(_Set):
    type: Literal["ball"]
    radius: Positive
    center: Row = _optional


class _Simplex(_Set):
    type: Literal["simplex", "budget"]
    total: Positive


class _Linear(Table):
    type: Literal["linear"]
    coefficients: RowOrMatrix
    bound: NumberOrRow
    name: Names = _optional


class _Quadratic(Table):
    type: Literal["quadratic"]
    matrix: Matrix
    bound: Number
    linear: Row = _optional
    name: Name = _optional


class _UserConstraint(Table):
    type: Literal["function"]
    function: UserFunction
    names: Names = _optional


class _Loss(Table):
    show: Name = _optional
    unit: Name = _optional
    per: Name = _optional


class _Ridge(_Loss):
    type: Literal["squared_error", "logistic"]
    ridge: NotNegative = _optional


class _Revenue(_Loss):
    type: Literal["revenue"]
    cost: NumberOrRow = _optional


class _PortfolioReturn(_Loss):
    type: Literal["portfolio_return"]
    aversion: NotNegative = _optional


class _Pinball(_Loss):
    type: Literal["pinball"]
    level: Between
    smoothing: NotNegative = _optional


class _UserLoss(_Loss):
    type: Literal["function"]
    function: UserFunction


class _Method(Table):
    type: Literal["repeated_minimization"]
    start: Row = _optional
    samples: Count = _optional


class _SafeApda(_Method):
    type: Literal["safe_apda"]  # type: ignore[assignment]
    loss_budget: PositiveOrInfinite = _optional
    max_move: Move = _optional
    deployments: Count = _optional
    deployments_per_round: Count = _optional
    exploration: Positive = _optional
    anchor: Row = _optional
    safety: Safety = _optional
    effect: Matrix = _optional
    effect_error: PositiveOrMatrix = _optional
    signs: Signs = _optional
    reservoir: Count = _optional
    forgetting: Share = _optional


class _Stepping(_Method):
    type: Literal["repeated_gradient"]  # type: ignore[assignment]
    step: Positive = _optional
    control: Positive = _optional


class _Apda(_Stepping):
    type: Literal["apda", "pd_ps"]  # type: ignore[assignment]
    probes: Literal["anywhere", "inside"] = _optional
    estimation_step: Positive = _optional
    warmup: Count = _optional
    exploration: Positive = _optional
    effect: Matrix = _optional
    recycle: bool = _optional
    forgetting: Share = _optional

    @field_validator("forgetting")
    @classmethod
    def _recycles(cls, forgetting: float, info: ValidationInfo) -> float:
        if forgetting < 1 and not info.data.get("recycle"):
            raise ValueError("must come with recycle = true")
        return forgetting


class _DerivativeFree(_Stepping):
    type: Literal["one_point", "two_point"]  # type: ignore[assignment]
    exploration: Positive = _optional


class _TwoStage(_Method):
    type: Literal["two_stage"]  # type: ignore[assignment]
    stage: Count = _optional
    exploration: Positive = _optional
    warmup: Count = _optional
    effect: Matrix = _optional


class Data(Table):
    """What the numbers of a sample are called."""

    columns: Columns
    units: Units = _optional


class History(Table):
    """Past deployments in a CSV file, and its columns."""

    file: Name
    decisions: Names
    data: Names
    count: Name = _optional


class Rehearsing(Table):
    """What samples are like at the start, for a rehearsal: one number for all, or one for each."""

    mean: NumberOrRow
    spread: SpreadOrRow = _optional


class Spec(Table):
    """The whole file; its tables are validated one by one."""

    name: Name
    seed: Annotated[
        int,
        _kind(f"a whole number from 0 to {MOST_SEED}", lambda value: type(value) is int and 0 <= value <= MOST_SEED),
    ] = 0
    dimension: Count = _optional
    approval: bool = False
    period: Name = _optional
    decisions: object
    constraints: Annotated[
        list[object], _kind("a list of tables, [[constraints]]", lambda value: isinstance(value, list))
    ] = []
    loss: object
    data: object = _optional
    method: object
    history: object = _optional
    rehearsal: object = _optional


TABLES: dict[str, TypeAdapter[Any]] = {
    "decisions": TypeAdapter(Annotated[_Box | _Ball | _Simplex, Field(discriminator="type")]),
    "constraints": TypeAdapter(Annotated[_Linear | _Quadratic | _UserConstraint, Field(discriminator="type")]),
    "loss": TypeAdapter(
        Annotated[_Ridge | _Revenue | _PortfolioReturn | _Pinball | _UserLoss, Field(discriminator="type")]
    ),
    "data": TypeAdapter(Data),
    "history": TypeAdapter(History),
    "rehearsal": TypeAdapter(Rehearsing),
    "method": TypeAdapter(
        Annotated[_SafeApda | _Apda | _Stepping | _DerivativeFree | _TwoStage | _Method, Field(discriminator="type")]
    ),
}
