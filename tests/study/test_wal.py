"""Damage in SQLite's write-ahead log."""

from pathlib import Path

import pytest
from market import PROBLEM, run

import performative as pf
from performative.study import StudyDamaged, StudyWarning

METHOD = pf.repeated_gradient(PROBLEM)


@pytest.fixture(scope="module")
def left(tmp_path_factory):
    """What a killed process leaves: the bytes of the file and of SQLite's log, and how many events they hold."""
    path = tmp_path_factory.mktemp("left") / "prices.db"
    with pf.Study.create(path, "eu", METHOD) as study:
        run(study, 10)
        return path.read_bytes(), Path(f"{path}-wal").read_bytes(), study.count


@pytest.fixture
def copy(tmp_path, left):
    path = tmp_path / "copy.db"
    path.write_bytes(left[0])
    return path


def test_a_whole_log_is_read(copy, left):
    _, whole, count = left
    Path(f"{copy}-wal").write_bytes(whole)
    with pf.Study.open(copy, "eu", METHOD, readonly=True) as same:
        assert same.verify().events == count


@pytest.mark.parametrize("place", [0, 8, 16, 25, 32 + 8, 32 + 4120 * 9 + 8, 32 + 4120 * 9 + 1000, 32 + 4120 * 20 + 3])
def test_a_log_that_is_damaged_in_the_middle(copy, left, place):
    """SQLite alone would drop what lies behind the damage without a word."""
    content, whole, _ = left
    log = Path(f"{copy}-wal")
    damaged = bytearray(whole)
    damaged[place] ^= 4
    log.write_bytes(damaged)
    for call, name in ((pf.Study.open, "eu"), (pf.Study.create, "us")):
        with pytest.raises(StudyDamaged, match=r"copy\.db-wal is damaged"):
            call(copy, name, METHOD)
    assert (copy.read_bytes(), log.read_bytes()) == (content, bytes(damaged))


@pytest.mark.parametrize("part", ["salt", "page", "commit"])
def test_damage_in_the_last_event_is_said(copy, left, part):
    """Nobody can say whether it was acknowledged: the power may have failed while it was written."""
    _, whole, count = left
    log, damaged = Path(f"{copy}-wal"), bytearray(whole)
    frames = range(32, len(whole), 24 + 4096)
    commits = [place for place in frames if any(whole[place + 4 : place + 8])]
    place = {"salt": commits[-1] + 9, "page": commits[-2] + 4120 + 24 + 17, "commit": commits[-1] + 7}[part]
    damaged[place] ^= damaged[place] or 1
    log.write_bytes(damaged)
    with pytest.warns(StudyWarning, match=r"the last event in .*copy\.db-wal is not whole and does not count"):
        study = pf.Study.open(copy, "eu", METHOD)
    with study:
        assert study.verify().events == count - 1
        study.note("what is written next takes its place")
    with pf.Study.open(copy, "eu", METHOD) as study:
        assert study.verify().events == count


def test_a_log_that_was_cut_off_while_it_was_written(copy, left):
    """What a crash leaves of an event that was never acknowledged is no damage."""
    _, whole, count = left
    Path(f"{copy}-wal").write_bytes(whole[:-100])
    with pf.Study.open(copy, "eu", METHOD) as cut:
        assert cut.verify().events == count - 1
        run(cut, 11)
