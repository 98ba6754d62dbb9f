"""The log of a study."""

import dataclasses

import numpy as np
from market import answer, run

import performative as pf
from performative.study.events import Canceled


def test_a_log_knows_its_first_samples_and_how_deployments_ended(study):
    log = study._session.log
    assert log.probed() is None
    first = study.ask()
    study.cancel(first, "shop closed")
    second = study.ask()
    study.tell(second, answer(second))
    run(study, 3)
    assert isinstance(log.outcome(first.id), Canceled)
    np.testing.assert_array_equal(log.outcome(second.id).samples, answer(second))
    assert log.probed().deployment == second.id
    assert [event.number for event in log.backward()] == list(range(study.count))[::-1]


def test_the_position_is_the_same_whether_it_was_followed_or_read(study, path):
    """After each kind of event, the position held in memory is the one another process reads from the file."""

    def require_same():
        with pf.Study.open(path, "eu", study.method, readonly=True) as other:
            ours, theirs = study._session.position, other._session.position
        for part in ours._fields:
            mine, read = getattr(ours, part), getattr(theirs, part)
            if dataclasses.is_dataclass(mine):
                mine, read = dataclasses.asdict(mine), dataclasses.asdict(read)
            np.testing.assert_equal(mine, read)

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
