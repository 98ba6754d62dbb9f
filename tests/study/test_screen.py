"""The status as people read it: in 80 columns, in the user's words, from a status of any kind."""

import numpy as np
import pytest

from performative.reasons import Explanation
from performative.study import Labels, Status
from performative.study.belief import Gain, Predicted

LABELS = Labels.of(["milk", "bread"], ["milk", "bread"], "EUR", "pieces", "profit", "EUR", "shop", "week")
EARLY = "too early, 2 more deployments"
THEORY = ("multiplier", "slack", "theta", "θ", "risk", "coordinate", "λ")


def at(risk, half, decision=(3.0, 2.0)):
    return Predicted(np.array(decision), risk, risk - half, risk + half)


def status(labels=LABELS, **changes):
    """After three weeks, in which profit rose from 20 to 24."""
    start = np.array([2.0, 2.0])
    known = Status(
        name="shop", round=3, told=3, decision=np.array([3.0, 2.0]), deployed=np.array([[3.1, 2.0]]),
        multipliers={"basket": 3.1, "floor": 0.0}, slack={"basket": 0.0, "floor": 1.2},
        slack_history=np.array([[1.0, np.nan], [0.5, 2.0], [0.0, 1.2]]), effect=np.array([[-2.0, 0.0], [0.5, -1.0]]),
        effect_error=np.array([[0.1, 110.0], [0.2, 0.3]]), now=at(-24.0, 0.5), gain=Gain(start, 4.0, 1.6, 6.4),
        stable=None, optimum=at(-25.0, 0.7), exploration_cost=0.6, why=Explanation(("deploys its best guess",), {}),
        next_action="ask for the next decisions", warnings=("the clock was set back",), labels=labels,
        outcome=labels.outcome(5), is_open=False, deployed_slack={"basket": 0.0, "floor": 1.2},
        start=at(-20.0, 0.5, start), losses=np.array([-20.0, -22.0, -24.0]), samples=np.array([5, 5, 5]),
    )  # fmt: skip
    return known._replace(**changes)


def test_a_status_speaks_the_users_language():
    assert (
        str(status())
        == """study shop: 3 weeks reported

             deployed last  best guess  start
  milk EUR             3.1           3      2
  bread EUR              2           2      2

profit a shop, in EUR
  at the start            20.0 (95 %: 19.5 to 20.5)
  at the best guess       24.0 (95 %: 23.5 to 24.5)
  possible at best        25.0 (95 %: 24.3 to 25.7), with milk 3, bread 2
  gain over the start     +20 % (95 %: +8 to +32), that is +4.0 (+1.6 to +6.4)
  trying things out cost  0.2 EUR a shop on average
  week by week            20.00 to 24.00, last 24.00
  ▁▅█

room left in basket: 0 (least so far: 0); it costs you about 3.1 EUR a shop per
  unit
room left in floor: 1.2 (least so far: 1.2)

what one EUR more does (column) to what is reported (row), in pieces, ± standard
  error
                 milk          bread
  milk   -2.00 ± 0.10  not known yet
  bread   0.50 ± 0.20   -1.00 ± 0.30

why: deploys its best guess
warning: the clock was set back
next: ask for the next decisions"""
    )


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"labels": Labels(), "outcome": Labels().outcome(1)},
        {"now": at(None or 0.0, 1.0)._replace(risk=None, low=None, high=None, reason=EARLY)},
        {
            "now": None,
            "gain": None,
            "optimum": None,
            "effect": None,
            "told": 0,
            "losses": np.zeros(0),
            "deployed": None,
        },
        {"why": Explanation(("",), {}, {"allowed": 12.0, "spent": 1.0, "left": 11.0}, (0.5, 0.25))},
        {"deployed": np.ones((5, 2))},
        {"losses": np.random.default_rng(0).normal(size=500), "told": 500},
    ],
)
def test_every_status_fits_80_columns_and_has_no_word_of_the_theory(changes):
    text = str(status(**changes))
    assert max(map(len, text.splitlines())) <= 80
    assert [word for word in THEORY if word in text] == []
    assert "θ_t" in status(**changes).theory()


def test_before_anything_is_sure_it_says_so_once():
    early = Predicted(np.array([3.0, 2.0]), None, None, None, EARLY)
    text = str(status(now=early, start=early, optimum=early, gain=Gain(np.zeros(2), None, None, None, EARLY)))
    assert "  now, and against the start  too early, 2 more weeks\n" in text
    assert text.count("too early") == 1
    assert "trying things out cost" not in text


@pytest.mark.parametrize(
    ("start", "gain", "line"),
    [
        (at(-20.0, 0.5), 4.0, "+20 % (95 %: +10 to +30), that is +4.0 (+2.0 to +6.0)"),
        (at(-0.4, 0.5), 4.0, "+4.0 (95 %: +2.0 to +6.0)"),  # next to nothing, as far as is known
        (at(5.0, 0.5), 4.0, "+4.0 (95 %: +2.0 to +6.0)"),  # a loss has no share that makes sense
        (at(-0.1, 0.01), 4.0, "+4.0 (95 %: +2.0 to +6.0)"),  # forty times as much
        (at(-4000.0, 9.0), 4.0, "+0.10 % (95 %: +0.05 to +0.15), that is +4.0 (+2.0 to +6.0)"),
    ],
)
def test_a_gain_is_a_share_where_that_makes_sense(start, gain, line):
    one = status(start=start, gain=Gain(np.zeros(2), gain, gain - 2.0, gain + 2.0))
    assert f"gain over the start     {line}" in str(one).replace(
        "(+2.0 to\n                          +6.0)", "(+2.0 to +6.0)"
    )
    share = one.plain()["gain_share"]
    assert (share is None) == ("%" not in line.split("(")[0])


def test_a_limit_that_is_violated_says_so():
    text = str(status(deployed_slack={"basket": -0.3, "floor": 1.2}, slack={"basket": -0.3, "floor": 1.2}))
    assert "room left in basket: -0.3 (least so far: 0); what is deployed violates it\n" in text


def test_an_effect_of_which_nothing_is_sure_is_not_shown():
    assert "how the data react: not known yet" in str(status(effect_error=np.full((2, 2), 110.0)))
    assert "± 110" not in str(status())


def test_effects_of_many_products_are_their_own():
    names = [f"product {i}" for i in range(20)]
    labels = Labels.of(names, names)
    many = {"decision": np.ones(20), "deployed": np.ones((1, 20)), "optimum": None, "gain": None}
    text = str(status(labels, effect=-np.eye(20), effect_error=np.full((20, 20), 0.1), **many))
    assert "  product 19  -1.00 ± 0.10\n  how each acts on others: `performative study plot`, or --json" in text
    other = labels._replace(data=tuple(name.upper() for name in names))
    text = str(status(other, effect=-np.eye(20), effect_error=np.full((20, 20), 0.1), **many))
    assert "  … and 16 more: `performative study plot`, or --json" in text
    assert max(map(len, text.splitlines())) <= 80
