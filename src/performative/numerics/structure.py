"""Where two trees differ in more than their numbers."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

_LONGEST = 60


def difference(one: Any, other: Any) -> str | None:
    """The first part of `other` whose structure or shape is not that of `one`, and how it differs; None if there is none.

    >>> difference({"a": np.zeros(2), "b": 1.0}, {"a": np.zeros(3), "b": 2.0})
    "`['a']` has shape (3,) instead of (2,)"
    """
    return _difference(one, other, "")


def _difference(one: Any, other: Any, path: str) -> str | None:
    name = f"`{path.lstrip('.')}`"
    if _is_array(one) and _is_array(other):
        shapes = np.shape(one), np.shape(other)
        return None if shapes[0] == shapes[1] else f"{name} has shape {shapes[1]} instead of {shapes[0]}"
    if isinstance(one, jax.tree_util.Partial) and isinstance(other, jax.tree_util.Partial) and _reads_apart(one, other):
        return f"{name} is another function; pass its numbers as jax.tree_util.Partial(function, numbers)"
    if type(one) is not type(other):
        return f"{name} has type {_kind(other)} instead of {_kind(one)}"
    ours, theirs = _children(one), _children(other)
    if list(ours) != list(theirs):
        if len(ours) != len(theirs):
            return f"{name} has {len(theirs)} parts instead of {len(ours)}"
        return f"{name} has the parts {', '.join(theirs)} instead of {', '.join(ours)}"
    for key, part in ours.items():
        found = _difference(part, theirs[key], path + key)
        if found is not None:
            return found
    structures: list[Any] = [jax.tree.structure(tree) for tree in (one, other)]
    if structures[0] == structures[1]:
        return None
    for field in dataclasses.fields(one) if dataclasses.is_dataclass(one) else ():
        values = getattr(one, field.name), getattr(other, field.name)
        if f".{field.name}" not in ours and values[0] != values[1]:
            return f"`{f'{path}.{field.name}'.lstrip('.')}` is {_shown(values[1])} instead of {_shown(values[0])}"
    if isinstance(one, jax.tree_util.Partial):
        return f"{name} is another function; pass its numbers as jax.tree_util.Partial(function, numbers)"
    return f"{name} is another object of class {type(one).__name__}"


def _reads_apart(one: Any, other: Any) -> bool:
    """Whether two functions differ in what they are or read, their arguments apart."""
    return type(one) is not type(other) or one.func is not other.func


def _children(node: Any) -> dict[str, Any]:
    keyed, _ = jax.tree_util.tree_flatten_with_path(node, is_leaf=lambda part: part is not node)
    return {jax.tree_util.keystr(path): part for path, part in keyed if path}


def _is_array(value: Any) -> bool:
    return isinstance(value, int | float | complex | np.ndarray | np.generic | jax.Array)


def _kind(value: Any) -> str:
    return "None" if value is None else "array" if _is_array(value) else type(value).__name__


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
