"""Words and numbers as people read them: digits that mean something, amounts with their unit, and what a loss is shown as."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from performative.wording import Outcome, alike, counted, interval, number, room

FINITE = st.floats(-1e12, 1e12)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (-0.0, "0"), (2.0, "2"), (3.14159, "3.142"), (-249.1, "-249.1"), (12345.6, "12,346"), (2e-8, "2e-08")],
)
def test_numbers_have_four_digits_and_no_exponent_where_they_can_do(value, text):
    assert number(value) == text


@given(FINITE, st.integers(2, 6))
def test_a_number_is_close_to_what_it_says(value, digits):
    assert float(number(value, digits).replace(",", "")) == pytest.approx(value, rel=10.0 ** (1 - digits), abs=0)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((31.3987, 31.2277, 31.5697), ("31.40", "31.23", "31.57")),  # ± 0.17
        ((30.960, 30.873, 31.047), ("30.96", "30.87", "31.05")),  # ± 0.087
        ((9.29, 8.86, 9.71), ("9.3", "8.9", "9.7")),  # ± 0.42
        ((-5.0, -4.0, -60.0), ("-5", "-60", "-4")),  # ends in order, whatever the sign did to them
        ((1.0, 1.0, 1.0), ("1", "1", "1")),
    ],
)
def test_an_interval_shows_the_decimals_that_its_width_leaves(values, expected):
    assert interval(*values) == expected


@given(st.lists(FINITE, min_size=1, max_size=4), st.floats(1e-9, 1e12))
def test_rounding_is_small_against_the_error(values, error):
    for value, text in zip(values, alike(values, error), strict=True):
        shown = float(text.replace(",", ""))
        assert abs(shown - value) <= max(0.5 * error, 1e-3 * max(map(abs, values)))


def test_a_loss_stays_one_where_nothing_is_said():
    loss = Outcome.of()
    assert (loss.each, loss.amount(2.5), loss.sign, loss.place(3, 7)) == (
        "loss a deployment",
        "2.5 a deployment",
        1,
        "round 7",
    )
    assert Outcome.of(rows=50).each == "loss a row"


def test_a_profit_is_a_loss_turned():
    """An outcome is the mean of rows, so it is that of a week only if a row is one, or somebody says that it is."""
    weekly = {"show": "profit", "unit": "EUR", "period": "week"}
    assert Outcome.of(**weekly).each == "profit a week"
    assert Outcome.of(**weekly, rows=50).each == "profit a row"
    assert Outcome.of(**weekly, per="week", rows=50).each == "profit a week"
    profit = Outcome.of(**weekly, per="hour", rows=50)
    assert (profit.each, profit.rate, profit.sign, profit.place(3, 7)) == (
        "profit an hour",
        "EUR an hour",
        -1,
        "week 4",
    )
    assert Outcome.of(**profit.plain()) == profit


def test_words_are_counted():
    assert [counted(n, "delivery") for n in (0, 1, 2)] == ["0 deliveries", "1 delivery", "2 deliveries"]
    assert (counted(2, "day"), counted(1000, "batch")) == ("2 days", "1,000 batches")


def test_room_that_is_rounding_is_none():
    assert (room(2e-8, 3.0), room(-2e-8, 3.0), room(1.2, 3.0), room(-0.3, 3.0)) == ("0", "0", "1.2", "-0.3")
