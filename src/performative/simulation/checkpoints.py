"""Checkpoints: what a batch keeps on disk, so that an interrupted run resumes."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import zipfile
from typing import Any

import jax
import numpy as np

from performative import __version__
from performative.provenance import describe
from performative.simulation.engine import Batch
from performative.simulation.jobs import Job, Piece, Recorded
from performative.truth.metrics import Tally


def finished_so_far(job: Job) -> Piece | None:
    """What the checkpoint of this job has recorded; None if there is no checkpoint."""
    if job.checkpoint is None or not job.checkpoint.exists():
        return None
    stored = _load(job)
    return _unpacked(stored)


def fingerprint(job: Job) -> str:
    """A digest of everything the result of a job depends on, except the machine."""
    described = [describe([world.methods, world.environment, world.truth]) for row in job.worlds for world in row]
    sums = [field.name for field in dataclasses.fields(Tally)]
    whole = [__version__, jax.__version__, sums, described, list(job.lanes), job.asked, job.seed, job.rounds]
    return hashlib.sha256(json.dumps(whole).encode()).hexdigest()


def resume(job: Job, batch: Batch) -> list[Recorded]:
    """Put a batch where its checkpoint stopped, and return what was recorded until then."""
    if job.checkpoint is None or not job.checkpoint.exists():
        return []
    stored = _load(job)
    leaves, tree = jax.tree.flatten(batch.runs)
    runs = jax.tree.unflatten(tree, [_like(leaf, stored[f"run/{i}"]) for i, leaf in enumerate(leaves)])
    batch.restore(int(stored["round"]), runs)
    return _unpacked(stored)


def save(job: Job, batch: Batch, recorded: list[Recorded]) -> None:
    """Write the checkpoint of a batch, keeping the old one until the new one is on disk."""
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
            f"the checkpoint {job.checkpoint} cannot be read: {error}; delete it to start again"
        ) from error
    if str(stored["fingerprint"]) != fingerprint(job):
        raise ValueError(
            f"the checkpoint {job.checkpoint} belongs to another run (different numbers, settings or versions); "
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
