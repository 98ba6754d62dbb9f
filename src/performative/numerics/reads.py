"""What your functions and objects read besides their arguments: globals, closures, defaults and attributes, ready to compare.

What JAX has compiled once knows nothing of a global variable that changed since. These readings are part of what a compiled
program is found by, so that it is never used with other values than those it was compiled with.
"""

from __future__ import annotations

import builtins
import contextvars
import dis
import enum
import functools
import hashlib
import pickle
import sys
import types
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

Reading = Any
"""A text for a number, a string or an array; for anything else a tuple of its kind and pairs (name, reading)."""
_LONGEST = 80
_MANY = 64


def reading(thing: Any) -> Reading:
    """Everything about a function or an object that decides what it computes.

    Installed packages and what their modules hold are taken as constant; what they hold on to of yours is not.
    """
    return _Walk().of(thing)


def reads(function: Any) -> Reading:
    """What a function given to the library reads besides its arguments, () if nothing. Its own code is not part of it.

    The numbers in a `Partial`, or in another callable that JAX knows as a pytree, are arguments of compiled programs and are
    not part of it either.
    """
    walk = _Walk()
    if isinstance(function, jax.tree_util.Partial):
        function = function.func
    if not jax.tree_util.all_leaves([function]):
        return walk.behavior(type(function))
    if isinstance(function, types.FunctionType):
        return walk.inputs(function)
    described = walk.of(function)
    return described if isinstance(described, tuple) and described[1] else ()


def changes(before: Reading, now: Reading, path: str = "") -> Iterator[tuple[str, str, str]]:
    """The name, the old and the new value of everything that differs between two readings."""
    if before == now:
        return
    parts = [_parts(side) for side in (before, now)]
    if parts[0] is None or parts[1] is None:
        yield path, _shown(before), _shown(now)
        return
    names = list(dict.fromkeys([*parts[0], *parts[1]]))
    inner = [
        change
        for name in names
        for change in changes(parts[0].get(name, "nothing"), parts[1].get(name, "nothing"), _joined(path, name))
    ]
    yield from inner or [(path, _shown(before), _shown(now))]


class _Facts(NamedTuple):
    """What the code of a function says about it; the code is kept, so that its id stays its own."""

    code: types.CodeType
    globals: tuple[str, ...]
    names: tuple[str, ...]
    digest: str


class _Walk:
    """One look at a thing; what is reached twice is looked at once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Reading]] = {}

    def of(self, thing: Any) -> Reading:
        """The reading of anything."""
        if thing is None or isinstance(thing, bool | int | float | complex | str | bytes | enum.Enum | np.generic):
            return _text(repr(thing))
        if id(thing) not in self._known:
            self._known[id(thing)] = (thing, "itself")
            self._known[id(thing)] = (thing, self._inside(thing))
        return self._known[id(thing)][1]

    def _inside(self, thing: Any) -> Reading:
        if getattr(thing, "runs_on_host", False):  # a HostWorld is never compiled
            return "host"
        if isinstance(thing, np.ma.MaskedArray):
            masked = (("data", thing.data), ("mask", np.ma.getmaskarray(thing)), ("fill_value", thing.fill_value))
            return "masked", tuple((name, self.of(part)) for name, part in masked)
        if isinstance(thing, np.ndarray | jax.Array) or hasattr(type(thing), "__array__"):
            return _array(thing)
        if isinstance(thing, dict):
            return "dict", tuple((f"[{key!r}]", self.of(value)) for key, value in thing.items())
        if isinstance(thing, list | tuple):
            numbers = _numbers(thing)
            return numbers or ("list", tuple((f"[{i}]", self.of(value)) for i, value in enumerate(thing)))
        if isinstance(thing, set | frozenset):
            return "set", tuple(("", item) for item in sorted(map(self.of, thing), key=repr))
        if isinstance(thing, functools.partial):
            named = (("function", thing.func), ("arguments", thing.args), ("keywords", thing.keywords))
            return "partial", tuple((name, self.of(part)) for name, part in named if part)
        if isinstance(thing, types.FunctionType):
            return self._helper(thing)
        if isinstance(thing, types.MethodType):
            return "method", (("function", self.of(thing.__func__)), ("self", self.of(thing.__self__)))
        if isinstance(thing, type):
            return _name(thing), self.behavior(thing)
        if isinstance(thing, staticmethod | classmethod):
            return self.of(thing.__func__)
        if isinstance(thing, property):
            return self.of(thing.fget)
        if isinstance(thing, functools.cached_property):
            return self.of(thing.func)
        if isinstance(thing, types.ModuleType):
            return _name(thing)
        if isinstance(thing, contextvars.ContextVar):
            return "ContextVar", (("", self._current(thing)),)
        if isinstance(thing, types.GeneratorType):
            return self._generator(thing)
        if hasattr(thing, "__wrapped__"):  # compiled, say
            return "wrapped", (("", self.of(thing.__wrapped__)),)
        return self._object(thing)

    def _helper(self, function: types.FunctionType) -> Reading:
        """A function that another one calls. JAX may have kept its program (as a jitted function, the body of a loop)."""
        result = (f"{_name(function)}#{_facts(function.__code__).digest}", self.inputs(function))
        if not is_installed(function.__globals__.get("__name__")):
            if _helpers.get(function, result) != result:
                jax.clear_caches()  # programs of single functions cannot be dropped
            _helpers[function] = result
        return result

    def _current(self, variable: contextvars.ContextVar[Any]) -> Reading:
        try:
            return self.of(variable.get())
        except LookupError:  # it has no value and no default
            return "nothing"

    def _generator(self, generator: types.GeneratorType[Any, Any, Any]) -> Reading:
        """How far a generator is, and what it knows there."""
        frame, code = generator.gi_frame, generator.gi_code
        kind = f"{code.co_qualname}#{_facts(code).digest}"
        if frame is None:
            return kind, (("position", "the end"),)
        known = (("locals", dict(frame.f_locals)), ("from", generator.gi_yieldfrom))
        return kind, (("position", str(frame.f_lasti)), *((name, self.of(part)) for name, part in known if part))

    def inputs(self, function: types.FunctionType) -> tuple[tuple[str, Reading], ...]:
        """What a function reads besides its arguments, by name."""
        found: list[tuple[str, Reading]] = []
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if cell == types.CellType():  # a name that is not bound yet
                continue
            if isinstance(cell.cell_contents, types.ModuleType):
                found += self._module(name, cell.cell_contents, _facts(function.__code__).names, set())
            else:
                found.append((name, self.of(cell.cell_contents)))
        for name in ("__defaults__", "__kwdefaults__", "__dict__"):
            part = getattr(function, name)
            if part:
                found.append((name, self.of(part)))
        if not is_installed(function.__globals__.get("__name__")):
            found += self._globals(function)
        return tuple(found)

    def _globals(self, function: types.FunctionType) -> Iterator[tuple[str, Reading]]:
        facts, scope = _facts(function.__code__), function.__globals__
        for name in facts.globals:
            value = scope.get(name, builtins)
            if value is builtins and name not in scope:
                if not hasattr(builtins, name):
                    yield name, "nothing"
            elif isinstance(value, types.ModuleType):
                yield from self._module(name, value, facts.names, set())
            elif not _is_of_library(value):
                yield name, self.of(value)

    def _module(
        self, path: str, module: types.ModuleType, names: tuple[str, ...], seen: set[int]
    ) -> Iterator[tuple[str, Reading]]:
        """What code with these names may read of a module of yours and of those that it holds, each looked at once."""
        if is_installed(module.__name__) or id(module) in seen:
            return
        seen.add(id(module))
        held = vars(module)
        for name in names:
            if isinstance(held.get(name), types.ModuleType):
                yield from self._module(f"{path}.{name}", held[name], names, seen)
            elif name in held:
                yield f"{path}.{name}", self.of(held[name])

    def behavior(self, cls: type) -> tuple[tuple[str, Reading], ...]:
        """The functions and the data of a class of yours and of its parents."""
        return tuple(
            (name, self.of(member))
            for part in cls.__mro__
            if not is_installed(part.__module__)
            for name, member in vars(part).items()
            if name not in _MACHINERY
            and not isinstance(member, types.MemberDescriptorType | types.GetSetDescriptorType)
        )

    def _object(self, thing: Any) -> Reading:
        cls = type(thing)
        held = dict(getattr(thing, "__dict__", {}))
        for part in cls.__mro__:
            slots = vars(part).get("__slots__", ())
            held |= {n: getattr(thing, n) for n in ((slots,) if isinstance(slots, str) else slots) if hasattr(thing, n)}
        if not held and is_installed(cls.__module__):
            return _pickled(thing)
        mine = () if is_installed(cls.__module__) else (("class", self.of(cls)),)
        values = (
            (name, self.of(value))
            for name, value in held.items()
            if not isinstance(getattr(cls, name, None), functools.cached_property) or _reassigned(thing, name, value)
        )
        return cls.__name__, (*mine, *values)


_MACHINERY = {"__dict__", "__weakref__", "__doc__", "__module__", "__slots__", "__annotations__", "__match_args__"} | {
    "__dataclass_fields__",
    "__dataclass_params__",
    "__firstlineno__",
    "__static_attributes__",
    "__abstractmethods__",
    "_abc_impl",
    "__parameters__",
    "__orig_bases__",
}
_helpers: weakref.WeakKeyDictionary[types.FunctionType, Reading] = weakref.WeakKeyDictionary()
_codes: dict[int, _Facts] = {}
_cached: dict[int, tuple[weakref.ref[Any], dict[str, Reading]]] = {}
"""The first values of cached properties, by the id of their object."""


def _reassigned(thing: Any, name: str, value: Any) -> bool:
    """Whether a cached property, which appears when it is first used, has another number or array now than at first."""
    if not isinstance(value, int | float | complex | str | np.generic | np.ndarray | jax.Array):
        return False  # objects may grow as they are used
    key = id(thing)
    if key not in _cached:
        if not hasattr(thing, "__weakref__"):
            return False
        _cached[key] = (weakref.ref(thing, lambda _: _cached.pop(key, None)), {})
    now = reading(value)
    return bool(_cached[key][1].setdefault(name, now) != now)


def _facts(code: types.CodeType) -> _Facts:
    known = _codes.get(id(code))
    if known is None:
        globals_, names, digest = set(), set(code.co_names), hashlib.blake2b(code.co_code, digest_size=6)
        for instruction in dis.get_instructions(code):
            if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                globals_.add(str(instruction.argval))
        digest.update(repr(code.co_names).encode())
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                inner = _facts(constant)
                globals_ |= set(inner.globals)
                names |= set(inner.names)
                digest.update(inner.digest.encode())
            else:
                digest.update(repr(constant).encode())
        known = _codes[id(code)] = _Facts(code, tuple(sorted(globals_)), tuple(sorted(names)), digest.hexdigest())
    return known


@functools.cache
def is_installed(module: str | None) -> bool:
    """Whether a module belongs to Python, to this library or to another installed package, and not to the user."""
    package = (module or "").split(".")[0]
    if package == "__main__":  # whose file, in a worker process or a notebook, is that of a package
        return False
    if package in sys.stdlib_module_names or package in ("performative", "jax", "jaxlib", "numpy", "scipy", "cvxpy"):
        return True
    home = getattr(sys.modules.get(package), "__file__", None) or ""
    return "site-packages" in home or "dist-packages" in home


def _is_of_library(value: Any) -> bool:
    """Whether a value that a function names is a function or a class of a library."""
    if isinstance(value, types.FunctionType):
        return is_installed(value.__globals__.get("__name__")) and not value.__closure__
    if isinstance(value, type) or (callable(value) and not hasattr(value, "__dict__")):
        return is_installed(getattr(value, "__module__", None))
    wrapped = getattr(value, "__wrapped__", None)
    return isinstance(wrapped, types.FunctionType) and _is_of_library(wrapped)


def _array(thing: Any) -> str:
    if isinstance(thing, jax.core.Tracer):
        return f"traced {id(thing)}"
    if isinstance(thing, jax.Array) and jax.numpy.issubdtype(thing.dtype, jax.dtypes.prng_key):
        thing = jax.random.key_data(thing)
    array = np.asarray(thing)
    if array.dtype == object:
        return _pickled(array)
    kind = f"{array.dtype.name}{list(array.shape)}"
    if array.size <= 4:
        return f"{kind} {array.tolist()}"
    return f"{kind} #{_digest(np.ascontiguousarray(array).data)}"


def _numbers(items: Any) -> str | None:
    """Many plain numbers, by their digest."""
    if len(items) <= _MANY or not all(type(item) in (int, float, bool) for item in items):
        return None
    return _text(repr(items))


def _pickled(thing: Any) -> str:
    try:
        return f"{_name(type(thing))} #{_digest(pickle.dumps(thing))}"
    except (pickle.PicklingError, TypeError, AttributeError):  # then its kind is all that can be known
        return _name(type(thing))


def _text(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:20]}… #{_digest(text.encode())}"


def _digest(content: bytes | memoryview) -> str:
    return hashlib.blake2b(content, digest_size=12).hexdigest()


def _name(thing: Any) -> str:
    return f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', type(thing).__name__)}"


def _parts(side: Reading) -> dict[str, Reading] | None:
    """The named parts of a reading; None for a text."""
    if isinstance(side, str):
        return None
    pairs = side[1] if len(side) == 2 and isinstance(side[0], str) else side
    return {name: part for name, part in pairs if isinstance(name, str)}


def _joined(path: str, name: str) -> str:
    if not path or not name or name.startswith("["):
        return path + name
    return name if name in ("function", "self", "class", "") else f"{path}.{name}"


def _shown(side: Reading) -> str:
    return side if isinstance(side, str) else side[0] if side and isinstance(side[0], str) else "something else"
