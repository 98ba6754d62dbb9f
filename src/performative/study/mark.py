"""A mark that shows whether SQLite's log is missing beside a file: the file has it, and the log takes it away.

Events are in the log first, so a file that is copied without it, while it is in use, lacks the latest ones. When a writer gathers
the log into the file, it writes the mark before, and removes it afterward: the removal is in the log alone. Whoever
reads both sees no mark, whoever reads the file alone does, and once the log is gathered for good, there is none. No
process needs to close the file for that, and no event takes a row of its own.
"""

from __future__ import annotations

import contextlib
import sqlite3
import warnings
from pathlib import Path

from performative.errors import StudyWarning
from performative.study import file

_ROW = 1 << 22
"""The mark's place among the heads of studies, of which there are never so many."""


def put(connection: sqlite3.Connection) -> None:
    """Write the mark, in the transaction under way."""
    connection.execute("INSERT OR IGNORE INTO heads VALUES (?, 0, x'')", (_ROW,))


def remove(connection: sqlite3.Connection) -> None:
    """Remove the mark, in a transaction of its own unless one is under way."""
    connection.execute("DELETE FROM heads WHERE study = ?", (_ROW,))


def gather(connection: sqlite3.Connection) -> bool:
    """Move marked events from SQLite's log into the file itself; whether that worked. If not, they are still safe in the log."""
    with contextlib.suppress(sqlite3.OperationalError):
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        remove(connection)
        return True
    return False


def has_log(path: Path) -> bool:
    """Whether SQLite's log is beside a file, with anything in it."""
    size = file.size(Path(f"{path}-wal"))
    return size is not None and size > 0


def warn(path: Path, connection: sqlite3.Connection) -> None:
    """Say that a file was in use, if its log, which was not there before, still is not."""
    if connection.execute("SELECT 1 FROM heads WHERE study = ?", (_ROW,)).fetchone() and not has_log(path):
        warnings.warn(
            f"{path} was in use when it was last written, but {path}-wal is not beside it: if the file was copied or moved "
            "without it, or that file was deleted, the latest events may be missing; `performative study copy` copies them, too",
            StudyWarning,
            stacklevel=4,
        )
