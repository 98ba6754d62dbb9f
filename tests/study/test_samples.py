"""What `tell` accepts: arrays and data frames of finite numbers, all as wide as the first."""

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from market import PROBLEM, answer, run, stored

import performative as pf
from performative.study.samples import really_deployed


def test_data_frames(path):
    with pf.Study.create(path, "eu", pf.apda(PROBLEM, warmup=4)) as study:
        first = study.ask()
        study.tell(first, pd.DataFrame(answer(first)[0], columns=["a", "b"]), in_order=True)
        second = study.ask()
        study.tell(second, [pd.DataFrame(part) for part in answer(second)])
        assert study.verify().told == 2
        third = study.ask()
        with pytest.raises(ValueError, match="numeric"):
            study.tell(third, [pd.DataFrame({"a": ["x"], "b": [1.0]})] * 2)


def test_columns_are_known_by_the_names_of_the_first_tell(path):
    with pf.Study.create(path, "eu", pf.apda(PROBLEM, warmup=4)) as study:
        first = study.ask()
        study.tell(first, pd.DataFrame(answer(first)[0], columns=["a", "b"]), in_order=True)
    with pf.Study.open(path, "eu", pf.apda(PROBLEM, warmup=4)) as study:
        study.tell(first, pd.DataFrame(answer(first)[0], columns=["a", "b"])[["b", "a"]])  # the same again
        second = study.ask()
        before = stored(path)
        for names in (["a", "c"], ["a", "b", "c"]):
            with pytest.raises(ValueError, match=r"must have the columns a, b, in any order, but .*unknown: c"):
                study.tell(second, [pd.DataFrame(0.0, [0], names)] * 2)
        assert stored(path) == before
        study.tell(second, [pd.DataFrame(part, columns=["a", "b"])[["b", "a"]] for part in answer(second)])
        *_, last = study.events()
        np.testing.assert_array_equal(last.samples, answer(second))


def test_columns_are_known_by_the_names_of_the_history(path):
    frame = pd.DataFrame({"p": [1.0, 2.0], "q": [1.0, 1.5], "b": [3.0, 2.0], "a": [5.0, 4.0]})
    past = pf.Past.from_frame(frame, decisions=["p", "q"], data=["a", "b"])
    with pf.Study.create(path, "eu", pf.safe_apda(PROBLEM, history=past)) as study:
        deployment = study.ask()
        with pytest.raises(ValueError, match="must have the columns a, b, in any order, but missing: b; unknown: c"):
            study.tell(deployment, pd.DataFrame({"a": [1.0], "c": [2.0]}))
        study.tell(deployment, pd.DataFrame({"b": [2.0], "a": [1.0]}))
        *_, last = study.events()
        np.testing.assert_array_equal(last.samples, [[[1.0, 2.0]]])
        assert last.columns == ["a", "b"]


def test_columns_of_the_first_frame_are_kept_where_arrays_were_told_before(path):
    method = pf.repeated_gradient(PROBLEM)
    with pf.Study.create(path, "eu", method) as study:
        study.tell(study.ask(), answer(study.ask()))
        study.tell(study.ask(), pd.DataFrame({"a": [1.0], "b": [2.0]}), in_order=True)
        study.tell(study.ask(), answer(study.ask()))
    with pf.Study.open(path, "eu", method) as study:
        study.tell(study.ask(), pd.DataFrame({"b": [2.0], "a": [1.0]}))
        *_, last = study.events()
        np.testing.assert_array_equal(last.samples, [[[1.0, 2.0]]])


BAD = {
    "nan": (lambda d: np.full((1, 1, 2), np.nan), "must be finite, but got nan"),
    "inf": (lambda d: np.full((1, 1, 2), np.inf), "must be finite, but got inf"),
    "two axes": (lambda d: np.zeros((1, 2)), r"must have shape \(1, n, k\), but got \(1, 2\)"),
    "two decisions": (lambda d: np.zeros((2, 1, 2)), r"must have shape \(1, n, k\)"),
    "too wide": (lambda d: np.zeros((1, 1, 3)), "must take a decision"),
    "strings": (lambda d: [[["a", "b"]]], "must be numbers"),
    "texts of numbers": (lambda d: [[["1", "2"]]], "must be numbers"),
    "dates": (lambda d: np.zeros((1, 1, 2), "datetime64[D]"), "must be numbers"),
    "complex": (lambda d: np.zeros((1, 1, 2), complex), "must be numbers"),
    "masked": (lambda d: np.ma.masked_array(np.zeros((1, 1, 2)), [[[True, False]]]), "masked"),
    "none": (lambda d: None, "must be numbers"),
    "empty": (lambda d: np.zeros((1, 0, 2)), "must have shape"),
    "nothing": (lambda d: [], "must have shape"),
    "ragged": (lambda d: [[[1.0, 2.0], [1.0]]], "must be numbers"),
    "a gigabyte": (lambda d: np.broadcast_to(0.0, (1, 2**26, 2)), "must hold at most 33554432 numbers"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_samples_are_refused_and_nothing_changes(study, path, name):
    deployment = study.ask()
    before = stored(path)
    make, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        study.tell(deployment, make(deployment))
    assert stored(path) == before
    study.tell(deployment, answer(deployment))
    assert study.verify().told == 1


def test_samples_that_would_ruin_the_state_are_refused(path):
    with pf.Study.create(path, "eu", pf.safe_apda(PROBLEM)) as study:
        run(study, 3)
        before = stored(path)
        with pytest.raises(ValueError, match=r"must lead to a finite state, but .* would not be finite"):
            study.tell(study.ask(), np.full((1, 1, 2), 1e160), confirm=True)
        assert stored(path) == before


def test_samples_as_wide_as_before(study):
    problem = pf.Problem(lambda t, z: jnp.sum(t**2) + jnp.sum(z), pf.Box([0.0], [1.0]))
    with pf.Study.create(study._session.log.store.path, "other", pf.repeated_gradient(problem)) as other:
        other.tell(other.ask(), np.ones((1, 1, 3)))
        with pytest.raises(ValueError, match="must hold 3 numbers each, as in earlier rounds"):
            other.tell(other.ask(), np.ones((1, 1, 2)))


@given(st.lists(st.floats(-1e6, 1e6), min_size=4, max_size=4))
def test_really_deployed_takes_any_finite_decisions_of_the_right_shape(numbers):
    asked = np.zeros((2, 2))
    deployed = really_deployed(np.reshape(numbers, (2, 2)).tolist(), asked)
    if deployed is None:
        assert not np.any(numbers)
    else:
        assert deployed.ravel().tolist() == numbers
