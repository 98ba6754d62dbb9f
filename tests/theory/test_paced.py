"""The lemmas behind the regret of Safe APDA as it is implemented, and Theorem 3."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.bounds import WORLDS, counted
from hypothesis import given, settings
from hypothesis import strategies as st

import performative as pf
from performative import theory
from performative.estimators.moments import JointMoments
from performative.losses import Revenue
from performative.methods import pace
from performative.methods.pace import ALLOWED, APART, EVERY, PACE, middle, wide
from performative.methods.safe_primal_dual import FADES
from performative.numerics.precision import precise
from performative.theory import paced

few = settings(max_examples=40, deadline=None)
STARVING = WORLDS["a bound believed by mistake"]
NAMES = {
    "gain": 3.0,
    "convexity": 6.0,
    "risk_range": 0.75,
    "trace": 1.0,
    "dimension": 1,
    "data": 1,
    "reach": 1.0,
    "length": 0.5,
    "relative": (0.4, 0.5),
    "ridge": (0.2, 0.5),
    "noise": 1.1,
    "unit": (2.0, 3.0),
    "distance": 2.0,
}


@few
@given(st.integers(0, 2**32 - 1), st.floats(1e-3, 1.0))
def test_who_stays_where_a_gain_is_not_sure_loses_little(seed, scale):
    """Lemma 3 between a stationary point of a predicted risk, convex or not, and any start, with σ as it is."""
    random = np.random.default_rng(seed)
    omega = STARVING.omega + scale * 3.0 * random.normal(size=(50, 2, 3))
    theta, start = STARVING.minimizer(omega), random.uniform(size=(50, 2))
    strongly, least = (
        STARVING.constants()["convexity"],
        STARVING.risk(STARVING.omega, STARVING.minimizer(STARVING.omega[None])[0]),
    )
    for one, x, s in zip(omega, theta, start, strict=True):
        apart = np.linalg.norm(x - s)
        sigma = max(0.0, float(STARVING.risk(one, s) - STARVING.risk(one, x))) / apart
        error = STARVING.gain * float(np.linalg.norm(one - STARVING.omega))
        bound = theory.stay_excess_risk(sigma, error, 0.0, strongly)
        for share in (0.0, 0.5, 1.0):
            assert STARVING.risk(STARVING.omega, s + share * (x - s)) - least <= bound + 1e-9


@pytest.mark.parametrize("relative", [0.5, 0.02])
@pytest.mark.slow
def test_wide_probes_alone_keep_what_is_not_known_at_the_pace_of_lemma_4(relative, monkeypatch):
    """θ stays at a corner and teaches nothing; plans are as far apart as they ever are."""
    d, rounds, often = 2, 8_000_000, 0.005
    monkeypatch.setattr(pace, "PACE", often)
    problem = pf.Problem(Revenue(), pf.Box(np.zeros(d), np.ones(d)))
    method = pf.safe_apda(problem)
    bound = theory.unexplored(dimension=d, reach=math.sqrt(d), length=0.5, relative=(relative, relative), pace=often)
    wides, seen = 0, []
    with precise():
        ones = jnp.ones(d)
        inside = middle(problem, method.safety, ones)
        find = jax.jit(lambda moments, t: wide(problem, inside, ones, moments, 1, t, jnp.asarray(relative)))
        n, mean, scatter = float(APART), np.zeros(d), np.zeros((d, d))
        for t in range(APART, rounds, APART):
            moments = JointMoments(*(jnp.asarray(part) for part in (n, mean, np.zeros(d), scatter, np.zeros((d, d)))))
            probe = find(moments, jnp.asarray(float(t)))
            seen.append(math.sqrt(t) * np.trace(np.linalg.inv(scatter + relative * np.eye(d))))
            many = min(int(probe.rounds), APART) if bool(probe.due) else 0
            wides += many
            for x, count in ((np.asarray(probe.decision), many), (np.zeros(d), APART - many)):
                step = x - mean
                scatter = scatter + n * count / (n + count) * np.outer(step, step)
                n, mean = n + count, mean + count / (n + count) * step
    assert max(seen) <= bound
    assert d / relative * math.sqrt(rounds) > 1.5 * bound  # without wide probes it would not hold
    h = min(2.0, 0.25 / (often * relative * math.sqrt(rounds)))
    assert 0 < wides <= 16 * d * math.log(16 * d / (h * relative)) / h


def test_theorem_3_is_about_the_constants_of_the_method():
    assert (paced.FIRST, paced.APART, paced.FADES) == (EVERY, APART, FADES)
    assert theory.safe_regret(10**16, **NAMES, pace=PACE, allowed=ALLOWED) == theory.safe_regret(10**16, **NAMES)
    assert theory.unexplored(dimension=2, reach=1.0, length=0.5, relative=(0.1, 1.0), pace=PACE) == theory.unexplored(
        dimension=2, reach=1.0, length=0.5, relative=(0.1, 1.0)
    )


def test_theorem_3_grows_like_the_root_up_to_a_logarithm():
    assert theory.safe_regret(1_000, **NAMES) == 750.0  # never worse than the worst decision
    far, farther = (theory.safe_regret(rounds, **NAMES) for rounds in (10**18, 10**20))
    assert 1.0 < math.log10(farther / far) < 1.1
    assert theory.safe_regret(10**18, **NAMES, held=1e9) == pytest.approx(far + 0.75e9)
    assert theory.safe_regret(10**18, **NAMES, residuals=6e9) == pytest.approx(far + 6e9)
    assert theory.safe_regret(10**18, **NAMES, left=5.0) < far


@pytest.mark.slow
def test_what_the_solver_leaves_is_less_than_the_error_of_the_estimates():
    """Σρ_t² is below Σ‖e_t‖², and hardly grows: what Theorem 3 leaves to be counted."""
    runs = counted(WORLDS["inside, two dimensions"], 2_000, 2, loss_budget=None)
    residual, error = runs.residual.mean(axis=0), runs.error.mean(axis=0)
    assert residual[-1] < 0.5 * error[-1]
    assert residual[-1] - residual[499] < 0.25 * (error[-1] - error[499])
    assert np.all(runs.used <= 1.0)
    assert not np.any(runs.due)


def test_bad_numbers_are_refused():
    with pytest.raises(ValueError, match="`residual` must be a number >= 0"):
        theory.stay_excess_risk(1.0, 1.0, -1.0, 1.0)
    with pytest.raises(ValueError, match="length"):
        theory.unexplored(dimension=1, reach=1.0, length=0.0, relative=(1.0, 1.0))


@few
@given(st.lists(st.booleans(), min_size=EVERY - 1, max_size=EVERY - 1))
def test_what_fades_in_the_first_rounds_leaves_a_third_and_adds_two_logarithms(fades):
    """The two facts about fading that the proof of Theorem 3 uses, for any rounds in which it fades; the worst is all of them."""
    for chosen in (fades, [True] * len(fades)):
        weight, logs = 1.0, 0.0
        for count, fading in enumerate(chosen, start=1):
            share = 1.0 - FADES / weight if fading else 1.0
            weight, logs = share * weight + 1.0, logs - math.log(share)
            assert weight >= 1.0 + (1.0 - FADES) * count - 1e-9
        assert logs <= FADES / (1.0 - FADES) * math.log(paced.FIRST) + 1e-9
