"""Retraction: the study goes on as if a report had never been made, to the bit, and nothing is lost of the log."""

import dataclasses

import numpy as np
import pytest
from market import PROBLEM, answer, kinds, run, stored

import performative as pf
from performative.study import AlreadyTold, Retracted

METHODS = {
    "safe": lambda: pf.safe_apda(PROBLEM),
    "apda": lambda: pf.apda(PROBLEM, warmup=20),
    "one": lambda: pf.one_point(PROBLEM),
}


def same(one, other):
    """Whether two studies stand at the same bits, and ask for the same next."""
    ours, theirs = one._session, other._session
    assert ours.log.store.state == theirs.log.store.state
    mine, read = (dataclasses.asdict(session.position.planned) for session in (ours, theirs))
    np.testing.assert_equal(mine, read)
    assert ours.position.so_far.told == theirs.position.so_far.told
    assert ours.position.width == theirs.position.width


def told_alone(path, name, method, reports):
    """A study that had only these deployments and samples, whatever it asked for."""
    study = pf.Study.create(path, name, method)
    for deployment, samples in reports:
        study.tell(study.ask(), samples, deployed=deployment.decisions, confirm=True)
    return study


@pytest.mark.parametrize("name", METHODS)
def test_a_retracted_report_has_never_been_made_to_the_bit(path, name):
    reports = []
    with pf.Study.create(path, "eu", METHODS[name]()) as study:
        for _ in range(5):
            deployment = study.ask()
            samples = answer(deployment)
            if len(reports) == 2:
                samples = samples.copy()
                samples[0, 0, 0] = 3e9
            study.tell(deployment, samples, confirm=True)
            reports.append((deployment, samples))
        study.retract(reports[2][0], "a typo", by="Ada")
        with told_alone(path, "never", METHODS[name](), [*reports[:2], *reports[3:]]) as never:
            same(study, never)
            assert np.array_equal(study.ask().decisions, never.ask().decisions)
        replay = study.verify()
        assert replay.told == 4
        assert study.history()["deployment"].values.tolist() == [reports[i][0].id for i in (0, 1, 3, 4)]
        assert np.nanmax(study.history()["data"].values) < 1e3
        assert {row["deployment"] for row in study.records()} == {reports[i][0].id for i in (0, 1, 3, 4)}
        event = next(event for event in study.events() if isinstance(event, Retracted))
        assert (event.deployment, event.reason, event.by) == (reports[2][0].id, "a typo", "Ada")
    with pf.Study.open(path, "eu", METHODS[name]()) as again:
        assert again.status().told == 4
        run(again, 7)
        assert again.verify().told > 4


def test_the_right_samples_can_be_told_after_a_retraction(study, path):
    run(study, 4)
    first = study.deployment(1)
    right = answer(first)
    study.retract(1, "units")
    with pytest.raises(AlreadyTold, match=r"cannot be retracted, since .* retracted it before: units"):
        study.retract(1, "another reason")
    before = stored(path)
    study.retract(1, "units")
    assert stored(path) == before
    waiting = study.pending
    told = study.tell(1, right + 0.25)
    assert told.round == 4
    assert study.pending.id == waiting.id  # still out there
    assert study.tell(1, right + 0.25).round == 4
    with pytest.raises(AlreadyTold, match="already reported with other samples"):
        study.tell(1, right)
    with pf.Study.open(path, "eu", study.method) as other:
        assert other.pending.id == waiting.id
        other.tell(waiting, answer(waiting))
        assert other.status().told == 4
        assert other.history()["deployment"].values.tolist() == [3, 5, 1, 7]
    study.retract(1, "units")  # again: the second report was wrong, too
    assert study.verify().told == 3
    assert kinds(path)[7:] == ["ask", "retract", "tell", "tell", "retract"]


def test_an_open_deployment_survives_a_retraction(study, path):
    run(study, 3)
    waiting = study.ask()
    study.retract(1, "a typo")
    assert study.ask().id == waiting.id
    with pytest.raises(
        ValueError, match=r"must have been reported to be retracted, but deployment 5 is open; `cancel` it"
    ):
        study.retract(waiting, "a typo")
    study.tell(waiting, answer(waiting))
    assert study.verify().told == 2
    study.cancel(study.ask(), "closed")
    study.retract(3, "a typo")
    assert study.ask().round == 2
    study.verify()


def test_what_cannot_be_retracted_is_refused_and_nothing_is_written(path):
    with pf.Study.create(path, "eu", pf.apda(PROBLEM, warmup=20)) as study:
        run(study, 3)
        study.cancel(study.ask(), "closed")
        before = stored(path)
        with pytest.raises(
            ValueError, match=r"the reports cannot be told to the method: deployment 3: `decisions` of the warm-up"
        ):
            study.retract(1, "a typo")
        with pytest.raises(AlreadyTold, match="cannot be retracted, since it was canceled: closed"):
            study.retract(7, "a typo")
        with pytest.raises(ValueError, match="event 2 is a tell"):
            study.retract(2, "a typo")
        with pytest.raises(ValueError, match="`reason` must be a nonempty string, why the report is wrong"):
            study.retract(3, "")
        with pytest.raises(ValueError, match="`by` must be a nonempty string, a name"):
            study.retract(3, "a typo", by=" ")
        assert stored(path) == before
    with pf.Study.create(path, "us", pf.apda(PROBLEM, warmup=20)) as study:
        study.tell(study.ask(), answer(study.ask()))
        study.ask()
        with pytest.raises(
            ValueError, match=r"after that the method asks for 1 decisions at once .* 2 of deployment 3, which is open"
        ):
            study.retract(1, "a typo")
        study.cancel(3, "closed")
        study.retract(1, "a typo")
        assert study.ask().round == 0
        study.verify()


def test_samples_of_another_width_may_follow_if_all_reports_are_retracted(path):
    problem = pf.Problem(lambda theta, z: (theta[0] - z[0]) ** 2, pf.Box([0.0], [1.0]))
    with pf.Study.create(path, "eu", pf.repeated_gradient(problem)) as study:
        study.tell(study.ask(), np.ones((1, 1, 2)))
        study.retract(1, "a column too many")
        study.tell(study.ask(), np.ones((1, 1, 1)))
        assert study.verify().told == 1
    pf.Study.open(path, "eu", pf.repeated_gradient(problem)).close()


def test_sums_are_those_of_the_reports_that_are_left(path):
    with pf.Study.create(path, "eu", pf.one_point(PROBLEM, start=[1.9, 2.0], exploration=0.5)) as study:
        run(study, 8)
        slack = study.history()["slack"].values[:, 0, 0]
        worst = int(np.argmin(slack))
        assert slack[worst] < 0
        study.retract(int(study.history()["deployment"].values[worst]), "a typo")
        so_far = study._session.position.so_far
        left = np.delete(slack, worst)
        assert so_far.told == 6
        assert so_far.least.tolist() == [left.min()]
        assert so_far.violated.tolist() == [int(np.sum(left < 0))]
