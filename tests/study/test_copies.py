"""Copies of files of studies."""

import subprocess
import sys

import pytest
from market import PROBLEM, answer, run, stored

import performative as pf
from performative.study import StudyDamaged, StudyError
from performative.study.copies import copy

METHOD = pf.repeated_gradient(PROBLEM)


def test_a_copy_of_a_study_in_use_holds_all_that_was_acknowledged(study, path, tmp_path):
    """Its latest events are in SQLite's log alone."""
    pf.Study.create(path, "us", METHOD).close()
    run(study, 3)
    to = tmp_path / "copy.db"
    assert copy(path, to) == ["eu", "us"]
    assert [*tmp_path.glob("copy.db-*")] == []
    assert stored(to) == stored(path)
    run(study, 4)
    with pf.Study.open(to, "eu", METHOD) as copied:
        assert copied.verify().events == study.count - 2
        deployment = copied.ask()
        copied.tell(deployment, answer(deployment))
    study.copy(tmp_path / "another.db")
    assert stored(tmp_path / "another.db") == stored(path)


def test_a_copy_replaces_nothing(study, path, tmp_path):
    for name in ("copy.db", "other.db-wal"):
        (tmp_path / name).write_text("mine")
        with pytest.raises(StudyError, match=rf"{name} exists; a copy replaces nothing"):
            study.copy(tmp_path / name.removesuffix("-wal"))
        assert (tmp_path / name).read_text() == "mine"
    assert not (tmp_path / "other.db").exists()
    with pytest.raises(StudyError, match=r"the directory of .* does not exist"):
        study.copy(tmp_path / "nowhere" / "copy.db")
    with pytest.raises(StudyError, match="does not exist; create a study"):
        copy(tmp_path / "none.db", tmp_path / "new.db")
    assert not (tmp_path / "new.db").exists()


def test_a_damaged_file_is_not_copied(study, path, tmp_path):
    run(study, 3)
    study.close()
    content = path.read_bytes()
    damaged = bytearray(content)
    place = content.find(stored(path)[0][1][1]) + 80
    damaged[place] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(StudyDamaged, match="is damaged"):
        copy(path, tmp_path / "copy.db")
    assert [*tmp_path.glob("copy.db*")] == []


WRITE = """
import sys, time
import performative as pf
from benchmarks import soak
with pf.Study.open(sys.argv[1], "eu", soak.simple()) as study:
    print("open", flush=True)
    while True:
        study.note("again")
        time.sleep(0.001)
"""


def test_copies_while_another_process_writes(tmp_path):
    """Each is a whole beginning of the log."""
    from benchmarks import soak

    path = tmp_path / "prices.db"
    pf.Study.create(path, "eu", soak.simple()).close()
    writer = subprocess.Popen([sys.executable, "-c", WRITE, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert writer.stdout.readline() == "open\n"
        for place in range(4):
            assert copy(path, tmp_path / f"{place}.db") == ["eu"]
    finally:
        writer.kill()
        writer.communicate()
    whole = stored(path)[0]
    counts = []
    for place in range(4):
        events = stored(tmp_path / f"{place}.db")[0]
        assert events == whole[: len(events)]
        counts.append(len(events))
    assert counts == sorted(counts)
    assert len(whole) > counts[0]
