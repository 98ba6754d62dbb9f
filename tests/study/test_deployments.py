"""Proposals: approved as they are or edited, declined with bounds, and never told before."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from market import PROBLEM, answer, kinds, stored

import performative as pf
from performative.study import AlreadyTold, Limits, StudyError
from performative.study.calls import Calls


def proposing(path, make=pf.repeated_gradient, **options):
    return pf.Study.create(path, "eu", make(PROBLEM, **options), approval=True)


def test_nothing_is_told_before_it_is_approved(path):
    with proposing(path, start=[1.0, 1.0]) as study:
        proposal = study.ask()
        assert not proposal.approved
        assert study.ask().id == proposal.id
        assert study.status().next_action == "approve or decline proposal 1: [1, 1]"
        assert study.status().deployed is None
        before = stored(path)
        with pytest.raises(StudyError, match="must be approved before it is reported, but is a proposal"):
            study.tell(proposal, answer(proposal))
        with pytest.raises(StudyError, match="is a proposal, which nobody carries out yet; `decline` it"):
            study.cancel(proposal, "closed")
        with pytest.raises(ValueError, match="must have been reported to be retracted, but deployment 1 is open"):
            study.retract(proposal, "a typo")
        assert stored(path) == before
        approved = study.approve(proposal, by="Ada")
        assert approved.approved
        assert study.approve(1, by="Grace").id == 1
        assert np.array_equal(approved.decisions, proposal.decisions)
        study.tell(approved, answer(approved))
        assert study.verify().told == 1
        with pytest.raises(AlreadyTold, match="cannot be declined, since it was approved"):
            study.decline(1, "too late")
    assert kinds(path) == ["create", "ask", "approve", "tell"]
    with pf.Study.open(path, "eu", pf.repeated_gradient(PROBLEM, start=[1.0, 1.0])) as again:
        assert [event.by for event in again.events() if event.kind == "approve"] == ["Ada"]
        assert not again.ask().approved


@pytest.mark.parametrize("make", [pf.safe_apda, pf.one_point])
def test_an_edit_is_what_is_deployed_and_learned_from(path, make):
    """Like a study without approval that was told what was really deployed, to the bit."""
    edited = np.array([[1.25, 1.5]])
    with proposing(path, make, start=[1.0, 1.0]) as study:
        proposal = study.ask()
        deployment = study.approve(proposal, edited[0])
        assert np.array_equal(deployment.decisions, edited)
        np.testing.assert_allclose(deployment.why.safety, [[1.25]])
        np.testing.assert_array_equal(deployment.why.exploration, edited - proposal.why.decision)
        assert np.array_equal(study.pending.decisions, edited)
        with pytest.raises(ValueError, match=r"its number 1 is to deploy \[\[1.25, 1.5\]\]"):
            study.tell(proposal, answer(deployment))  # somebody edited it meanwhile
        assert np.array_equal(study.approve(proposal, edited).decisions, edited)
        with pytest.raises(AlreadyTold, match="already approved with"):
            study.approve(proposal, [1.0, 1.0])
        study.tell(1, answer(deployment))
        assert study.tell(deployment, answer(deployment)).violated == {}
        with pytest.raises(AlreadyTold, match="as deployed with"):
            study.tell(deployment, answer(deployment), deployed=[1.0, 1.0])
        study.verify()
        past = study.history()
        np.testing.assert_array_equal(past["deployed"].values, [edited])
        np.testing.assert_array_equal(past["proposed"].values, [proposal.decisions])
        study.retract(1, "a typo")
        study.tell(1, answer(deployment))  # as it was approved
        with pf.Study.create(path, "free", make(PROBLEM, start=[1.0, 1.0])) as free:
            free.tell(free.ask(), answer(deployment), deployed=edited)
            assert free._session.log.store.state == study._session.log.store.state
        study.verify()


@pytest.mark.parametrize(
    ("decisions", "message"),
    [
        ([3.0, 3.0], r"`decisions` must be feasible, but \[\[3.0, 3.0\]\] violates cap by 2"),
        ([5.5, -2.0], "violates the decision set by 2"),
        ([1.0], r"`decisions` must have shape \(1, 2\), but got \(1,\)"),
        ([np.inf, 1.0], "`decisions` must be finite"),
    ],
)
def test_an_edit_that_is_not_feasible_is_refused(path, decisions, message):
    with proposing(path) as study:
        proposal = study.ask()
        before = stored(path)
        with pytest.raises(ValueError, match=message):
            study.approve(proposal, decisions)
        assert stored(path) == before


@pytest.mark.parametrize("make", [pf.safe_apda, pf.one_point, pf.apda])
def test_declined_with_bounds_the_next_proposals_meet_them(path, make):
    options = {"warmup": 5} if make is pf.apda else {}
    with proposing(path, make, start=[2.5, 1.0], **options) as study:
        proposal = study.ask()
        study.decline(proposal, "too dear", upper={0: 2.0}, lower={1: 0.5}, by="Ada")
        before = stored(path)
        study.decline(proposal, "too dear", upper={0: 2.0}, lower={1: 0.5})
        assert stored(path) == before
        with pytest.raises(AlreadyTold, match="cannot be declined, since it was declined by Ada: too dear"):
            study.decline(proposal, "other words")
        with pytest.raises(AlreadyTold, match="cannot be approved, since it was declined by Ada: too dear"):
            study.approve(proposal)
        for report in (study.tell, study.preview):
            with pytest.raises(StudyError, match="must be approved before it is reported"):
                report(proposal, answer(proposal))
        for _ in range(4):
            deployment = study.approve(study.ask())
            assert deployment.decisions[:, 0].max() <= 2.0
            assert deployment.decisions[:, 1].min() >= 0.5
            assert deployment.why.safety.min() >= 0.0
            study.tell(deployment, answer(deployment))
        study.decline(study.ask(), "less", upper={1: 0.75})
        assert study.limits.upper.tolist() == [2.0, 0.75]
        assert study.ask().decisions[:, 1].max() <= 0.75
        study.approve(study.ask())
        study.verify()
    with pf.Study.open(path, "eu", make(PROBLEM, start=[2.5, 1.0], **options)) as again:
        assert again.limits.upper.tolist() == [2.0, 0.75]
        again.tell(again.ask(), answer(again.ask()))
        again.decline(again.ask(), "the newest word counts", upper={0: np.inf})
        assert again.limits.upper.tolist() == [np.inf, 0.75]
        again.verify()


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"upper": {2: 1.0}}, "`upper` must say which number of a decision it is by its place, 0 to 1, but got 2"),
        ({"upper": {0: np.nan}}, "`upper` must hold numbers or inf, but got nan"),
        ({"lower": [1.0]}, r"`lower` must have shape \(2,\), but got \(1,\)"),
        ({"lower": {0: 2.0}, "upper": {0: 1.0}}, "`lower < upper` must hold"),
        ({"lower": [3.0, 3.0]}, "leave none: .*cap"),
    ],
)
def test_bounds_that_leave_nothing_are_refused(path, bounds, message):
    with proposing(path) as study:
        proposal = study.ask()
        before = stored(path)
        with pytest.raises(ValueError, match=message):
            study.decline(proposal, "too dear", **bounds)
        assert stored(path) == before


def test_bounds_may_be_given_by_name(path):
    labels = pf.study.Labels.of(decisions=["milk", "café"])
    method = pf.repeated_gradient(PROBLEM, start=[2.5, 1.0])
    with pf.Study.create(path, "eu", method, approval=True, labels=labels) as study:
        proposal = study.ask()
        before = stored(path)
        for bounds, message in (
            (
                {"bread": 1.0},
                r"which number of a decision it is by name, milk, café, or by its place, 0 to 1, but got 'bread'",
            ),
            ({"milk": 1.0, 0: 2.0}, "must name each number once, but 'milk' and 0 are the same"),
        ):
            with pytest.raises(ValueError, match=message):
                study.decline(proposal, "too dear", upper=bounds)
        assert stored(path) == before
        study.decline(proposal, "too dear", upper={"milk": 2.0, 1: 3.0}, lower={"cafe\u0301": 0.5})
        assert (study.limits.upper.tolist(), study.limits.lower.tolist()) == ([2.0, 3.0], [-np.inf, 0.5])
        assert study.ask().decisions[0, 0] <= 2.0


def test_a_method_that_draws_nothing_says_that_it_will_propose_the_same(path):
    with proposing(path, start=[1.0, 1.0]) as study:
        for bounds in ({}, {"upper": {0: 3.0}}):
            proposal = study.ask()
            with pytest.warns(
                pf.SameProposalWarning, match=f"the same as {proposal.id}, since the method draws nothing"
            ):
                study.decline(proposal, "no", **bounds)
            assert np.array_equal(study.ask().decisions, proposal.decisions)
    with pf.Study.create(path, "random", pf.one_point(PROBLEM, start=[1.0, 1.0]), approval=True) as study:
        proposal = study.ask()
        study.decline(proposal, "no")
        assert not np.array_equal(study.ask().decisions, proposal.decisions)
        study.verify()


def test_a_proposal_is_withdrawn_when_what_is_learned_changes(path):
    with proposing(path, start=[1.0, 1.0]) as study:
        first = study.approve(study.ask())
        study.tell(first, answer(first))
        proposal = study.ask()
        study.retract(first, "a typo")
        assert study.pending is None
        for attempt in (study.approve, lambda one: study.decline(one, "no"), lambda one: study.cancel(one, "no")):
            with pytest.raises(
                AlreadyTold, match=r"proposal 4 was withdrawn when what is learned changed; ask for the next one"
            ):
                attempt(proposal)
        assert study.ask().id == 6
        study.tell(first, answer(first) + 1.0)
        assert study.pending is None
        assert study.verify().told == 1


def test_a_study_without_approval_has_no_proposals(study):
    deployment = study.ask()
    assert deployment.approved
    for attempt in (study.approve, lambda one: study.decline(one, "no")):
        with pytest.raises(ValueError, match="must be a proposal, but deployment 1 needs no approval"):
            attempt(deployment)


CALLS = Calls(pf.repeated_gradient(PROBLEM), 0)


@settings(deadline=None)
@given(
    st.lists(st.floats(0.0, 5.0), min_size=2, max_size=2),
    st.lists(st.floats(0.5, 5.0), min_size=2, max_size=2),
)
def test_whatever_is_proposed_is_moved_to_what_is_feasible_and_within_the_limits(decision, upper):
    limits = Limits(np.full(2, -np.inf), np.array(upper), np.array([0.25, 0.25]))
    decisions = np.array([decision])
    moved, values = CALLS.within(limits, decisions)
    if limits.met_by(decisions):
        assert np.array_equal(moved, decisions)
    else:
        assert limits.met_by(moved)
        assert values.max() <= 0.0
        assert moved.min() >= 0.0
