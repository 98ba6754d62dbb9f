"""The figure of a study: whatever a history looks like, it shows what was deployed, what it brought and what is left."""

import numpy as np
import pytest
import xarray as xr

import performative as pf


def history(n, b=1, d=2, m=1, **more):
    """A history in which the first decision is the start, and loses 1 more than all others."""
    decision = np.where(np.arange(n)[:, None] == 0, 1.0, 2.0) * np.ones(d)
    deployed = np.repeat(decision[:, None], b, axis=1)
    loss = np.where(np.arange(n)[:, None] == 0, -1.0, -2.0) * np.ones(b)
    parts = {
        "decision": (("deployment", "dimension"), decision),
        "proposed": (("deployment", "probe", "dimension"), deployed.copy()),
        "deployed": (("deployment", "probe", "dimension"), deployed),
        "multipliers": (("deployment", "constraint"), np.zeros((n, m))),
        "slack": (("deployment", "probe", "constraint"), np.ones((n, b, m)) * np.arange(1, m + 1)),
        "loss": (("deployment", "probe"), loss),
        "loss_error": (("deployment", "probe"), np.full((n, b), 0.1)),
        "samples": (("deployment",), np.full(n, 5)),
        "basis": (("deployment",), np.zeros(n, int)),
        "loss_since": (("deployment",), np.zeros(n, int)),
    }
    names = {"dimension": [f"product {i}" for i in range(d)], "constraint": [f"limit {i}" for i in range(m)]}
    attrs = {"study": "shop", "seed": 0, "show": "profit", "unit": "EUR", "per": "week", "period": "week"}
    return xr.Dataset(parts | more, names, attrs)


def titled(figure):
    return {axes.get_title(loc="left"): axes for axes in figure.axes}


def texts(axes):
    return [text.get_text() for text in axes.texts]


def lines(axes):
    return [line.get_ydata() for line in axes.lines]


def test_a_profit_goes_up_and_is_added_up_over_the_start():
    axes = titled(pf.plot(history(4)))
    profit = axes["profit a week, EUR (95 % intervals; dashed: the start)"]
    np.testing.assert_array_equal(lines(profit)[0], np.ones(4))  # the start
    np.testing.assert_array_equal(lines(profit)[1], [1, 2, 2, 2])
    np.testing.assert_array_equal(lines(axes["gain over the start so far, EUR"])[1], [0, 1, 2, 3])


def test_what_rows_bring_is_added_up_over_all_of_them():
    past = history(3).assign_attrs(per="day")
    axes = titled(pf.plot(past))
    np.testing.assert_array_equal(lines(axes["gain over the start so far, EUR over all days reported"])[1], [0, 5, 10])


def test_a_loss_that_falls_is_a_gain():
    past = history(3)
    del past.attrs["show"]
    axes = titled(pf.plot(past))
    np.testing.assert_array_equal(lines(axes["gain over the start so far, EUR"])[1], [0, 1, 2])


def test_what_is_believed_of_the_start_goes_before_what_it_brought():
    past = history(3).assign_attrs(start_risk=-1.5, start_low=-1.6, start_high=-1.4)
    axes = titled(pf.plot(past))
    np.testing.assert_allclose(lines(axes["gain over the start so far, EUR"])[1], [-0.5, 0.0, 0.5])


def test_another_loss_has_another_start():
    """From the third deployment on the loss is another one, in which nothing is known of the start."""
    past = history(4)
    past["basis"][2:] = past["loss_since"][2:] = 9
    axes = titled(pf.plot(past))
    np.testing.assert_array_equal(lines(axes["gain over the start so far, EUR"])[1], [0, 1, np.nan, np.nan])
    believed = titled(pf.plot(past.assign_attrs(start_risk=-1.5, start_low=-1.6, start_high=-1.4)))
    np.testing.assert_allclose(lines(believed["gain over the start so far, EUR"])[1], [0, 1, 1.5, 2])


def test_another_method_with_the_same_loss_has_the_same_start():
    past = history(4)
    past["basis"][2:] = 9
    axes = titled(pf.plot(past))
    np.testing.assert_array_equal(lines(axes["gain over the start so far, EUR"])[1], [0, 1, 2, 3])


def test_what_was_deployed_to_try_something_out_is_marked():
    past = history(4)
    for name in ("deployed", "proposed"):
        past[name][2, 0, 1] = 2.5
    axes = titled(pf.plot(past))
    _, _, guessed, tried, _ = lines(axes["product 1"])
    assert guessed.tolist() == [1, 2, 2]
    assert tried.tolist() == [2.5]
    assert lines(axes["product 0"])[3].tolist() == []


def test_prices_that_were_rounded_were_not_tried_out():
    past = history(4)
    past["deployed"][2, 0, 1] = 1.99
    guessed, tried = lines(titled(pf.plot(past))["product 1"])[2:4]
    assert (guessed.tolist(), tried.tolist()) == ([1, 2, 1.99, 2], [])


@pytest.mark.parametrize(
    ("n", "b", "d", "m"), [(0, 1, 1, 1), (1, 1, 1, 0), (3, 5, 20, 9), (5000, 1, 2, 1), (2, 2, 25, 0)]
)
def test_every_size_is_drawn(n, b, d, m):
    figure = pf.plot(history(n, b, d, m))
    assert len(figure.axes) == min(d, 20) + 4
    if n == 0:
        assert texts(figure.axes[0]) == ["nothing was reported yet"]
    drawn = max((len(curve) for axes in figure.axes for curve in lines(axes)), default=0)
    assert drawn <= 2000
    rooms = next(axes for title, axes in titled(figure).items() if title.startswith("room left"))
    if m == 0:
        assert texts(rooms) == ["no limits were set"]
    elif n:
        labels = [text.get_text() for text in rooms.get_legend().get_texts()]
        assert labels == [f"limit {i}: {i + 1} left" for i in range(min(m, 6))]


@pytest.mark.parametrize("d", [2, 20])
def test_an_effect_has_a_label_and_an_error_for_each_entry(d):
    effect = -np.eye(d)
    known = np.ones((d, d), bool)
    known[0, 1] = False
    more = {"effect": effect, "effect_error": np.full((d, d), 0.1), "effect_known": known}
    figure = pf.plot(history(3, d=d, **{name: (("reaction", "of"), part) for name, part in more.items()}))
    maps = [axes for axes in figure.axes if axes.images]
    assert len(maps) == (1 if d == 2 else 2)
    assert [tick.get_text() for tick in maps[0].get_xticklabels()] == [f"product {i}" for i in range(d)]
    assert texts(maps[0]) == (["-1.00\n± 0.10", "?", "0.00\n± 0.10", "-1.00\n± 0.10"] if d == 2 else ["?"])
    if d == 20:
        np.testing.assert_array_equal(maps[1].images[0].get_array().compressed(), np.full(399, 0.1))
