"""Lemma D1 and the two lemmas it rests on, by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from performative import theory

seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=40, deadline=None)


@few
@given(st.integers(1, 6), st.integers(1, 4), seeds, st.floats(0.01, 0.9))
def test_lemma_e1_by_simulation(dimension, width, seed, share):
    """One step of the estimate: the mean of ‖D⁺‖² as the lemma says, with equality for Gaussian probes."""
    random = np.random.default_rng(seed)
    error, factor = random.normal(size=(width, dimension)), random.normal(size=(width, width))
    sigma, zeta = factor @ factor.T, share * 2 / (dimension + 2)
    n = 20_000
    u = random.normal(size=(n, dimension))
    w = math.sqrt(2) * random.normal(size=(n, width)) @ factor.T
    after = error - zeta * np.einsum("nk,nd->nkd", u @ error.T - w, u)
    squared = np.sum(after**2, axis=(1, 2))
    kappa = theory.noise_constants("gaussian", dimension)
    exact = theory.one_step(np.sum(error**2), zeta, kappa, np.trace(sigma))
    assert abs(squared.mean() - exact) <= 5.5 * squared.std() / math.sqrt(n)


@few
@given(st.floats(0, 10), st.floats(0.01, 10), st.floats(0, 50))
def test_lemma_e2_the_sequence(first, alpha, t0):
    """The largest sequence that stays ≥ 0, for every t₀ ≥ 0."""
    value = first
    for t in range(1, 200):
        assert value <= theory.sequence(t, first, alpha, t0) * (1 + 1e-12)
        value = max((1 - 2 / (t + t0)) * value + alpha / (t + t0) ** 2, 0.0)


def test_the_printed_lemma_e2_is_broken_where_its_offset_is_small():
    """Slip 24: S₁ = 0, α = 1 make S₂ = 1/(1 + t₀)², more than the printed 1/(2 + t₀) just for t₀ < (√5 − 1)/2."""
    golden = (math.sqrt(5) - 1) / 2
    for t0, breaks in ((0.0, True), (golden - 1e-6, True), (golden + 1e-6, False), (2.0, False)):
        second = 1 / (1 + t0) ** 2
        assert (second > theory.sequence(2, 0.0, 1.0, t0, as_printed=True)) is breaks
        assert second <= theory.sequence(2, 0.0, 1.0, t0) * (1 + 1e-12)
    assert theory.sequence(2, 0.0, 1.0, 0.0, as_printed=True) == 0.5


def test_the_offset_of_lemma_d1_is_at_least_two():
    """κ₃ ≥ E‖u‖² ≥ dκ₁, so that t₀ = 2κ₃/κ₁ ≥ 2d and slip 24 does not reach Lemma D1."""
    for name in ("gaussian", "rademacher", "sphere"):
        for dimension in (1, 3, 10):
            noise = theory.noise_constants(name, dimension)
            assert 2 * noise.kappa3 / noise.kappa1 >= 2 * dimension * (1 - 1e-12)


def test_lemma_e1_refuses_a_step_that_is_too_large():
    with pytest.raises(ValueError, match="`0 < step < 2/κ₃` must hold"):
        theory.one_step(1.0, 0.5, theory.noise_constants("gaussian", 2), 1.0)


def test_lemma_d1_by_simulation():
    """E‖D_t‖² and ΣE‖D_t‖⁴ of 2,000 runs of the recursion below their bounds, and not far below."""
    random = np.random.default_rng(0)
    dimension, width, rounds, runs = 4, 3, 2_000, 2_000
    effect, sigma = random.normal(size=(width, dimension)), np.diag([0.5, 1.0, 2.0])
    kappa = theory.noise_constants("gaussian", dimension)
    error = np.broadcast_to(-effect, (runs, width, dimension)).copy()
    second, fourth = 0.0, 0.0
    for t in range(1, rounds + 1):
        zeta = 2 / (kappa.kappa1 * t + 2 * kappa.kappa3)
        u = random.normal(size=(runs, dimension))
        w = math.sqrt(2) * random.normal(size=(runs, width)) * np.sqrt(np.diag(sigma))
        error -= zeta * np.einsum("nk,nd->nkd", np.einsum("nkd,nd->nk", error, u) - w, u)
        squares = np.sum(error**2, axis=(1, 2))
        assert squares.mean() <= theory.parameter_error_at(t, np.sum(effect**2), kappa, np.trace(sigma))
        second, fourth = second + squares.mean(), fourth + np.mean(squares**2)
    bound = theory.parameter_error(rounds, np.sum(effect**2), kappa, np.trace(sigma))
    gaussian_fourth = np.trace(sigma) ** 2 + 2 * np.sum(sigma**2)
    bound_fourth = theory.parameter_error_fourth(rounds, dimension, np.sum(effect**2), sigma, gaussian_fourth)
    assert second <= bound <= 5 * second
    assert fourth <= bound_fourth <= 5 * fourth


def test_the_printed_parameter_error_is_zero_in_the_first_round():
    """ᾱ ln T at T = 1 promises no error at all after one pair of observations."""
    kappa = theory.noise_constants("gaussian", 3)
    assert theory.parameter_error(1, 1.0, kappa, 0.3, as_printed=True) == 0.0
    assert theory.parameter_error(1, 1.0, kappa, 0.3) >= theory.parameter_error_at(1, 1.0, kappa, 0.3) > 0
