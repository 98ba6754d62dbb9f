"""A copy of a file of studies, which may be in use: one moment of it, verified."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from performative.errors import StudyError
from performative.study import file, mark
from performative.study.store import Store


def copy(path: str | os.PathLike[str], to: str | os.PathLike[str]) -> list[str]:
    """Copy all studies of the file at `path` to a new file at `to`, with what SQLite's log holds, and name them.

    Other processes may write meanwhile: the copy is what the file held at one moment. Every record of it is verified.
    """
    path, to = Path(path).absolute(), Path(to).absolute()
    held = Store.names(path)  # refuses what must not be copied
    if not to.parent.is_dir():
        raise StudyError(f"the directory of {to} does not exist")
    beside = [Path(f"{to}{ending}") for ending in ("", "-wal", "-shm", "-journal")]
    there = next((one for one in beside if one.exists()), None)
    if there is not None:
        raise StudyError(f"{there} exists; a copy replaces nothing, so choose another name or move it away")
    to.touch(exist_ok=False)
    try:
        with file.failures(to), contextlib.closing(sqlite3.connect(to, isolation_level=None)) as copied:
            with file.failures(path), contextlib.closing(file.connected(path, "ro")) as source:
                source.backup(copied)
            copied.execute("SELECT count(*) FROM sqlite_master").fetchone()  # so that it tidies up when it is closed
            if held:
                mark.remove(copied)
            names = Store.names(to)
            for name in names:
                with contextlib.closing(Store.open(to, name, readonly=True)) as store:
                    store.verify()
        file.sync_directory(to.parent)
    except BaseException:
        for one in beside:
            one.unlink(missing_ok=True)
        raise
    return names
