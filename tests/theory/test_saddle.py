"""Lemmas C1 and C2 on runs with arbitrary errors in the gradient."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from performative import theory

ROUNDS = 100


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.0, 3.0))
def test_lemmas_c1_and_c2_hold_round_by_round(seed, size):
    """PR = ½‖θ − b‖², g = ⟨a, θ⟩ − c on the unit disc: the sum for any θ and λ, and both gradients in every round."""
    random = np.random.default_rng(seed)
    best, slope = random.normal(size=2), random.normal(size=2)
    slope /= np.linalg.norm(slope)
    bound, eta, delta = random.uniform(-0.5, 0.5), 1 / math.sqrt(ROUNDS), 5.0
    risk = lambda theta: 0.5 * np.sum((theta - best) ** 2)  # noqa: E731
    lagrangian = lambda theta, lam: risk(theta) + lam * (slope @ theta - bound) - delta * eta / 2 * lam**2  # noqa: E731
    other, weight = random.normal(size=2), random.exponential()
    other /= max(1.0, np.linalg.norm(other))
    theta, lam = np.zeros(2), 0.0
    gap, dual, primal, errors, distances = np.zeros(5)
    for _ in range(ROUNDS):
        e = size * random.normal(size=2)
        in_dual = slope @ theta - bound - delta * eta * lam
        in_primal = theta - best + e + lam * slope
        assert in_dual**2 <= theory.dual_gradient(1 + abs(bound), delta, eta, lam)
        assert in_primal @ in_primal <= theory.primal_gradient(1 + np.linalg.norm(best), 1.0, lam, e @ e)
        gap += lagrangian(theta, weight) - lagrangian(other, lam)
        dual, primal = dual + in_dual**2, primal + in_primal @ in_primal
        errors, distances = errors + (theta - other) @ e, distances + np.sum((theta - other) ** 2)
        moved, lam = theta - eta * in_primal, max(lam + eta * in_dual, 0.0)
        theta = moved / max(1.0, np.linalg.norm(moved))
    sums = {"dual_squares": dual, "primal_squares": primal, "errors": errors, "radius": 1.0, "multipliers": weight}
    bound = theory.saddle_gap(step=eta, convexity=1.0, distances=distances, **sums)
    assert gap <= bound + 1e-9 * abs(bound)
    assert bound <= theory.saddle_gap(step=eta, **sums)
