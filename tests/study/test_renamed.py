"""Names that have changed since files were first written."""

import numpy as np
import pytest
from described import SPEC
from market import market_problem

import performative as pf
from performative.errors import StudyError
from performative.study import log
from performative.study.renamed import is_earlier_safe_apda, present_identity, present_spec, stored_names
from performative.study.spec import describe


def test_a_description_with_the_first_name_of_a_method():
    text = SPEC.replace('type = "safe_apda"', 'type = "repeated_minimisation"')
    assert type(describe(present_spec(text)).method).__name__ == "RepeatedMinimization"
    assert present_spec(SPEC) == SPEC
    assert present_identity({"method": "RepeatedMinimisation", "x": "Pull"}) == {
        "method": "RepeatedMinimization",
        "x": "Pull",
    }


def test_the_moments_of_two_stage_are_stored_where_they_were():
    names = (".belief.effect", ".belief.key", ".belief.moments.count", ".belief.moments.cross")
    assert stored_names(names) == (".belief.effect", ".belief.key", ".belief.count", ".belief.cross")


def test_earlier_versions_of_safe_apda_are_recognized():
    present = {"method": "SafePrimalDual", "method.planner": "Planner", "method.learner.by_group": True}
    assert not is_earlier_safe_apda(present)
    assert is_earlier_safe_apda({"method": "SafePrimalDual", "method.planner": "Planner"})
    assert not is_earlier_safe_apda({"method": "TwoStage"})


@pytest.mark.slow
def test_a_study_of_safe_apda_with_its_new_options_opens_and_verifies(tmp_path):
    def method(**options):
        return pf.safe_apda(market_problem(), deployments_per_round=2, max_move=0.1, deployments=9, **options)

    with pf.Study.create(tmp_path / "studies.db", "eu", method(loss_budget=None)) as study:
        study.tell(study.ask(), np.ones((2, 1, 2)))
    with pf.Study.open(tmp_path / "studies.db", "eu", method(loss_budget=None)) as study:
        assert study.verify().told == 1
    with pytest.raises(pf.OtherMethod, match=r"method\.budget\.multiple: stored inf, but got 1\.0"):
        pf.Study.open(tmp_path / "studies.db", "eu", method())


def test_a_study_whose_states_have_other_parts_cannot_continue(tmp_path, monkeypatch):
    path, method = tmp_path / "studies.db", pf.safe_apda(market_problem())
    with pf.Study.create(path, "eu", method) as study:
        study.tell(study.ask(), np.ones((1, 1, 2)))
    stored = log.unpacked
    monkeypatch.setattr(log, "unpacked", lambda state: (stored(state)[0], [*stored(state)[1], ".new"]))
    with pytest.raises(StudyError, match=r"other parts than this version's \(\.new\)"):
        pf.Study.open(path, "eu", method)
