"""Jobs: how realizations are divided into batches, with everything their result depends on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from performative.numerics.pytrees import plain_classes
from performative.simulation.engine import World

LANES = 50
"""Realizations in one batch: a fixed number, so that results do not depend on how many workers share the batches."""
Recorded = dict[str, dict[str, np.ndarray[Any, Any]]]
Piece = list[Recorded]
"""The result of a batch: snapshots at its recorded rounds, or at the first of them if it was interrupted."""


class Job(NamedTuple):
    """A batch to run: the worlds of each realization (one per variant), and everything its result depends on."""

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
    """Realization r runs on instance r modulo their number; a batch is a stretch of `batch` realizations."""
    # A worker process would read JAX arrays back in single precision, but not NumPy arrays.
    worlds = [[jax.device_get(world) for world in row] for row in worlds]
    jobs = []
    for first in range(0, realizations, batch):
        lanes = range(first, min(first + batch, realizations))
        path = None if directory is None else directory / f"batch-{first:06d}.npz"
        jobs.append(
            Job([worlds[lane % len(worlds)] for lane in lanes], lanes, seed, rounds, chunk, path, plain_classes())
        )
    return jobs
