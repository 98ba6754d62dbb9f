"""Jobs: how realizations are divided into batches, with everything their result depends on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from performative.environments.host import HostWorld
from performative.numerics.pytrees import plain_classes
from performative.simulation.engine import World

LANES = 50
"""The most realizations in one batch."""
Recorded = dict[str, dict[str, np.ndarray[Any, Any]]]
Piece = list[Recorded]
"""The result of a batch: snapshots at its recorded rounds, or at the first of them if it was interrupted."""


class Job(NamedTuple):
    """A batch to run: the worlds of each realization (one per variant), and everything its result depends on.

    `lanes` are the numbers of its realizations, of which the first `asked` were asked for: the last batch is filled up, so that
    one program serves all of them.
    """

    worlds: list[list[World]]
    lanes: range
    asked: int
    seed: int
    rounds: list[int]
    chunk: int | None
    checkpoint: Path | None
    plain: tuple[type, ...]


def batch_size(realizations: int) -> int:
    """Realizations in one batch: two batches at least, so that two processes share them, and at most LANES in each.

    It follows from the number of realizations alone, so that results do not depend on how many workers there are.

    >>> [batch_size(realizations) for realizations in (1, 2, 5, 100, 120)]
    [1, 1, 3, 50, 40]
    """
    batches = max(min(2, realizations), -(-realizations // LANES))
    return -(-realizations // batches)


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
    # Nobody's simulator is run for realizations that nobody asked for.
    fills_up = realizations > batch and not any(isinstance(world.environment, HostWorld) for world in worlds[0])
    jobs = []
    for first in range(0, realizations, batch):
        asked = min(batch, realizations - first)
        lanes = range(first, first + (batch if fills_up else asked))
        path = None if directory is None else directory / f"batch-{first:06d}.npz"
        rows = [worlds[lane % len(worlds)] for lane in lanes]
        jobs.append(Job(rows, lanes, asked, seed, rounds, chunk, path, plain_classes()))
    return jobs
