"""Credit scoring: degenerate without a penalty on the intercept, and not convex."""

import numpy as np
import pytest

import performative as pf
from performative import problems


@pytest.mark.parametrize("strength", [0.2, 1.0, 3.0])
def test_credit_with_a_free_intercept_is_degenerate(strength):
    """The intercept absorbs the shift: the stable point is the optimum. With a penalty on the intercept it is not."""
    free = problems.get("credit", intercept="free", strength=strength)
    np.testing.assert_allclose(free.optimum.decision, free.stable.decision, atol=1e-8)
    optimum = pf.performative_optimum(free.problem, free.environment)
    stable = pf.stable_point(free.problem, free.environment)
    np.testing.assert_allclose(optimum.decision, free.optimum.decision, atol=1e-5)
    np.testing.assert_allclose(stable.decision, free.optimum.decision, atol=1e-5)
    penalized = problems.get("credit", strength=strength)
    assert np.linalg.norm(penalized.optimum.decision - penalized.stable.decision) > 0.01
    assert penalized.optimum.decision[-1] >= 0  # as the proof that it is the global minimum requires


def test_credit_is_not_convex():
    """Along one weight, far out along the intercept, the risk bends down."""
    one = problems.get("credit", intercept="free")
    along = [one.risk(np.array([step, 0.0, 0.0, 4.0])) for step in (-0.1, 0.0, 0.1)]
    assert along[0] + along[2] < 2 * along[1] - 1e-3
