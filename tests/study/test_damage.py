"""Bytes that change in the files of a study: every call is refused, or is right, or says that the last event is not whole."""

import warnings

import numpy as np
import pytest
from described import SPEC
from market import answer, run

import performative as pf
from performative.study import StudyDamaged, StudyError, StudyWarning
from performative.study.encoding import plain
from performative.study.spec import describe

TEXT = SPEC.replace("safe_apda", "repeated_gradient")
CALLS = {
    "log": lambda study: [plain(event) for event in study.events()],
    "pending": lambda study: repr(study.pending),
    "state": lambda study: (study.digest, study._session.log.store.state),
    "status": lambda study: repr(study.status().plain()),
    "export": lambda study: (repr(study.history().to_dict()), repr([*study.records()])),
    "verify": lambda study: study.verify(),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two studies in a file: at rest, and in use, with the last events in SQLite's log beside it."""
    path = tmp_path_factory.mktemp("whole") / "prices.db"
    method = describe(TEXT).method
    for name, rounds in (("eu", 3), ("us", 2)):
        with pf.Study.create(path, name, method, spec=TEXT) as study:
            run(study, rounds).note("a holiday")
    rest = {"prices.db": path.read_bytes()}
    with pf.Study.open(path, "eu", method) as study:
        study.tell(study.ask(), answer(study.ask()))
        study.note("open again")
        log = path.with_name("prices.db-wal")
        return {"at rest": rest, "in use": {"prices.db": path.read_bytes(), log.name: log.read_bytes()}}


def write(folder, contents):
    for path in folder.iterdir():
        path.unlink()
    for name, content in contents.items():
        (folder / name).write_bytes(content)


def heard(path, calls):
    """What the calls say of each study of a file, call by call."""
    said = {}
    for name in pf.Study.names(path):
        with pf.Study.open(path, name, readonly=True) as study:
            said |= {(name, call): CALLS[call](study) for call in calls}
    return said


def tried(path, calls):
    """What the calls say, or the kind of error they end with; and whether there was a warning about the last event."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        try:
            said = heard(path, calls)
        except StudyError as error:
            said = type(error)
    assert {warning.category for warning in caught} <= {StudyWarning}
    return said, bool(caught)


def change(contents, random, places):
    """The same files with one byte changed, at random, or in the part of them that `places` says."""
    sizes = [len(content) for content in contents.values()]
    name = list(contents)[int(random.choice(len(sizes), p=np.array(sizes) / sum(sizes)))]
    damaged = bytearray(contents[name])
    place = int(random.integers(len(damaged))) if places is None or name != "prices.db" else int(random.choice(places))
    damaged[place] ^= int(random.integers(1, 256))
    return contents | {name: bytes(damaged)}, (name, place, damaged[place])


def require_right(folder, contents, random, count, places=None, every=1):
    """Change a byte `count` times, and compare what every call says with what it says of the whole files.

    What follows from the log and the state, which are compared each time, is computed for one of `every` changed bytes.
    """
    path = folder / "prices.db"
    write(folder, contents)
    whole, _ = tried(path, CALLS)
    assert ("us", "verify") in whole
    seen = dict.fromkeys(("right", "refused", "warned"), 0)
    for place in range(count):
        calls = CALLS if place % every == 0 else ("log", "pending", "state")
        right = {key: one for key, one in whole.items() if key[1] in calls}
        damaged, where = change(contents, random, places)
        write(folder, damaged)
        said, warned = tried(path, calls)
        if isinstance(said, type):
            assert issubclass(said, StudyError), where
            seen["refused"] += 1
        elif warned:  # of the last event, and of nothing else
            assert said["eu", "log"] == right["eu", "log"][:-1], where
            assert {key: one for key, one in said.items() if key[0] == "us"} == {
                key: one for key, one in right.items() if key[0] == "us"
            }
            seen["warned"] += 1
        else:
            assert said == right, where
            seen["right"] += 1
        assert path.read_bytes() == damaged["prices.db"]
    return seen


SCHEMA = [*range(100), *range(3000, 4096)]
"""Where the first page of a file has its header, and where the names of its tables and what they are made of."""


@pytest.mark.parametrize("state", ["at rest", "in use"])
def test_a_changed_byte_is_found_or_changes_nothing(tmp_path, files, state):
    seen = require_right(tmp_path, files[state], np.random.default_rng(0), 120)
    assert seen["refused"] > 15
    assert seen["right"] > 10


def test_a_changed_byte_of_the_header_or_the_schema_is_found_or_changes_nothing(tmp_path, files):
    seen = require_right(tmp_path, files["at rest"], np.random.default_rng(1), 150, SCHEMA)
    assert seen["refused"] > 100


@pytest.mark.slow
def test_ten_thousand_changed_bytes(tmp_path, files):
    """`-s` prints how often what happened."""
    random, seen = np.random.default_rng(2), {}
    for state, places, count in (("at rest", None, 4000), ("in use", None, 3000), ("at rest", SCHEMA, 3000)):
        one = require_right(tmp_path, files[state], random, count, places, every=20)
        seen[f"{state}{' (header and schema)' if places else ''}"] = one
    print(seen)
    assert sum(count for one in seen.values() for count in one.values()) == 10_000


@pytest.mark.parametrize(
    ("place", "byte"),
    [
        (19, 9),  # a version of the file's format that SQLite does not know
        (59, 3),  # text in another encoding
        (71, 0),  # the application's number
        (3853, 0xF8),  # a table's name that is not text
    ],
)
def test_a_damaged_header_or_schema_is_no_other_error(tmp_path, files, place, byte):
    path = tmp_path / "prices.db"
    damaged = bytearray(files["at rest"]["prices.db"])
    damaged[place] = byte
    path.write_bytes(damaged)
    for call in (lambda: pf.Study.names(path), lambda: pf.Study.open(path, "eu")):
        with pytest.raises(StudyDamaged, match="is damaged"):
            call()


def test_a_study_whose_name_changed_is_refused(tmp_path, files):
    """The name is no record of the log, but the first record knows it."""
    path, content = tmp_path / "prices.db", files["at rest"]["prices.db"]
    places = [place for place in range(len(content) - 1) if content[place : place + 2] == b"us"]
    changed = 0
    for place in places:
        damaged = bytearray(content)
        damaged[place + 1] ^= 1
        path.write_bytes(damaged)
        try:
            names = pf.Study.names(path)
        except StudyDamaged as error:
            changed += "study 2 has another name than it was created with" in str(error)
        else:
            assert names == ["eu", "us"]
    assert changed == 1
