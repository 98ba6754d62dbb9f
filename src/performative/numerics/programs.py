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
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from jax import Array

from performative.numerics.kept import MOST, directory
from performative.numerics.memory import give_back
from performative.numerics.precision import precise
from performative.numerics.pytrees import Whole
from performative.numerics.reads import is_installed, reading

T = TypeVar("T")
LOADED = 64
"""How many programs of one function a process holds."""
LARGE = 2**19
"""A program of more bytes leaves memory behind when it is loaded that is worth giving back."""
_ENDING = ".program"
_SIZE = 32
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
        if getattr(jax.config, "jax_enable_x64"):  # noqa: B009 - its types do not know it
            return self._run(tree, leaves, static, find)
        with precise():
            return self._run(tree, leaves, static, find)

    def _run(self, tree: Any, leaves: list[Any], static: list[Any], find: Callable[[list[Any]], _Loaded]) -> Any:
        if not self._on_device:
            self._first, self._on_device = jax.device_put(self._first), True
        arrays = [*self._first, *(leaf if hasattr(leaf, "dtype") else np.asarray(leaf) for leaf in leaves)]
        key = tree, tuple((array.shape, array.dtype) for array in arrays[len(self._first) :]), tuple(static)
        program = self.found(key, lambda: find(arrays))
        return jax.tree.unflatten(program.returned, program.call(*arrays))

    def found(self, key: Any, find: Callable[[], _Loaded]) -> _Loaded:
        """The program of this key, found if it is not held yet."""
        program = self._loaded.get(key)
        if program is None:
            program = self._loaded[key] = find()
            if len(self._loaded) > LOADED:
                self._loaded.popitem(last=False)
        return program

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
        self.function, self._options = function, options
        self._held, self._known = _Held(), _Held()

    def __call__(self, *given: Any, **static: Any) -> Any:
        """What the function returns, computed in float64."""
        leaves, tree = jax.tree.flatten(given)
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):  # a part of another program
            return self.function(*given, **static)
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

    def shapes(self, *given: Any) -> Any:
        """What the function returns, with shapes in place of arrays; traced once on a machine, too."""
        leaves, tree = jax.tree.flatten(given)
        with precise():
            arrays = [leaf if hasattr(leaf, "dtype") else np.asarray(leaf) for leaf in leaves]
            kinds = [(tuple(array.shape), str(array.dtype)) for array in arrays]
            place = None
            if not any(kind.startswith("key<") for _, kind in kinds):
                place = _place(_digest(("shapes", self._identity(tree, arrays, {}))))
            content = None if place is None else _content(place)
            if content is None:
                shapes = jax.eval_shape(self.function, *given)
                results = [(tuple(one.shape), str(one.dtype)) for one in jax.tree.leaves(shapes)]
                example = None if place is None else _example(jax.tree.structure(shapes))
                if (
                    place is not None
                    and example is not None
                    and not any(kind.startswith("key<") for _, kind in results)
                ):
                    _write(place, pickle.dumps((example, results)))
                return shapes
            example, results = pickle.loads(content)
            shapes = [jax.ShapeDtypeStruct(shape, np.dtype(kind)) for shape, kind in results]
            return jax.tree.unflatten(jax.tree.structure(pickle.loads(example)), shapes)

    def _found(self, tree: jax.tree_util.PyTreeDef, arrays: list[Any], static: dict[str, Any]) -> _Loaded:
        identity = self._identity(tree, arrays, static)

        def loaded() -> _Loaded:
            place = _program_place(identity)
            kept = None if place is None else _read(place)
            return self._compiled(tree, arrays, static, place) if kept is None else kept.loaded(len(arrays))

        return self._known.found((tree, identity), loaded)

    def _identity(self, tree: jax.tree_util.PyTreeDef, arrays: list[Any], static: dict[str, Any]) -> str:
        """A digest of all that decides about the program in this process."""
        kinds = [(array.shape, str(array.dtype)) for array in arrays]
        settled = sorted(static.items()), sorted((self._options or {}).items())
        return _digest((_settings(), reading(self.function), spelled_out(tree), kinds, settled))

    def _compiled(
        self, tree: jax.tree_util.PyTreeDef, arrays: list[Any], static: dict[str, Any], place: Path | None
    ) -> _Loaded:
        returned: list[jax.tree_util.PyTreeDef] = []

        def flat(*leaves: Any) -> list[Any]:
            results, structure = jax.tree.flatten(self.function(*jax.tree.unflatten(tree, leaves), **static))
            returned.append(structure)
            return results

        flat.__name__ = getattr(self.function, "__name__", "program")
        tell = _listener.get()
        if tell is not None:
            tell(flat.__name__.strip("_"))
        try:
            lowered = jax.jit(flat).lower(*arrays)
            with _without_jaxs_cache() if place is not None else contextlib.nullcontext():
                try:
                    compiled = lowered.compile(compiler_options=None if self._options is None else dict(self._options))
                except jax.errors.JaxRuntimeError:
                    if not self._options:
                        raise
                    compiled = lowered.compile()
        finally:
            if tell is not None:
                tell("")
        give_back()
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


class _Kept(NamedTuple):
    """A program as it is on disk: itself, an example of what it returns, and the shapes and types of its results."""

    program: bytes
    example: bytes
    results: list[tuple[tuple[int, ...], str]]

    def structure(self) -> Any:
        """Of what the program returns."""
        return jax.tree.structure(pickle.loads(self.example))

    def loaded(self, arguments: int) -> _Loaded:
        """The program, ready to run."""
        from jax.experimental import serialize_executable

        if b"lapack_" in self.program:
            _make_lapack_ready()
        taken = jax.tree.structure((tuple(range(arguments)), {}))
        results = jax.tree.structure([*range(len(self.results))])
        loaded = serialize_executable.deserialize_and_load(self.program, taken, results)
        if len(self.program) > LARGE:
            give_back()
        return _Loaded(loaded, self.structure())


def _program_place(identity: str) -> Path | None:
    """The file that a program is kept in."""
    return _place(identity) if jax.default_backend() == "cpu" else None


def _keep(place: Path, compiled: Any, returned: Any, lowered: Any) -> None:
    """Write a program to disk, if it can be used by another process."""
    from jax.experimental import serialize_executable

    example = _example(returned)
    if example is None or "callback" in lowered.as_text():
        return
    results = [(tuple(result.shape), str(result.dtype)) for result in jax.tree.leaves(compiled.out_info)]
    kept = _Kept(serialize_executable.serialize(compiled)[0], example, results)
    _write(place, pickle.dumps(tuple(kept)))


def _example(structure: Any) -> bytes | None:
    """An example of a structure as another process may read it; None if it has classes that no other process can find."""
    if not _is_library_made(structure):
        return None
    try:
        return pickle.dumps(jax.tree.unflatten(structure, range(structure.num_leaves)))
    except (pickle.PicklingError, AttributeError, TypeError):
        return None


def remembered(what: str, identity: Any, compute: Callable[[], T]) -> T:
    """What `compute` returns, or returned in an earlier process where `identity`, which decides about it, was the same.

    It must consist of arrays and objects of this library.
    """
    place = _place(_digest((what, identity)))
    if place is None:
        return compute()
    content = _content(place)
    if content is not None:
        found: T = pickle.loads(content)
        return found
    result = compute()
    _write(place, pickle.dumps(result))
    return result


def _place(identity: str) -> Path | None:
    """The file for what this, the library and the machine decide about, if there is a directory for it."""
    home = directory()
    return None if home is None else home / f"{_digest((_surroundings(), identity))}{_ENDING}"


def _digest(parts: Any) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _write(place: Path, content: bytes) -> None:
    packed = zlib.compress(content, level=1)
    try:
        with tempfile.NamedTemporaryFile(dir=place.parent, delete=False) as file:
            file.write(hashlib.sha256(packed).digest() + packed)
        os.replace(file.name, place)
        _make_room(place.parent)
    except OSError:  # a full disk: the next process computes it again
        return


def _content(place: Path) -> bytes | None:
    """What was written to a file; None if there is none, or it is damaged."""
    try:
        packed = place.read_bytes()
        os.utime(place)
    except OSError:
        return None
    if hashlib.sha256(packed[_SIZE:]).digest() != packed[:_SIZE]:
        return None
    return zlib.decompress(packed[_SIZE:])


def _read(place: Path) -> _Kept | None:
    """The program in a file, if there is one."""
    content = _content(place)
    return None if content is None else _Kept(*pickle.loads(content))


@functools.cache
def _make_lapack_ready() -> None:
    """JAX looks up the routines of LAPACK when it lowers a program that calls one, and not when it loads one."""
    jax.jit(jax.lax.linalg.cholesky).lower(jax.ShapeDtypeStruct((1, 1), np.float32))


def _make_room(home: Path) -> None:
    """Delete the programs that were not used for longest, until the others are few enough."""
    kept = []
    with os.scandir(home) as entries:
        for entry in entries:
            if entry.name.endswith(_ENDING):
                with contextlib.suppress(FileNotFoundError):  # another process makes room, too
                    status = entry.stat()
                    kept.append((status.st_mtime_ns, status.st_size, entry.path))
    size = sum(one[1] for one in kept)
    for _, bytes_, path in sorted(kept):
        if size <= MOST:
            return
        Path(path).unlink(missing_ok=True)
        size -= bytes_


def spelled_out(tree: jax.tree_util.PyTreeDef) -> Any:
    """A structure as a text for its leaves, and tuples that any process makes alike."""
    node = tree.node_data()
    if node is None:
        return "array"
    kind, static = node
    mine = () if is_installed(kind.__module__) else reading(kind)
    name = f"{kind.__module__}.{kind.__qualname__}"
    return name, mine, _static(static), tuple(spelled_out(child) for child in tree.children())


def _static(part: Any) -> Any:
    if isinstance(part, jax.tree_util.PyTreeDef):
        return spelled_out(part)
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


def is_installed_throughout(thing: Any) -> bool:
    """Whether a pytree is made of numbers, and of classes and functions of this library and installed packages alone.

    >>> from jax.tree_util import Partial
    >>> is_installed_throughout([1.0, Partial(np.add, 2.0)]), is_installed_throughout(object())
    (True, False)
    """
    leaves, tree = jax.tree.flatten(thing)
    plain = all(isinstance(leaf, jax.Array | np.ndarray | np.generic | bool | int | float) for leaf in leaves)
    return plain and _is_installed_throughout(tree)


def _is_installed_throughout(part: Any) -> bool:
    if isinstance(part, jax.tree_util.PyTreeDef):
        node = part.node_data()
        if node is None:
            return True
        kind, static = node
        return is_installed(kind.__module__) and all(map(_is_installed_throughout, (static, *part.children())))
    if isinstance(part, Whole):
        return _is_installed_throughout(part.values)
    if isinstance(part, tuple | list):
        return all(map(_is_installed_throughout, part))
    if isinstance(part, dict):
        return all(map(_is_installed_throughout, part.values()))
    if part is None or isinstance(part, str | bool | int | float | bytes):
        return True
    if isinstance(part, functools.partial):
        return _is_installed_throughout((part.func, part.args, part.keywords))
    home = part if hasattr(part, "__qualname__") or isinstance(part, np.ufunc) else type(part)
    module = "numpy" if isinstance(part, np.ufunc) else home.__module__
    return is_installed(module)


@functools.cache
def library() -> str:
    """The digest of this library's code."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@functools.cache
def _surroundings() -> tuple[str, ...]:
    """What all programs of a process depend on: versions, packages and the code of this library."""
    homes = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    packages = [f"{home} {os.stat(home).st_mtime_ns}" for home in sorted(homes) if os.path.isdir(home)]
    return (jax.__version__, sys.version, library(), *packages)


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
