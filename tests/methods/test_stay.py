"""Doing nothing."""

import numpy as np
import pytest
from scanning import scan

import performative as pf
from performative.losses import Revenue

CAP = pf.constraints.Linear([1.0, 1.0], 4.0)
MARKET = pf.LocationFamily(pf.Gaussian([4.0, 5.0], 0.25 * np.ones(2)), [[-1.5, 0.3], [0.2, -1.0]])


def test_it_deploys_its_start_for_ever():
    problem = pf.Problem(Revenue(), pf.Box([0.0, 0.0], [5.0, 5.0]), [CAP])
    runs = scan(pf.stay(problem, start=[1.0, 2.0], samples=3), MARKET, 5)
    np.testing.assert_array_equal(runs.every, np.tile([1.0, 2.0], (5, 1)))
    assert runs.first[1].shape[-2:] == (3, 2)


def test_its_own_start_is_feasible():
    """Prices that add up to 2 at least: 0 is not among them."""
    problem = pf.Problem(Revenue(), pf.Box([0.0, 0.0], [5.0, 5.0]), [pf.constraints.Linear([-1.0, -1.0], -2.0)])
    assert float(np.sum(pf.stay(problem).start)) >= 2.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": [6.0, 0.0]}, "`start` must lie in the decision set"),
        ({"samples": 0}, "`samples` must be a whole number >= 1"),
    ],
)
def test_what_makes_no_sense_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        pf.stay(pf.Problem(Revenue(), pf.Box([0.0, 0.0], [5.0, 5.0])), **options)
