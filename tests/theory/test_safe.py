"""The lemmas and theorems behind Safe APDA, on runs of the rules that they are about."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from benchmarks.bounds import WORLDS, forced, priced
from hypothesis import given, settings
from hypothesis import strategies as st

from performative import theory

few = settings(max_examples=40, deadline=None)
ROUNDS = 400
WORLD = WORLDS["inside, two dimensions"]
STARVING = WORLDS["a bound believed by mistake"]


@functools.cache
def run_of(world_name):
    return priced(WORLDS[world_name], ROUNDS, 10, seed=0)


def random_worlds(seed, count):
    """Ω near that of a world, most of them with a risk that is not convex."""
    return STARVING.omega + np.random.default_rng(seed).normal(size=(count, 2, 3)) * 3.0


@few
@given(st.integers(0, 2**32 - 1))
def test_lemma_1_needs_no_convexity_of_the_predicted_risk(seed):
    omega, strongly = random_worlds(seed, 50), STARVING.constants()["convexity"]
    theta = STARVING.minimizer(omega)
    error = np.linalg.norm(STARVING.gradient(omega, theta) - STARVING.gradient(STARVING.omega, theta), axis=1)
    least = STARVING.risk(STARVING.omega, STARVING.minimizer(STARVING.omega[None])[0])
    excess = STARVING.risk(STARVING.omega, theta) - least
    for one, norm in zip(excess, error, strict=True):
        assert one <= theory.excess_risk(norm, strongly) + 1e-12


def test_lemma_1_is_sharp():
    """PR = γ(θ − 1)²/2 and a predicted minimizer at 0: the gradient's error is γ, and so is twice the excess risk."""
    assert theory.excess_risk(3.0, convexity=3.0) == 3.0 / 2


@few
@given(st.integers(0, 2**32 - 1))
def test_the_gain_bounds_the_error_of_the_gradient_on_the_whole_set(seed):
    random = np.random.default_rng(seed)
    omega, x = random_worlds(seed, 50), random.uniform(size=(50, 2))
    error = np.linalg.norm(STARVING.gradient(omega, x) - STARVING.gradient(STARVING.omega, x), axis=1)
    assert np.all(error <= STARVING.gain * np.linalg.norm(omega - STARVING.omega, axis=(1, 2)) * (1 + 1e-12))


@pytest.mark.parametrize("name", ["inside, two dimensions", "a bound believed by mistake"])
def test_theorem_1_holds_round_by_round(name):
    """Lemma 2 at every deployment, the sum of the prices, and the recursion of Φ: none of it is on average."""
    world, run = WORLDS[name], run_of(name)
    constants = world.constants_of_belief()
    names = {key: constants[key] for key in ("dimension", "risk_range", "ridge")}
    weight = constants["gain"] ** 2 * constants["trace"] / (2 * constants["convexity"])
    bounds = np.asarray(theory.ignorance(ROUNDS, weight=weight, **names))
    assert np.all(run.ignorance <= bounds * (1 + 1e-9))
    assert np.all(np.cumsum(run.price, axis=1) <= np.cumsum(run.ignorance, axis=1))
    assert np.any(run.price > 0.01)  # some are probes
    for regret, price, error in zip(run.regret[0], run.price[0], run.error[0], strict=True):
        assert regret <= theory.probe_excess_risk(max(price, 0.0), error, 2.0) + 1e-12


@pytest.mark.parametrize("pace", [math.inf, 0.02, 3.0])
def test_the_closed_form_of_theorem_1_bounds_its_recursion(pace):
    rounds = 500_000
    for dimension, weight, spread, ridge in ((1, 1.0, 1.0, 1.0), (2, 100.0, 0.1, 5.0), (4, 0.01, 30.0, 0.2)):
        names = {"dimension": dimension, "weight": weight, "risk_range": spread, "ridge": ridge}
        bounds = np.asarray(theory.ignorance(rounds, **names, pace=pace))
        size = dimension + 1
        kappa = weight * size**2 * (1 + 2 / ridge)
        most = max(kappa + math.sqrt(2 * kappa * spread), math.sqrt(2) * weight * size / pace)
        assert np.all(bounds <= most / np.sqrt(np.arange(1, rounds + 1)) * (1 + 1e-12))
        late = size * max(math.sqrt(weight * spread), weight / pace) / math.sqrt(rounds)
        assert bounds[-1] == pytest.approx(late, rel=0.1)


def test_on_average_over_the_prior_a_design_that_follows_the_data_costs_no_logarithm():
    """E‖Ω̂_t − Ω‖² = tr Σ · E tr G_t⁻¹ exactly, also where each decision is the optimum of what is believed."""
    random, realizations, ridge = np.random.default_rng(0), 20_000, 4.0
    omega = random.normal(size=(realizations, 2)) / math.sqrt(ridge)
    sums, gram = np.zeros((realizations, 2)), np.tile(ridge * np.eye(2), (realizations, 1, 1))
    for _ in range(30):
        belief = np.linalg.solve(gram, sums[..., None])[..., 0]
        xi = np.stack([np.ones(realizations), np.clip(5.0 * belief[:, 0] - 3.0 * belief[:, 1], -1.0, 1.0)], axis=1)
        gram += xi[:, :, None] * xi[:, None, :]
        sums += (np.sum(omega * xi, axis=1) + random.normal(size=realizations))[:, None] * xi
    belief = np.linalg.solve(gram, sums[..., None])[..., 0]
    apart = np.sum((belief - omega) ** 2, axis=1) - np.trace(np.linalg.inv(gram), axis1=1, axis2=2)
    assert abs(apart.mean()) <= 4 * apart.std() / math.sqrt(realizations)


def test_the_error_of_estimates_from_all_data_is_below_what_theorem_1_says():
    """E‖Ω̂ − Ω‖² ≤ b_t Φ_t/ω for a fixed world, though the design follows the data."""
    run, constants = run_of("inside, two dimensions"), WORLD.constants_of_belief()
    weight = constants["gain"] ** 2 * constants["trace"] / (2 * constants["convexity"])
    t = np.arange(1, ROUNDS + 1)
    spread = np.sqrt(3 * constants["trace"] * np.log1p(t * 3.0 / 3.0)) + np.linalg.norm(WORLD.omega)
    squared = (run.error / constants["gain"]) ** 2
    assert np.all(squared.mean(axis=0) <= spread**2 * (run.ignorance / weight).max(axis=0))


@pytest.mark.parametrize("name", WORLDS)
def test_theorem_2_bounds_the_rule_that_it_is_about(name):
    world = WORLDS[name]
    mean = forced(world, 3_000, 20, seed=1).mean(axis=0)
    for rounds in (10, 100, 1_000, 3_000):
        assert mean[rounds - 1] <= theory.forced_probes_regret(rounds, **world.constants())
    at_end = theory.forced_probes_regret(3_000, **world.constants())
    assert mean[-1] >= 0.05 * at_end  # it says something


def test_the_best_pace_of_theorem_2_is_best():
    names = WORLD.constants()
    best = theory.forced_probes_pace(**names)
    least = theory.forced_probes_regret(10_000, **names)
    assert theory.forced_probes_regret(10_000, **names, pace=best) == least
    for factor in (0.5, 0.9, 1.1, 2.0):
        assert theory.forced_probes_regret(10_000, **names, pace=factor * best) > least


def test_theorem_1_is_never_worse_than_the_worst_decision_and_grows_like_the_root():
    names = WORLD.constants_of_belief()
    assert theory.priced_probes_regret(10, **names) == 10 * names["risk_range"]
    far, farther = (theory.priced_probes_regret(rounds, **names) for rounds in (100_000, 1_000_000))
    assert math.log10(farther / far) == pytest.approx(0.5, abs=0.02)
    assert theory.priced_probes_regret(100_000, **names, distance=1.0, reach=2.0) > far


def test_bad_numbers_are_refused():
    names = WORLD.constants()
    with pytest.raises(ValueError, match="`gradient_error` must be a number >= 0"):
        theory.excess_risk(-1.0, 1.0)
    with pytest.raises(ValueError, match="convexity"):
        theory.forced_probes_regret(10, **{**names, "convexity": 0.0})
    with pytest.raises(ValueError, match="`distance` and `reach` must be given together"):
        theory.priced_probes_regret(10, **names, ridge=1.0, distance=1.0)
