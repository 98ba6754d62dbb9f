"""What a method is, in numbers: options and arrays by their path, names of parts, and what its functions return at fixed points.

The code of functions is not looked at: it may be written anew as long as it computes the same.
"""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from performative.numerics.precision import in_float64
from performative.study.records import Arrays, is_key

TOLERANCE = 1e-9
"""By how much what is stored and what is given may differ, relative to it: rounding."""
POINTS = 4
"""At how many points functions are compared."""
_WIDTHS = range(1, 65)
_ROUNDS = np.array([1, 2, 3, 10, 100, 1000, 10**6])
Identity = dict[str, Any]
"""Plain values and arrays by path."""


@in_float64
def identity(method: Any, points: Arrays) -> Identity:
    """All that is known of a method before any data, its functions probed at `points`."""
    problem = method.problem
    state = method.init(jax.random.key(0, impl="threefry2x32"))
    found: Identity = dict(_walked(method, "method", ()))
    found["method.init().round"] = np.asarray(state.round)
    found["method.init().decision"] = np.asarray(state.decision)
    decisions = points["decisions"]
    found["constraints"] = list(problem.constraint_names)
    found["g(probes)"] = np.stack([np.asarray(problem.g(jnp.asarray(theta))) for theta in decisions])
    for name, samples in points.items():
        if name != "decisions":
            found[f"loss(probes of {samples.shape[1]} numbers)"] = losses(problem, decisions, samples)
    return found


@in_float64
def loss_at(problem: Any, decisions: NDArray[Any], told: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Points like the data that were told (n, k), and the loss there."""
    some = told[np.linspace(0, len(told) - 1, POINTS).astype(int)]
    samples = some + (np.std(told, axis=0) + 1e-3 * np.abs(some)) * _random(0).normal(size=some.shape)
    samples = np.concatenate([some, samples])
    return samples, losses(problem, decisions, samples)


@in_float64
def losses(problem: Any, decisions: NDArray[Any], samples: NDArray[Any]) -> NDArray[Any]:
    """The loss of every decision on every sample."""
    rows = [[problem.loss(jnp.asarray(theta), jnp.asarray(z)) for z in samples] for theta in decisions]
    return np.asarray(rows, np.float64)


@in_float64
def new_points(problem: Any) -> dict[str, NDArray[Any]]:
    """Points to probe a problem's functions at: decisions of its set, and samples of widths that its loss takes."""
    edge = problem.decisions.spread(problem.dimension, 4 * POINTS)
    decisions = _random(0).dirichlet(np.ones(len(edge)), size=POINTS) @ edge  # inside of a convex set
    accepted = [width for width in _widths(problem) if _takes(problem, width)]
    widths = dict.fromkeys((accepted[0], min(accepted), max(accepted))) if accepted else ()
    return {"decisions": decisions} | {
        f"samples {width}": _random(width).normal(size=(POINTS, width)) for width in widths
    }


def differences(stored: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """One line for each path at which two identities differ."""
    lines = []
    for path in dict.fromkeys((*stored, *given)):
        one, other = (side.get(path, "nothing") for side in (stored, given))
        if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
            lines += _array_difference(path, one, other)
        elif isinstance(one, np.ndarray) or isinstance(other, np.ndarray) or one != other:
            lines.append(f"{path}: stored {_shown(one)} given {_shown(other)}")
    return lines


def _array_difference(path: str, stored: NDArray[Any], given: NDArray[Any]) -> list[str]:
    if stored.shape != given.shape:
        return [f"{path}: stored {_shown(stored)} given {_shown(given)}"]
    if stored.dtype.kind not in "biuf":
        same = stored == given
    else:
        finite = np.abs(stored[np.isfinite(stored)])
        # What a function computes is rounded in the unit of its largest numbers, what is given is not.
        slack = TOLERANCE * np.max(finite, initial=0.0) if "(" in path else 0.0
        same = np.isclose(stored, given, rtol=TOLERANCE, atol=slack, equal_nan=True)
    if np.all(same):
        return []
    if stored.size <= 8:
        return [f"{path}: stored {stored.tolist()} given {given.tolist()}"]
    where = tuple(np.argwhere(~same)[0].tolist())
    place = ", ".join(map(str, where))
    count = f" and {int(np.sum(~same)) - 1} more" if np.sum(~same) > 1 else ""
    return [f"{path}[{place}]: stored {stored[where]} given {given[where]}{count}"]


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return str(value.tolist()) if value.size <= 8 else f"an array of shape {value.shape}"
    return "nothing" if isinstance(value, str) and value == "nothing" else repr(value)


def _random(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


@in_float64
def require_usable(problem: Any) -> None:
    """Refuse a loss that fails for samples of every width and for a reason other than their width."""
    failures = []
    for width in _widths(problem):
        try:
            problem.check_samples(width)
            return
        except ValueError as error:
            failures.append(error)
    if all(error.__cause__ is None or isinstance(error.__cause__, jax.errors.JAXTypeError) for error in failures):
        raise failures[0]


def _widths(problem: Any) -> list[int]:
    d = problem.dimension
    return list(dict.fromkeys((d, d + 1, *_WIDTHS)))


def _takes(problem: Any, width: int) -> bool:
    try:
        problem.check_samples(width)
    except ValueError:
        return False
    return True


def _walked(node: Any, path: str, within: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
    """Everything of an object that is a value, by its path."""
    if isinstance(node, np.ndarray | np.generic | jax.Array | float):
        plain: Any = node
        array = np.asarray(jax.random.key_data(plain) if is_key(node) else node)
        yield path, array if array.dtype.kind in "biuf" else str(array.tolist())
    elif node is None or isinstance(node, bool | int | str):
        yield path, node
    elif id(node) in within:
        yield path, "itself"
    else:
        yield from _walked_inside(node, path, (*within, id(node)))


def _walked_inside(node: Any, path: str, within: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
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
        yield from _shifts(node, path)
    for name, part in parts.items():
        yield from _walked(part, path + name, within)


def _is_value(part: Any) -> bool:
    """Whether an attribute of a class is a number, an array or a text."""
    return isinstance(part, bool | int | float | str | np.ndarray | np.generic | jax.Array)


def _of_round(function: Any, path: str) -> Iterator[tuple[str, Any]]:
    """A step size that is a function of the round is what it is in some rounds."""
    if path.rsplit(".", 1)[-1] in ("step", "control", "estimation_step"):
        yield f"{path}({_ROUNDS.tolist()})", np.stack([np.asarray(function(jnp.asarray(t))) for t in _ROUNDS])


def _shifts(node: Any, path: str) -> Iterator[tuple[str, Any]]:
    """What a structured effect does to data."""
    effect = next((part for name in ("prior", "effect") if (part := getattr(node, name, None)) is not None), None)
    shift, problem = getattr(node, "shift", None), getattr(node, "problem", None)
    if shift is None or effect is None or problem is None:
        return
    drawn = _random(1)
    some, theta = drawn.normal(size=np.shape(effect)), drawn.normal(size=problem.dimension)
    yield f"{path}.shift(probes)", np.asarray(shift(jnp.asarray(some), jnp.asarray(theta)))
