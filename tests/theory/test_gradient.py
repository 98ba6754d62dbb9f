"""Lemma 4: pointwise, and the print against a run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from theorem_model import EFFECT, SLACK, TARGET, measured, model

from performative import theory

seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=40, deadline=None)


@few
@given(seeds)
def test_lemma_4_pointwise(seed):
    """‖∇P̂R_t(θ) − ∇P̂R(θ)‖ ≤ K₁‖D‖ + K₂‖D‖² with the gain of the constants of the loss, for any Â and base samples."""
    random = np.random.default_rng(seed)
    theta = random.normal(size=3)
    theta /= max(1.0, np.linalg.norm(theta))
    base, wrong = random.normal(size=(5, 3)), EFFECT + 10 ** random.uniform(-3, 1) * random.normal(size=(3, 3))

    def gradient(effect):
        z = base + effect @ theta
        return 0.1 * np.mean(2 * (theta - TARGET) + 0.3 * z + (z + 0.3 * theta) @ effect, axis=0)

    at_true = 0.1 * np.linalg.norm(np.mean(base + EFFECT @ theta + 0.3 * theta, axis=0))
    first, second = theory.effect_gain(0.03, 0.1, at_true, theory.sensitivity(EFFECT), 1.0)
    error = np.linalg.norm(wrong - EFFECT)
    assert np.linalg.norm(gradient(wrong) - gradient(EFFECT)) <= (first * error + second * error**2) * (1 + 1e-9)


@pytest.mark.slow
def test_the_printed_gradient_error_is_broken_by_a_run():
    """Slip 11: divided by n, the printed bound falls below what is measured once n is large."""
    constants = model(SLACK)[2]
    mean = measured(SLACK, 1_000, warmup=200_000).mean(axis=0)[2]
    assert mean > 100 * constants.theorem(1_000, warmup=200_000, as_printed=True).gradient_error
    assert mean < constants.theorem(1_000, warmup=200_000).gradient_error
