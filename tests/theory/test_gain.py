"""The gain of Lemma 4 for concrete problems."""

from __future__ import annotations

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from theorem_model import ACTIVE, EFFECT, TARGET, model

import performative as pf
from performative.numerics.precision import precise
from performative.theory.gain import gain
from performative.theory.landscape import Landscape

seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=40, deadline=None)


@few
@given(seeds)
@pytest.mark.slow
def test_the_gain_of_a_problem_bounds_the_error_of_its_gradient(seed):
    """The same with the gain that `constants` computes, for the mean of the base."""
    _, environment, constants = model(ACTIVE)
    mean = np.mean(environment.base.samples, axis=0)
    random = np.random.default_rng(seed)
    theta = random.normal(size=3)
    theta /= max(1.0, np.linalg.norm(theta))
    wrong = EFFECT + 10 ** random.uniform(-3, 1) * random.normal(size=(3, 3))

    def gradient(effect):
        z = mean + effect @ theta
        return 0.1 * (2 * (theta - TARGET) + 0.3 * z + (z + 0.3 * theta) @ effect)

    error = np.linalg.norm(wrong - EFFECT)
    first, second = constants.gain
    assert np.linalg.norm(gradient(wrong) - gradient(EFFECT)) <= (first * error + second * error**2) * (1 + 1e-9)


def test_the_gain_where_the_warm_up_is_not_at_zero():
    """Z + Â(θ − o), o the point of Θ nearest to 0: ℓ = ½θ² + (θ − 19)z on [9, 10] has the slope |2θ − 19 − 9| in the effect."""
    problem = pf.Problem(
        lambda theta, z: 0.5 * jnp.sum(theta**2) + jnp.sum((theta - 19) * z), pf.Box([9.0], [10.0]),
        [pf.constraints.Linear([1.0], 9.9)],
    )  # fmt: skip
    environment = pf.LocationFamily(pf.Gaussian([0.0], [0.01]), [[0.5]])
    with precise():
        value = gain(Landscape(problem, environment, 1, seed=0))
    assert (value.first, value.second) == (pytest.approx(10.0, rel=1e-6), 0.0)


@pytest.mark.slow
def test_a_gain_from_the_constants_of_the_loss_for_a_large_effect():
    effect = 0.1 * np.random.default_rng(0).normal(size=(40, 40)) / np.sqrt(40)
    problem = pf.Problem(lambda theta, z: -jnp.sum(z * theta) + jnp.sum(theta**2), pf.Ball(1.0), dimension=40)
    environment = pf.LocationFamily(pf.Gaussian(np.ones(40), 0.1 * np.ones(40)), effect)
    with precise():
        value = gain(Landscape(problem, environment, 40, seed=0))
    assert value[:3] == (pytest.approx(2.0, rel=1e-6), 0.0, 0.0)  # −Dθ − Dᵀθ
    assert "Lemma 4's formula" in value.evidence
    constants = dataclasses.replace(model(ACTIVE)[2], gain=(value.first, value.second), gain_spread=value.spread)
    assert math.isfinite(constants.theorem(10_000).regret)
