"""Signatures of a study, and digests that were kept elsewhere."""

import hashlib
import sqlite3

import pytest
from market import PROBLEM, answer, kinds, run

import performative as pf
from performative.study import StudyDamaged, StudyError, file, signing
from performative.study.records import packed, unpacked

METHOD = pf.repeated_gradient(PROBLEM)
KEY, OTHER = b"k" * 32, b"o" * 40


def test_a_signature_covers_what_came_before_it_whatever_comes_later(study, path):
    run(study, 3)
    before, count = study.digest, study.count
    study.sign(KEY)
    assert study.signed(KEY) == count - 1
    run(study, 4).note("later")
    assert study.signed(KEY) == count - 1
    assert study.verify(key=KEY, against=before).told == 3
    study.sign(OTHER)
    study.sign(KEY)
    assert study.signed(OTHER) == study.count - 3
    assert study.signed(KEY) == study.count - 2
    with pf.Study.open(path, "eu", METHOD, readonly=True) as other:
        assert other.verify(key=KEY, against=study.digest).events == study.count
        assert other.pending.id == study.pending.id
    deployment = study.ask()
    study.tell(deployment, answer(deployment))
    assert kinds(path).count("sign") == 3


def test_a_wrong_key_and_an_unsigned_study_are_refused(study):
    with pytest.raises(StudyError, match=r"must be signed with the key [0-9a-f]{16}, but is signed by nobody"):
        study.verify(key=KEY)
    study.sign(KEY)
    with pytest.raises(StudyError, match=f"{signing.key_name(OTHER)}, but is signed by {signing.key_name(KEY)} alone"):
        study.verify(key=OTHER)
    with pytest.raises(ValueError, match="`key` must have at least 32 bytes, but has 31"):
        study.sign(KEY[:31])
    with pytest.raises(TypeError, match="`key` must be bytes, but got str"):
        study.verify(key="k" * 32)
    assert KEY.hex() not in signing.key_name(KEY)


def test_a_digest_kept_elsewhere_shows_what_was_changed_or_cut_off(study, path):
    digests = []
    for word in ("one", "two", "three"):
        study.note(word)
        digests.append(study.digest)
    assert [study.held(digest) for digest in digests] == [1, 2, 3]
    assert len({*digests}) == 3
    with pytest.raises(StudyDamaged, match="never had the digest 0000"):
        study.verify(against="00" * 32)
    for wrong in ("", "xyz", "00" * 31, 7):
        with pytest.raises(ValueError, match="a digest must be 64 hexadecimal digits"):
            study.held(wrong)
    study.close()
    rewritten(path, lambda number, header: header, 3)
    with pf.Study.open(path, "eu", METHOD) as cut:
        assert cut.verify(against=digests[1]).events == 3
        with pytest.raises(StudyDamaged, match="events were changed or cut off"):
            cut.verify(against=digests[2])


def rewritten(path, change, count, keep=False):
    """Rewrite the log as somebody could who knows the format: `change` the events' headers, and leave the first `count`.

    The digests fit, except those inside of the records if they are to `keep`.
    """
    connection = sqlite3.connect(path)
    connection.execute("DROP TRIGGER events_are_not_changed")
    connection.execute("DROP TRIGGER events_are_not_deleted")
    running = hashlib.sha256()
    for number, (place, record) in enumerate(
        connection.execute("SELECT key, record FROM events ORDER BY key").fetchall()
    ):
        if number >= count:
            connection.execute("DELETE FROM events WHERE key = ?", (place,))
            continue
        header, arrays = unpacked(record[64:])
        before = running.digest() if number and not keep else record[:32]
        record = before + record[32:64] + packed(change(number, header), dict(arrays))
        running.update(record)
        connection.execute("UPDATE events SET record = ? WHERE key = ?", (record, place))
    connection.execute("UPDATE heads SET seq = ?, digest = ?", (count - 1, running.digest()))
    for statement in file._statements()[-2:]:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize("keep", [False, True])
def test_a_history_that_was_written_anew_is_not_what_was_signed(study, path, keep):
    """Without the key the digests can be made to fit, so that the file opens, but not the signature."""
    study.note("a cost of 5")
    study.sign(KEY)
    study.close()
    rewritten(path, lambda number, header: header | ({"text": "a cost of 2"} if number == 1 else {}), 3, keep)
    with pf.Study.open(path, "eu", METHOD) as forged:
        assert [event.text for event in forged.events() if event.kind == "note"] == ["a cost of 2"]
        with pytest.raises(StudyDamaged, match=r"the signature in event 2|is damaged: event 1 differs"):
            forged.signed(KEY)
