"""The Gaussian mean where the reaction is strong."""

import numpy as np

import performative as pf
from performative import problems


def test_at_strong_sensitivity_the_stable_point_is_there_but_repetition_leads_away():
    one = problems.get("gaussian-mean", strength=6.0)
    solution = pf.stable_point(one.problem, one.environment)
    np.testing.assert_allclose(solution.decision, one.stable.decision, atol=1e-5)
    np.testing.assert_allclose(
        pf.performative_optimum(one.problem, one.environment).decision, one.optimum.decision, atol=1e-5
    )
    mean, effect = one.environment.base.mean, one.known_effect
    theta = one.stable.decision + 1e-3
    for _ in range(20):  # without the constraint, which is slack here
        theta = (effect @ theta + mean) / 1.5
    assert np.linalg.norm(theta - one.stable.decision) > 1.0
