"""Programs that are compiled once on a machine: what one process traced and compiled, the next one loads.

A program is found by all that decides what it computes: the function, the structure of its arguments down to what your functions
read, the shapes of their arrays, the code of this library, the versions of all packages, and the machine. Tracing and compiling
take seconds, loading a fraction of one. Programs that call back into Python, or return objects of your own classes, are compiled
in every process.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import hashlib
import os
import pickle
import sys
import sysconfig
import tempfile
import weakref
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from performative.numerics.kept import MOST, directory
from performative.numerics.pytrees import Whole
from performative.numerics.reads import is_installed, reading

LOADED = 64
"""How many programs of one function a process holds."""
_ENDING = ".program"
_DIGEST = 32
_listener: contextvars.ContextVar[Callable[[str], None] | None] = contextvars.ContextVar("listener", default=None)


@contextlib.contextmanager
def told_of_compiling(tell: Callable[[str], None]) -> Iterator[None]:
    """Within it, `tell` gets the name of a program when it is about to be compiled, and "" when that is done."""
    token = _listener.set(tell)
    try:
        yield
    finally:
        _listener.reset(token)


class _Loaded(NamedTuple):
    """A compiled program on flat arguments, and the structure of what it returns."""

    call: Callable[..., list[Array]]
    returned: jax.tree_util.PyTreeDef


class _Held:
    """The programs of a process for one function, the last used ones; `first` are arguments that all calls share."""

    def __init__(self, first: list[Any] | None = None) -> None:
        self._first, self._on_device = first or [], False
        self._loaded: OrderedDict[Any, _Loaded] = OrderedDict()
        _everything.add(self)

    def run(self, tree: Any, leaves: list[Any], static: list[Any], find: Callable[[list[Any]], _Loaded]) -> Any:
        if not self._on_device:
            self._first, self._on_device = jax.device_put(self._first), True
        arrays = [*self._first, *(leaf if hasattr(leaf, "dtype") else np.asarray(leaf) for leaf in leaves)]
        key = tree, tuple((array.shape, array.dtype) for array in arrays[len(self._first) :]), tuple(static)
        program = self._loaded.get(key)
        if program is None:
            program = self._loaded[key] = find(arrays)
            if len(self._loaded) > LOADED:
                self._loaded.popitem(last=False)
        return jax.tree.unflatten(program.returned, program.call(*arrays))

    def let_go(self) -> None:
        self._loaded.clear()


_everything: weakref.WeakSet[_Held] = weakref.WeakSet()


def let_go() -> None:
    """Forget all programs of this process, and what JAX has compiled."""
    for held in list(_everything):
        held.let_go()
    jax.clear_caches()


class Program:
    """A function that is compiled once for arguments of one structure and shape, like `jax.jit`, and kept on disk.

    Keywords are static. `options` are compiler options that this version of XLA may not know; then it goes without.

    >>> import numpy as np
    >>> double = Program(lambda pair: {"sum": pair[0] + pair[1]})
    >>> float(double((np.float32(1.0), np.float32(2.0)))["sum"])
    3.0
    """

    def __init__(self, function: Callable[..., Any], options: Mapping[str, str | bool] | None = None) -> None:
        self._function, self._options = function, options
        self._held = _Held()

    def __call__(self, *given: Any, **static: Any) -> Any:
        """What the function returns."""
        leaves, tree = jax.tree.flatten(given)
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):  # a part of another program
            return self._function(*given, **static)
        return self._held.run(tree, leaves, sorted(static.items()), lambda arrays: self._found(tree, arrays, static))

    def of(self, first: Any) -> Callable[..., Any]:
        """The function of its other arguments; the first one is looked at once, and must stay as it is."""
        held = _Held(jax.tree.leaves(first))

        def call(*rest: Any) -> Any:
            leaves, tree = jax.tree.flatten(rest)

            def find(arrays: list[Any]) -> _Loaded:
                return self._found(jax.tree.structure((first, *rest)), arrays, {})

            return held.run(tree, leaves, [], find)

        return call

    def _found(self, tree: jax.tree_util.PyTreeDef, arrays: list[Any], static: dict[str, Any]) -> _Loaded:
        place = self._place(tree, arrays, static)
        kept = None if place is None else _read(place, len(arrays))
        return kept or self._compiled(tree, arrays, static, place)

    def _place(self, tree: jax.tree_util.PyTreeDef, arrays: list[Any], static: dict[str, Any]) -> Path | None:
        """The file that the program is kept in."""
        home = directory() if jax.default_backend() == "cpu" else None
        if home is None:
            return None
        kinds = [(array.shape, str(array.dtype)) for array in arrays]
        settled = sorted(static.items()), sorted((self._options or {}).items())
        function = reading(self._function)
        identity = _surroundings(), _settings(), function, _structure(tree), kinds, settled
        return home / f"{hashlib.sha256(repr(identity).encode()).hexdigest()}{_ENDING}"

    def _compiled(
        self, tree: jax.tree_util.PyTreeDef, arrays: list[Any], static: dict[str, Any], place: Path | None
    ) -> _Loaded:
        returned: list[jax.tree_util.PyTreeDef] = []

        def flat(*leaves: Any) -> list[Any]:
            results, structure = jax.tree.flatten(self._function(*jax.tree.unflatten(tree, leaves), **static))
            returned.append(structure)
            return results

        flat.__name__ = getattr(self._function, "__name__", "program")
        tell = _listener.get()
        if tell is not None:
            tell(flat.__name__.strip("_"))
        lowered = jax.jit(flat).lower(*arrays)
        with _without_jaxs_cache() if place is not None else contextlib.nullcontext():
            try:
                compiled = lowered.compile(compiler_options=None if self._options is None else dict(self._options))
            except jax.errors.JaxRuntimeError:
                if not self._options:
                    raise
                compiled = lowered.compile()
        if tell is not None:
            tell("")
        program = _Loaded(compiled, returned[0])
        if place is not None:
            _keep(place, compiled, program.returned, lowered)
        return program


@contextlib.contextmanager
def _without_jaxs_cache() -> Iterator[None]:
    """Without JAX's own cache, if it is on: what comes from there cannot be written to disk again."""
    from jax.experimental.compilation_cache import compilation_cache

    if not (jax.config.values["jax_enable_compilation_cache"] and jax.config.values["jax_compilation_cache_dir"]):
        yield
        return
    try:
        jax.config.update("jax_enable_compilation_cache", False)
        compilation_cache.reset_cache()
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", True)
        compilation_cache.reset_cache()


def _keep(place: Path, compiled: Any, returned: Any, lowered: Any) -> None:
    """Write a program to disk, if it can be used by another process."""
    from jax.experimental import serialize_executable

    if not _is_library_made(returned) or "callback" in lowered.as_text():
        return
    try:
        example = pickle.dumps(jax.tree.unflatten(returned, range(returned.num_leaves)))
    except (pickle.PicklingError, AttributeError, TypeError):  # a class that no other process can find
        return
    content = zlib.compress(pickle.dumps((serialize_executable.serialize(compiled)[0], example)), level=1)
    try:
        with tempfile.NamedTemporaryFile(dir=place.parent, delete=False) as file:
            file.write(hashlib.sha256(content).digest() + content)
        os.replace(file.name, place)
        _make_room(place.parent)
    except OSError:  # a full disk: the next process compiles again
        return


def _read(place: Path, arguments: int) -> _Loaded | None:
    """The program in a file; None if there is none, or it is damaged."""
    from jax.experimental import serialize_executable

    try:
        content = place.read_bytes()
        os.utime(place)
    except OSError:
        return None
    if hashlib.sha256(content[_DIGEST:]).digest() != content[:_DIGEST]:
        return None
    _make_lapack_ready()
    program, example = pickle.loads(zlib.decompress(content[_DIGEST:]))
    returned: Any = jax.tree.structure(pickle.loads(example))
    taken = jax.tree.structure((tuple(range(arguments)), {}))
    results = jax.tree.structure([*range(returned.num_leaves)])
    return _Loaded(serialize_executable.deserialize_and_load(program, taken, results), returned)


@functools.cache
def _make_lapack_ready() -> None:
    """JAX looks up the routines of LAPACK when it lowers a program that calls one, and not when it loads one."""
    jax.jit(jax.lax.linalg.cholesky).lower(jax.ShapeDtypeStruct((1, 1), np.float32))


def _make_room(home: Path) -> None:
    """Delete the programs that were not used for longest, until the others are few enough."""
    kept = []
    for path in home.glob(f"*{_ENDING}"):
        with contextlib.suppress(FileNotFoundError):  # another process makes room, too
            status = path.stat()
            kept.append((status.st_mtime_ns, status.st_size, path))
    size = sum(one[1] for one in kept)
    for _, bytes_, path in sorted(kept):
        if size <= MOST:
            return
        path.unlink(missing_ok=True)
        size -= bytes_


def _structure(tree: jax.tree_util.PyTreeDef) -> Any:
    """A structure as a text for its leaves, and tuples that any process makes alike."""
    node = tree.node_data()
    if node is None:
        return "array"
    kind, static = node
    mine = () if is_installed(kind.__module__) else reading(kind)
    name = f"{kind.__module__}.{kind.__qualname__}"
    return name, mine, _static(static), tuple(_structure(child) for child in tree.children())


def _static(part: Any) -> Any:
    if isinstance(part, jax.tree_util.PyTreeDef):
        return _structure(part)
    if isinstance(part, Whole):
        return _static(part.values)
    if isinstance(part, tuple | list):
        return tuple(map(_static, part))
    if isinstance(part, dict):
        return tuple((repr(name), _static(value)) for name, value in part.items())
    return repr(part) if isinstance(part, str | bool | int | float | bytes | None) else reading(part)


def _is_library_made(tree: Any) -> bool:
    """Whether a structure consists of classes that another process has, too."""
    node = tree.node_data()
    own = node is None or is_installed(node[0].__module__)
    return own and all(map(_is_library_made, tree.children()))


@functools.cache
def _surroundings() -> tuple[str, ...]:
    """What all programs of a process depend on: versions, packages and the code of this library."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(path.read_bytes())
    homes = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    packages = [f"{home} {os.stat(home).st_mtime_ns}" for home in sorted(homes) if os.path.isdir(home)]
    return (jax.__version__, sys.version, digest.hexdigest(), *packages)


def _settings() -> tuple[str, ...]:
    """JAX's settings that may change what is compiled."""
    from jax import config

    flags = sorted(f"{name}={value}" for name, value in os.environ.items() if name in ("XLA_FLAGS", "NPROC"))
    names = (
        "jax_enable_x64",
        "jax_numpy_dtype_promotion",
        "jax_default_matmul_precision",
        "jax_debug_nans",
        "jax_debug_infs",
    )
    return (
        *flags,
        *(f"{name}={getattr(config, name)}" for name in (*names, "jax_disable_jit", "jax_threefry_partitionable")),
    )
