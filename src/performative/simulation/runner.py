"""Runs jobs, here or in other processes, and writes checkpoints on the way."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence

import jax

from performative.environments.host import HostWorld
from performative.numerics.memory import give_back
from performative.numerics.precision import precise
from performative.numerics.pytrees import make_known
from performative.simulation.checkpoints import resume, save
from performative.simulation.engine import Batch
from performative.simulation.jobs import Job, Piece
from performative.simulation.processes import cluster_backend, in_processes, pack, unpack
from performative.simulation.progress import ignore, progress_bar

SAVE_EVERY = 10.0
"""Seconds between checkpoints: the most that a killed process loses, apart from the compiled call it is in."""


def run_jobs(jobs: Sequence[Job], workers: int, progress: bool | None, cluster: str | None = None) -> list[Piece]:
    """All pieces, in order; by `workers` processes, or on the cluster at an address such as dask://host:port."""
    show = sys.stderr.isatty() if progress is None else progress
    total = jobs[0].rounds[-1]
    with progress_bar(show, total * len(jobs)) as advance:
        if cluster is None and (workers == 1 or len(jobs) == 1):
            return [run_job(job, advance) for job in jobs]
        pieces = []
        for piece in _in_parallel(jobs, workers, cluster):
            pieces.append(piece)
            advance(total)
        return pieces


def run_job(job: Job, advance: Callable[[int], None] | None = None) -> Piece:
    """Run a batch to its end, from its checkpoint if there is one."""
    report = advance or ignore
    make_known(job.plain)
    with precise():
        try:
            return _run(job, report)
        except (jax.errors.JaxRuntimeError, ValueError):
            for row in job.worlds:
                for world in row:
                    if isinstance(world.environment, HostWorld):
                        world.environment.raise_failure()
            raise


def _run(job: Job, report: Callable[[int], None]) -> Piece:
    """The batch, in float64."""
    batch = Batch(job.worlds, job.lanes, job.seed)
    recorded = resume(job, batch)
    report(batch.round - 1)
    saved = time.monotonic()
    try:
        for target in job.rounds[len(recorded) :]:
            for stop in _stops(batch.round, target + 1, job.chunk):
                rounds = stop - batch.round
                batch.advance(stop)
                report(rounds)
                if time.monotonic() - saved > SAVE_EVERY:
                    save(job, batch, recorded)
                    saved = time.monotonic()
            recorded.append(jax.tree.map(lambda values: values[..., : job.asked], batch.snapshot()))
    finally:  # done, or interrupted
        save(job, batch, recorded)
        for world in (world for row in job.worlds for world in row):
            if isinstance(world.environment, HostWorld):
                world.environment.release()
    give_back()
    return recorded


def _stops(start: int, end: int, chunk: int | None) -> Iterator[int]:
    """Where compiled calls end on the way from `start` to `end`: every `chunk` rounds, or about every half second."""
    size, t = chunk or 256, start
    while t < end:
        clock = time.monotonic()
        t = min(t + size, end)
        yield t
        if chunk is None and time.monotonic() - clock < 0.25:
            size *= 2


def _in_parallel(jobs: Sequence[Job], workers: int, cluster: str | None) -> Iterator[Piece]:
    """Pieces of all jobs, in order."""
    import joblib

    if cluster is None:
        yield from in_processes(run_job, jobs, workers)
        return
    with cluster_backend(cluster):
        yield from joblib.Parallel(n_jobs=-1)(joblib.delayed(_run_packed)(pack(job)) for job in jobs)


def _run_packed(job: bytes) -> Piece:
    return run_job(unpack(job))
