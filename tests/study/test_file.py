"""Files that hold studies, others, and how they may be opened."""

import contextlib
import os
import shutil
import sqlite3
import tempfile
from pathlib import Path

import pytest
from benchmarks import soak
from market import PROBLEM, answer, stored

import performative as pf
from performative.study import StudyBusy, StudyError, file


def test_a_file_that_is_not_a_study_and_one_of_another_version(path):
    method = pf.repeated_gradient(PROBLEM)
    path.write_text("prices: 1, 2, 3\n" * 100)
    content = path.read_bytes()
    for call in (pf.Study.open, pf.Study.create):
        with pytest.raises(StudyError, match="is not a file of studies"):
            call(path, "eu", method)
    assert path.read_bytes() == content
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE prices (x)")
    connection.close()
    content = path.read_bytes()
    for call in (pf.Study.open, pf.Study.create):
        with pytest.raises(StudyError, match="another kind of SQLite file"):
            call(path, "eu", method)
    assert path.read_bytes() == content
    path.unlink()
    pf.Study.create(path, "eu", method).close()
    for other, match in (
        (file.FORMAT + 1, f"has format {file.FORMAT + 1}, but this version of performative reads format {file.FORMAT}"),
        (file.FORMAT - 1, "which an earlier version of performative wrote; export its studies with that version"),
    ):
        connection = sqlite3.connect(path)
        connection.execute(f"PRAGMA user_version = {other}")
        connection.close()
        content = path.read_bytes()
        for call in (pf.Study.open, pf.Study.create):
            with pytest.raises(StudyError, match=match):
                call(path, "us", method)
        assert path.read_bytes() == content


@contextlib.contextmanager
def nobody():
    """As a user who owns nothing: the rights of a file mean nothing to root."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


@pytest.mark.parametrize("directory", [0o555, 0o777])
def test_a_read_only_file(directory):
    home = Path(tempfile.mkdtemp(dir="/tmp"))  # that everyone may enter
    path = home / "prices.db"
    try:
        with pf.Study.create(path, "eu", soak.simple()) as study:
            soak_run(study, 3)
            method = study.method
            study.history()  # imports, while that is allowed
        content = path.read_bytes()
        path.chmod(0o444)
        home.chmod(directory)
        with nobody(), pf.Study.open(path, "eu", method) as study:
            assert study.state.round == 3
            with pytest.raises(StudyError, match="could not be read or written; nothing was changed"):
                study.note("no")
            assert study.history().sizes["deployment"] == 2
        assert path.read_bytes() == content
    finally:
        home.chmod(0o755)
        shutil.rmtree(home)


def soak_run(study, rounds):
    while (deployment := study.ask()).round < rounds:
        study.tell(deployment, soak.answer(deployment))


def test_a_file_that_another_process_holds_is_busy(study, path, monkeypatch):
    monkeypatch.setattr(file, "BUSY_SECONDS", 0.1)
    deployment = study.ask()
    before = stored(path)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pf.Study.open(path, "eu", study.method) as other:  # a reader is not held up
        assert other.ask().id == deployment.id
        with pytest.raises(StudyBusy, match="another process is writing to"):
            other.tell(deployment, answer(deployment))
    holder.execute("ROLLBACK")
    holder.close()
    assert stored(path) == before
    study.tell(deployment, answer(deployment))
