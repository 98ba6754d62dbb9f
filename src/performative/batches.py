"""Batches of realisations, run here or in other processes, and kept in checkpoints on the way."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import json
import os
import sys
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np

from performative import __version__
from performative.descriptions import describe
from performative.engine import Batch, World
from performative.precision import precise
from performative.pytrees import make_known, plain_classes

LANES = 50
"""Realisations in one batch. Fixed, so that results do not depend on how many workers share the batches."""
SAVE_EVERY = 10.0
"""Seconds between checkpoints: what a killed process loses at most, next to the compiled call under way."""

T = TypeVar("T")
Result = TypeVar("Result")
Recorded = dict[str, dict[str, np.ndarray[Any, Any]]]
Piece = list[Recorded]
"""What a batch has to show: snapshots at the first so many recorded rounds."""


class Job(NamedTuple):
    """A batch to run: the worlds of each realisation (one per variant), and everything its result depends on."""

    worlds: list[list[World]]
    realizations: range
    seed: int
    rounds: list[int]
    chunk: int | None
    checkpoint: Path | None
    plain: tuple[type, ...]


def make_jobs(
    worlds: list[list[World]],
    realizations: int,
    seed: int,
    rounds: list[int],
    batch: int,
    chunk: int | None,
    directory: Path | None,
) -> list[Job]:
    """Realisation r runs on instance r modulo their number; batches are stretches of `batch` realisations."""
    # JAX arrays would be read back in single precision by a worker process, NumPy arrays are not.
    worlds = [[jax.device_get(world) for world in row] for row in worlds]
    jobs = []
    for first in range(0, realizations, batch):
        lanes = range(first, min(first + batch, realizations))
        path = None if directory is None else directory / f"batch-{first:06d}.npz"
        jobs.append(
            Job([worlds[lane % len(worlds)] for lane in lanes], lanes, seed, rounds, chunk, path, plain_classes())
        )
    return jobs


def run_jobs(jobs: Sequence[Job], workers: int, progress: bool | None, cluster: str | None = None) -> list[Piece]:
    """All pieces, in order; by `workers` processes, or on the cluster at an address such as dask://host:port."""
    show = sys.stderr.isatty() if progress is None else progress
    total = jobs[0].rounds[-1]
    with _progress(show, total * len(jobs)) as advance:
        if cluster is None and (workers == 1 or len(jobs) == 1):
            return [run_job(job, advance) for job in jobs]
        pieces = []
        for piece in _spread(jobs, workers, cluster):
            pieces.append(piece)
            advance(total)
        return pieces


def run_job(job: Job, advance: Callable[[int], None] | None = None) -> Piece:
    """Run a batch to its end, from its checkpoint if there is one."""
    tell = advance or _ignore
    make_known(job.plain)
    with precise():
        batch = Batch(job.worlds, job.realizations, job.seed)
        recorded = _resume(job, batch)
        tell(batch.round - 1)
        saved = time.monotonic()
        try:
            for target in job.rounds[len(recorded) :]:
                for stop in _stops(batch.round, target + 1, job.chunk):
                    ran = stop - batch.round
                    batch.advance(stop)
                    tell(ran)
                    if time.monotonic() - saved > SAVE_EVERY:
                        _save(job, batch, recorded)
                        saved = time.monotonic()
                recorded.append(batch.snapshot())
        finally:  # done, or interrupted
            _save(job, batch, recorded)
        return recorded


def finished_so_far(job: Job) -> Piece | None:
    """What a checkpoint of this very job holds, without running anything."""
    if job.checkpoint is None or not job.checkpoint.exists():
        return None
    stored = _load(job)
    return _unpacked(stored)


def fingerprint(job: Job) -> str:
    """A digest of everything the result of a job depends on, but for the machine."""
    described = [describe([world.methods, world.environment, world.truth]) for row in job.worlds for world in row]
    whole = [__version__, jax.__version__, described, list(job.realizations), job.seed, job.rounds]
    return hashlib.sha256(json.dumps(whole).encode()).hexdigest()


def _resume(job: Job, batch: Batch) -> list[Recorded]:
    if job.checkpoint is None or not job.checkpoint.exists():
        return []
    stored = _load(job)
    leaves, tree = jax.tree.flatten(batch.runs)
    runs = jax.tree.unflatten(tree, [_like(leaf, stored[f"run/{i}"]) for i, leaf in enumerate(leaves)])
    batch.restore(int(stored["round"]), runs)
    return _unpacked(stored)


def _save(job: Job, batch: Batch, recorded: list[Recorded]) -> None:
    if job.checkpoint is None:
        return
    job.checkpoint.parent.mkdir(parents=True, exist_ok=True)
    arrays = {f"run/{i}": _plain(leaf) for i, leaf in enumerate(jax.tree.leaves(batch.runs))}
    for position, snapshot in enumerate(recorded):
        for method, variables in snapshot.items():
            arrays |= {f"recorded/{position}/{method}/{name}": value for name, value in variables.items()}
    temporary = job.checkpoint.with_suffix(f".{os.getpid()}.tmp")
    with temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, round=batch.round, fingerprint=fingerprint(job), **arrays)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, job.checkpoint)


def _load(job: Job) -> dict[str, Any]:
    assert job.checkpoint is not None
    try:
        with np.load(job.checkpoint) as archive:
            stored = {name: archive[name] for name in ("round", "fingerprint", *archive)}
    except (OSError, ValueError, EOFError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"the checkpoint {job.checkpoint} cannot be read: {error}; delete it to start afresh"
        ) from error
    if str(stored["fingerprint"]) != fingerprint(job):
        raise ValueError(
            f"the checkpoint {job.checkpoint} is of another run (other numbers, settings or versions); "
            "choose another directory or delete it"
        )
    return stored


def _unpacked(stored: dict[str, Any]) -> list[Recorded]:
    recorded: dict[int, Recorded] = {}
    for name, value in stored.items():
        if name.startswith("recorded/"):
            _, position, rest = name.split("/", 2)
            method, _, variable = rest.rpartition("/")
            recorded.setdefault(int(position), {}).setdefault(method, {})[variable] = value
    return [recorded[position] for position in range(len(recorded))]


def _plain(leaf: Any) -> np.ndarray[Any, Any]:
    is_key = jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if is_key else leaf)


def _like(leaf: Any, stored: np.ndarray[Any, Any]) -> Any:
    if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(jax.numpy.asarray(stored), impl="threefry2x32")
    return jax.numpy.asarray(stored)


def _stops(start: int, end: int, chunk: int | None) -> Iterator[int]:
    """Where compiled calls end on the way from `start` to `end`: every `chunk` rounds, or about every half second."""
    size, t = chunk or 256, start
    while t < end:
        clock = time.monotonic()
        t = min(t + size, end)
        yield t
        if chunk is None and time.monotonic() - clock < 0.25:
            size *= 2


def _spread(jobs: Sequence[Job], workers: int, cluster: str | None) -> Iterator[Piece]:
    import joblib

    if cluster is None:
        yield from in_processes(run_job, jobs, workers)
        return
    with _backend(cluster):
        yield from joblib.Parallel(n_jobs=-1)(joblib.delayed(_run_packed)(pack(job)) for job in jobs)


def _run_packed(job: bytes) -> Piece:
    return run_job(unpack(job))


def in_processes(function: Callable[[T], Result], things: Iterable[T], workers: int) -> Iterator[Result]:
    """function(thing) for all things, in order, by so many processes of one core each."""
    import joblib

    calls = (joblib.delayed(_on_one_core)(pack((function, thing))) for thing in things)
    with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
        yield from joblib.Parallel(n_jobs=workers, batch_size=1, return_as="generator")(calls)


def _on_one_core(packed: bytes) -> Any:
    os.environ.setdefault("NPROC", "1")  # XLA's threads, which would stand in the way of the other processes'
    function, thing = unpack(packed)
    return function(thing)


def pack(thing: Any) -> bytes:
    """Anything as bytes for another process, the user's own functions and classes included."""
    import cloudpickle

    return cloudpickle.dumps(thing)


def unpack(packed: bytes) -> Any:
    """What was packed. JAX would read its arrays back in single precision outside of `precise`."""
    import cloudpickle

    with precise():
        return cloudpickle.loads(packed)


def check_cluster(cluster: str) -> tuple[str, str]:
    """The kind of a cluster and its address."""
    scheme, _, address = cluster.partition("://")
    if scheme not in ("dask", "ray") or not address:
        raise ValueError(f"`cluster` must be dask://host:port or ray://host:port, but got {cluster!r}")
    package = {"dask": "distributed", "ray": "ray"}[scheme]
    if importlib.util.find_spec(package) is None:
        raise ValueError(f"`cluster` {cluster!r} needs the package {package}, which is not installed")
    return scheme, address


@contextlib.contextmanager
def _backend(cluster: str) -> Iterator[None]:
    """joblib's backend for an address: dask://host:port, or ray://host:port."""
    import joblib

    scheme, address = check_cluster(cluster)
    if scheme == "dask":
        from distributed import Client

        try:
            client = Client(f"tcp://{address}", timeout=10)
        except OSError as error:
            raise ValueError(f"`cluster` must be reachable, but {cluster} is not: {error}") from error
        with client, joblib.parallel_config(backend="dask", client=client, wait_for_workers_timeout=60):
            yield
    else:
        import ray
        from ray.util.joblib import register_ray

        try:
            ray.init(cluster)
        except (ConnectionError, RuntimeError) as error:
            raise ValueError(f"`cluster` must be reachable, but {cluster} is not: {error}") from error
        register_ray()
        with joblib.parallel_config(backend="ray"):
            yield


def _ignore(rounds: int) -> None:
    """Batches in other processes report when they are done."""


class _progress:
    """A progress bar over rounds, or nothing; a context that gives the function to advance it."""

    def __init__(self, show: bool, total: int) -> None:
        self._bar: Any = None
        self._total = total
        if show:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TimeRemainingColumn(),
            )
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)

    def __enter__(self) -> Callable[[int], None]:
        if self._bar is None:
            return _ignore
        self._bar.start()
        return functools.partial(self._bar.advance, self._bar.add_task("rounds", total=self._total))

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
