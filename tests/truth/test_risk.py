"""The performative risk of worlds that only sample, and of decisions that do not fit."""

import numpy as np
import pytest

import performative as pf


def test_risk_of_an_environment_that_only_samples_is_an_average(small):
    problem, world, _ = small

    class OnlySamples:
        def sample(self, key, theta, n):
            return world.sample(key, theta, n)

    theta = np.array([0.2, 0.3, 0.1])
    exact = pf.performative_risk(problem, world, theta)
    averaged = pf.performative_risk(problem, OnlySamples(), theta, samples=50_000)
    assert averaged == pytest.approx(exact, abs=5 * 0.2 / np.sqrt(50_000))  # std of zᵀθ here is about 0.15


def test_the_risk_is_refused_at_bad_decisions(small):
    problem, world, _ = small
    with pytest.raises(ValueError, match=r"`theta` must be finite, but got nan at index \[1\]"):
        pf.performative_risk(problem, world, [0.0, np.nan, 0.0])
    with pytest.raises(
        ValueError, match=r"`theta` must have shape \(3,\) like the problem's decisions, but got \(2,\)"
    ):
        pf.performative_risk(problem, world, [0.0, 0.0])
