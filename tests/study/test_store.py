"""The file of a study: every change to it is found, and nothing is lost or half written."""

import resource
import shutil
import sqlite3

import numpy as np
import pytest
from market import PROBLEM, answer, run, stored

import performative as pf
from performative.study import StudyDamaged, StudyError, store

METHOD = pf.repeated_gradient(PROBLEM)


def test_large_records_are_read_one_by_one(study, path, monkeypatch):
    monkeypatch.setattr(store, "_BYTES", 2_000)
    with study:
        for t in range(6):
            deployment = study.ask()
            study.tell(deployment, answer(deployment._replace(samples=1 + 100 * (t % 2))))
        longest, read = [], study._session.log.store._read

        def counted(first, last):
            records = read(first, last)
            longest.append(sum(len(record.body) for record in records) if len(records) > 1 else 0)
            return records

        monkeypatch.setattr(study._session.log.store, "_read", counted)
        assert study.verify().told == 6
        assert max(longest) < 6_000
    with pf.Study.open(path, "eu", METHOD) as study:
        assert study.count == 13


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of a file with a study of 30 rounds."""
    path = tmp_path_factory.mktemp("whole") / "prices.db"
    with pf.Study.create(path, "eu", METHOD) as study:
        run(study, 30)
    return path.read_bytes()


def test_every_changed_bit_of_a_record_or_snapshot_is_found(path, whole):
    path.write_bytes(whole)
    random = np.random.default_rng(0)
    (events, heads, snapshots), seen = stored(path), 0
    for blob in [record for _, record in events[:: len(events) // 8]] + [heads[0][2], snapshots[0][1]]:
        place = whole.find(blob)
        if place < 0:  # in pieces, on several pages
            continue
        seen += 1
        damaged = bytearray(whole)
        damaged[place + int(random.integers(len(blob)))] ^= 1 << int(random.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(StudyDamaged, match=r"is damaged|holds"):
            pf.Study.open(path, "eu", METHOD)
        assert path.read_bytes() == damaged
    assert seen > 6


def test_random_damage_is_an_error_or_changes_nothing(path, whole):
    path.write_bytes(whole)
    good = stored(path)
    random = np.random.default_rng(1)
    errors = 0
    for _ in range(60):
        damaged = bytearray(whole)
        damaged[int(random.integers(len(whole)))] ^= 1 << int(random.integers(8))
        path.write_bytes(damaged)
        try:
            pf.Study.open(path, "eu", METHOD).close()
        except StudyError:
            errors += 1
            assert path.read_bytes() == damaged
        else:
            assert stored(path) == good
        for extra in path.parent.glob("*-*"):
            extra.unlink()
    assert errors > 10


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 0.99])
def test_a_truncated_file(path, whole, share):
    cut = whole[: int(share * len(whole))]
    path.write_bytes(cut)
    with pytest.raises(StudyError, match=r"damaged|could not be read|is empty|not a database"):
        pf.Study.open(path, "eu", METHOD)
    assert path.read_bytes() == cut


def test_events_are_only_added(study, path):
    run(study, 3)
    study.close()
    connection = sqlite3.connect(path)
    for statement in ("DELETE FROM events", "UPDATE events SET record = x'00'"):
        with pytest.raises(sqlite3.IntegrityError, match="only added"):
            connection.execute(statement)
    connection.close()


def test_a_directory_that_vanishes(tmp_path):
    (tmp_path / "here").mkdir()
    path = tmp_path / "here" / "prices.db"
    with pf.Study.create(path, "eu", METHOD) as study:
        deployment = study.ask()
        shutil.rmtree(tmp_path / "here")
        with pytest.raises(StudyError, match="moved, deleted or replaced"):
            study.tell(deployment, answer(deployment))
        assert not (tmp_path / "here").exists()


def test_a_full_disk(study, path):
    """The file may not grow: what cannot be written is refused, and the study continues once there is room."""
    with study:
        run(study, 3)
        deployment = study.ask()
        before = stored(path)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        large = answer(deployment, 20_000)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        try:
            with pytest.raises(StudyError, match="could not be read or written; nothing was changed"):
                study.tell(deployment, large)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert stored(path) == before
        study.tell(deployment, large)
        assert study.verify().told == 3
