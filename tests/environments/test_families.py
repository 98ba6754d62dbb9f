"""Families of densities: scores, gradients at the ends of the parameter, outcomes, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_world import SQUARE, THETA, WORLDS, squared
from scipy import stats

import performative as pf
from performative.numerics.precision import precise
from performative.numerics.randomness import new_key


@pytest.mark.parametrize(
    "name",
    [
        "normal",
        pytest.param("normal, correlated", marks=pytest.mark.slow),
        "bernoulli, three",
        pytest.param("poisson, two", marks=pytest.mark.slow),
        "mixture",
    ],
)
def test_densities_integrate_scores_to_zero_and_give_the_gradient(name):
    """∇PR = E[∇ℓ + ℓ ∇log p], equation PR_grad, over 10⁵ draws within five standard errors."""
    world, problem = WORLDS[name], pf.Problem(squared, SQUARE)

    @jax.jit
    def terms(theta):
        z = world.sample(new_key(3), theta, 100_000)
        scores = jax.vmap(lambda z: jax.grad(lambda t: world.log_density(z, t))(theta))(z)
        losses, direct = jax.vmap(lambda z: jax.value_and_grad(squared)(theta, z))(z)
        return scores, direct + losses[:, None] * scores, jax.grad(world.risk(problem))(theta)

    with precise():
        scores, gradients, exact = (np.asarray(part) for part in terms(jnp.asarray(THETA)))
    for drawn, expected in [(scores, np.zeros(2)), (gradients, exact)]:
        error = drawn.std(axis=0) / np.sqrt(len(drawn))
        assert np.all(np.abs(drawn.mean(axis=0) - expected) <= 5 * error + 1e-12)


@pytest.mark.parametrize(("family", "ends"), [(pf.Bernoulli(), [0.0, 1.0]), (pf.Poisson(), [0.0])])
def test_gradients_are_right_at_the_ends_of_the_parameter(family, ends):
    """PR = E(3Z + 1) = 3f + 1, so its slope in f is 3 everywhere."""
    problem = pf.Problem(lambda theta, z: 3.0 * jnp.sum(z) + 1.0, pf.Box([0.0], [1.0]))
    with precise():
        slope = jax.jit(jax.grad(pf.ParametricFamily(family, lambda theta: theta).risk(problem)))
        for end in ends:
            assert float(slope(jnp.array([end]))[0]) == pytest.approx(3.0)


def test_a_solution_outside_of_the_family_is_refused():
    """Between the decisions that are looked at first, the probability may leave [0, 1]; at the solution it may not."""

    def parameter(p):
        return 1.0 - p / 4.0 + 2.0 * jnp.exp(-(((p - 1.37) / 0.01) ** 2))

    world, prices = pf.ParametricFamily(pf.Bernoulli(), parameter), pf.Box([0.0], [4.0])
    message = r"must lie in \[0, 1\], but is .* at the decision \[1.3.*leave such decisions out"
    with pytest.raises(ValueError, match=message):
        pf.performative_optimum(pf.Problem(lambda p, z: -p[0] * z[0], prices), world)
    with pytest.raises(ValueError, match=message):
        pf.stable_point(pf.Problem(lambda p, z: (p[0] - z[0]) ** 2 + 2.575 * p[0], prices), world, start=[1.37])


def test_a_solution_at_the_end_of_the_family_is_not_refused_for_rounding():
    world = pf.ParametricFamily(pf.Bernoulli(), lambda p: 1.0 - p / 4.0)
    world.check_solution(pf.Problem(lambda p, z: -p[0] * z[0], pf.Box([0.0], [4.0])), np.array([4.0 + 1e-9]))


def test_discrete_densities_know_their_outcomes():
    coin, count = pf.Bernoulli(), pf.Poisson(most=60)
    with precise():
        coins = jax.jit(jax.vmap(lambda z: coin.log_density(z[None], jnp.array([0.3]))))(jnp.array([-1.0, 0.5, 2.0]))
        counts = jax.jit(jax.vmap(lambda z: count.log_density(z[None], jnp.array([2.0]))))(jnp.array([-1.0, 3.0]))
    assert np.all(np.asarray(coins) == -np.inf)
    assert float(counts[0]) == -np.inf
    assert float(counts[1]) == pytest.approx(stats.poisson.logpmf(3, 2.0))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pf.Bernoulli(0), "`width` must be a whole number >= 1"),
        (lambda: pf.Poisson(3, most=40), r"`\(most \+ 1\) \*\* width` must be at most 4096"),
        (lambda: pf.Mixture([pf.Normal(1.0), pf.Normal([1.0, 1.0])]), "all of one width"),
        (lambda: pf.Mixture([]), "at least one family"),
        (lambda: pf.Mixture([pf.Normal(1.0), pf.Bernoulli()]), "all have a density or all be discrete"),
        (lambda: pf.Normal(0.0), "`covariance` must be positive definite"),
        (lambda: pf.Normal([[1.0, 1.0], [1.0, 1.0]]), "`covariance` must be positive definite"),
    ],
)
def test_families_that_make_no_sense_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
