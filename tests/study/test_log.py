"""The log of a study, and files that an earlier version wrote."""

import dataclasses
import shutil
from pathlib import Path

import earlier_store
import numpy as np
import pytest
from market import answer, run

import performative as pf
from performative.study.events import Asked, Canceled, Created, Noted, Observed, encoded

EARLIER = Path(__file__).parent / "data" / "earlier_version.db"


def test_a_file_of_an_earlier_version_opens_continues_and_verifies(path):
    """The file was written by the commit before events had types:

    `PYTHONPATH=<sources of that version> python tests/helpers/earlier_store.py tests/study/data/earlier_version.db`

    Replaying "exact" rounds nothing, so it gives the same bits everywhere.
    """
    shutil.copy(EARLIER, path)
    with pf.Study.open(path, "exact", earlier_store.exact()) as study:
        kinds = [type(event) for event in study.events()]
        assert kinds == [Created, Asked, Observed, Asked, Observed, Asked, Canceled, Noted, Asked, Observed, Asked]
        assert study.pending.id == 10
        assert study.verify() == (11, 3)
        study.tell(10, earlier_store.answer(study.pending))
        assert study.ask().round == study.deployment(10).round + 1
        assert study.history().sizes["deployment"] == 4
        assert study.verify() == (13, 4)


def test_an_earlier_study_of_safe_apda_is_refused_with_a_way_out(path):
    """The study "safe" of that file, opened by its own description; what its states were made of is gone."""
    shutil.copy(EARLIER, path)
    with pytest.raises(
        pf.OtherMethod, match=r"safe_apda of performative 0\.1\.0.*give them to a new study as `history`"
    ):
        pf.Study.open(path, "safe")
    assert path.read_bytes() == EARLIER.read_bytes()


def test_the_bytes_of_a_new_study_are_those_of_the_earlier_version(path):
    """Whoever goes back to the earlier version can still read the file; only losses may differ by how a processor rounds."""
    with pf.Study.create(path, "exact", earlier_store.exact(), seed=1) as study:
        earlier_store.play(study)

    def records(path):
        with pf.Study.open(path, "exact", earlier_store.exact(), readonly=True) as study:
            log = study._session.log
            events = [dataclasses.replace(event, at=0.0) for event in log.events(1)]
            losses = [event.probe_losses for event in events if getattr(event, "probe_losses", None) is not None]
            bodies = [
                encoded(dataclasses.replace(event, probe_losses=np.zeros_like(event.probe_losses)))
                if getattr(event, "probe_losses", None) is not None
                else encoded(event)
                for event in events
            ]
            return (bodies, [record.state for record in log.store.records()], log.store.state), losses

    (new, new_losses), (old, old_losses) = records(path), records(EARLIER)
    assert new == old
    np.testing.assert_allclose(new_losses, old_losses, rtol=1e-14)


def test_a_log_knows_its_first_samples_and_how_deployments_ended(study):
    log = study._session.log
    assert log.first_observed() is None
    first = study.ask()
    study.cancel(first, "shop closed")
    second = study.ask()
    study.tell(second, answer(second))
    run(study, 3)
    assert isinstance(log.outcome(first.id), Canceled)
    np.testing.assert_array_equal(log.outcome(second.id).samples, answer(second))
    assert log.first_observed().deployment == second.id
    assert [event.number for event in log.backward()] == list(range(study.count))[::-1]


def test_the_position_is_the_same_whether_it_was_followed_or_read(study, path):
    """After each kind of event, the position held in memory is the one another process reads from the file."""

    def require_same():
        with pf.Study.open(path, "eu", study.method, readonly=True) as other:
            ours, theirs = study._session.position, other._session.position
        assert (ours.events, ours.attempt, ours.width, ours.columns) == (
            theirs.events, theirs.attempt, theirs.width, theirs.columns,
        )  # fmt: skip
        np.testing.assert_equal(ours.pending, theirs.pending)
        np.testing.assert_array_equal(ours.state.decision, theirs.state.decision)

    require_same()
    for _ in range(2):
        first = study.ask()
        require_same()
        study.cancel(first, "shop closed")
        require_same()
        study.note("open again on Monday")
        require_same()
        deployment = study.ask()
        study.tell(deployment, answer(deployment))
        require_same()
