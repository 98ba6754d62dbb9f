"""A SQLite file that holds studies: what makes it one, how it is opened, and SQLite's errors in plain words."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from performative.errors import StudyBusy, StudyDamaged, StudyError

FORMAT = 2
"""The version of the file's format. Others are refused."""
BUSY_SECONDS = 5.0
"""How long a writer waits for another writer, which holds the file for one commit."""
_APPLICATION = 0x70657266
_SCHEMA = """
CREATE TABLE studies (study INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE heads (study INTEGER PRIMARY KEY, seq INTEGER NOT NULL, digest BLOB NOT NULL);
CREATE TABLE snapshots (study INTEGER PRIMARY KEY, state BLOB NOT NULL);
CREATE TABLE events (key INTEGER PRIMARY KEY, record BLOB NOT NULL);
CREATE TRIGGER events_are_not_changed BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events are only added'); END;
CREATE TRIGGER events_are_not_deleted BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'events are only added'); END;
"""


def connected(path: Path, mode: str) -> sqlite3.Connection:
    """A connection to read ("ro"), to write ("rw"), or to write and create the file if need be ("rwc")."""
    connection = _connect(path, f"mode={mode}")
    if mode != "ro":
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")  # the store gathers the log itself: see `mark`
        return connection
    try:
        connection.execute("SELECT count(*) FROM sqlite_master")
    except Exception as error:
        connection.close()
        if not isinstance(error, sqlite3.OperationalError):
            raise
        log = Path(f"{path}-wal")
        beside = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
        if not beside or (log.exists() and log.stat().st_size):
            raise
        # Where no file can be created beside it, nobody writes to it either.
        connection = _connect(path, "mode=ro&immutable=1")
    connection.execute("PRAGMA query_only = ON")
    return connection


def _connect(path: Path, options: str) -> sqlite3.Connection:
    uri = f"file:{quote(str(path))}?{options}"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_SECONDS, check_same_thread=False)


def prepare(path: Path, connection: sqlite3.Connection) -> None:
    """Create the tables, unless they exist."""
    if not holds_studies(path, connection):
        for statement in _statements():
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")


def _statements() -> list[str]:
    """What makes the tables, as SQLite keeps it."""
    return _SCHEMA.strip().removesuffix(";").split(";\n")


def holds_studies(path: Path, connection: sqlite3.Connection) -> bool:
    """Whether the file holds studies; False if it is empty, and an error if it is anything else."""
    (application,), (version,) = (
        connection.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
    )
    tables = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master")}
    ours = tables >= {*_statements()}
    if application == _APPLICATION:
        if version > FORMAT:
            raise StudyError(
                f"{path} has format {version}, but this version of performative reads format {FORMAT}; was the file written by a "
                "newer version?"
            )
        if version < FORMAT:
            raise StudyError(
                f"{path} has format {version}, which an earlier version of performative wrote; export its studies with that "
                "version, and give the data to new ones as `history`"
            )
        if not ours:
            raise StudyDamaged(f"{path} is damaged: its tables are not those of a file of studies")
        return True
    if ours:
        raise StudyDamaged(
            f"{path} is damaged: it has the tables of a file of studies, but its header says that it is none"
        )
    if tables or application or version:
        raise StudyError(f"{path} is not a file of studies, but another kind of SQLite file")
    return False


def require_studies(path: Path, connection: sqlite3.Connection) -> None:
    """Refuse a file that holds no studies."""
    if not holds_studies(path, connection):
        raise StudyError(f"{path} is not a file of studies, since it is empty; create a study with Study.create")


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """All of it or nothing."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def failures(path: Path) -> Iterator[None]:
    """SQLite's errors in plain words."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            raise StudyBusy(f"another process is writing to {path}; nothing was changed, so try again") from error
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        if code & 0xFF == sqlite3.SQLITE_ERROR:  # our statements fit the tables that were made, so these changed
            raise StudyDamaged(f"{path} is damaged: {error}") from error
        raise StudyError(f"{path} could not be read or written; nothing was changed: {error}") from error
    except sqlite3.ProgrammingError as error:
        if "closed database" not in str(error):
            raise
        raise StudyError(f"the study in {path} was closed; open it again") from error
    except sqlite3.DatabaseError as error:
        if "not a database" in str(error) and not _claims_studies(path):
            raise StudyError(f"{path} is not a file of studies: {error}") from error
        raise StudyDamaged(f"{path} is damaged: {error}") from error
    except UnicodeDecodeError as error:
        raise StudyDamaged(f"{path} is damaged: a name in it is not text") from error


def _claims_studies(path: Path) -> bool:
    """Whether the header of a file, which SQLite does not take for its own, says that it holds studies."""
    with path.open("rb") as file:
        return file.read(72)[68:] == _APPLICATION.to_bytes(4)


def identity(path: Path) -> tuple[int, int] | None:
    """Which file it is, whatever its name; None if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def size(path: Path) -> int | None:
    """How many bytes a file has; None if there is none."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return None


def sync_directory(directory: Path) -> None:
    """Make the creation of a file in a directory durable."""
    if os.name == "posix":
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
