"""Step sizes by name."""

import jax.numpy as jnp
import pytest

import performative as pf
from performative.numerics.precision import precise


def test_steps_by_name():
    theorem = pf.steps.theorem(horizon=10_000, lipschitz=2.0, dimension=3)
    eta = 0.01
    assert theorem["step"] == pytest.approx(eta)
    # δ solves 2δ²η² − δ + 4L_g² = 0, the lower root.
    assert 2 * theorem["control"] ** 2 * eta**2 - theorem["control"] + 4 * 2.0**2 == pytest.approx(0, abs=1e-9)
    with precise():
        assert float(theorem["estimation_step"](jnp.asarray(4.0))) == pytest.approx(2 / (4 + 2 * 5))
        assert float(pf.steps.experiment()["estimation_step"](jnp.asarray(4.0))) == pytest.approx(1 / 14)
    with pytest.raises(ValueError, match="horizon >= 32 lipschitz²"):
        pf.steps.theorem(horizon=100, lipschitz=2.0, dimension=3)
