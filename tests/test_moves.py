"""How far a decision may be from the one deployed before it."""

from __future__ import annotations

import numpy as np
import pytest
from playing import small
from scanning import scan

import performative as pf
from performative.moves import Moves
from performative.numerics.precision import precise
from performative.numerics.randomness import new_key


def test_shares_are_of_the_last_decision_and_numbers_are_not():
    """A share is of a tenth of the start at least."""
    moves = Moves.of(["5%", 0.5], np.array([2.0, 2.0]))
    np.testing.assert_allclose(
        moves.limits(np.array([[4.0, 4.0], [-1.0, 0.0], [0.0, 0.0]])),
        [[0.2, 0.5], [0.05, 0.5], [0.01, 0.5]],
        rtol=1e-6,
    )
    np.testing.assert_allclose(Moves.of("10%", np.ones(2)).limits(np.ones(2)), [0.1, 0.1])


@pytest.mark.slow
def test_no_deployment_moves_farther_than_its_share():
    problem, environment = small()
    method = pf.safe_apda(problem, start=[-1.0, 0.5], max_move=["5%", 0.02])
    runs = scan(method, environment, 30)
    decisions = np.concatenate([runs.first[0][0], runs.later[0][0].reshape(-1, 2)])
    apart = np.abs(np.diff(decisions, axis=0))
    assert np.all(apart[:, 0] <= 0.05 * np.maximum(np.abs(decisions[:-1, 0]), 0.1) * (1 + 1e-9))
    assert np.all(apart[:, 1] <= 0.02 * (1 + 1e-9))
    assert np.max(apart[:, 0] / np.abs(decisions[:-1, 0])) > 0.049  # it does move


@pytest.mark.slow
def test_a_decision_at_zero_may_move_by_a_share_of_the_start():
    problem, _ = small()
    method = pf.safe_apda(problem, start=[-1.0, 0.5], max_move="100%")
    state = method.tell(method.init(new_key(0)), np.zeros((1, 2)), np.ones((1, 1, 2)))
    assert np.all(np.isfinite(method.ask(state, new_key(1))))


def test_a_feasible_decision_follows_one_that_was_not_however_far_it_is():
    problem, _ = small()
    method = pf.safe_apda(problem, start=[-1.0, 0.5], max_move=0.1)
    state = method.tell(method.init(new_key(0)), np.array([[2.0, 2.0]]), np.ones((1, 1, 2)))
    with precise():
        assert np.all(problem.g(np.asarray(method.ask(state, new_key(1))[0])) <= 0.0)


@pytest.mark.parametrize(
    ("max_move", "message"),
    [
        ("5", "`max_move` must be a number > 0 or a share such as '5%', but got '5'"),
        ("-5%", "a share such as '5%', but got '-5%'"),
        (["5%", 0.1], "must be a number where the start is 0, of which any share is 0, but got '5%' for coordinate 0"),
        ([0.1], "`max_move` must be positive, one number or 2"),
        (True, "`max_move` must be positive, one number or 2"),
    ],
)
def test_moves_that_make_no_sense_are_refused(max_move, message):
    with pytest.raises(ValueError, match=message):
        pf.safe_apda(small()[0], start=[0.0, 0.5], max_move=max_move)
