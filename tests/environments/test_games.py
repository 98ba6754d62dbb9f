"""Games: what one player sees while the others stay put, and what is refused."""

import numpy as np
import pytest

import performative as pf


def test_a_player_sees_a_location_family_around_the_others():
    effects = [np.array([[-1.0], [0.0]]), np.array([[0.4], [0.2]]), np.array([[0.0], [-0.3]])]
    game = pf.LocationGame(pf.Gaussian([3.0, 1.0], 0.1 * np.ones(2)), effects)
    view = game.view(0, [None, [2.0], [1.0]])
    np.testing.assert_allclose(view.base.mean, [3.8, 1.1])
    np.testing.assert_array_equal(view.effect, effects[0])
    table = pf.LocationGame(pf.Empirical(np.eye(2)), effects[:2]).view(1, [[2.0], None])
    np.testing.assert_allclose(table.base.samples, [[-1.0, 0.0], [-2.0, 1.0]])


ONE = [[1.0]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pf.LocationGame(pf.Gaussian(0.0, 1.0), [ONE]), "at least two players"),
        (lambda: pf.LocationGame(pf.Gaussian(0.0, 1.0), [ONE, [[1.0], [2.0]]]), "one row for each of the 1 numbers"),
        (
            lambda: pf.LocationGame(pf.Gaussian(0.0, 1.0), [ONE] * 2).view(2, [[0.0]] * 2),
            "`player` must be at most 1",
        ),
        (lambda: pf.LocationGame(pf.Gaussian(0.0, 1.0), [ONE] * 2).view(0, [[0.0], [0.0, 1.0]]), "must have shape"),
    ],
)
def test_games_that_make_no_sense_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
