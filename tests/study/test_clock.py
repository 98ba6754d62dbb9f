"""A clock that is set back."""

import numpy as np
from market import answer

from performative.study import cautions, session
from performative.study.clock import set_back


def test_a_clock_that_was_set_back_is_noted(study, monkeypatch):
    """Between two deployments, as the status says it, once."""
    now = [1e9]
    monkeypatch.setattr(session.time, "time", lambda: now[0])
    for step in (60.0, 60.0, -7200.0, 60.0):
        now[0] += step
        deployment = study.ask()
        study.tell(deployment, answer(deployment))
    said = [warning for warning in study.status().warnings if "clock" in warning]
    assert said == ["the clock was set back by 2:00:00 before deployment 5 was reported: dates in the log are wrong"]


def test_what_is_in_order_is_not_noted():
    asked = np.array([10.0, 20.0, 30.0])
    assert [*cautions.clock(np.array([1, 3, 5]), asked, asked + 5.0)] == []
    assert [*cautions.clock(np.array([1, 3, 5]), asked, asked + np.array([100.0, 0.0, 1.0]))] == []  # told again later
    assert [*cautions.clock(np.array([5, 3, 1]), asked[::-1], asked[::-1])] == []
    assert [*cautions.clock(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))] == []
    told = asked - np.array([0.0, 9.0, 0.0])
    assert [*cautions.clock(np.array([1, 3, 5]), asked, told)] == [
        "the clock was set back by 0:00:09 before deployment 3 was reported: dates in the log are wrong"
    ]
    assert set_back(5.0, 5.0) is None
