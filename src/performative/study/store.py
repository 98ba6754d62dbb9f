"""The log of a study in one SQLite file: records chained by their digests, and the last snapshot, as bytes.

A record is D ‖ S ‖ body: D is the SHA-256 digest of all records before it, concatenated, and S that of the snapshot that the
event leaves. The file holds the digest of all records as well, so that no bit of a record or of the snapshot changes unnoticed,
and a million records are verified in one sweep. An event, the digest and the snapshot are written in one transaction.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from performative.errors import StudyDamaged, StudyError
from performative.study import file, wal

_SHIFT = 40
"""Record `seq` of study number s has the key s·2⁴⁰ + seq: one tree, each study in one piece of it."""
_DIGEST = 32
_PIECE, _BYTES = 1000, 2**24
"""How many records, and about how many bytes of them, are read at once."""
GATHER_SECONDS = 60.0
"""How long events may be only in SQLite's log beside the file."""


class Moved(Exception):
    """Another process has added events since the last look."""


class Record(NamedTuple):
    """An event's place in the log, the digest of the snapshot it leaves, and its bytes."""

    seq: int
    state: bytes
    body: bytes


class Store:
    """One study of a file, up to the last event it has read."""

    def __init__(self, path: Path, connection: sqlite3.Connection, study: int, readonly: bool) -> None:
        self.path = path
        self.readonly = readonly
        self._connection, self._writes, self._closed = connection, False, False
        self._gathered = time.monotonic()
        self._study = study
        self._file = file.identity(path)
        self._running = hashlib.sha256()
        self.count = 0
        """How many events there are; the last one is number count − 1."""
        self.state = b""
        """The snapshot."""

    @staticmethod
    def create(path: str | os.PathLike[str], name: str, body: bytes, state: bytes) -> Store:
        """A new study with its first event and snapshot, in a new file or in one that already holds studies."""
        path = Path(path).absolute()
        if not path.parent.is_dir():
            raise StudyError(f"the directory of {path} does not exist")
        _require_whole_log(path)
        if path.exists():
            with file.failures(path), contextlib.closing(file.connected(path, "ro")) as connection:
                if file.holds_studies(path, connection):
                    _require_new(path, connection, name)
        with file.failures(path), contextlib.closing(file.connected(path, "rwc")) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            with file.transaction(connection):
                file.prepare(path, connection)
                _require_new(path, connection, name)
                study = connection.execute("INSERT INTO studies (name) VALUES (?)", (name,)).lastrowid
                assert study is not None
                record = hashlib.sha256().digest() + hashlib.sha256(state).digest() + body
                connection.execute("INSERT INTO events VALUES (?, ?)", (study << _SHIFT, record))
                connection.execute("INSERT INTO heads VALUES (?, 0, ?)", (study, hashlib.sha256(record).digest()))
                connection.execute("INSERT INTO snapshots VALUES (?, ?)", (study, state))
        file.sync_directory(path.parent)
        return Store.open(path, name)

    @staticmethod
    def open(path: str | os.PathLike[str], name: str, readonly: bool = False) -> Store:
        """A stored study, every record of which has been verified. Nothing is written."""
        path = Path(path).absolute()
        if not path.exists():
            raise StudyError(f"{path} does not exist; create a study with Study.create")
        _require_whole_log(path)
        with file.failures(path):
            connection = file.connected(path, "ro")  # it cannot write, not even what the log of a damaged file says
            try:
                file.require_studies(path, connection)
                study = file.number_of(connection, name)
                if study is None:
                    names = ", ".join(repr(other) for (other,) in connection.execute("SELECT name FROM studies"))
                    raise StudyError(f"{path} has no study {name!r}; it holds {names}")
                store = Store(path, connection, study, readonly)
                store.refresh()
            except BaseException:
                connection.close()
                raise
        return store

    @staticmethod
    def names(path: str | os.PathLike[str]) -> list[str]:
        """The studies of a file."""
        path = Path(path).absolute()
        if not path.exists():
            raise StudyError(f"{path} does not exist; create a study with Study.create")
        with file.failures(path), contextlib.closing(file.connected(path, "ro")) as connection:
            if not file.holds_studies(path, connection):
                return []
            return [str(name) for (name,) in connection.execute("SELECT name FROM studies ORDER BY study")]

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
        self._closed = True

    def refresh(self) -> bool:
        """Read up to the last event and verify what is new; whether there was anything."""
        with file.failures(self.path):
            self._require_same_file()
            connection, first = self._connection, self.count
            with file.transaction(connection, "DEFERRED"):
                head = self._head(connection)
                if head is None or not isinstance(head[0], int) or head[0] + 1 < first:
                    raise StudyDamaged(f"{self.path} holds fewer events than before: it was replaced or damaged")
                if head[0] + 1 == first:
                    if head[1] != self._running.digest():
                        raise StudyDamaged(f"{self.path} holds other events than before: it was replaced or damaged")
                    return False
                running, seen, last = self._running.copy(), first, b""
                rows, at_once = connection.execute(*self._between(first, head[0])), 1
                while batch := rows.fetchmany(at_once):
                    records = [record for (record,) in batch]
                    if {*map(type, records)} != {bytes} or min(map(len, records)) <= 2 * _DIGEST:
                        raise StudyDamaged(self._what_is_damaged(first, head[0]))
                    running.update(b"".join(records))
                    seen, last = seen + len(records), records[-1]
                    at_once = max(1, min(2 * at_once, _PIECE, _BYTES // max(map(len, records))))
                if seen != head[0] + 1 or running.digest() != head[1]:
                    raise StudyDamaged(self._what_is_damaged(first, head[0]))
                row = connection.execute("SELECT state FROM snapshots WHERE study = ?", (self._study,)).fetchone()
            if (
                row is None
                or not isinstance(row[0], bytes)
                or hashlib.sha256(row[0]).digest() != last[_DIGEST : 2 * _DIGEST]
            ):
                raise StudyDamaged(f"{self.path} is damaged: the snapshot is not the one that event {head[0]} left")
            self._running, self.count, self.state = running, seen, row[0]
            return True

    def append(self, body: bytes, state: bytes | None = None) -> None:
        """Add an event after the last one read, with the snapshot it leaves if that changes.

        Durable on return. `Moved` if another process was faster; then nothing is changed.
        """
        if self.readonly:
            raise StudyError(
                f"the study in {self.path} must be opened for writing to change it, but was opened with readonly=True"
            )
        after = self.state if state is None else state
        record = self._running.digest() + hashlib.sha256(after).digest() + body
        running = self._running.copy()
        running.update(record)
        with file.failures(self.path):
            connection = self._writing()
            with file.transaction(connection):
                head = (self._study, self.count - 1, self._running.digest())
                update = connection.execute(
                    "UPDATE heads SET seq = ?, digest = ? WHERE study = ? AND seq = ? AND digest = ?",
                    (self.count, running.digest(), *head),
                )
                if update.rowcount != 1:
                    raise Moved
                key = (self._study << _SHIFT) + self.count
                connection.execute("INSERT INTO events VALUES (?, ?)", (key, record))
                if state is not None:
                    connection.execute("UPDATE snapshots SET state = ? WHERE study = ?", (state, self._study))
            self._require_same_file()  # a commit to a deleted file does not count
            if time.monotonic() - self._gathered > GATHER_SECONDS:
                self._gathered = time.monotonic()
                file.gather(connection)
        self._running, self.count, self.state = running, self.count + 1, after

    def records(self, first: int = 0) -> Iterator[Record]:
        """The records from number `first` to the last one read."""
        size = 1
        while first < self.count:  # in pieces, since an open query would pin the file to an older event
            last = min(first + size, self.count) - 1
            records = self._read(first, last)
            yield from records
            first = last + 1
            size = max(1, min(2 * size, _PIECE, _BYTES // max(len(record.body) for record in records)))

    def backward(self) -> Iterator[Record]:
        """The records from the last one read to the first."""
        for seq in range(self.count - 1, -1, -1):
            yield self.record(seq)

    def record(self, seq: int) -> Record:
        """Record number `seq`."""
        return self._read(seq, seq)[0]

    def _read(self, first: int, last: int) -> list[Record]:
        with file.failures(self.path):
            rows = self._connection.execute(*self._between(first, last, "key, record")).fetchall()
            if len(rows) != last - first + 1:
                raise StudyDamaged(self._what_is_damaged(0, self.count - 1))
        base = self._study << _SHIFT
        return [Record(key - base, record[_DIGEST : 2 * _DIGEST], record[2 * _DIGEST :]) for key, record in rows]

    def verify(self) -> None:
        """Verify all records again, and the digest that each holds of those before it."""
        with file.failures(self.path):
            running = hashlib.sha256()
            for (record,) in self._connection.execute(*self._between(0, self.count - 1)):
                if record[:_DIGEST] != running.digest():
                    raise StudyDamaged(self._what_is_damaged(0, self.count - 1))
                running.update(record)
            if running.digest() != self._running.digest():
                raise StudyDamaged(self._what_is_damaged(0, self.count - 1))

    def _head(self, connection: sqlite3.Connection) -> tuple[int, bytes] | None:
        return connection.execute("SELECT seq, digest FROM heads WHERE study = ?", (self._study,)).fetchone()

    def _between(
        self, first: int, last: int, columns: str = "record", order: str = "ORDER BY key"
    ) -> tuple[str, tuple[int, int]]:
        base = self._study << _SHIFT
        return f"SELECT {columns} FROM events WHERE key BETWEEN ? AND ? {order}", (base + first, base + last)

    def _what_is_damaged(self, first: int, last: int) -> str:
        """Which event is the first that differs from what was written."""
        running, expected = self._running.copy() if first else hashlib.sha256(), first
        query, limits = self._between(first, last, "key, record")
        for key, record in self._connection.execute(query, limits):
            seq = key - (self._study << _SHIFT)
            if seq != expected:
                return f"{self.path} is damaged: event {expected} is missing"
            if not _is_record(record):
                return f"{self.path} is damaged: event {seq} differs from what was written"
            if record[:_DIGEST] != running.digest():
                return f"{self.path} is damaged: event {max(seq - 1, 0)} differs from what was written"
            running.update(record)
            expected += 1
        return f"{self.path} is damaged: event {expected - (expected > last)} differs from what was written"

    def _writing(self) -> sqlite3.Connection:
        """The connection, reopened for writing at the first event written."""
        self._require_open()
        if not self._writes:
            connection = file.connected(self.path, "rw")
            try:
                connection.execute("SELECT count(*) FROM sqlite_master")
            except sqlite3.DatabaseError:
                connection.close()
                raise
            self._connection.close()
            self._connection, self._writes = connection, True
        return self._connection

    def _require_open(self) -> None:
        if self._closed:
            raise StudyError(f"the study in {self.path} was closed; open it again")

    def _require_same_file(self) -> None:
        self._require_open()
        if file.identity(self.path) != self._file:
            raise StudyError(f"{self.path} was moved, deleted or replaced while it was in use; open the study again")


def _require_new(path: Path, connection: sqlite3.Connection, name: str) -> None:
    if file.number_of(connection, name) is not None:
        raise StudyError(f"`name` must be new, but {path} already has a study {name!r}; open it with Study.open")


def _require_whole_log(path: Path) -> None:
    """Refuse a file whose SQLite log is damaged: writing to it would lose the events behind the damage."""
    log = Path(f"{path}-wal")
    if wal.is_damaged(log):
        raise StudyDamaged(f"{log} is damaged: events in it would be lost")


def _is_record(value: object) -> bool:
    return isinstance(value, bytes) and len(value) > 2 * _DIGEST
