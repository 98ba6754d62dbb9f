"""What a simulation measures against."""

import numpy as np
import pytest

from performative.simulation.truths import ROUNDS, _grid


@pytest.mark.parametrize("period", [2, 7, 10])
def test_the_rounds_of_a_long_drift_do_not_keep_step_with_a_season(period):
    last = period * (ROUNDS - 1) + 1  # evenly spaced rounds would all fall on the same day
    grid = _grid(last)
    assert len(grid) == ROUNDS
    assert grid[0] >= 1
    assert grid[-1] <= last
    assert np.all(np.diff(grid) > 0)
    share = np.mean(grid % period == 1)
    assert abs(share - 1 / period) < 4 * np.sqrt(1 / period / ROUNDS)  # four standard deviations of independent draws


def test_all_rounds_of_a_short_drift_are_averaged():
    assert np.array_equal(_grid(5), [1, 2, 3, 4, 5])
