"""Frozen dataclasses that are JAX pytrees, and a plain description of one."""

from __future__ import annotations

import dataclasses
import hashlib
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


def stack(trees: Sequence[T], axis: int = 0) -> T:
    """One tree whose leaves hold the leaves of `trees` side by side along a new axis."""
    first: Any = jax.tree.structure(trees[0])
    for position, tree in enumerate(trees):
        if jax.tree.structure(tree) != first:
            raise ValueError(
                "all instances must have the same structure and differ in their numbers alone, but instance "
                f"{position} has {jax.tree.structure(tree)} and instance 0 has {first}; numbers that a function "
                "needs go into jax.tree_util.Partial(function, numbers)"
            )

    def joined(*leaves: Any) -> Any:
        shapes = {np.shape(leaf) for leaf in leaves}
        if len(shapes) > 1:
            raise ValueError(f"all instances must have arrays of the same shapes, but got {sorted(shapes)}")
        return np.stack([np.asarray(leaf) for leaf in leaves], axis=axis)

    return jax.tree.map(joined, *trees)


def describe(node: Any) -> Any:
    """Plain JSON-ready description: class and function names, numbers, and arrays (long ones by their digest)."""
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        fields = {field.name: describe(getattr(node, field.name)) for field in dataclasses.fields(node)}
        return {"type": type(node).__name__, **fields}
    if isinstance(node, jax.tree_util.Partial):
        described = {"function": describe(node.func)}
        if node.args or node.keywords:
            described["arguments"] = describe([*node.args, *node.keywords.values()])
        return described
    if isinstance(node, dict):
        return {str(key): describe(value) for key, value in node.items()}
    if isinstance(node, list | tuple):
        return [describe(item) for item in node]
    if node is None or isinstance(node, bool | int | float | str):
        return node
    if callable(node):
        return f"{getattr(node, '__module__', '?')}:{getattr(node, '__qualname__', type(node).__name__)}"
    array = np.asarray(node)
    if array.dtype == object:
        return repr(node)
    if array.size <= 64:
        return array.tolist()
    digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]
    return {"shape": list(array.shape), "sha256": digest}
