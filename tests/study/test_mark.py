"""Files that were in use and have no log beside them: they are said, and no others are."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from benchmarks import soak
from market import PROBLEM, run, stored

import performative as pf
from performative.study import StudyWarning, store
from performative.study.copies import copy

METHOD = pf.repeated_gradient(PROBLEM)


def opened(path, method=METHOD):
    """How many events a file shows to a reader, and whether it is said that some may be missing."""
    with (
        warnings.catch_warnings(record=True, action="always") as caught,
        pf.Study.open(path, "eu", method, readonly=True) as study,
    ):
        count = study.count
    assert {one.category for one in caught} <= {StudyWarning}
    assert all("was in use when it was last written" in str(one.message) for one in caught)
    return count, bool(caught)


@pytest.fixture
def taken(path, tmp_path):
    """Copies the file as it is now, with what is beside it or without, and opens the copy."""

    def take(*beside):
        to = tmp_path / f"{len([*tmp_path.iterdir()])}.db"
        for ending in ("", *beside):
            shutil.copy(f"{path}{ending}", f"{to}{ending}")
        return opened(to)

    return take


def test_a_copy_of_the_file_alone_says_that_events_may_be_missing(study, path, taken):
    assert taken() == (1, False)
    study.ask()
    study.note("in the log alone")
    assert taken("-wal") == (3, False)
    count, said = taken()
    assert said
    assert count < 3
    study.close()
    assert taken() == (3, False)


def test_a_log_that_was_deleted_is_missed(tmp_path):
    path = killed(tmp_path)
    Path(f"{path}-wal").unlink()
    Path(f"{path}-shm").unlink(missing_ok=True)
    count, said = opened(path, soak.simple())
    assert said
    assert count < 4
    with pytest.warns(StudyWarning, match=r"prices\.db-wal is not beside it: .* the latest events may be missing"):
        pf.Study.open(path, "eu", soak.simple(), readonly=True).close()


def test_nothing_is_said_after_a_kill_or_a_program_that_does_not_close(tmp_path):
    path = killed(tmp_path)
    assert opened(path, soak.simple()) == (4, False)
    with sqlite3.connect(path) as other:  # as any tool does: the last one to leave gathers the log and deletes it
        other.execute("SELECT count(*) FROM heads").fetchone()
    other.close()
    assert not Path(f"{path}-wal").exists()
    assert opened(path, soak.simple()) == (4, False)
    subprocess.run([sys.executable, "-c", NOTES.replace("input()", "pass"), str(path)], check=True)
    assert opened(path, soak.simple()) == (7, False)


NOTES = """
import sys
import performative as pf
from benchmarks import soak
study = pf.Study.open(sys.argv[1], "eu", soak.simple())
for word in ("one", "two", "three"):
    study.note(word)
print("noted", flush=True)
input()
"""


def killed(folder):
    """The file of a process that was killed after three notes."""
    path = folder / "prices.db"
    pf.Study.create(path, "eu", soak.simple()).close()
    worker = subprocess.Popen(
        [sys.executable, "-c", NOTES, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert worker.stdout.readline() == "noted\n"
    os.kill(worker.pid, signal.SIGKILL)
    worker.communicate()
    return path


def test_nothing_is_said_of_a_copy_by_the_library(study, path, tmp_path):
    run(study, 2)
    copy(path, tmp_path / "copy.db")
    assert opened(tmp_path / "copy.db") == (study.count, False)
    assert stored(tmp_path / "copy.db") == stored(path)


def test_two_writers_and_gathering_keep_the_mark_as_long_as_one_is_there(study, path, taken, monkeypatch):
    monkeypatch.setattr(store, "GATHER_BYTES", 100_000)  # every sixth event or so
    other = pf.Study.open(path, "eu", METHOD)
    for place in range(10):
        (study, other)[place % 2].note("one more")
        assert taken()[1]
    study.close()
    other.note("the last")
    assert taken()[1]
    other.close()
    assert taken() == (12, False)
    assert len(stored(path)[1]) == 1


def test_events_take_no_row_of_their_own(study, path):
    """The mark is written once by a process that writes, until a minute is over."""
    study.note("opens the file for writing")
    written = []
    study._session.log.store._connection.set_trace_callback(written.append)
    study.note("two")
    study.note("three")
    changes = [one.split("(")[0] for one in written if one.split()[0] not in ("BEGIN", "SELECT", "COMMIT")]
    assert [one.split()[1] for one in changes] == ["heads", "INTO"] * 2
