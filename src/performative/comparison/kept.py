"""Finished and begun parts of a comparison on disk, so that an interrupted one resumes."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import jax
import numpy as np

from performative import __version__
from performative.comparison.results import Record, Skipped
from performative.provenance import describe


class Kept:
    """One method on one problem in a directory: its result, once it is finished, and its checkpoint until then."""

    def __init__(self, directory: Path, task: Any) -> None:
        case = task.case
        whole = [
            __version__,
            jax.__version__,
            describe([case.problem, case.environment, case.optimum, task.own], most=10**6),
            [
                case.name,
                task.name,
                task.deployments,
                task.rounds,
                task.realizations,
                task.seed,
                task.samples,
                task.start,
            ],
        ]
        digest = hashlib.sha256(json.dumps(whole, default=repr).encode()).hexdigest()[:16]
        self.checkpoint = directory / digest
        self._path = directory / f"{digest}.npz"

    def finished(self) -> Record | Skipped | None:
        """The result, if it is there and can be read; a file that a crash left unreadable is computed again."""
        if not self._path.exists():
            return None
        try:
            with np.load(self._path) as stored:
                arrays = dict(stored)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile):
            return None
        if "skipped" in arrays:
            return Skipped(*(str(part) for part in arrays["skipped"]))
        deployments, seconds = arrays.pop("deployments").tolist(), float(arrays.pop("seconds"))
        optimum = {name: arrays.pop(name) for name in list(arrays) if name.startswith("optimum")}
        return Record(arrays, deployments, seconds, optimum)

    def finish(self, outcome: Record | Skipped) -> None:
        """Keep the result, and the checkpoint no longer."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        arrays: dict[str, Any]
        if isinstance(outcome, Skipped):
            arrays = {"skipped": np.asarray(list(outcome))}
        else:
            arrays = (
                outcome.variables
                | outcome.optimum
                | {"deployments": np.asarray(outcome.deployments), "seconds": outcome.seconds}
            )
        temporary = self._path.with_suffix(f".{os.getpid()}.tmp")
        with temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self._path)
        for part in self.checkpoint.glob("*"):
            part.unlink()
        if self.checkpoint.exists():
            self.checkpoint.rmdir()
