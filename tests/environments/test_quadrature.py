"""Averages over a Gaussian base by quadrature: as accurate as promised, and a warning where they are not."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial
from scipy import integrate, optimize, special, stats

import performative as pf
from performative.numerics.precision import precise
from performative.solvers.kkt import Solution
from performative.truth.metrics import Truth


def logistic(z):
    return jnp.logaddexp(0.0, -z[0])


@pytest.mark.parametrize("deviation", [0.3, 1.0, 2.0, 50.0])
@pytest.mark.parametrize("mean", [0.0, 1.5])
def test_the_logistic_loss_is_averaged_to_rounding(mean, deviation):
    normal = stats.norm(mean, deviation)
    expected, _ = integrate.quad(
        lambda x: np.logaddexp(0.0, -x) * normal.pdf(x),
        mean - 12 * deviation,
        mean + 12 * deviation,
        epsabs=1e-12,
        epsrel=1e-12,
        points=[0.0],
    )
    with precise():
        got = float(pf.Gaussian([mean], [deviation**2]).expectation(None, smooth=True).mean(logistic))
    assert got == pytest.approx(expected, rel=1e-12, abs=1e-12)


# The tails beyond 10, 9 and 8 standard deviations are cut off.
@pytest.mark.parametrize(("width", "degree", "tolerance"), [(1, 16, 1e-11), (2, 10, 1e-11), (3, 6, 1e-9)])
def test_polynomials_are_averaged_to_rounding(width, degree, tolerance):
    with precise():
        over = pf.Gaussian(np.zeros(width), np.ones(width)).expectation(None, smooth=True)
        got = float(over.mean(lambda z: z[-1] ** degree))
    assert got == pytest.approx(math.prod(range(1, degree, 2)), rel=tolerance)


@pytest.mark.parametrize("kink", [-1.3, 0.0, 0.4, 2.0])
def test_kinks_in_one_variable_are_averaged_to_rounding(kink):
    # E max(W − a, 0) = φ(a) − a (1 − Φ(a)).
    expected = stats.norm.pdf(kink) - kink * stats.norm.sf(kink)
    with precise():
        over = pf.Gaussian([0.0], [1.0]).expectation(None, smooth=False)
        got = float(over.mean(lambda z: jnp.maximum(z[0] - kink, 0.0)))
    assert got == pytest.approx(expected, abs=1e-12)


def test_many_variables_are_averaged_to_a_thousandth_of_the_spread():
    # E max_i W_i over five independent standard normals is 1.16296, with a spread of 0.669.
    with precise():
        over = pf.Gaussian(np.zeros(5), np.ones(5)).expectation(None, smooth=False)
        got = float(over.mean(jnp.max))
        variance = float(over.mean(lambda z: jnp.sum(z**2)))
    assert got == pytest.approx(1.16296447, abs=3e-3)
    assert variance == pytest.approx(5.0, rel=1e-12)


def test_the_performative_risk_of_a_pinball_loss_uses_the_nodes_for_kinks():
    def loss(theta, z):
        return jnp.maximum(0.3 * (z[0] - theta[0]), -0.7 * (z[0] - theta[0]))

    problem = pf.Problem(loss, pf.Box([-5.0], [5.0]))
    environment = pf.LocationFamily(pf.Gaussian([1.0], [4.0]), [[0.5]])
    theta = 0.8
    a = (theta - 1.0 - 0.5 * theta) / 2.0
    above = 2.0 * (stats.norm.pdf(a) - a * stats.norm.sf(a))
    below = 2.0 * (stats.norm.pdf(a) + a * stats.norm.cdf(a))
    assert pf.performative_risk(problem, environment, [theta]) == pytest.approx(0.3 * above + 0.7 * below, abs=1e-12)


def scalar(loss, mean, variance, low=-3.0, high=3.0):
    """A problem with one number to decide on and one number as data, moved by 0.3 of the decision."""
    return pf.Problem(loss, pf.Box([low], [high])), pf.LocationFamily(pf.Gaussian([mean], [variance]), [[0.3]])


@pytest.mark.parametrize(
    ("loss", "steep"),
    [
        (lambda theta, z: jnp.tanh(10 * z[0]), lambda theta, z: np.tanh(10 * z)),
        (lambda theta, z: jax.nn.sigmoid(100 * (z[0] - theta[0])), lambda theta, z: special.expit(100 * (z - theta))),
    ],
    ids=["tanh", "sigmoid"],
)
def test_steep_losses_of_one_number_are_averaged_accurately(loss, steep):
    theta, normal = 0.5, stats.norm(0.2 + 0.3 * 0.5, 2.0)
    ends = [-20.0, -0.3, -0.03, 0.0, 0.03, 0.3, 0.47, 0.5, 0.53, 1.0, 20.0]
    parts = [integrate.quad(lambda z: steep(theta, z) * normal.pdf(z), *p, epsabs=1e-12)[0] for p in pairwise(ends)]
    assert pf.performative_risk(*scalar(loss, 0.2, 4.0), [theta]) == pytest.approx(sum(parts), abs=1e-9)


@pytest.mark.parametrize(
    "softened",
    [lambda short: jnp.log1p(jnp.exp(-5 * short)) / 5, lambda short: jnp.logaddexp(0.0, -5 * short) / 5],
    ids=["log1p", "logaddexp"],
)
def test_the_optimum_of_a_smoothed_newsvendor_is_the_same_however_it_is_written(softened):
    def loss(theta, z):
        return 0.8 * (z[0] - theta[0]) + softened(z[0] - theta[0])

    # ∇PR ∝ 0.8 − E sigmoid(−5 E), E ∼ N(10 − 0.7 θ, 25).
    def slope(theta):
        shorts = stats.norm(10 - 0.7 * theta, 5.0)
        return (
            0.8 - integrate.quad(lambda e: special.expit(-5 * e) * shorts.pdf(e), -60, 60, points=[0.0], limit=200)[0]
        )

    expected = optimize.brentq(slope, 0.0, 50.0, xtol=1e-10)
    best = pf.performative_optimum(*scalar(loss, 10.0, 25.0, 0.0, 50.0))
    assert best.decision[0] == pytest.approx(expected, abs=1e-6)


def plane(width, slope):
    """The softplus of a sum that is N(0.2 θ₁, slope²): its value, and a problem, an environment and a decision for it."""
    loss = lambda theta, z: jax.nn.softplus(slope / math.sqrt(width) * jnp.sum(z) - theta[0])  # noqa: E731
    problem = pf.Problem(loss, pf.Box(-1.0, 1.0), dimension=width)
    environment = pf.LocationFamily(pf.Gaussian(np.zeros(width), np.ones(width)), np.zeros((width, width)))
    value = integrate.quad(
        lambda x: np.logaddexp(0.0, slope * x - 0.5) * stats.norm.pdf(x), -12, 12, points=[0.5 / slope], epsabs=1e-13
    )
    return value[0], (problem, environment, np.full(width, 0.5))


@pytest.mark.parametrize(("width", "slope"), [(2, 1.0), (2, 8.0), (3, 1.0), (3, 2.0)])
def test_smooth_losses_of_two_and_three_numbers_are_averaged_accurately(width, slope):
    expected, arguments = plane(width, slope)
    assert pf.performative_risk(*arguments) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("width", [2, 3])
def test_a_loss_too_steep_for_the_nodes_is_reported_with_its_error(width):
    loss = lambda theta, z: jnp.tanh(60 * (z[0] - theta[0]))  # noqa: E731
    problem = pf.Problem(loss, pf.Box(-1.0, 1.0), dimension=width)
    environment = pf.LocationFamily(pf.Gaussian(np.zeros(width), np.ones(width)), 0.3 * np.eye(width))
    with pytest.warns(pf.QuadratureWarning, match="the quadrature error of the loss is about") as caught:
        got = pf.performative_risk(problem, environment, np.full(width, 0.4))
    assert caught[0].filename == __file__
    told = float(
        re.search(r"about (\S+) of its standard deviation at the decision \[0.4", str(caught[0].message)).group(1)
    )
    error = abs(got - (1 - 2 * stats.norm.cdf(0.7 * 0.4)))
    assert 0.05 * told < error < 5 * told  # the twin's error is in what is told as well


def test_a_jump_of_one_score_is_averaged_exactly():
    problem, environment = scalar(lambda theta, z: jnp.where(z[0] > theta[0], 1.0, 0.0) + theta[0] ** 2, 0.0, 1.0)
    assert pf.performative_risk(problem, environment, [0.4]) == pytest.approx(stats.norm.sf(0.28) + 0.16, rel=1e-12)
    slope = lambda theta: 2 * theta - 0.7 * stats.norm.pdf(0.7 * theta)  # noqa: E731
    expected = optimize.brentq(slope, 0.0, 1.0, xtol=1e-13)
    assert pf.performative_optimum(problem, environment).decision[0] == pytest.approx(expected, abs=1e-8)


def test_jumps_that_cannot_be_resolved_are_reported_by_the_risk_and_refused_by_the_optimum():
    problem, environment = scalar(lambda theta, z: jnp.floor(5 * (z[0] - theta[0])) + theta[0] ** 2, 0.0, 1.0)
    with pytest.warns(pf.QuadratureWarning, match=r"e-0[34] of its standard deviation at the decision") as caught:
        pf.performative_risk(problem, environment, [0.4])
    assert caught[0].filename == __file__
    with pytest.warns(pf.QuadratureWarning), pytest.raises(pf.SolverFailed, match="a loss that jumps"):
        pf.performative_optimum(problem, environment)  # each step of the floor has its own KKT point


@pytest.mark.parametrize("width", [1, 2, 5])
def test_kinks_of_each_number_are_averaged_exactly_whatever_their_count(width):
    loss = lambda theta, z: jnp.sum(jnp.maximum(0.3 * (z - theta), -0.7 * (z - theta)))  # noqa: E731
    problem = pf.Problem(loss, pf.Box(-1.0, 1.0), dimension=width)
    environment = pf.LocationFamily(pf.Gaussian(np.zeros(width), np.ones(width)), np.zeros((width, width)))
    above = stats.norm.pdf(0.5) - 0.5 * stats.norm.sf(0.5)
    below = stats.norm.pdf(0.5) + 0.5 * stats.norm.cdf(0.5)
    got = pf.performative_risk(problem, environment, np.full(width, 0.5))
    assert got == pytest.approx(width * (0.3 * above + 0.7 * below), rel=1e-9)


def test_a_loss_that_does_not_depend_on_the_data_is_no_cause_for_warning():
    problem, environment = scalar(lambda theta, z: 1e6 + jnp.exp(theta[0]) + 0.0 * jnp.exp(z[0]), 0.0, 1.0)
    assert pf.performative_risk(problem, environment, [0.4]) == pytest.approx(1e6 + math.exp(0.4), rel=1e-12)


def soft(steepness, theta, z):
    return jnp.log1p(jnp.exp(-steepness * theta[0] * z[0])) + theta[0] ** 2


@pytest.mark.parametrize(("steepness", "steps"), [(1.0, 128), (30.0, 512), (500.0, None)])
def test_a_coarse_grid_measures_a_gentle_loss_and_the_usual_one_a_steep_one(steepness, steps):
    environment = pf.LocationFamily(pf.Gaussian([0.2], [1.0]), [[0.3]])
    problem = pf.Problem(Partial(soft, np.float64(steepness)), pf.Box([-1], [1]))
    least = pf.performative_risk(problem, environment, [0.1])
    with precise():
        assert environment.coarse_enough(problem) == steps
        reference = Solution.of(np.array([0.1]), np.zeros(0), least, 0.0, False, "a decision to compare with")
        excess = float(Truth.known(problem, environment, reference, steps).excess(jnp.asarray([0.7])))
    assert excess == pytest.approx(pf.performative_risk(problem, environment, [0.7]) - least, rel=1e-6)


@pytest.mark.slow
def test_instances_of_different_steepness_share_one_grid():
    problem = pf.Problem(lambda t, z: jnp.logaddexp(0.0, z[0]) + 0.5 * t[0] ** 2 + 0.1 * t[0] * z[0], pf.Box([-1], [1]))
    worlds = [pf.LocationFamily(pf.Gaussian([0.0], [variance]), [[0.5]]) for variance in (1.0, 1600.0)]
    data = pf.simulate({"a": pf.repeated_gradient(problem)}, worlds, rounds=5)
    assert np.all(np.isfinite(data.regret))


def test_a_grid_is_looked_at_on_all_of_a_large_set():
    problem = pf.Problem(lambda t, z: jax.nn.sigmoid(t[0] * z[0]) + 5e-6 * (t[0] - 200.0) ** 2, pf.Box([0], [250]))
    world = pf.LocationFamily(pf.Gaussian([0.013], [1.0]), [[0.0]])
    with precise():
        assert world.coarse_enough(problem) is None
