"""Lemma 3: regret and violation for any gradient error, and the print against a run."""

from __future__ import annotations

import math

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import performative as pf
from performative import steps, theory
from performative.numerics.precision import precise

seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=40, deadline=None)


@few
@given(seeds, st.sampled_from([40, 200, 1000]), st.floats(0.0, 3.0))
def test_lemma_3_holds_for_any_gradient_error(seed, rounds, size):
    """The framework on a quadratic risk with arbitrary errors in the gradient: regret and violation below the bounds."""
    random = np.random.default_rng(seed)
    best, slope = random.normal(size=2) * 2, random.normal(size=2)
    slope /= np.linalg.norm(slope)
    bound, eta = random.uniform(-0.5, 0.5), 1 / math.sqrt(rounds)
    low, high = theory.control_interval(eta, 1.0)
    delta = random.uniform(low, min(high, 4 * low))
    optimum = optimum_in_ball(best, slope, bound)
    theta, lam, regret, violation, error = np.zeros(2), 0.0, 0.0, 0.0, 0.0
    for _ in range(rounds):
        e = size * random.normal(size=2)
        regret += 0.5 * np.sum((theta - best) ** 2) - optimum[1]
        violation += slope @ theta - bound
        error += e @ e
        moved = theta - eta * (theta - best + e + lam * slope)
        lam = max(lam + eta * (slope @ theta - bound - delta * eta * lam), 0.0)
        theta = moved / max(1.0, np.linalg.norm(moved))
    arguments = {
        "convexity": 1.0, "radius": 1.0, "constraint_bound": 1 + abs(bound), "constraint_lipschitz": 1.0,
        "lipschitz": 1 + np.linalg.norm(best), "control": delta,
    }  # fmt: skip
    assert (
        regret
        <= theory.regret(rounds, error, **arguments)
        <= theory.regret(rounds, error, as_printed=True, **arguments)
    )
    assert violation <= theory.violation(rounds, error, multipliers=optimum[2], **arguments)
    assert violation <= theory.violation_without_slater(rounds, error, **arguments)


def optimum_in_ball(best, slope, bound):
    """min ½‖θ − best‖² over the unit disc with slope·θ ≤ bound: the point, the value and the multiplier, by a fine search."""
    theta = cp.Variable(2)
    half = slope @ theta <= bound
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(theta - best)), [half, cp.norm(theta) <= 1])
    problem.solve(solver=cp.CLARABEL)
    return theta.value, float(problem.value), float(half.dual_value)


def test_the_printed_violation_bound_is_broken_by_a_run():
    """Slip 12: g = θ² − b with a small b has a small slope at the optimum and so a large λ*, which the print leaves out."""
    width, rounds = 0.05, 1_000_000
    environment = pf.LocationFamily(pf.Gaussian(0.0, 0.0), [[0.0]])
    constraint = pf.constraints.Quadratic([[1.0]], width**2)
    problem = pf.Problem(lambda theta, z: 0.5 * jnp.sum((theta - 1.0) ** 2), pf.Ball(1.0), [constraint])
    multiplier = float(pf.performative_optimum(problem, environment).multipliers[0])
    assert multiplier == pytest.approx((1 - width) / (2 * width), rel=1e-6)
    options = steps.theorem(rounds, lipschitz=2.0, dimension=1)
    sums = exact_gradient_run(lambda theta: theta - 1.0, problem, rounds, options["step"], options["control"])
    arguments = {  # of g and PR on [−1, 1]
        "convexity": 1.0, "radius": 1.0, "constraint_bound": 1 - width**2, "constraint_lipschitz": 2.0, "lipschitz": 2.0,
        "control": options["control"],
    }  # fmt: skip
    printed = theory.violation(rounds, 0.0, multipliers=multiplier, as_printed=True, **arguments)
    corrected = theory.violation(rounds, 0.0, multipliers=multiplier, **arguments)
    assert printed < sums < corrected
    assert theory.violation(rounds, 0.0, multipliers=0.0, **arguments) < sums  # so λ* is no option that may be left out
    with pytest.raises(TypeError, match="multipliers"):
        theory.violation(rounds, 0.0, **arguments)


def exact_gradient_run(gradient, problem, rounds, step, control):
    """Σ g(θ_t) of the framework's updates with the exact gradient, from θ = 0."""
    with precise():

        def round_(carry, _):
            theta, lam, total = carry
            g = problem.g(theta)
            moved = problem.decisions.project(theta - step * (gradient(theta) + problem.pullback(theta, lam)))
            return (moved, jnp.maximum(lam + step * (g - control * step * lam), 0.0), total + g[0]), None

        start = (jnp.zeros(1), jnp.zeros(1), jnp.zeros(()))
        return float(jax.jit(lambda: jax.lax.scan(round_, start, None, length=rounds)[0][2])())


def test_bounds_refuse_what_lemma_3_does_not_cover():
    arguments = {
        "convexity": 1.0,
        "radius": 1.0,
        "constraint_bound": 1.0,
        "constraint_lipschitz": 0.1,
        "lipschitz": 1.0,
    }
    with pytest.raises(ValueError, match="`multipliers` must be a number >= 0"):
        theory.violation(100, 0.0, control=1.0, multipliers=-1.0, **arguments)
    with pytest.raises(ValueError, match="`multipliers` must be finite"):
        theory.violation(100, 0.0, control=1.0, multipliers=math.inf, **arguments)
    with pytest.raises(ValueError, match="`step` must be left out with `as_printed=True`"):
        theory.violation(100, 0.0, control=1.0, multipliers=0.0, step=0.1, as_printed=True, **arguments)


def test_the_interval_for_delta():
    low, high = theory.control_interval(0.01, 2.0)
    for delta in (low, high):
        assert 2 * delta**2 * 0.01**2 - delta + 4 * 2.0**2 == pytest.approx(0, abs=1e-9 * delta)
    assert theory.least_horizon(2.0) == 128
    with pytest.raises(ValueError, match="32 step² lipschitz² <= 1"):
        theory.control_interval(0.1, 2.0)
    with pytest.raises(ValueError, match="`control` must lie in the interval"):
        theory.regret(
            10_000, 0.0, convexity=1, radius=1, constraint_bound=1, constraint_lipschitz=2, lipschitz=1, control=1.0
        )
