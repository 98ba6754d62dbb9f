"""The log of a study in one SQLite file: records chained by their digests, and the last snapshot, as bytes.

A record is D ‖ S ‖ body: D is the SHA-256 digest of all records before it, concatenated (in the first one, that of the study's
name), and S that of the snapshot that the event leaves. The file holds the digest of all records as well, so that no bit of a
record or of the snapshot changes unnoticed, and a million records are verified in one sweep. An event, the digest and the
snapshot are written in one transaction.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import sqlite3
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from performative.errors import StudyDamaged, StudyError, StudyWarning
from performative.study import file, mark, wal

_SHIFT = 40
"""Record `seq` of study number s has the key s·2⁴⁰ + seq: one tree, each study in one piece of it."""
_DIGEST = 32
_PIECE, _BYTES = 1000, 2**24
"""How many records, and about how many bytes of them, are read at once."""
GATHER_SECONDS, GATHER_BYTES = 60.0, 2**22
"""How long events may be only in SQLite's log beside the file, and about how large that may grow."""
_PAGES = 2**14
"""About how many bytes an event takes in the log besides its own: whole pages are written."""


class Moved(Exception):
    """Another process has added events since the last look."""


class Record(NamedTuple):
    """An event's place in the log, the digests of the snapshot it leaves and of the records before it, and its bytes."""

    seq: int
    state: bytes
    body: bytes
    before: bytes


class Store:
    """One study of a file, up to the last event it has read."""

    def __init__(self, path: Path, connection: sqlite3.Connection, study: int, readonly: bool) -> None:
        self.path = path
        self.readonly = readonly
        self._connection, self._writes, self._closed = connection, False, False
        self._gathered, self._ungathered = -math.inf, 0
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
                record = _root(name) + hashlib.sha256(state).digest() + body
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
        alone = not mark.has_log(path)
        with file.failures(path):
            connection = file.connected(path, "ro")  # it cannot write, not even what the log of a damaged file says
            try:
                file.require_studies(path, connection)
                study = _studies(path, connection, name).get(name)
                if study is None:
                    names = ", ".join(map(repr, _studies(path, connection)))
                    raise StudyError(f"{path} has no study {name!r}; it holds {names}")
                store = Store(path, connection, study, readonly)
                store.refresh()
                if alone:
                    mark.warn(path, connection)
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
        _require_whole_log(path)
        with file.failures(path), contextlib.closing(file.connected(path, "ro")) as connection:
            if not file.holds_studies(path, connection):
                return []
            return list(_studies(path, connection))

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
                if head is None or not isinstance(head[0], int) or not first - 1 <= head[0] < 1 << _SHIFT:
                    raise StudyDamaged(f"{self.path} holds fewer events than before: it was replaced or damaged")
                if head[0] + 1 == first:
                    if head[1] != self._running.digest():
                        raise StudyDamaged(f"{self.path} holds other events than before: it was replaced or damaged")
                    return False
                running, seen, last = self._running.copy(), first, b""
                rows, at_once = connection.execute(*self._between(first, head[0], "key, record")), 1
                while batch := rows.fetchmany(at_once):
                    keys, records = zip(*batch, strict=True)
                    place = (self._study << _SHIFT) + seen
                    whole = {*map(type, records)} == {bytes} and min(map(len, records)) > 2 * _DIGEST
                    if not whole or keys != (*range(place, place + len(keys)),):
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
            gathers = time.monotonic() - self._gathered > GATHER_SECONDS or self._ungathered > GATHER_BYTES
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
                if gathers:
                    mark.put(connection)
            self._require_same_file()  # a commit to a deleted file does not count
            self._ungathered += _PAGES + len(record) + len(state or b"")
            if gathers and mark.gather(connection):
                self._gathered, self._ungathered = time.monotonic(), 0
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
        return [
            Record(key - base, record[_DIGEST : 2 * _DIGEST], record[2 * _DIGEST :], record[:_DIGEST])
            for key, record in rows
        ]

    @property
    def digest(self) -> bytes:
        """The digest of all records that were read."""
        return self._running.digest()

    def held(self, digest: bytes) -> int:
        """The last of the events whose records, from the first one on, have this digest: what was stored then is unchanged."""
        if digest == self.digest:
            return self.count - 1
        with file.failures(self.path):
            query, limits = self._between(1, self.count - 1, "key", "AND substr(record, 1, ?) = ?")
            row = self._connection.execute(query, (*limits, _DIGEST, digest)).fetchone()
        if row is None:
            raise StudyDamaged(
                f"the study in {self.path} never had the digest {digest.hex()}: events were changed or cut off, or the digest is "
                "of another study"
            )
        return int(row[0]) - (self._study << _SHIFT) - 1

    def verify(self) -> None:
        """Verify all records again, and the digest that each holds of those before it."""
        with file.failures(self.path):
            running = hashlib.sha256()
            for seq, (record,) in enumerate(self._connection.execute(*self._between(0, self.count - 1))):
                if seq and record[:_DIGEST] != running.digest():
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
            if seq and record[:_DIGEST] != running.digest():
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
    if name in _studies(path, connection, name):
        raise StudyError(f"`name` must be new, but {path} already has a study {name!r}; open it with Study.open")


def _studies(path: Path, connection: sqlite3.Connection, only: str | None = None) -> dict[str, int]:
    """The studies of a file by their names, each of which must be the one it was created with: all of them, or `only` one."""
    query = "SELECT study, name, (SELECT substr(record, 1, ?) FROM events WHERE key = study << ?) FROM studies ORDER BY study"
    found = {}
    for study, name, root in connection.execute(query, (_DIGEST, _SHIFT)):
        if only in (None, name):
            if not isinstance(name, str) or root not in (_root(name), _root("")):  # which files had that knew no name
                raise StudyDamaged(f"{path} is damaged: study {study} has another name than it was created with")
            found[name] = study
    return found


def _root(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def _require_whole_log(path: Path) -> None:
    """Refuse a file whose SQLite log is damaged: writing to it would lose the events behind the damage."""
    log = Path(f"{path}-wal")
    dropped = wal.dropped(log)
    if dropped > 1:
        raise StudyDamaged(f"{log} is damaged: events in it would be lost")
    if dropped:
        warnings.warn(
            f"the last event in {log} is not whole and does not count: if the power failed while it was written, nobody was told "
            "that it was stored; otherwise the file is damaged, and the event may be lost",
            StudyWarning,
            stacklevel=2,
        )


def _is_record(value: object) -> bool:
    return isinstance(value, bytes) and len(value) > 2 * _DIGEST
