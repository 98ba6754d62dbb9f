"""Frozen dataclasses that are JAX pytrees, and a plain description of one."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, dataclass_transform

import jax
import numpy as np

T = TypeVar("T")


@dataclass_transform(frozen_default=True, eq_default=False)
def pytree(*static: str) -> Callable[[type[T]], type[T]]:
    """Class decorator: a frozen dataclass whose fields are children of a pytree, except the `static` ones.

    Rebuilding a tree (as every JAX transformation does) does not run `__post_init__`: arguments are validated once,
    where the user wrote them.
    """

    def decorate(cls: type[T]) -> type[T]:
        made: Any = dataclasses.dataclass(frozen=True, eq=False)(cls)
        names = [field.name for field in dataclasses.fields(made)]
        children = [name for name in names if name not in static]

        def flatten_with_keys(node: Any) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
            keyed = [(jax.tree_util.GetAttrKey(name), getattr(node, name)) for name in children]
            return keyed, tuple(getattr(node, name) for name in static)

        def unflatten(aux: tuple[Any, ...], values: Iterable[Any]) -> Any:
            node = object.__new__(made)
            for name, value in zip((*children, *static), (*values, *aux), strict=True):
                object.__setattr__(node, name, value)
            return node

        jax.tree_util.register_pytree_with_keys(made, flatten_with_keys, unflatten)
        return made

    return decorate


def assign(node: Any, **values: Any) -> None:
    """Set fields of a frozen dataclass while it is being made."""
    for name, value in values.items():
        object.__setattr__(node, name, value)


def as_node(thing: T) -> T:
    """The same object, its class made known to JAX as a pytree without children if it is not one yet.

    A user's plain class then works wherever a pytree is needed, as one unchanging whole.
    """
    if jax.tree_util.all_leaves([thing]):
        jax.tree_util.register_pytree_node(type(thing), lambda kept: ((), _Whole(kept)), lambda whole, _: whole.thing)
    return thing


class _Whole:
    """An object as static data: equal to itself alone."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Whole) and self.thing is other.thing

    def __hash__(self) -> int:
        return id(self.thing)


def changed(node: T, **values: Any) -> T:
    """A copy of a pytree dataclass with some fields replaced, without validating again."""
    copy: Any = object.__new__(type(node))
    for field in dataclasses.fields(node):  # type: ignore[arg-type]
        object.__setattr__(copy, field.name, values.pop(field.name, getattr(node, field.name)))
    assert not values, values
    return copy


def callable_node(function: Callable[..., Any]) -> Callable[..., Any]:
    """A callable that is a pytree: plain functions become a `Partial` without arguments.

    Give `jax.tree_util.Partial(function, numbers...)` for a function whose numbers differ between instances.
    """
    if jax.tree_util.all_leaves([function]):
        return jax.tree_util.Partial(function)
    return function


def same_structure(trees: Sequence[Any]) -> list[list[np.ndarray[Any, Any]]]:
    """The leaves of each tree; they may differ in their numbers alone."""
    first: Any = jax.tree.structure(trees[0])
    for position, tree in enumerate(trees):
        if jax.tree.structure(tree) != first:
            raise ValueError(
                "all instances must have the same structure and differ in their numbers alone, but instance "
                f"{position} has {jax.tree.structure(tree)} and instance 0 has {first}; numbers that a function "
                "needs go into jax.tree_util.Partial(function, numbers)"
            )
    rows = [[np.asarray(leaf) for leaf in jax.tree.leaves(tree)] for tree in trees]
    for leaves in zip(*rows, strict=True):
        shapes = {leaf.shape for leaf in leaves}
        if len(shapes) > 1:
            raise ValueError(f"all instances must have arrays of the same shapes, but got {sorted(shapes)}")
    return rows


def describe(node: Any, most: int = 64) -> Any:
    """Plain JSON-ready description: classes, functions, numbers, and arrays (those of over `most` entries by their digest).

    A function is its name and a digest of its code, constants, defaults and of what it closes over: two functions that
    could compute something different are described differently.
    """
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        fields = {field.name: describe(getattr(node, field.name), most) for field in dataclasses.fields(node)}
        return {"type": type(node).__name__, **fields}
    if isinstance(node, jax.tree_util.Partial):
        described = {"function": describe(node.func, most)}
        if node.args or node.keywords:
            described["arguments"] = describe([*node.args, *node.keywords.values()], most)
        return described
    if isinstance(node, dict):
        return {str(key): describe(value, most) for key, value in node.items()}
    if isinstance(node, list | tuple):
        return [describe(item, most) for item in node]
    if node is None or isinstance(node, bool | int | float | str):
        return node
    if callable(node):
        name = f"{getattr(node, '__module__', '?')}:{getattr(node, '__qualname__', type(node).__name__)}"
        return f"{name}#{hashlib.sha256(_code(node).encode()).hexdigest()[:12]}"
    array = np.asarray(node)
    if array.dtype == object:
        return repr(node)
    if array.size <= most:
        return array.tolist()
    digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]
    return {"shape": list(array.shape), "sha256": digest}


def _code(function: Any) -> str:
    """Everything of a function that decides what it computes, as text."""
    code = getattr(function, "__code__", None)
    if code is None:
        return (
            repr(type(function))
            if not hasattr(function, "__dict__")
            else json.dumps(describe(vars(function)), default=repr)
        )
    constants = [_code_object(part) if isinstance(part, types.CodeType) else repr(part) for part in code.co_consts]
    cells = [describe(cell.cell_contents) for cell in function.__closure__ or ()]
    outer = [describe(function.__globals__[name]) for name in code.co_names if _is_data(function.__globals__.get(name))]
    return json.dumps(
        [code.co_code.hex(), constants, code.co_names, describe(function.__defaults__), cells, outer], default=repr
    )


def _code_object(code: types.CodeType) -> list[Any]:
    inner = [_code_object(part) if isinstance(part, types.CodeType) else repr(part) for part in code.co_consts]
    return [code.co_code.hex(), inner, list(code.co_names)]


def _is_data(value: Any) -> bool:
    return isinstance(value, bool | int | float | str | list | tuple | np.ndarray)
