"""Worker processes, here or on a Dask or Ray cluster."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from performative.numerics.precision import precise

T = TypeVar("T")
Result = TypeVar("Result")


def in_processes(function: Callable[[T], Result], things: Iterable[T], workers: int) -> Iterator[Result]:
    """function(thing) for each thing, in order, by `workers` processes with one core each."""
    import joblib

    calls = (joblib.delayed(_on_one_core)(pack((function, thing))) for thing in things)
    with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
        yield from joblib.Parallel(n_jobs=workers, batch_size=1, return_as="generator")(calls)


def _on_one_core(packed: bytes) -> Any:
    os.environ.setdefault("NPROC", "1")  # or XLA's threads would compete with those of the other processes
    function, thing = unpack(packed)
    return function(thing)


def pack(thing: Any) -> bytes:
    """Anything as bytes for another process, your own functions and classes included."""
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
def cluster_backend(cluster: str) -> Iterator[None]:
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
