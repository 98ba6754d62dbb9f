"""The runs that rules compare: by hand and simulated."""

import numpy as np
import pytest
from plain_methods import ECHO, EXPLORER

import performative as pf
from performative.checks import trial as trials
from performative.numerics import precision


def test_nan_agrees_with_nothing():
    zeros, unknown = np.zeros((4, 2)), np.full((4, 2), np.nan)
    for first in (trials.Simulated(zeros, unknown), trials.Simulated(unknown, zeros)):
        for second in (first, trials.Simulated(zeros, zeros)):
            assert not first.gap(second) <= 1.0
            assert not second.gap(first) <= 1.0


@pytest.mark.filterwarnings("ignore::performative.errors.LocalOptimumWarning")  # the world only samples
def test_what_is_compared_with_is_what_simulate_runs():
    every = range(1, 9)
    runs = pf.simulate({"method": EXPLORER}, trials.Unmeasured(ECHO), rounds=8, realizations=3, record=every).isel(
        algorithm=0
    )
    with precision.precise():
        trial = trials.Trial(EXPLORER, ECHO, rounds=8, seed=0)
        together, alone = trial.simulate((0, 1, 2)), trial.alone(1)
    np.testing.assert_allclose(np.moveaxis(together.decisions, -1, 0), runs.decision, rtol=1e-12)
    np.testing.assert_allclose(np.moveaxis(together.multipliers, -1, 0), runs.multipliers, rtol=1e-12)
    np.testing.assert_allclose(alone.decisions, runs.decision.sel(realization=1), rtol=1e-12)
    assert np.ptp(together.decisions, axis=-1).max() > 1e-3  # realizations differ
    assert together.multipliers.max() > 0.0
