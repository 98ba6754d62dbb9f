"""Names of decisions and data: given once, kept with the study, and used wherever numbers are shown or read."""

import re

import numpy as np
import pandas as pd
import pytest
from described import SPEC
from hypothesis import given
from hypothesis import strategies as st
from market import PROBLEM, answer

import performative as pf
from performative.errors import SpecError
from performative.study import Labels
from performative.study.spec import describe

NAMED = Labels.of(["milk", "bread"], ["milk", "bread"], "EUR", ["l", "kg"])
IN_TOML = SPEC.replace("upper = [4.0, 4.0]", 'upper = [4.0, 4.0]\ncolumns = ["milk", "bread"]\nunits = "EUR"') + (
    '[data]\ncolumns = ["milk", "bread"]\nunits = ["l", "kg"]\n'
)


@pytest.fixture
def named(path):
    with pf.Study.create(path, "eu", pf.repeated_gradient(PROBLEM), labels=NAMED) as study:
        yield study


def test_names_are_kept_with_the_study(named, path):
    with pf.Study.open(path, "eu", readonly=True) as again:
        assert again.labels == NAMED
    assert next(named.events()).labels == NAMED


def test_an_alphabetical_export_is_put_in_order(named):
    deployment = named.ask()
    data = answer(deployment)
    named.tell(deployment, pd.DataFrame(data[0], columns=["milk", "bread"])[["bread", "milk"]])
    *_, last = named.events()
    np.testing.assert_array_equal(last.samples, data)
    assert last.columns == ["milk", "bread"]


def test_arrays_are_in_order_and_other_names_are_refused(named):
    deployment = named.ask()
    with pytest.raises(
        ValueError, match="must have the columns milk, bread, in any order, but missing: milk; unknown: beer"
    ):
        named.tell(deployment, pd.DataFrame({"bread": [1.0], "beer": [2.0]}), in_order=True)
    with pytest.raises(ValueError, match=r"must hold 2 numbers each \(milk, bread\), but got 3"):
        named.tell(deployment, np.ones((1, 1, 3)))
    named.tell(deployment, pd.DataFrame(answer(deployment)[0]))
    np.testing.assert_array_equal(
        named.history()["data"].sel(number="bread"), answer(deployment)[:, :, 1].mean(axis=1)[None]
    )


def test_a_table_with_names_is_refused_by_a_study_that_knows_none(study):
    deployment = study.ask()
    with pytest.raises(ValueError, match=r"has the columns b, a, but the study knows no names: .* in_order=True"):
        study.tell(deployment, pd.DataFrame({"b": [1.0], "a": [2.0]}))
    study.tell(deployment, pd.DataFrame({"b": [1.0], "a": [2.0]}), in_order=True)
    assert study.labels.data == ("b", "a")


def test_numbers_are_shown_by_name(named):
    named.tell(named.ask(), answer(named.ask()))
    status = str(named.status())
    assert re.search(r"deployed last +best guess +start\n  milk EUR +[\d.]+ +[\d.]+ +[\d.]+\n  bread EUR ", status)
    assert re.search(r"θ_t        milk [\d.]+ EUR, bread [\d.]+ EUR", named.status().theory())
    assert named.status().plain()["labels"]["data"] == ["milk", "bread"]
    past = named.history()
    assert past["dimension"].values.tolist() == ["milk", "bread"]
    assert past["number"].attrs["units"] == ["l", "kg"]
    assert {"theta_milk", "theta_bread", "mean_milk", "mean_bread"} <= set(next(named.records()))


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"decisions": ["milk", "milk"]}, "`decisions` must hold different names, but has 'milk' more than once"),
        ({"decisions": ["caf\u00e9", "caf\u0065\u0301"]}, "must hold different names"),
        ({"data": ["milk", " "]}, "`data` must not hold empty names"),
        ({"data": "milk"}, "`data` must be a list of names, but got 'milk'"),
        ({"data": ["decision", "milk"]}, "`data` must not hold 'decision'"),
        ({"data_units": "kg"}, "`data_units` must come with names"),
        (
            {"decisions": ["milk", "bread"], "decision_units": ["EUR"]},
            "`decision_units` must be one unit for all or a list of 2",
        ),
    ],
)
def test_names_that_cannot_be_meant_are_refused(given, match):
    with pytest.raises(ValueError, match=match):
        Labels.of(**given)


@pytest.mark.parametrize(
    ("labels", "match"),
    [
        (Labels.of(["milk"]), r"`decisions` must be 2 names, one for each number, but are \['milk'\]"),
        (
            Labels.of(data=["milk", "bread", "beer"]),
            "`data` must name samples that the loss accepts, but names 3 numbers",
        ),
    ],
)
def test_names_that_do_not_fit_are_refused_before_a_file_exists(path, labels, match):
    with pytest.raises(ValueError, match=match):
        pf.Study.create(path, "eu", pf.repeated_gradient(PROBLEM), labels=labels)
    assert not path.exists()


def test_data_are_not_in_another_order_than_in_the_history(path):
    frame = pd.DataFrame({"p": [1.0, 2.0], "q": [1.0, 1.5], "b": [3.0, 2.0], "a": [5.0, 4.0]})
    method = pf.safe_apda(PROBLEM, history=pf.Past.from_frame(frame, decisions=["p", "q"], data=["a", "b"]))
    with pytest.raises(
        ValueError, match=r"`data` must be in the order of the history, \['a', 'b'\], but is \['b', 'a'\]"
    ):
        pf.Study.create(path, "eu", method, labels=Labels.of(data=["b", "a"]))
    with pf.Study.create(path, "eu", method) as study:
        assert study.labels.data == ("a", "b")


IN_WORDS = IN_TOML.replace('name = "eu"', 'name = "eu"\nperiod = "week"').replace(
    'type = "revenue"', 'type = "revenue"\nshow = "profit"\nunit = "EUR"\nper = "store-day"'
)


def test_a_description_may_say_what_a_loss_is_shown_as():
    described = describe(IN_WORDS)
    assert described.labels == NAMED._replace(show="profit", unit="EUR", per="store-day", period="week")
    assert described.labels.outcome(5).each == "profit a store-day"
    assert Labels.of_plain(described.labels.plain()) == described.labels
    for old, new, line in (
        ('"profit"', "3", "loss.show: must be a name, but got 3"),
        ('"profit"', '" "', "loss.show: must be a word, but got ' '"),
        ('"week"', '""', "period: must be a name, but got ''"),
        ('"week"', '"a\\nweek"', "period: must be a word"),
        ("unit = ", "units = ", "loss.units: unknown key (value 'EUR'); did you mean 'unit'?"),
    ):
        with pytest.raises(SpecError, match=re.escape(line)) as refused:
            describe(IN_WORDS.replace(old, new))
        assert len(refused.value.lines) == 1


def test_words_change_nothing_that_is_computed(path, tmp_path):
    """The same study with and without them, to the bit; an amendment may change them."""
    with pf.Study.create(path, "eu", describe(IN_TOML).method, seed=3, spec=IN_TOML, labels=NAMED) as study:
        study.tell(study.ask(), answer(study.ask()))
        assert study.status().outcome.each == "loss a row"
        assert study.amendment(IN_WORDS).differences == [
            "loss.show: nothing -> 'profit'",
            "loss.unit: nothing -> 'EUR'",
            "loss.per: nothing -> 'store-day'",
            "period: nothing -> 'week'",
        ]
        before = study.ask().decisions
        study.amend(IN_WORDS, "words")
        np.testing.assert_array_equal(study.ask().decisions, before)
        assert study.verify().unreplayed == 0
        status = study.status()
        assert "profit a store-day, in EUR" in str(status)
        assert status.plain()["outcome"] == {
            "word": "profit", "unit": "EUR", "per": "store-day", "period": "week", "sign": -1,
        }  # fmt: skip
        past = study.history()
        assert {key: past.attrs[key] for key in ("show", "unit", "per", "period")} == {
            "show": "profit", "unit": "EUR", "per": "store-day", "period": "week",
        }  # fmt: skip
        assert past["basis"].values.tolist() == [0]
    with pf.Study.open(path, "eu", readonly=True) as again:
        assert again.outcome == status.outcome


def test_a_description_may_name_its_numbers():
    assert describe(IN_TOML).labels == NAMED
    assert describe(SPEC).labels == Labels()


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (
            'units = "EUR"',
            'units = ["EUR"]',
            "decisions.units: must be one unit for all or a list of 2, one for each name",
        ),
        ('columns = ["milk", "bread"]\nunits = "EUR"', 'units = "EUR"', "decisions.units: must come with names"),
        (
            'columns = ["milk", "bread"]\nunits = "EUR"',
            'columns = ["milk"]',
            "decisions.columns: must have the length 2 of",
        ),
        (
            'columns = ["milk", "bread"]\nunits = ["l"',
            'columns = ["milk", "milk"]\nunits = ["l"',
            "data.columns: must hold different",
        ),
        (
            'columns = ["milk", "bread"]\nunits = ["l"',
            'columns = []\nunits = ["l"',
            "data.columns: must be a list of names",
        ),
        (
            'columns = ["milk", "bread"]\nunits = ["l", "kg"]',
            'columns = ["a", "b", "c"]',
            "data.columns: `data` must name samples that",
        ),
        ('units = ["l", "kg"]', "unit = 3", "data.unit: unknown key (value 3); did you mean 'units'?"),
    ],
)
def test_names_in_a_description_that_cannot_be_meant_are_lines(old, new, line):
    assert old in IN_TOML
    with pytest.raises(SpecError, match=re.escape(line)):
        describe(IN_TOML.replace(old, new))


def test_names_show_how_long_a_decision_is():
    text = IN_TOML.replace('"box"', '"simplex"').replace("lower = [0.0, 0.0]\nupper = [4.0, 4.0]", "total = 1.0")
    free = re.sub(r"\[\[constraints\]\].*(?=\[loss\])", "", text, flags=re.DOTALL)
    assert describe(free).method.problem.d == 2


@given(st.lists(st.text(), max_size=4) | st.none(), st.lists(st.text(), max_size=4) | st.text() | st.none())
def test_any_names_are_kept_as_they_are_compared_or_refused(names, units):
    try:
        made = Labels.of(names, None, units)
    except ValueError:
        return
    assert Labels.of_plain(made.plain()) == made
    assert (made.decisions is None) == (names is None)
