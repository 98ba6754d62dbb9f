"""Jobs: batches of realizations, with everything their result depends on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from performative.numerics.pytrees import plain_classes
from performative.simulation.engine import World

LANES = 50
"""Realisations in one batch. Fixed, so that results do not depend on how many workers share the batches."""
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
