"""Frozen dataclasses that are JAX pytrees, and plain classes registered as pytrees."""

from __future__ import annotations

import builtins
import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, dataclass_transform

import jax

from performative.numerics.reads import Reading, reading
from performative.numerics.watched import Watched

T = TypeVar("T")


@dataclass_transform(frozen_default=True, eq_default=False)
def pytree(*static: str) -> Callable[[type[T]], type[T]]:
    """Class decorator: a frozen dataclass whose fields are children of a pytree, except the `static` ones.

    Rebuilding a tree (as every JAX transformation does) runs neither `__init__` nor `__post_init__`: arguments are validated
    once, where the user wrote them.
    """

    def decorate(cls: type[T]) -> type[T]:
        node_class: Any = dataclasses.dataclass(frozen=True, eq=False)(cls)
        names = [field.name for field in dataclasses.fields(node_class)]
        children = [name for name in names if name not in static]

        def flatten_with_keys(node: Any) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
            keyed = [(jax.tree_util.GetAttrKey(name), getattr(node, name)) for name in children]
            return keyed, tuple(getattr(node, name) for name in static)

        def unflatten(aux: tuple[Any, ...], values: Iterable[Any]) -> Any:
            node = object.__new__(node_class)
            vars(node).update(zip((*children, *static), (*values, *aux), strict=True))
            return node

        def flatten(node: Any) -> tuple[list[Any], tuple[Any, ...]]:
            held = vars(node)
            return [held[name] for name in children], tuple([held[name] for name in static])

        jax.tree_util.register_pytree_with_keys(node_class, flatten_with_keys, unflatten, flatten)
        return node_class

    return decorate


def assign(node: Any, **values: Any) -> None:
    """Set fields of a frozen dataclass in its `__init__` or `__post_init__`."""
    for name, value in values.items():
        object.__setattr__(node, name, value)


_plain: dict[type, None] = {}


def as_node(thing: T) -> T:
    """The same object, its class registered with JAX as a pytree without children if it is not one yet.

    A plain class then works wherever a pytree is needed, as one whole. What is compiled for an object is compiled again when its
    attributes change, or anything else that its class reads.
    """
    if jax.tree_util.all_leaves([thing]):
        make_known([type(thing)])
    return thing


def plain_classes() -> tuple[type, ...]:
    """The plain classes registered here; another process must register them before it uses them."""
    return tuple(_plain)


def make_known(classes: Iterable[type]) -> None:
    """Register plain classes with JAX as pytrees without children, unless they are registered already."""
    for cls in classes:
        if cls is getattr(builtins, cls.__name__, None):
            raise TypeError(f"an object of your own class is needed, but got one of the built-in class {cls.__name__}")
        if cls not in _plain:
            jax.tree_util.register_pytree_node(
                cls, lambda thing: ((), Whole(thing, reading(thing))), lambda whole, _: whole.thing
            )
            _plain[cls] = None


class Whole:
    """An object as static data, equal only to itself while it holds and reads the same values."""

    def __init__(self, thing: Any, values: Reading) -> None:
        self.thing, self.values = thing, values

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Whole) and self.thing is other.thing and self.values == other.values

    def __hash__(self) -> int:
        return id(self.thing)


def changed(node: T, **values: Any) -> T:
    """A copy of a pytree dataclass with some fields replaced, not validated again."""
    copy: Any = object.__new__(type(node))
    for field in dataclasses.fields(node):  # type: ignore[arg-type]
        object.__setattr__(copy, field.name, values.pop(field.name, getattr(node, field.name)))
    assert not values, values
    return copy


def callable_node(function: Callable[..., Any]) -> Callable[..., Any]:
    """A callable that is a pytree: plain functions become a `Partial` without arguments, `Watched` if they read other values.

    For a function whose numbers differ between instances, pass `jax.tree_util.Partial(function, numbers...)`.
    """
    return function if isinstance(function, Watched) else Watched.of(function)
