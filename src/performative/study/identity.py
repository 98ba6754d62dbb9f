"""Is it the same method? Options and arrays by their path, names of parts, and what its functions return at fixed points.

The code of functions is not compared: it may be rewritten as long as it computes the same.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import types
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from performative.errors import OtherMethod
from performative.methods.protocol import Method
from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64
from performative.numerics.programs import Program
from performative.numerics.watched import Watched
from performative.past import Past
from performative.problem import Problem
from performative.study.events import Amended, Basis, Identity, Observed
from performative.study.records import Arrays
from performative.study.states import is_key
from performative.study.usable import accepted_widths, computed

TOLERANCE = 1e-9
"""The relative difference between stored and given numbers that counts as rounding."""
POINTS = 4
"""At how many points functions are compared."""
_ROUNDS = np.array([1, 2, 3, 10, 100, 1000, 10**6])
_SHIFT = ".shift(probes)"
_HISTORY, _ANCHOR = "method.history", "method.safety.anchor"


@in_float64
def identity(method: Method, points: Arrays) -> Identity:
    """Everything known about a method before any data, with its functions probed at `points`."""
    problem = method.problem
    values = dict(_walked(method, "method", (), problem.d))
    round_and_decision = computed(_begun_there, method)
    values |= dict(zip(("method.init().round", "method.init().decision"), round_and_decision, strict=True))
    decisions = points["decisions"]
    values["constraints"] = list(problem.constraint_names)
    values["g(probes)"] = computed(_values_there, problem, decisions)
    for name, samples in points.items():
        if name != "decisions":
            values[f"loss(probes of {samples.shape[1]} numbers)"] = losses(problem, decisions, samples)
    return values


def require_same(name: str, created: Basis, probed: Observed | Amended | None, method: Method) -> None:
    """Refuse a method other than the one of study `name`; `probed` is the event that has its loss on probes like the data."""
    points, dimension = created.points, method.problem.dimension
    if dimension != points["decisions"].shape[1]:
        raise OtherMethod(name, [f"dimension: stored {points['decisions'].shape[1]}, but got {dimension}"])
    stored, given = dict(created.identity), identity(method, points)
    if probed is not None and probed.probes is not None:
        path = "loss(probes like the data)"
        stored[path], given[path] = probed.probe_losses, losses(method.problem, points["decisions"], probed.probes)
    lines = differences(stored, given)
    if lines:
        raise OtherMethod(name, lines)


def stored_history(values: Identity) -> Past | None:
    """The past deployments in an identity, if its method had any."""
    if values.get(_HISTORY) != Past.__name__:
        return None
    parts: dict[str, Any] = {field.name: values.get(f"{_HISTORY}.{field.name}") for field in dataclasses.fields(Past)}
    for name in ("rows", "columns"):  # tuples, stored entry by entry
        places = itertools.takewhile(
            values.__contains__, (f"{_HISTORY}.{name}[{place}]" for place in itertools.count())
        )
        parts[name] = tuple(values[place] for place in places) or None
    return Past(**parts)


def stored_anchor(values: Identity) -> Floats | None:
    """The anchor in an identity, if its method has one."""
    anchor = values.get(_ANCHOR)
    return np.asarray(anchor, np.float64) if isinstance(anchor, np.ndarray) else None


@in_float64
def loss_at(problem: Problem, decisions: Floats, rows: Floats) -> tuple[Floats, Floats]:
    """Probes like the samples `rows` (n, k) that were reported, and the loss of every decision on them."""
    some = rows[np.linspace(0, len(rows) - 1, POINTS).astype(int)]
    samples = some + (np.std(rows, axis=0) + 1e-3 * np.abs(some)) * _random(0).normal(size=some.shape)
    samples = np.concatenate([some, samples])
    return samples, losses(problem, decisions, samples)


@in_float64
def losses(problem: Problem, decisions: Floats, samples: Floats) -> Floats:
    """The loss of every decision on every sample."""
    return np.asarray(computed(_losses_there, problem, decisions, samples), np.float64)


@Program
def _begun_there(method: Method) -> tuple[Array, Array]:
    state = method.init(jax.random.key(0, impl="threefry2x32"))
    return jnp.asarray(state.round), jnp.asarray(state.decision)


@Program
def _values_there(problem: Problem, decisions: Array) -> Array:
    return jax.lax.map(problem.g, decisions)


@Program
def _losses_there(problem: Problem, decisions: Array, samples: Array) -> Array:
    return jax.lax.map(lambda theta: jax.lax.map(lambda z: problem.loss(theta, z), samples), decisions)


@in_float64
def new_points(problem: Problem) -> dict[str, Floats]:
    """Points to probe a problem's functions at: decisions of its set, and samples of widths that its loss accepts."""
    edge = problem.decisions.spread(problem.d, 4 * POINTS)
    decisions = _random(0).dirichlet(np.ones(len(edge)), size=POINTS) @ edge  # inside a convex set
    accepted = accepted_widths(problem)
    widths = dict.fromkeys((accepted[0], min(accepted), max(accepted))) if accepted else ()
    return {"decisions": decisions} | {
        f"samples {width}": _random(width).normal(size=(POINTS, width)) for width in widths
    }


def differences(stored: Identity, given: Identity) -> list[str]:
    """One line for each path at which two identities differ."""
    lines = []
    for path in dict.fromkeys((*stored, *given)):
        one, other = (side.get(path, "nothing") for side in (stored, given))
        if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
            lines += _array_difference(path, one, other)
        elif isinstance(one, np.ndarray) or isinstance(other, np.ndarray) or one != other:
            lines.append(f"{path}: stored {_shown(one)}, but got {_shown(other)}")
    return lines


def _array_difference(path: str, stored: NDArray[Any], given: NDArray[Any]) -> list[str]:
    if stored.shape != given.shape:
        return [f"{path}: stored {_shown(stored)}, but got {_shown(given)}"]
    if stored.dtype.kind not in "biuf":
        same = stored == given
    else:
        finite = np.abs(stored[np.isfinite(stored)])
        # What a function returns is rounded in the unit of its largest number; an option is not.
        slack = TOLERANCE * np.max(finite, initial=0.0) if "(" in path else 0.0
        same = np.isclose(stored, given, rtol=TOLERANCE, atol=slack, equal_nan=True)
    if np.all(same):
        return []
    if stored.size <= 8:
        return [f"{path}: stored {stored.tolist()}, but got {given.tolist()}"]
    where = tuple(np.argwhere(~same)[0].tolist())
    place = ", ".join(map(str, where))
    count = f" and {int(np.sum(~same)) - 1} more" if np.sum(~same) > 1 else ""
    return [f"{path}[{place}]: stored {stored[where]}, but got {given[where]}{count}"]


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return str(value.tolist()) if value.size <= 8 else f"an array of shape {value.shape}"
    return "nothing" if isinstance(value, str) and value == "nothing" else repr(value)


def _random(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def _walked(node: Any, path: str, within: tuple[int, ...], dimension: int) -> Iterator[tuple[str, Any]]:
    """All values inside an object, by path."""
    if isinstance(node, Watched):
        node = node.given
    if isinstance(node, np.ndarray | np.generic | jax.Array | float):
        plain: Any = node
        array = np.asarray(jax.random.key_data(plain) if is_key(node) else node)
        yield path, array if array.dtype.kind in "biuf" else str(array.tolist())
    elif node is None or isinstance(node, bool | int | str):
        yield path, node
    elif id(node) in within:
        yield path, "itself"
    else:
        yield from _walked_inside(node, path, (*within, id(node)), dimension)


def _walked_inside(node: Any, path: str, within: tuple[int, ...], dimension: int) -> Iterator[tuple[str, Any]]:
    if isinstance(node, jax.tree_util.Partial | functools.partial):
        parts = {f"[{i}]": part for i, part in enumerate(node.args)} | {f"[{k!r}]": v for k, v in node.keywords.items()}
        yield from _of_round(node, path)
    elif isinstance(node, dict):
        parts = {f"[{key!r}]": value for key, value in node.items()}
    elif isinstance(node, list | tuple):
        parts = {f"[{i}]": part for i, part in enumerate(node)}
    elif isinstance(node, set | frozenset):
        parts = {f"[{i}]": part for i, part in enumerate(sorted(node, key=repr))}
    elif isinstance(node, types.FunctionType | types.MethodType | types.BuiltinFunctionType | type):
        yield from _of_round(node, path)
        return
    else:
        yield path, type(node).__name__
        names = [field.name for field in dataclasses.fields(node)] if dataclasses.is_dataclass(node) else []
        names += [name for name in getattr(node, "__dict__", {}) if name not in names]
        names += [
            name
            for cls in type(node).__mro__
            for name, part in vars(cls).items()
            if _is_value(part) and name not in names
        ]
        parts = {f".{name}": getattr(node, name) for name in names if not name.startswith("_") and hasattr(node, name)}
        yield from _shifts(node, path, dimension)
    for name, part in parts.items():
        yield from _walked(part, path + name, within, dimension)


def _is_value(part: Any) -> bool:
    """Whether an attribute of a class is a number, an array or a string."""
    return isinstance(part, bool | int | float | str | np.ndarray | np.generic | jax.Array)


def _of_round(function: Callable[..., Any], path: str) -> Iterator[tuple[str, Any]]:
    """A step size that is a function of the round, by its values in some rounds."""
    if path.rsplit(".", 1)[-1] in ("step", "control", "estimation_step"):
        yield f"{path}({_ROUNDS.tolist()})", np.stack([np.asarray(function(jnp.asarray(t))) for t in _ROUNDS])


def _shifts(node: Any, path: str, dimension: int) -> Iterator[tuple[str, Any]]:
    """What a structured effect does to data."""
    effect = next((part for name in ("prior", "effect") if (part := getattr(node, name, None)) is not None), None)
    shift = getattr(node, "shift", None)
    if shift is None or effect is None:
        return
    random = _random(1)
    probe, theta = random.normal(size=np.shape(effect)), random.normal(size=dimension)
    yield path + _SHIFT, np.asarray(shift(jnp.asarray(probe), jnp.asarray(theta)))
