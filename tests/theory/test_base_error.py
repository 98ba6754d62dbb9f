"""Assumption 4: the error that base samples leave."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative import theory


@pytest.mark.slow
def test_the_error_of_the_base_samples_is_larger_at_a_decision_that_knows_them():
    """Slip 20: at a fixed decision the mean square error is σ²/n, at one chosen from the samples it is more."""
    random = np.random.default_rng(0)
    n, d, runs = 10, 5, 4_000
    base = random.normal(size=(runs, n, d))
    error = base.mean(axis=1)  # for ℓ(θ; z) = Σ z_i θ_i²/2, A = 0: ∇P̂R(θ) − ∇PR(θ) is this times θ, entry by entry
    fixed = np.mean(np.sum((error * np.eye(d)[0]) ** 2, axis=1))
    selected = np.mean(np.max(error**2, axis=1))  # θ on the unit sphere along the worst coordinate
    variance = 1.0  # sup over the unit ball of E‖z·θ‖²
    assert fixed == pytest.approx(variance / n, rel=0.1)
    assert selected > 2 * variance / n
    # The library's uniform variance covers it.
    problem = pf.Problem(
        lambda theta, z: 0.5 * jnp.sum(z[:d] * theta**2) + jnp.sum(theta**2), pf.Ball(1.0), dimension=d
    )
    shift = lambda effect, theta: jnp.pad(effect * theta[:1], (d, 0))  # noqa: E731
    environment = pf.LocationFamily(pf.Gaussian(np.zeros(d + 1), np.ones(d + 1)), [0.5], shift)
    constants = theory.constants(problem, environment)
    assert constants.variance == pytest.approx(variance, rel=0.1)
    assert selected <= constants.uniform_variance / n
