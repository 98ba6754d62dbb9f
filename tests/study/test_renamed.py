"""Names that have changed since files were first written."""

import numpy as np
import pytest
from described import SPEC
from market import market_problem

import performative as pf
from performative.study import identity as identities
from performative.study.renamed import present_identity, present_spec, stored_names
from performative.study.spec import describe


def test_a_description_with_the_first_name_of_a_method():
    text = SPEC.replace('type = "safe_apda"', 'type = "repeated_minimisation"')
    assert type(describe(present_spec(text)).method).__name__ == "RepeatedMinimization"
    assert present_spec(SPEC) == SPEC
    assert present_identity({"method": "RepeatedMinimisation", "x": "Pull"}) == {
        "method": "RepeatedMinimization",
        "x": "Pull",
    }


def test_an_identity_of_safe_apda_under_its_first_names():
    first = {"method": "SafePrimalDual", "method.safety": "Pull", "method.exploration": 1.0, "method.unmoved[0]": 2}
    assert present_identity(first) == {
        "method": "SafePrimalDual",
        "method.safety": "PullToward",
        "method.exploration.factor": 1.0,
        "method.learner.unmoved[0]": 2,
        "method.learner": "LeastSquares",
        "method.exploration": "Fading",
        "method.steps": "CurvatureSteps",
    }
    present = present_identity(first)
    assert present_identity(present) == present


@pytest.mark.parametrize("safety", [pf.safety.Pull(), pf.safety.Nearest()], ids=["pull", "nearest"])
def test_a_file_with_the_second_name_of_the_pull_opens_continues_and_verifies(tmp_path, safety):
    method = pf.safe_apda(market_problem(), safety=safety)
    pf.safety.PullToward.__name__ = "PullTowards"
    try:
        with pf.Study.create(tmp_path / "studies.db", "eu", method) as study:
            study.ask()
    finally:
        pf.safety.PullToward.__name__ = "PullToward"
    with pf.Study.open(tmp_path / "studies.db", "eu", method) as study:
        assert "PullTowards" in {str(value) for value in next(study.events()).identity.values()}
        study.tell(study.pending, np.ones((1, 1, 2)))
        assert study.verify().told == 1


def test_only_states_of_safe_apda_are_stored_under_other_names():
    scales = [f".scales.{name}" for name in ("curvature", "price", "learning", "length")]
    assert stored_names((".aim", *scales)) == (".aim", ".curvature", ".price", ".learning", ".scale")
    assert stored_names((".aim", *scales[:3])) == (".aim", *scales[:3])


def test_the_moments_of_two_stage_are_stored_where_they_were():
    names = (".belief.effect", ".belief.key", ".belief.moments.count", ".belief.moments.cross")
    assert stored_names(names) == (".belief.effect", ".belief.key", ".belief.count", ".belief.cross")


def test_classes_that_happen_to_have_a_former_name_are_left_alone():
    """Of a file that is not old: your own safety called `Pull`."""
    for identity in (
        {"method": "Mine", "method.safety": "Pull"},
        {"method": "SafePrimalDual", "method.learner": "LeastSquares", "method.safety": "Pull"},
    ):
        assert present_identity(identity) == identity


def test_a_file_with_a_history_of_two_arrays_opens(tmp_path, monkeypatch):
    """It was stored as decisions and samples; the study continues from its own state."""
    random = np.random.default_rng(0)
    decisions, samples = random.uniform(1.0, 2.0, size=(9, 2)), random.normal(size=(9, 2))
    method = pf.safe_apda(market_problem(), history=(decisions, samples))

    def earlier(given, points):
        values = {
            path: value for path, value in identities.identity(given, points).items() if "method.history" not in path
        }
        return values | {
            "method.history[0]": decisions,
            "method.history[1]": samples,
            "method.init().round": np.array(1),
        }

    class Earlier:
        def __getattr__(self, name):
            return earlier if name == "identity" else getattr(identities, name)

    with monkeypatch.context() as patched:
        patched.setattr("performative.study.study.identity", Earlier())
        with pf.Study.create(tmp_path / "studies.db", "eu", method) as study:
            study.ask()
    with pf.Study.open(tmp_path / "studies.db", "eu", method) as study:
        study.tell(study.pending, np.ones((1, 1, 2)))
        assert study.ask().round == 1
    with pytest.raises(pf.OtherMethod, match=r"method\.history"):
        pf.Study.open(tmp_path / "studies.db", "eu", pf.safe_apda(market_problem(), history=(decisions, samples + 1.0)))
