"""Worlds beyond location families: what is drawn, what is averaged and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, special, stats

import performative as pf
from performative.numerics.precision import precise
from performative.numerics.randomness import new_key


def squared(theta, z):
    return jnp.sum((theta[0] - z) ** 2) + 0.1 * jnp.sum(theta**2)


def bent(theta, z):
    return jnp.log1p(jnp.exp(jnp.sum(z) * theta[0])) + 0.2 * theta[1] ** 2 * jnp.sum(z)


def mixed(theta):
    share = jax.nn.sigmoid(theta[0])
    return jnp.stack([share, 1.0 - share, 1.0 + theta[0], -0.5 * theta[1]])


PEOPLE = np.column_stack([np.random.default_rng(0).normal(size=(300, 2)), np.arange(300) % 2])

WORLDS = {
    "normal": pf.ParametricFamily(pf.Normal(0.5), lambda theta: jnp.sqrt(theta[:1] + 2.0)),
    "normal, correlated": pf.ParametricFamily(pf.Normal([[1.0, 0.4], [0.4, 0.5]]), lambda theta: jnp.sin(theta)),
    "bernoulli": pf.ParametricFamily(pf.Bernoulli(), lambda theta: jax.nn.sigmoid(theta[:1] - theta[1:])),
    "bernoulli, three": pf.ParametricFamily(
        pf.Bernoulli(3), lambda theta: jax.nn.sigmoid(theta[0] * jnp.array([1.0, -2.0, 0.5]))
    ),
    "poisson": pf.ParametricFamily(pf.Poisson(most=40), lambda theta: jnp.exp(1.0 + 0.3 * theta[:1])),
    "poisson, two": pf.ParametricFamily(pf.Poisson(2, most=40), lambda theta: 2.0 + theta),
    "mixture": pf.ParametricFamily(pf.Mixture([pf.Normal(0.3), pf.Normal(1.2)]), mixed),
    "reaction": pf.Reaction(pf.Gaussian([0.0, 1.0], [1.0, 0.3]), lambda theta, z0: z0 * (1.0 + 0.3 * theta) + theta**2),
    "strategic": pf.strategic_response(pf.Empirical(PEOPLE), ease=[0.5, 0.0], label=1.0),
    "strategic, logistic": pf.strategic_response(pf.Empirical(PEOPLE), ease=0.5, utility="logistic", wanted=1),
}
THETA = np.array([0.4, -0.3])


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("loss", [squared, bent])
def test_the_risk_is_the_mean_loss_of_samples(name, loss):
    """5·10⁴ draws, within five standard errors."""
    world, problem = WORLDS[name], pf.Problem(loss, pf.Box([-1.0, -1.0], [1.0, 1.0]))
    exact = pf.performative_risk(problem, world, THETA)
    with precise():
        z = world.sample(new_key(1), jnp.asarray(THETA), 50_000)
        losses = np.asarray(jax.vmap(lambda z: loss(jnp.asarray(THETA), z))(z))
    assert abs(losses.mean() - exact) <= 5 * losses.std() / np.sqrt(len(losses))


@pytest.mark.parametrize("name", WORLDS)
def test_the_decoupled_risk_moves_the_data_and_not_the_decision(name):
    world, problem = WORLDS[name], pf.Problem(squared, pf.Box([-1.0, -1.0], [1.0, 1.0]))
    with precise():
        risk, where = world.risk(problem), jnp.array([-0.6, 0.2])
        z = world.sample(new_key(2), where, 50_000)
        losses = np.asarray(jax.vmap(lambda z: squared(jnp.asarray(THETA), z))(z))
        assert abs(losses.mean() - float(risk(jnp.asarray(THETA), where))) <= 5 * losses.std() / np.sqrt(len(losses))
        assert float(risk(where, where)) == pytest.approx(float(risk(where)), rel=1e-12)


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
    world, problem = WORLDS[name], pf.Problem(squared, pf.Box([-1.0, -1.0], [1.0, 1.0]))
    with precise():
        theta = jnp.asarray(THETA)
        exact = np.asarray(jax.grad(world.risk(problem))(theta))
        z = world.sample(new_key(3), theta, 100_000)
        scores = np.asarray(jax.vmap(lambda z: jax.grad(lambda t: world.log_density(z, t))(theta))(z))
        losses = np.asarray(jax.vmap(lambda z: squared(theta, z))(z))
        direct = np.asarray(jax.vmap(lambda z: jax.grad(squared)(theta, z))(z))
    for drawn, expected in [(scores, np.zeros(2)), (direct + losses[:, None] * scores, exact)]:
        error = drawn.std(axis=0) / np.sqrt(len(z))
        assert np.all(np.abs(drawn.mean(axis=0) - expected) <= 5 * error + 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["normal", "bernoulli", "poisson", "mixture", "strategic, logistic"])
def test_the_optimum_is_found_in_any_of_them(name):
    world, problem = WORLDS[name], pf.Problem(squared, pf.Box([-1.0, -1.0], [1.0, 1.0]))
    found = pf.performative_optimum(problem, world)
    with precise():
        risk = jax.jit(world.risk(problem))
        grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, 41)] * 2), axis=-1).reshape(-1, 2)
        least = min(float(risk(jnp.asarray(point))) for point in grid)
    assert float(found.risk) <= least + 1e-9
    assert float(found.kkt_residual) < 1e-6


def test_a_best_response_is_the_best():
    """Against scipy's maximiser of the utility less the cost."""
    theta, x, ease = np.array([1.5, -2.0, 0.3]), np.array([0.2, 0.7]), np.array([0.8, 0.3])
    base = pf.Empirical(np.array([[*x, 1.0]]))
    for utility, value in (("linear", lambda s: s), ("logistic", lambda s: -np.log1p(np.exp(-s)))):
        world = pf.strategic_response(base, ease=ease, utility=utility, wanted=-1)
        with precise():
            moved = np.asarray(world.react(jnp.asarray(theta), jnp.array([*x, 1.0])))

        def payoff(new, value=value):
            return value(-(theta[:2] @ new + theta[2])) - np.sum((new - x) ** 2 / (2 * ease))

        best = optimize.minimize(
            lambda new: -payoff(new), x, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13}
        )
        np.testing.assert_allclose(moved[:2], best.x, atol=1e-5)
        assert moved[2] == 1.0


@pytest.mark.parametrize("reach", [1e-3, 1.0, 50.0, 1e4])
def test_derivatives_of_the_logistic_response_are_those_of_the_root(reach):
    from performative.environments.strategic import _improved

    for score in (-30.0, -1.0, 0.0, 4.0):
        root = optimize.brentq(
            lambda s, score=score: s - score - reach * special.expit(-s), score, score + reach, xtol=1e-14
        )
        calm = special.expit(-root)
        slope = 1 / (1 + reach * calm * (1 - calm))
        with precise():
            assert float(_improved(jnp.asarray(score), jnp.asarray(reach))) == pytest.approx(root, rel=1e-9, abs=1e-9)
            assert float(jax.grad(_improved)(score, reach)) == pytest.approx(slope, rel=1e-7)
            second = float(jax.grad(jax.grad(_improved))(score, reach))
        # s' = s + r σ(−s')  ⇒  s'' = −r σ'(1 − 2σ)·slope³ with σ at −s'
        bend = reach * calm * (1 - calm) * (1 - 2 * calm) * slope**3
        assert second == pytest.approx(bend, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(("family", "end"), [(pf.Bernoulli(), 0.0), (pf.Bernoulli(), 1.0), (pf.Poisson(), 0.0)])
def test_gradients_are_right_at_the_ends_of_the_parameter(family, end):
    """PR = E(3Z + 1) = 3f + 1, so its slope in f is 3 everywhere."""
    problem = pf.Problem(lambda theta, z: 3.0 * jnp.sum(z) + 1.0, pf.Box([0.0], [1.0]))
    with precise():
        slope = jax.grad(pf.ParametricFamily(family, lambda theta: theta).risk(problem))(jnp.array([end]))
    assert float(slope[0]) == pytest.approx(3.0)


def test_discrete_densities_know_their_outcomes():
    with precise():
        coin, count = pf.Bernoulli(), pf.Poisson(most=60)
        for z in (-1.0, 0.5, 2.0):
            assert float(coin.log_density(jnp.array([z]), jnp.array([0.3]))) == -np.inf
        assert float(count.log_density(jnp.array([-1.0]), jnp.array([2.0]))) == -np.inf
        assert float(count.log_density(jnp.array([3.0]), jnp.array([2.0]))) == pytest.approx(
            stats.poisson.logpmf(3, 2.0)
        )


def test_a_formula_serves_its_own_loss_alone():
    world = pf.LocationFamily(pf.Gaussian([1.0], [1.0]), [[0.5]])
    half = jax.tree_util.Partial(lambda c, theta, z: c * jnp.sum(theta * z), 0.5)
    known = pf.ClosedForm(world, half, lambda theta, where: 0.5 * jnp.sum(theta * (1.0 + 0.5 * where)))
    problem = pf.Problem(half, pf.Box([0.0], [1.0]))
    theta = np.array([0.4])
    assert pf.performative_risk(problem, known, theta) == pytest.approx(pf.performative_risk(problem, world, theta))
    other = pf.Problem(jax.tree_util.Partial(half.func, 0.9), pf.Box([0.0], [1.0]))
    with pytest.raises(ValueError, match="must be the one that the formula is for"):
        pf.performative_risk(other, known, theta)
    with pytest.raises(TypeError, match=r"`world.sample` must be callable"):
        pf.ClosedForm(3, half, half)


def test_a_player_sees_a_location_family_around_the_others():
    effects = [np.array([[-1.0], [0.0]]), np.array([[0.4], [0.2]]), np.array([[0.0], [-0.3]])]
    game = pf.LocationGame(pf.Gaussian([3.0, 1.0], 0.1 * np.ones(2)), effects)
    view = game.view(0, [None, [2.0], [1.0]])
    np.testing.assert_allclose(view.base.mean, [3.8, 1.1])
    np.testing.assert_array_equal(view.effect, effects[0])
    table = pf.LocationGame(pf.Empirical(np.eye(2)), effects[:2]).view(1, [[2.0], None])
    np.testing.assert_allclose(table.base.samples, [[-1.0, 0.0], [-2.0, 1.0]])


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
        (lambda: pf.strategic_response(pf.Gaussian(0.0, 1.0), ease=1.0), "must hold features and a label"),
        (lambda: pf.strategic_response(pf.Empirical(PEOPLE), ease=-1.0), "`ease` must be >= 0"),
        (lambda: pf.strategic_response(pf.Empirical(PEOPLE), ease=[1.0]), "one for each of 2 features"),
        (lambda: pf.strategic_response(pf.Empirical(PEOPLE), ease=1.0, utility="x"), "`utility` must be"),
        (lambda: pf.strategic_response(pf.Empirical(PEOPLE), ease=1.0, wanted=0), "`wanted` must be -1 or 1"),
        (lambda: pf.LocationGame(pf.Gaussian(0.0, 1.0), [[[1.0]]]), "at least two players"),
        (
            lambda: pf.LocationGame(pf.Gaussian(0.0, 1.0), [[[1.0]], [[1.0], [2.0]]]),
            "one row for each of the 1 numbers",
        ),
        (
            lambda: pf.LocationGame(pf.Gaussian(0.0, 1.0), [[[1.0]]] * 2).view(2, [[0.0]] * 2),
            "`player` must be at most 1",
        ),
        (lambda: pf.LocationGame(pf.Gaussian(0.0, 1.0), [[[1.0]]] * 2).view(0, [[0.0], [0.0, 1.0]]), "must have shape"),
    ],
)
def test_worlds_that_make_no_sense_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("world", "message"),
    [
        (pf.ParametricFamily(pf.Bernoulli(), lambda theta: theta[:1]), r"`parameter\(theta\)` must lie in \[0, 1\]"),
        (
            pf.ParametricFamily(pf.Poisson(most=5), lambda theta: 5.0 + theta[:1]),
            "must leave at most 1e-09 above most=5",
        ),
        (pf.ParametricFamily(pf.Normal(1.0), lambda theta: theta), "must return the 1 numbers of the family"),
        (
            pf.ParametricFamily(pf.Mixture([pf.Normal(1.0)] * 2), lambda theta: jnp.ones(4)),
            "weights >= 0 that sum to 1",
        ),
        (pf.strategic_response(pf.Empirical(np.ones((3, 5))), ease=1.0), "one weight for each of 4 features"),
        (pf.Reaction(pf.Gaussian(0.0, 1.0), lambda theta, z0: jnp.sum(z0)), r"`react` must return one sample \(k,\)"),
        (pf.Reaction(pf.Gaussian(0.0, 1.0), lambda theta, z0: theta @ z0), r"`react` must take a decision \(2,\)"),
    ],
)
def test_worlds_that_do_not_fit_the_problem_are_refused_before_any_work(world, message):
    problem = pf.Problem(squared, pf.Box([-1.0, -1.0], [1.0, 1.0]))
    with pytest.raises(ValueError, match=message):
        pf.performative_optimum(problem, world)
    with pytest.raises(ValueError, match=message):
        pf.simulate({"rgd": pf.repeated_gradient(problem)}, world, rounds=2)
