"""Provenance: what a result depends on, as plain descriptions of objects and functions that can be stored and compared."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from performative.numerics.watched import Watched

Describe = Callable[[Any], Any]
_HOMES = {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}
_LIBRARIES = {"jax", "jaxlib", "numpy", "scipy", "cvxpy", "performative", *sys.stdlib_module_names}


def describe(node: Any, most: int = 64) -> Any:
    """A description ready for JSON: classes, functions, numbers, and arrays (by their digest if longer than `most`).

    A function is described by its name and a digest of its code, constants and defaults, of what it closes over, and of your
    data, classes and functions that it names. Your own objects are described by their class, with a digest, and their
    attributes. Nothing depends on the process, so descriptions from different runs can be compared.

    >>> import json
    >>> import performative as pf
    >>> from performative.provenance import describe
    >>> json.dumps(describe(pf.Ball(2.0)))
    '{"type": "Ball", "size": 2.0, "center": null, "dimension": null}'
    """
    return _described(node, most, ())


def _described(node: Any, most: int, within: tuple[int, ...]) -> Any:
    if node is None or isinstance(node, bool | int | float | str):
        return node
    if isinstance(node, Watched):
        node = node.given
    if id(node) in within:
        return "itself"
    within = (*within, id(node))
    again = functools.partial(_described, most=most, within=within)
    if isinstance(node, jax.tree_util.Partial | functools.partial):
        described = {"function": again(node.func)}
        if node.args or node.keywords:
            described["arguments"] = [*map(again, node.args), *map(again, node.keywords.values())]
            described |= {"names": list(node.keywords)} if node.keywords else {}
        return described
    if isinstance(node, dict):
        return {str(key): again(value) for key, value in node.items()}
    if isinstance(node, list | tuple):
        return [again(item) for item in node]
    if isinstance(node, set | frozenset):
        return sorted((again(item) for item in node), key=json.dumps)
    if isinstance(node, np.ndarray | np.generic | jax.Array):
        return _array(np.asarray(node), most)
    if isinstance(node, np.random.Generator):
        return {"type": "Generator", "state": again(node.bit_generator.state)}
    if isinstance(node, np.random.RandomState):
        return {"type": "RandomState", "state": again(node.get_state(legacy=False))}
    if isinstance(node, types.ModuleType):
        return f"module {node.__name__}"
    if isinstance(node, types.MethodType):
        return {"method": again(node.__func__), "of": again(node.__self__)}
    if isinstance(node, type):
        return f"{_name(node)}#{_digest([_class(node, within)])}"
    if isinstance(node, types.FunctionType):
        return f"{_name(node)}#{_digest(_function(node, within))}"
    if hasattr(node, "__wrapped__"):  # compiled
        return {"wrapped": again(node.__wrapped__)}
    if callable(node) and not hasattr(node, "__dict__"):
        return _name(node)
    kind = type(node).__name__ if _is_library(type(node)) else again(type(node))
    if dataclasses.is_dataclass(node):
        return {"type": kind, **{field.name: again(getattr(node, field.name)) for field in dataclasses.fields(node)}}
    slots = [name for cls in type(node).__mro__ for name in getattr(cls, "__slots__", ()) if hasattr(node, name)]
    attributes = {name: getattr(node, name) for name in slots if name not in ("__dict__", "__weakref__")}
    attributes |= getattr(node, "__dict__", {})
    return {"type": kind, **{name: again(value) for name, value in attributes.items()}}


def _array(array: np.ndarray[Any, Any], most: int) -> Any:
    if array.size <= most:
        return array.tolist()
    digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]
    return {"shape": list(array.shape), "sha256": digest}


def _function(function: types.FunctionType, within: tuple[int, ...]) -> list[Any]:
    """Everything about a function that decides what it computes."""
    again = functools.partial(_described, most=64, within=within)
    code = function.__code__
    cells = [again(cell.cell_contents) for cell in function.__closure__ or () if _is_filled(cell)]
    # The module it was defined in, since a library's decorator copies the name of what it decorates.
    home = str(function.__globals__.get("__name__", ""))
    outer = {} if _is_installed(home.split(".")[0]) else _outer(function, again)
    return [_code(code, again), again(function.__defaults__), again(function.__kwdefaults__), cells, outer]


def _outer(function: types.FunctionType, again: Describe) -> dict[str, Any]:
    """What a user's function refers to by name: data, functions and classes in its module, or attributes of modules."""
    names = set(_names(function.__code__))
    outer: dict[str, Any] = {}
    for name in sorted(names & set(function.__globals__)):
        value = function.__globals__[name]
        if isinstance(value, types.ModuleType):
            if not _is_installed(value.__name__.split(".")[0]):
                inner = {part: getattr(value, part) for part in sorted(names) if hasattr(value, part)}
                outer[name] = {part: again(item) for part, item in inner.items() if not _is_library(item)}
        elif not _is_library(value):
            outer[name] = again(value)
    return outer


def _class(cls: type, within: tuple[int, ...]) -> list[dict[str, Any]]:
    """The functions and the data of a user's class and of its parents."""
    again = functools.partial(_described, most=64, within=within)
    described = []
    for part in cls.__mro__:
        if not _is_library(part):
            members = {
                name: value for name, value in vars(part).items() if not name.startswith("__") or callable(value)
            }
            members = {
                name: getattr(value, "__func__", getattr(value, "fget", value)) for name, value in members.items()
            }
            described.append(
                {name: again(value) for name, value in members.items() if name not in ("__weakref__", "__dict__")}
            )
    return described


def _code(code: types.CodeType, again: Describe) -> list[Any]:
    constants = [
        _code(part, again) if isinstance(part, types.CodeType) else _constant(part, again) for part in code.co_consts
    ]
    return [code.co_code.hex(), constants, list(code.co_names)]


def _constant(part: Any, again: Describe) -> Any:
    return again(part) if isinstance(part, tuple | frozenset) else repr(part)


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            yield from _names(part)


def _is_library(thing: Any) -> bool:
    module = getattr(thing, "__module__", None) or ""
    if not isinstance(thing, type | types.FunctionType | types.BuiltinFunctionType) and not callable(thing):
        return False
    return _is_installed(str(module).split(".")[0])


@functools.cache
def _is_installed(package: str) -> bool:
    """Whether a package is the library's own or comes from where packages are installed: it is named, not described."""
    if package in _LIBRARIES:
        return True
    file = getattr(sys.modules.get(package), "__file__", None)
    return file is not None and any(Path(file).is_relative_to(home) for home in _HOMES)


def _is_filled(cell: types.CellType) -> bool:
    return cell != types.CellType()  # an empty cell is a name that is not bound yet


def _name(thing: Any) -> str:
    return f"{getattr(thing, '__module__', '?')}:{getattr(thing, '__qualname__', type(thing).__name__)}"


def _digest(described: Any) -> str:
    return hashlib.sha256(json.dumps(described, sort_keys=True, default=repr).encode()).hexdigest()[:12]
