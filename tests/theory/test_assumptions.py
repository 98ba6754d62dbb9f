"""Which assumptions hold, fail or are undecided, and what that does to the theorem."""

from __future__ import annotations

import collections
import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative import theory
from performative.numerics.precision import precise
from performative.problems import portfolio, regression
from performative.theory.assumptions import assumptions
from performative.theory.gain import gain
from performative.theory.landscape import Landscape
from performative.theory.slater import Slater


def world(dimension=2):
    return pf.LocationFamily(pf.Gaussian(np.zeros(dimension), np.ones(dimension)), 0.1 * np.eye(dimension))


@pytest.mark.slow
def test_the_experiments_fail_the_assumptions_that_they_fail():
    """Slips 13 and 14: −zᵀθ is linear in z; δ = 1 lies below the interval; PR is strongly convex all the same."""
    instance = portfolio.instance(0, 0, 1.0, 1000)
    constants = theory.constants(instance.truth, instance.environment)
    failing = [item.name for item in constants.assumptions if item.holds is False]
    assert failing == ["1: convex in Z", "1: γ_θ − β²/γ_Z > 0"]
    effect = instance.environment.effect
    hessian = 2 * np.eye(10) - effect - effect.T
    assert constants.convexity == pytest.approx(np.linalg.eigvalsh(hessian)[0], rel=1e-9)
    assert constants.variance == pytest.approx(np.trace(instance.environment.base.covariance), rel=1e-9)
    assert constants.settings(10**6)["control"] > 1.0
    assert constants.horizon > 1000
    # L_g: the largest spectral norm over the corners of the box is that of the upper corner, where all gradients grow.
    corner = np.full(10, 0.3)
    with precise():
        jacobian = np.asarray(jax.jacobian(instance.truth.g)(jnp.asarray(corner)))
    assert constants.constraint_lipschitz == pytest.approx(np.linalg.norm(jacobian, 2), rel=1e-6)


def test_the_regression_has_no_interval_for_delta_within_half_a_billion_rounds():
    """Slip 13: two tasks that share an edge, R/√2 from 0 on opposite sides, have ‖∇g‖ = 4R, and T ≥ 32·(4R)² is needed."""
    instance = regression.instance(0, 0, 1.0, 1000)
    close = instance.truth.constraints[0]
    i, j = close.pairs[int(np.flatnonzero(close.active)[0])]
    theta = np.zeros((regression.TASKS, 3))
    theta[i, 0], theta[j, 0] = regression.RADIUS / np.sqrt(2), -regression.RADIUS / np.sqrt(2)
    with precise():
        steepest = float(jnp.linalg.norm(jax.jacobian(instance.truth.g)(jnp.asarray(theta.reshape(-1))), 2))
    assert steepest >= 4 * regression.RADIUS * (1 - 1e-12)
    assert theory.least_horizon(steepest) >= 512_000_000
    for step in (5e-3, 1e-3):  # of the experiment, and 1/√T at T = 10⁶
        with pytest.raises(ValueError, match="32 step² lipschitz² <= 1"):
            theory.control_interval(step, steepest)


def test_what_is_unbounded_is_said():
    problem = pf.Problem(lambda theta, z: jnp.sum((theta - z) ** 2), pf.Reals(2), dimension=2)
    constants = theory.constants(problem, world())
    assert constants.assumption("2: Θ bounded").holds is False
    assert constants.assumption("1: Lipschitz in Z").holds is False
    assert math.isinf(constants.radius)
    assert math.isinf(constants.lipschitz)
    with pytest.raises(ValueError, match="2: Θ bounded fails"):
        constants.theorem(1000)


@pytest.mark.slow
def test_what_cannot_be_decided_is_undecided():
    """Of a logistic loss neither the smoothness nor what an error in the effect does can be read off the program."""
    loss = lambda theta, z: jnp.log1p(jnp.exp(-jnp.sum(theta * z))) + 0.5 * jnp.sum(theta**2)  # noqa: E731
    constants = theory.constants(pf.Problem(loss, pf.Ball(1.0), dimension=1), world(1))
    assert constants.assumption("1: smooth").holds is None
    assert constants.assumption("PR strongly convex").holds is None
    assert constants.assumption("Lemma 4: quadratic in Z").holds is None
    assert constants.assumption("4: gradient variance").holds is None
    assert constants.assumption("1: convex in Z").holds is False
    assert constants.convexity > 0
    assert constants.gain == (math.inf, math.inf)
    with pytest.raises(TypeError, match=r"`environment` must be a performative\.LocationFamily"):
        theory.constants(pf.Problem(loss, pf.Ball(1.0), dimension=1), object())


def judged(problem, environment, dimension):
    """The landscape of a problem, and its assumptions by name; constants that they do not turn on are 1."""
    with precise():
        landscape = Landscape(problem, environment, dimension, seed=0)
        values, evidence = collections.defaultdict(lambda: 1.0), collections.defaultdict(str)
        slack = Slater(True, np.zeros(dimension), 1.0, "")
        return landscape, {item.name: item for item in assumptions(landscape, values, evidence, slack)}


def test_kinks_are_not_taken_for_smooth():
    """The Hessian of |θ − z| is 0 by its program, which says nothing."""
    problem = pf.Problem(lambda theta, z: jnp.sum(jnp.abs(theta - z)) + jnp.sum(theta**2), pf.Ball(1.0), dimension=1)
    landscape, report = judged(problem, world(1), 1)
    assert report["1: smooth"].holds is None
    with precise():
        assert gain(landscape)[:3] == (math.inf, math.inf, math.inf)
        assert "kinks" in landscape.largest_norm("‖∂²ℓ/∂θ∂Z‖", landscape.mixed_hessian)[1]


@pytest.mark.slow
def test_a_scaled_effect_and_a_bent_constraint_have_no_theorem():
    scaled = pf.LocationFamily(
        pf.Gaussian(np.zeros(2), np.ones(2)), 0.1 * np.eye(2), lambda effect, theta: 5.0 * (effect @ theta)
    )
    ring = pf.constraints.Function(lambda theta: 0.2 - jnp.sum(theta**2))
    problem = pf.Problem(lambda theta, z: jnp.sum((theta - z) ** 2), pf.Ball(1.0), [ring], dimension=2)
    constants = theory.constants(problem, scaled)
    assert [item.name for item in constants.needed if item.holds is False] == ["3: g convex", "location family"]
    with pytest.raises(ValueError, match="3: g convex fails: a Hessian of g has the eigenvalue -2"):
        constants.theorem(1000)
    mended = tuple(item._replace(holds=True) if item.name == "3: g convex" else item for item in constants.assumptions)
    with pytest.raises(ValueError, match=r"location family fails: .* scale the shift"):
        dataclasses.replace(constants, assumptions=mended).theorem(1000)
