"""A study described in TOML: decisions, constraints, loss, method and history. All errors in a file are reported at once."""

from __future__ import annotations

import os
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from pydantic import TypeAdapter, ValidationError

from performative import sets
from performative.errors import SolverFailed, SpecError
from performative.methods.protocol import Method
from performative.numerics.precision import in_float64
from performative.past import Past, history_for
from performative.problem import Problem
from performative.solvers.feasibility import require_feasible
from performative.study import building
from performative.study.labels import Labels, data_names_of, names_of, units_of, word_of
from performative.study.likeness import Expected
from performative.study.schema import TABLES, Spec, Table, all_keys, is_bounds, is_moves, is_row, is_table
from performative.study.usable import broken, require_numbers, require_usable
from performative.validation import like, shown


class Described(NamedTuple):
    """The study that a description stands for.

    `folder` is where its files are, if it names any, `labels` are its names, and `approval` see `Created`. `expected` is what it
    says of samples, for a rehearsal, and `text` is the description itself.
    """

    name: str
    seed: int
    method: Method
    folder: str | None
    labels: Labels
    approval: bool = False
    expected: Expected | None = None
    text: str | None = None


def read(path: str | os.PathLike[str]) -> Described:
    """The study that a TOML file stands for, or `SpecError` with every error in it."""
    return describe(read_spec(path), Path(path).parent)


def read_spec(path: str | os.PathLike[str]) -> str:
    """The text of a TOML file."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise SpecError([f"{path} does not exist; write a description of the study there"]) from error
    except UnicodeDecodeError as error:
        raise SpecError([f"{path} is not UTF-8: {error}"]) from error


def describe(text: str, folder: str | os.PathLike[str] = ".") -> Described:
    r"""The study that a TOML text stands for, or `SpecError` with every error in it.

    Files are relative to `folder`.

    >>> head = 'name = "prices"\ndecisions = {type = "box", lower = [0.0], upper = [5.0]}\nloss = {type = "revenue"}\n'
    >>> describe(head + 'method = {type = "apda", warmup = 0}')
    Traceback (most recent call last):
    performative.errors.SpecError: method.warmup: must be a whole number from 1 to 33554432, but got 0
    >>> described = describe(head + 'method = {type = "apda", warmup = 10}')
    >>> described.name, described.seed, described.method.problem.dimension
    ('prices', 0, 1)
    """
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SpecError([f"the file is not valid TOML: {error}"]) from error
    wrong: list[str] = []
    spec = _checked(_FILE, "", table, wrong)
    parts = _parts(table)
    tables: dict[str, Table] = {
        key: checked
        for key, part in parts.items()
        if (checked := _checked(TABLES[key.partition("[")[0]], key, part, wrong)) is not None
    }
    built = {key: _built(key, part, wrong) for key, part in tables.items() if key not in _BUILT_LATER}
    lengths = _lengths(parts, table.get("dimension"))
    wrong += _misfits(tables, lengths)
    labels = _labels(tables, table.get("period"), wrong)
    problem = _problem(parts, built, lengths, wrong)
    options = tables["method"].options() if "method" in tables else {}
    wrong += _outside(built.get("decisions"), lengths, options)
    past = _past(tables["history"], Path(folder), wrong) if "history" in tables else None
    expected = _expected(tables["rehearsal"], wrong) if "rehearsal" in tables else None
    if problem is not None:
        wrong += _impossible(problem, options)
        wrong += _unfit(problem, past, labels, expected) or _without_numbers(problem, options, past, labels)
    if wrong or problem is None:
        raise SpecError(wrong)
    try:
        method = building.method_of(problem, options, past, None)
    except Exception as error:
        raise SpecError([f"method: {_message(error)}"]) from error
    where = None if past is None else str(Path(folder).resolve())
    return Described(spec.name, spec.seed, method, where, labels, spec.approval, expected, text)


def _parts(file: dict[str, Any]) -> dict[str, Any]:
    """The tables of a file as they are, by key."""
    listed = file.get("constraints")
    limits = {f"constraints[{place}]": part for place, part in enumerate(listed if isinstance(listed, list) else [])}
    parts = {"decisions": file.get("decisions"), **limits} | {key: file.get(key) for key in ("loss", *_BUILT_LATER)}
    return {
        key: part for key, part in parts.items() if part is not None
    }  # a missing table is an error of the whole file


def _checked(adapter: TypeAdapter[Any], key: str, value: Any, wrong: list[str]) -> Any:
    """The validated value; None, and lines in `wrong`, if it is invalid."""
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        wrong += [_line(key, item) for item in error.errors()]
        return None


def _built(key: str, table: Table, wrong: list[str]) -> Any:
    """The object that a table stands for; None, and a line in `wrong`, if the library refuses it."""
    try:
        return building.part(key, table.options())
    except (ValueError, TypeError) as error:
        wrong.append(f"{key}: {error}")
        return None


def _line(key: str, item: Any) -> str:
    """One of pydantic's errors as a line: the key, the rule and the value."""
    place, kind = list(item["loc"]), item["type"]
    if key not in ("", "data", "history", "rehearsal") and not kind.startswith(
        "union_tag"
    ):  # pydantic puts a table's type into the place
        del place[:1]
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in [key, *place]).strip(".")
    if kind == "missing":
        return f"{key}: must be given"
    if kind == "extra_forbidden":
        return f"{key}: unknown key (value {shown(item['input'])}){like(str(place[-1]), all_keys() - {place[-1]})}"
    if kind == "union_tag_not_found":
        return f"{key}.type: must be given"
    if kind == "union_tag_invalid":
        return f"{key}.type: must be one of {item['ctx']['expected_tags']}, but got {shown(item['input']['type'])}"
    if kind in ("model_attributes_type", "model_type"):
        return f"{key}: must be a table, but got {shown(item['input'])}"
    rule = str(item["msg"]).removeprefix("Value error, ")
    return f"{key}: {rule[0].lower()}{rule[1:]}, but got {shown(item['input'])}"


class _Length(NamedTuple):
    key: str
    length: int
    value: object


def _lengths(parts: dict[str, Any], dimension: Any) -> list[_Length]:
    """Everything in the file that shows how long a decision is, the length that most agree on first."""
    lengths = [_Length("dimension", dimension, dimension)] if type(dimension) is int and dimension > 0 else []
    for key, part in parts.items():
        for name, value in part.items() if isinstance(part, dict) else ():
            is_list = (
                (name in ("lower", "upper") and is_bounds(value)) or is_row(value) or is_table(value) or is_moves(value)
            )
            if name in _AS_LONG_AS_THE_DECISION and is_list:
                lengths.append(_Length(f"{key}.{name}", np.shape(value)[-1], value))
    named = parts["decisions"].get("columns") if isinstance(parts.get("decisions"), dict) else None
    if isinstance(named, list) and named:
        lengths.append(_Length("decisions.columns", len(named), named))
    agreed = Counter(one.length for one in lengths).most_common(1)
    return sorted(lengths, key=lambda one: one.length != agreed[0][0])


def _misfits(tables: dict[str, Table], lengths: list[_Length]) -> Iterator[str]:
    """Lists whose length is not that of a decision, and a history that the method does not take."""
    nothing: dict[str, Any] = {"type": None}
    loss, method = (tables[key].options() if key in tables else nothing for key in ("loss", "method"))
    if "history" in tables and method["type"] not in (None, "safe_apda"):
        yield f"history: only safe_apda learns from past deployments, but got method.type = {method['type']!r}"
    if not lengths:
        if "decisions" in tables:
            yield "dimension: must be given, since no other key shows how long a decision is"
        return
    first, d, _ = lengths[0]
    for key, length, value in lengths:
        if length != d:
            yield f"{key}: must have the length {d} of {first}, but has {length}: {shown(value)}"
    named = tables["history"].options()["decisions"] if "history" in tables else []
    columns = [named] if isinstance(named, str) else named
    if "history" in tables and len(columns) != d:
        yield f"history.decisions: must name {d} columns, one for each number of a decision, but got {shown(columns)}"
    width = d + 1 if loss["type"] in ("squared_error", "logistic") else d
    if "effect" in method and loss["type"] != "function" and len(method["effect"]) != width:
        yield f"method.effect: must have {width} rows, one for each number of a sample, but has {len(method['effect'])}"


def _problem(parts: dict[str, Any], built: dict[str, Any], lengths: list[_Length], wrong: list[str]) -> Problem | None:
    """The problem; None, and a line in `wrong` for each part that the library refuses, if there is none."""
    limits = {key: part for key, part in built.items() if key.startswith("constraints")}
    ready = (
        all(built.get(key) is not None for key in parts if key not in _BUILT_LATER)
        and {"decisions", "loss"} <= built.keys()
    )
    if not ready or len({one.length for one in lengths}) != 1:
        return None
    errors_before = len(wrong)
    whole = None
    for key, some in ({key: [part] for key, part in limits.items()} | {"constraints": [*limits.values()]}).items():
        try:
            whole = Problem(built["loss"], built["decisions"], some or None, dimension=lengths[0].length)
        except Exception as error:  # the user's functions are called
            if key != "constraints" or len(wrong) == errors_before:
                wrong.append(f"{key}: {_message(error)}")
    try:
        require_usable(Problem(built["loss"], built["decisions"], dimension=lengths[0].length))
    except Exception as error:
        wrong.append(f"loss: {_message(error)}")
    return whole if len(wrong) == errors_before else None


def _outside(decisions: sets.DecisionSet | None, lengths: list[_Length], method: dict[str, Any]) -> Iterator[str]:
    """Decisions given to the method that are not in the set."""
    for name in ("start", "anchor"):
        value = np.asarray(method.get(name, ()), np.float64)
        if decisions is None or value.size == 0 or value.size != lengths[0].length:
            continue
        if not decisions.of_dimension(value.size).contains(value):
            yield f"method.{name}: must lie in the decision set, but got {shown(method[name])}"


@in_float64
def _impossible(problem: Problem, method: dict[str, Any]) -> list[str]:
    """Constraints that no decision meets, and a start or an anchor that violates them."""
    wrong = []
    try:
        require_feasible(problem)
    except (ValueError, SolverFailed) as error:
        wrong.append(f"constraints: {_message(error)}")
    start = np.asarray(method.get("start", ()), np.float64)
    if start.size and problem.decisions.contains(start):
        violated = broken(problem, start, ROUNDING * max(1.0, float(np.max(np.abs(start)))))
        if violated:
            got = f"got {shown(method['start'])}, which breaks {', '.join(violated)}"
            wrong.append(f"method.start: must satisfy every constraint, but {got}")
    anchor = np.asarray(method.get("anchor", ()), np.float64)
    if anchor.size and problem.decisions.contains(anchor):
        values = np.asarray(problem.g(jnp.asarray(anchor)))
        violated = [name for name, value in zip(problem.constraint_names, values, strict=True) if not value < 0]
        if violated:
            got = f"got {shown(method['anchor'])}, which violates or touches {', '.join(violated)}"
            wrong.append(f"method.anchor: must satisfy every constraint strictly, but {got}")
    return wrong


def _past(table: Table, folder: Path, wrong: list[str]) -> Past | None:
    """The past deployments in a file; None, and a line in `wrong`, if it is refused."""
    options = table.options()
    path = folder / options["file"]
    if not path.exists():
        wrong.append(f"history.file: must be a file beside the description, but {str(path)!r} does not exist")
        return None
    try:
        return building.past_of(options, folder, None)
    except (ValueError, OSError) as error:
        wrong.append(f"history: {_message(error)}")
        return None


def _labels(tables: dict[str, Table], period: Any, wrong: list[str]) -> Labels:
    """The names that a description gives; lines in `wrong` where they cannot be meant."""
    parts: list[tuple[str, ...] | None] = []
    for key, read in (("decisions", names_of), ("data", data_names_of)):
        options = tables[key].options() if key in tables else {}
        try:
            names = read(f"{key}.columns:", options.get("columns"))
            parts += [names, units_of(f"{key}.units:", options.get("units"), names)]
        except ValueError as error:
            wrong.append(str(error))
            parts += [None, None]
    decisions, decision_units, data, data_units = parts
    loss = tables["loss"].options() if "loss" in tables else {}
    given = {
        "loss.show": loss.get("show"),
        "loss.unit": loss.get("unit"),
        "loss.per": loss.get("per"),
        "period": period,
    }
    words: list[str | None] = []
    for key, word in given.items():
        try:
            words.append(
                word_of(f"{key}:", word) if isinstance(word, str) and word else None
            )  # the schema refuses others
        except ValueError as error:
            wrong.append(str(error))
            words.append(None)
    return Labels(decisions, data, decision_units, data_units, *words)


def _expected(table: Table, wrong: list[str]) -> Expected | None:
    """What a description says of samples; None, and a line in `wrong`, if its numbers do not fit."""
    try:
        return Expected.of(**table.options())
    except ValueError as error:
        wrong.append(f"rehearsal: {error}")
        return None


def _unfit(problem: Problem, past: Past | None, labels: Labels, expected: Expected | None) -> list[str]:
    """Names or sizes of samples that the loss does not accept, and past samples that it does not, or in another order."""
    try:
        labels.fitting(problem, past)
    except ValueError as error:
        return [f"data.columns: {error}"]
    try:
        named = None if labels.data is None else len(labels.data)
        if expected is not None:
            expected.require_width(problem, named if past is None else past.means.shape[1])
    except ValueError as error:
        return [f"rehearsal.mean: {error}"]
    try:
        if past is not None and past.decisions.shape[1] == problem.d:
            history_for(problem, past)
    except ValueError as error:
        return [f"history.data: {error}"]
    return []


@in_float64
def _without_numbers(problem: Problem, method: dict[str, Any], past: Past | None, labels: Labels) -> list[str]:
    """A loss that cannot be computed at the start, or in the middle of the set if none is given."""
    start = np.asarray(method.get("start", ()), np.float64)
    decision = start if start.shape == (problem.d,) else np.mean(problem.decisions.spread(problem.d, 4), axis=0)
    width = past.means.shape[1] if past is not None else None if labels.data is None else len(labels.data)
    try:
        require_numbers(
            problem, decision, width, slopes=method.get("type", _WITHOUT_GRADIENT[0]) not in _WITHOUT_GRADIENT
        )
    except Exception as error:  # the user's function is called
        return [f"loss: {_message(error)}"]
    return []


def _message(error: Exception) -> str:
    return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"


_FILE = TypeAdapter(Spec)
ROUNDING = 1e-6
"""By which share of its size a start may break a constraint: solvers round."""
_WITHOUT_GRADIENT = ("one_point", "two_point")
_BUILT_LATER = ("data", "history", "method", "rehearsal")
_AS_LONG_AS_THE_DECISION = (
    "lower", "upper", "center", "coefficients", "matrix", "linear", "cost", "start", "anchor", "effect", "effect_error",
    "signs", "max_move",
)  # fmt: skip
