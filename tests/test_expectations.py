"""Degrees read off programs, sparsity of Hessians, and averages that are exact where they claim to be."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.tree_util import Partial
from scipy import integrate, optimize, special, stats

import performative as pf
from performative.numerics import expectations, polynomial
from performative.numerics.precision import precise
from performative.problem import LossInData
from performative.problems import regression
from performative.truth.metrics import Truth

K = 4
FIXED = np.random.default_rng(0).normal(size=(K, K))
ZERO = np.zeros(K)


@jax.custom_jvp
def own_jvp(x):
    return x * x


own_jvp.defjvp(lambda primals, tangents: (own_jvp(*primals), 2 * primals[0] * tangents[0]))


@jax.custom_vjp
def own_vjp(x):
    return x * x


own_vjp.defvjp(lambda x: (x * x, x), lambda x, g: (2 * x * g,))


@jax.custom_jvp
def looks_like_logaddexp(x, y):
    return jnp.maximum(x, y)


looks_like_logaddexp.defjvp(lambda primals, tangents: (looks_like_logaddexp(*primals), tangents[0]))


DEGREES = {
    "constant": (lambda z: 3.0, 0),
    "constant array": (lambda z: jnp.ones(3), 0),
    "linear": (lambda z: 2.0 * z[0] - jnp.sum(z) / 3.0 + 1.0, 1),
    "mean": (lambda z: jnp.mean(z), 1),
    "fixed matrix": (lambda z: FIXED @ z, 1),
    "quadratic": (lambda z: jnp.sum(z**2), 2),
    "product of entries": (lambda z: z[0] * z[1] + z[2], 2),
    "quadratic form": (lambda z: z @ FIXED @ z, 2),
    "square": (lambda z: jnp.square(z - 1.0), 2),
    "variance": (lambda z: jnp.var(z), 2),
    "cubic": (lambda z: jnp.sum(z**3) + z[0] ** 2, 3),
    "cubic by products": (lambda z: z[0] * z[1] * z[2], 3),
    "quartic": (lambda z: jnp.sum((z @ z) ** 2), 4),
    "power zero": (lambda z: jnp.sum(z**0), 0),
    "reshape": (lambda z: jnp.sum(z.reshape(2, 2) ** 2), 2),
    "transpose": (lambda z: jnp.sum(z.reshape(2, 2).T * z.reshape(2, 2)), 2),
    "slicing": (lambda z: jnp.sum(z[1:3] ** 2) + jnp.sum(z[::-2]), 2),
    "constant indices": (lambda z: jnp.sum(z[np.array([0, 3, 3])] ** 2), 2),
    "concatenate": (lambda z: jnp.sum(jnp.concatenate([z, jnp.ones(2), z[:1]]) ** 2), 2),
    "stack": (lambda z: jnp.sum(jnp.stack([z, 2 * z]) ** 2), 2),
    "tile": (lambda z: jnp.sum(jnp.tile(z, 2) ** 2), 2),
    "repeat": (lambda z: jnp.sum(jnp.repeat(z, 2) ** 2), 2),
    "split": (lambda z: jnp.sum(jnp.split(z, 2)[0] ** 2), 2),
    "number by number": (lambda z: jnp.sum(jnp.concatenate([z, jnp.ones(K)]) * jnp.concatenate([jnp.ones(K), z])), 1),
    "customised derivatives": (lambda z: jnp.sum(own_jvp(z)), 2),
    "customised transposed derivatives": (lambda z: jnp.sum(own_vjp(z)), 2),
    "product of scalars by einsum": (lambda z: jnp.einsum(",->", z[0], z[1]), 2),
    "pad": (lambda z: jnp.sum(jnp.pad(z, 2) ** 2), 2),
    "matmul": (lambda z: jnp.sum((FIXED @ z) ** 2), 2),
    "einsum": (lambda z: jnp.einsum("i,ij,j->", z, FIXED, z), 2),
    "cubic einsum": (lambda z: jnp.einsum("i,j,k->", z, z, z), 3),
    "cumsum": (lambda z: jnp.sum(jnp.cumsum(z) ** 2), 2),
    "scatter": (lambda z: jnp.sum(jnp.zeros(6).at[np.array([0, 2])].add(z[:2]) ** 2), 2),
    "set": (lambda z: jnp.sum(z.at[1].set(0.0) ** 2), 2),
    "where on a constant": (lambda z: jnp.sum(jnp.where(np.arange(K) > 1, z, 0.0) ** 2), 2),
    "nested jit": (lambda z: jax.jit(lambda x: jnp.sum(x * x))(z), 2),
    "remat": (lambda z: jax.checkpoint(lambda x: jnp.sum(x * x))(z), 2),
    "vmap": (lambda z: jnp.sum(jax.vmap(lambda row: (row @ z) ** 2)(jnp.asarray(FIXED))), 2),
    "gradient of a cubic": (lambda z: jax.grad(lambda x: jnp.sum(x**3))(z), 2),
    "fixed function of constants": (lambda z: jnp.exp(jnp.asarray(FIXED[0])) @ z, 1),
    "pinball": (lambda z: jnp.maximum(0.3 * z[0], -0.7 * z[0]), math.inf),
    "where on the data": (lambda z: jnp.sum(jnp.where(z > 0, z, 2 * z)), math.inf),
    "abs": (lambda z: jnp.sum(jnp.abs(z)), math.inf),
    "sign": (lambda z: jnp.sum(jnp.sign(z)), math.inf),
    "floor": (lambda z: jnp.sum(jnp.floor(z)), math.inf),
    "clip": (lambda z: jnp.sum(jnp.clip(z, -1, 1)), math.inf),
    "relu": (lambda z: jnp.sum(jax.nn.relu(z)), math.inf),
    "sort": (lambda z: jnp.sort(z)[0], math.inf),
    "max": (lambda z: jnp.max(z), math.inf),
    "exp": (lambda z: jnp.sum(jnp.exp(z)), math.inf),
    "logistic": (lambda z: jnp.sum(jnp.logaddexp(0.0, z)), math.inf),
    "ratio": (lambda z: z[0] / (1.0 + z[1] ** 2), math.inf),
    "negative power": (lambda z: jnp.sum((2.0 + z) ** -1), math.inf),
    "norm": (lambda z: jnp.sqrt(1.0 + jnp.sum(z * z)), math.inf),
    "data as index": (lambda z: jnp.asarray(FIXED)[0, z[0].astype(int)], math.inf),
    "scan": (lambda z: lax.scan(lambda c, x: (c * x, None), 1.0, z)[0], math.inf),
    "truncated to whole numbers": (lambda z: jnp.sum(z.astype(jnp.int64).astype(jnp.float64)), math.inf),
    "truncated to booleans": (lambda z: jnp.sum(z.astype(bool).astype(jnp.float64)), math.inf),
}


@pytest.mark.parametrize("name", DEGREES)
def test_degree_is_read_off_the_program(name):
    function, degree = DEGREES[name]
    assert polynomial.degree(function, ZERO) == degree


def test_degree_counts_one_argument_at_a_time():
    def loss(theta, z):
        return jnp.sum(theta * z) + jnp.sum(theta**3)

    theta = np.ones(K)
    assert polynomial.degree(lambda z: loss(theta, z), ZERO) == 1
    assert polynomial.degree(lambda theta: loss(theta, ZERO), theta) == 3
    assert polynomial.degree(lambda both: loss(both, both), theta) == 3
    assert polynomial.degree(lambda both: jnp.sum(both[0] * both[1]), (theta, ZERO)) == 2


def test_analytic_functions_are_told_from_piecewise_ones():
    assert polynomial.is_analytic(lambda theta, z: jnp.sum(jnp.exp(theta * z)), ZERO, ZERO)
    assert not polynomial.is_analytic(lambda theta, z: jnp.sum(jnp.abs(theta) * z), ZERO, ZERO)
    assert not polynomial.is_analytic(lambda theta, z: jnp.sum(theta * jnp.abs(z)), ZERO, ZERO)
    assert not polynomial.is_analytic(lambda theta, z: jnp.sum(looks_like_logaddexp(theta, z)), ZERO, ZERO)


@pytest.mark.parametrize(
    "function",
    [lambda x: jnp.logaddexp(0.0, x), lambda x: jnp.logaddexp(x, 2 * x[0]), jax.nn.softplus, jax.nn.log_sigmoid],
    ids=["logaddexp", "of two", "softplus", "log sigmoid"],
)
def test_the_logistic_function_is_analytic_however_it_is_written(function):
    assert polynomial.is_analytic(lambda theta, z: jnp.sum(function(theta * z)), ZERO, ZERO)


def colours(function, size, *others):
    pattern = expectations.hessian_pattern(Partial(function), size, *others)
    return None if pattern is None else pattern.colours


LOSSES = {
    "linear": (lambda z, theta: jnp.sum(theta * z), 0),
    "separable": (lambda z, theta: 0.5 * jnp.sum((z - theta) ** 2), 1),
    "dense": (lambda z, theta: z @ FIXED @ FIXED.T @ z + theta @ z, K),
    "dense through the decision": (lambda z, theta: (z @ theta) ** 2, K),
    "tridiagonal": (lambda z, theta: jnp.sum(z[1:] * z[:-1]) + jnp.sum(theta * z), None),
    "one entry": (lambda z, theta: z[2] ** 2 + jnp.sum(z), 1),
    "two blocks": (lambda z, theta: jnp.sum(z.reshape(2, 2) @ np.array([1.0, 2.0])) ** 2, K),
    "blocks of two": (lambda z, theta: jnp.sum((z.reshape(2, 2) @ np.array([1.0, 2.0])) ** 2), 2),
    "switched by the decision": (lambda z, theta: jnp.where(theta[0] > 0, jnp.sum(z**2), z[0] * z[1]), None),
    "absolute decision": (lambda z, theta: jnp.sum(jnp.abs(theta) * z * z), None),
    "gather": (lambda z, theta: jnp.sum(z[np.array([0, 1])] * z[np.array([2, 3])] * theta[:2]), None),
}


@pytest.mark.parametrize("name", [name for name in LOSSES if LOSSES[name][1] is not None])
def test_a_quadratic_loss_needs_as_many_colours_as_its_blocks_are_wide(name):
    function, expected = LOSSES[name]
    assert colours(function, K, np.zeros(K)) == expected


def test_ten_tasks_of_four_numbers_need_four_colours():
    theta = np.zeros(regression.TASKS * regression.FEATURES)
    width = regression.TASKS * (regression.FEATURES + 1)
    pattern = expectations.hessian_pattern(LossInData(Partial(regression.loss)), width, theta)
    assert pattern is not None
    assert pattern.colours == regression.FEATURES + 1


@pytest.mark.parametrize(
    "function",
    [
        lambda z, theta: jnp.sum(jnp.logaddexp(0.0, theta * z)),
        lambda z, theta: jnp.sum(z**3),
        lambda z, theta: jnp.sum(jnp.maximum(z, theta)),
    ],
    ids=["logistic", "cubic", "pinball"],
)
def test_losses_of_higher_degree_have_no_pattern(function):
    assert expectations.hessian_pattern(Partial(function), K, np.zeros(K)) is None


@pytest.mark.parametrize("name", LOSSES)
def test_moments_average_like_the_samples_they_came_from(name):
    function, _ = LOSSES[name]
    random = np.random.default_rng(1)
    points, theta = 3.0 + random.normal(size=(50, K)) @ FIXED, random.normal(size=K)
    with precise():
        pattern = expectations.hessian_pattern(Partial(function), K, theta)
        moments = expectations.from_samples(jnp.asarray(points), pattern)
        assert isinstance(moments, expectations.Moments)
        samples = expectations.Samples(jnp.asarray(points))

        def both(theta):
            return jnp.stack([over.mean(lambda z: function(z, theta)) for over in (moments, samples)])

        value, gradient = jax.jit(lambda theta: (both(theta), jax.jacobian(both)(theta)))(theta)
    # Averages of 50 numbers of order 100: rounding relative to their size.
    np.testing.assert_allclose(value[0], value[1], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(gradient[0], gradient[1], rtol=1e-12, atol=1e-11)


def test_moments_average_the_regression_loss_like_samples():
    random = np.random.default_rng(2)
    width, size = regression.TASKS * (regression.FEATURES + 1), regression.TASKS * regression.FEATURES
    points, theta = random.normal(size=(60, width)), random.normal(size=size)
    with precise():
        loss = LossInData(Partial(regression.loss))
        moments = expectations.from_samples(jnp.asarray(points), expectations.hessian_pattern(loss, width, theta))
        samples = expectations.Samples(jnp.asarray(points))
        assert isinstance(moments, expectations.Moments)
        (a, da), (b, db) = (
            jax.jit(jax.value_and_grad(lambda theta, over=over: over.mean(lambda z: loss(z, theta))))(theta)
            for over in (moments, samples)
        )
    np.testing.assert_allclose(a, b, rtol=1e-12)
    np.testing.assert_allclose(da, db, rtol=1e-12, atol=1e-12)


def test_moments_average_a_loss_whose_derivative_in_the_data_is_stopped():
    # The value is quadratic in z though no derivative shows it.
    function = lambda z: jnp.sum(lax.stop_gradient(z) ** 2)  # noqa: E731
    points = np.random.default_rng(3).normal(size=(50, K))
    with precise():
        over = expectations.from_samples(jnp.asarray(points), expectations.hessian_pattern(Partial(function), K))
        got = float(over.mean(function))
    assert got == pytest.approx(np.mean(np.sum(points**2, axis=1)), rel=1e-12)


def test_few_samples_stay_samples_where_moments_do_not_pay():
    with precise():
        dense = expectations.hessian_pattern(Partial(LOSSES["dense"][0]), K, np.zeros(K))
        assert isinstance(expectations.from_samples(jnp.ones((2 * K, K)), dense), expectations.Samples)
        assert isinstance(expectations.from_samples(jnp.ones((2 * K + 1, K)), dense), expectations.Moments)
        assert isinstance(expectations.from_samples(jnp.ones((100, K)), None), expectations.Samples)


def test_patterns_are_equal_by_what_they_hold():
    one, two = (expectations.Pattern(np.eye(3, dtype=bool)) for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)
    assert one != expectations.Pattern(np.ones((3, 3), dtype=bool))


def test_weighted_samples_average_with_their_weights():
    with precise():
        over = expectations.Samples(jnp.asarray([[1.0], [2.0], [4.0]]), jnp.asarray([0.5, 0.25, 0.25]))
        assert float(over.mean(lambda z: z[0] ** 2)) == 0.5 + 1.0 + 4.0


COVARIANCE = FIXED @ FIXED.T
BLOCKS = np.stack([np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([[1.0, -0.3], [-0.3, 0.7]])])


@pytest.mark.parametrize(
    ("covariance", "full"),
    [
        (COVARIANCE, COVARIANCE),
        (np.diag(COVARIANCE), np.diag(np.diag(COVARIANCE))),
        (BLOCKS, np.block([[BLOCKS[0], np.zeros((2, 2))], [np.zeros((2, 2)), BLOCKS[1]]])),
        (np.outer(FIXED[0], FIXED[0]), np.outer(FIXED[0], FIXED[0])),
    ],
    ids=["full", "variances", "blocks", "singular"],
)
@pytest.mark.parametrize("name", LOSSES)
def test_gaussian_averages_of_quadratics_are_the_closed_form(name, covariance, full):
    function, _ = LOSSES[name]
    mean, theta = np.arange(1.0, K + 1), np.array([0.5, -1.0, 2.0, 0.3])
    with precise():
        pattern = expectations.hessian_pattern(Partial(function), K, theta)
        got = float(pf.Gaussian(mean, covariance).expectation(pattern, True).mean(lambda z: function(z, theta)))
        hessian = np.asarray(jax.hessian(function)(mean, theta))
        closed = float(function(mean, theta)) + 0.5 * np.sum(hessian * full)
    np.testing.assert_allclose(got, closed, rtol=1e-13, atol=1e-13)


def test_blocks_of_three_by_three_fill_the_full_covariance():
    blocks = np.stack([np.eye(3) * (i + 1) for i in range(2)])
    with precise():
        full = np.asarray(pf.Gaussian(np.zeros(6), blocks).full_covariance())
    np.testing.assert_array_equal(full, np.diag([1.0, 1.0, 1.0, 2.0, 2.0, 2.0]))


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
def test_kinks_in_one_variable_are_averaged_to_a_millionth(kink):
    # E max(W − a, 0) = φ(a) − a (1 − Φ(a)). The trapezoidal rule with h = 20/4096 errs by at most h²/12·φ(0) ≈ 7.9e-7.
    expected = stats.norm.pdf(kink) - kink * stats.norm.sf(kink)
    with precise():
        over = pf.Gaussian([0.0], [1.0]).expectation(None, smooth=False)
        got = float(over.mean(lambda z: jnp.maximum(z[0] - kink, 0.0)))
    assert got == pytest.approx(expected, abs=1e-6)


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
    # A kink of one with a standard deviation of two.
    assert pf.performative_risk(problem, environment, [theta]) == pytest.approx(0.3 * above + 0.7 * below, abs=2e-6)


def test_an_empirical_base_is_averaged_exactly_for_any_loss():
    samples = np.random.default_rng(4).normal(size=(30, 1))
    problem = pf.Problem(lambda theta, z: jnp.logaddexp(0.0, -z[0] * theta[0]), pf.Box([-5.0], [5.0]))
    environment = pf.LocationFamily(pf.Empirical(samples), [[0.5]])
    expected = np.mean(np.logaddexp(0.0, -(samples + 0.5 * 0.7) * 0.7))
    assert pf.performative_risk(problem, environment, [0.7]) == pytest.approx(expected, rel=1e-13)


def updated(theta, z):
    return 0.5 * jnp.sum((theta.at[0].multiply(2.0) - z.at[1].add(1.0)) ** 2)


def updated_quartic(theta, z):
    return jnp.sum((theta.at[0].multiply(2.0) - z.at[1].add(1.0)) ** 4)


def looped(theta, z):
    return lax.fori_loop(0, 2, lambda i, total: total + 0.5 * (theta[i] - z[i]) ** 2, 0.0)


def by_label(theta, z):
    return 0.5 * jnp.sum((theta.reshape(2, 1)[(z[1] > 0).astype(int)] - z[0]) ** 2)


def weighted(weights, theta, z):
    return 0.5 * jnp.sum(weights.at[0].set(2.0) * (theta - z) ** 2)


def updated_shift(effect, theta):
    return effect.at[0].multiply(2.0) @ theta.at[0].multiply(0.5)


def updated_constraint(bound, theta):
    return theta.at[0].multiply(2.0)[:1] - bound.at[0].add(1.0)


ARRAYS = {
    "updates": (updated, None, None),
    "updates of a quartic": (updated_quartic, None, None),
    "loop": (looped, None, None),
    "class label": (by_label, None, None),
    "numbers": (Partial(weighted, np.ones(2)), None, None),
    "shift": (updated, updated_shift, None),
    "constraint": (updated, None, Partial(updated_constraint, np.ones(1))),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_functions_are_given_the_arrays_of_jax(name):
    loss, shift, rule = ARRAYS[name]
    problem = pf.Problem(loss, pf.Box([0.0, 0.0], [2.0, 2.0]), rule)
    samples = np.random.default_rng(5).normal(1.0, 1.0, size=(20, 2))
    environment = pf.LocationFamily(pf.Empirical(samples), 0.3 * np.eye(2), shift)
    theta = np.array([0.5, 1.0])
    with precise():
        moved = [jnp.asarray(z + 0.3 * theta) for z in samples]
        expected = np.mean([float(problem.loss(jnp.asarray(theta), z)) for z in moved])
    assert pf.performative_risk(problem, environment, theta) == pytest.approx(expected, rel=1e-12)
    best = pf.performative_optimum(problem, environment)
    assert best.kkt_residual < 1e-6
    gaussian = pf.LocationFamily(pf.Gaussian([1.0, 1.0], [1.0, 1.0]), 0.3 * np.eye(2), shift)
    assert np.isfinite(pf.performative_risk(problem, gaussian, theta))


def test_functions_are_given_the_arrays_of_jax_in_simulations():
    _, _, rule = ARRAYS["constraint"]
    problem = pf.Problem(updated, pf.Box([0.0, 0.0], [2.0, 2.0]), rule)
    environment = pf.LocationFamily(pf.Gaussian([1.0, 1.0], [1.0, 1.0]), 0.3 * np.eye(2), updated_shift)
    method = pf.pd_ps(problem, warmup=3, shift=updated_shift, effect=np.zeros((2, 2)))
    data = pf.simulate({"pd_ps": method}, environment, rounds=2, realizations=1)
    assert np.all(np.isfinite(data.regret))


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
    with pytest.warns(pf.QuadratureWarning, match="but it is about") as caught:
        got = pf.performative_risk(problem, environment, np.full(width, 0.4))
    assert caught[0].filename == __file__
    told = float(re.search(r"about (\S+) at the decision \[0.4", str(caught[0].message)).group(1))
    error = abs(got - (1 - 2 * stats.norm.cdf(0.7 * 0.4)))
    assert 0.05 * told < error < 5 * told  # the twin's error is in what is told as well


def test_a_jump_is_reported_by_the_risk_and_by_the_optimum():
    problem, environment = scalar(lambda theta, z: jnp.where(z[0] > theta[0], 1.0, 0.0) + theta[0] ** 2, 0.0, 1.0)
    with pytest.warns(pf.QuadratureWarning, match=r"e-0[34] at the decision") as caught:
        pf.performative_risk(problem, environment, [0.4])
    with pytest.warns(pf.QuadratureWarning) as caught:
        pf.performative_optimum(problem, environment)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("width", [1, 2, 5])
def test_kinks_are_averaged_as_accurately_as_promised_without_a_warning(width):
    loss = lambda theta, z: jnp.sum(jnp.maximum(0.3 * (z - theta), -0.7 * (z - theta)))  # noqa: E731
    problem = pf.Problem(loss, pf.Box(-1.0, 1.0), dimension=width)
    environment = pf.LocationFamily(pf.Gaussian(np.zeros(width), np.ones(width)), np.zeros((width, width)))
    above = stats.norm.pdf(0.5) - 0.5 * stats.norm.sf(0.5)
    below = stats.norm.pdf(0.5) + 0.5 * stats.norm.cdf(0.5)
    got = pf.performative_risk(problem, environment, np.full(width, 0.5))
    assert got == pytest.approx(width * (0.3 * above + 0.7 * below), rel=1e-6 if width == 1 else 1e-3)


def test_a_loss_that_does_not_depend_on_the_data_is_no_cause_for_warning():
    problem, environment = scalar(lambda theta, z: 1e6 + jnp.exp(theta[0]) + 0.0 * jnp.exp(z[0]), 0.0, 1.0)
    assert pf.performative_risk(problem, environment, [0.4]) == pytest.approx(1e6 + math.exp(0.4), rel=1e-12)


@pytest.mark.parametrize(("steepness", "steps"), [(1.0, 128), (30.0, 512), (500.0, None)])
def test_a_coarse_grid_measures_a_gentle_loss_and_the_usual_one_a_steep_one(steepness, steps):
    environment = pf.LocationFamily(pf.Gaussian([0.2], [1.0]), [[0.3]])
    problem = pf.Problem(lambda t, z: jnp.log1p(jnp.exp(-steepness * t[0] * z[0])) + t[0] ** 2, pf.Box([-1], [1]))
    with precise():
        assert environment.coarse_enough(problem) == steps
        truth = Truth.of(problem, environment, pf.performative_optimum(problem, environment), steps)
        excess = float(truth.excess(jnp.asarray([0.7])))
    expected = pf.performative_risk(problem, environment, [0.7]) - float(truth.optimum.risk)
    assert excess == pytest.approx(expected, rel=1e-6)


def test_instances_of_different_steepness_share_one_grid():
    problem = pf.Problem(lambda t, z: jnp.logaddexp(0.0, z[0]) + 0.5 * t[0] ** 2 + 0.1 * t[0] * z[0], pf.Box([-1], [1]))
    worlds = [pf.LocationFamily(pf.Gaussian([0.0], [variance]), [[0.5]]) for variance in (1.0, 1600.0)]
    data = pf.simulate({"a": pf.apda(problem, warmup=20)}, worlds, rounds=5)
    assert np.all(np.isfinite(data.regret))


def test_a_grid_is_looked_at_on_all_of_a_large_set():
    problem = pf.Problem(lambda t, z: jax.nn.sigmoid(t[0] * z[0]) + 5e-6 * (t[0] - 200.0) ** 2, pf.Box([0], [250]))
    world = pf.LocationFamily(pf.Gaussian([0.013], [1.0]), [[0.0]])
    with precise():
        assert world.coarse_enough(problem) is None
