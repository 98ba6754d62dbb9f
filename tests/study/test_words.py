"""A study in a terminal: names of products, bars and columns."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from performative.study import Labels
from performative.study.words import BARS, holds, moved, printable, sparkline, table


def test_the_farthest_moves_are_named():
    move = np.array([0.5, 0.0, -2.0, 0.25])
    assert moved(move, Labels()) == "number 0 +0.5, number 2 -2, number 3 +0.25"
    named = Labels.of(["a", "b", "c", "d"], decision_units=["EUR", "EUR", "USD", ""])
    assert moved(move, named, most=2) == "a +0.5 EUR, c -2 USD and 1 more by less"


def test_a_limit_holds_if_it_costs_something_and_leaves_no_room():
    three = np.array([3.0])
    assert holds(2e-8, 3.1, three)
    assert not holds(2e-8, 0.0, three)
    assert not holds(0.5, 3.1, three)


@given(st.lists(st.floats(-1e300, 1e300) | st.sampled_from([np.nan, np.inf]), max_size=300), st.integers(1, 80))
def test_a_sparkline_fits_and_keeps_order(values, width):
    line = sparkline(np.array(values), width)
    assert len(line) == min(len(values), width)
    assert set(line) <= {*BARS, " "}
    if len(values) <= width:
        shown = [(value, BARS.index(bar)) for value, bar in zip(values, line, strict=True) if np.isfinite(value)]
        levels = [level for _, level in sorted(shown)]
        assert levels == sorted(levels)


def test_a_sparkline_averages_what_does_not_fit():
    assert sparkline(np.repeat([0.0, 1.0], 300), 4) == "▁▁██"
    assert sparkline(np.array([0.0, 1.0]), up=False) == "█▁"


def test_a_terminal_that_knows_few_signs_gets_others():
    text = "▁█ 1 ± 2 …"
    assert printable(text, "utf-8") == text
    assert printable(text, "ascii") == "_# 1 +- 2 ..."
    assert printable(text, None) == text


def test_columns_stand_below_each_other():
    assert table(["", "now", "start"], [["milk", "2.5", "2"], ["bread", "10", "1.25"]]) == [
        "         now  start",
        "  milk   2.5      2",
        "  bread   10   1.25",
    ]
