import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf

PROBLEM = pf.Problem(lambda price, demand: -price[0] * demand[0], pf.Box([0.0], [5.0]))
MARKET = pf.LocationFamily(pf.Gaussian([4.0], [0.25]), effect=[[-1.0]])


def growing(t):
    return {"base.mean": jnp.asarray([4.0]) + 0.02 * t, "effect": jnp.asarray([[-1.0]]) - 0.001 * t}


def test_parameters_move_and_the_others_stay():
    world = pf.Drifting(MARKET, growing)
    later = world.at(100)
    np.testing.assert_allclose(later.base.mean, [6.0])
    np.testing.assert_allclose(later.effect, [[-1.1]])
    np.testing.assert_array_equal(later.base.covariance, MARKET.base.covariance)
    assert MARKET.base.mean[0] == 4.0
    assert pf.performative_risk(PROBLEM, later, [2.0]) == pytest.approx(-2.0 * (6.0 - 2.2))


def test_a_covariance_moves_with_its_factor():
    world = pf.Drifting(MARKET, lambda t: {"base.covariance": 0.25 + jnp.asarray([1.0]) * t})
    with jax.enable_x64(True):
        samples = np.asarray(world.sample(jax.random.key(0), jnp.zeros(1), 20_000, t=2.0))
    assert np.var(samples) == pytest.approx(2.25, rel=0.05)  # the standard error of a variance is 1 %


@pytest.mark.slow
def test_regret_is_against_the_best_fixed_decision_and_dynamic_regret_against_the_moving_one():
    world = pf.Drifting(MARKET, growing)
    rounds = list(range(1, 31))
    runs = pf.simulate(
        {"rgd": pf.repeated_gradient(PROBLEM, step=0.05)}, world, rounds=30, realizations=2, record=rounds
    )
    means, effects = 4.0 + 0.02 * np.asarray(rounds), -1.0 - 0.001 * np.asarray(rounds)
    best = -means / (2 * effects)  # argmin of −θ(m + aθ)
    np.testing.assert_allclose(runs.optimal_decision.values[0, :, 0], best, atol=1e-6)
    fixed = -np.mean(means) / (2 * np.mean(effects))
    np.testing.assert_allclose(runs.optimum.values[:, 0], fixed, atol=1e-6)

    def risk(theta):
        return -theta * (means + effects * theta)

    theta = runs.decision.values[0, 0, :, 0]
    np.testing.assert_allclose(runs.regret.values[0, 0, -1], np.mean(risk(theta) - risk(fixed)), atol=1e-7)
    np.testing.assert_allclose(runs.dynamic_regret.values[0, 0, -1], np.mean(risk(theta) - risk(best)), atol=1e-7)
    np.testing.assert_allclose(runs.deviation.values[0, 0], (theta - best) ** 2, atol=1e-6)


def test_there_is_no_single_risk_or_optimum():
    world = pf.Drifting(MARKET, growing)
    with pytest.raises(TypeError, match=r"world\.at\(t\)"):
        pf.performative_optimum(PROBLEM, world)
    with pytest.raises(TypeError, match=r"world\.at\(t\)"):
        pf.performative_risk(PROBLEM, world, [1.0])


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        (3.0, TypeError, "must be a function of the round"),
        (lambda t: 4.0 + t, TypeError, "must return a mapping"),
        (lambda t: {"slope": t}, ValueError, "must name parameters of LocationFamily"),
        (lambda t: {"effect": jnp.zeros(3)}, ValueError, r"must keep the shape \(1, 1\)"),
        (lambda t: {"base.mean": jnp.asarray([1.0]) / (t - 1.0)}, ValueError, "must be finite"),
    ],
)
def test_bad_paths_are_refused(path, error, message):
    with pytest.raises(error, match=message):
        pf.Drifting(MARKET, path)


def test_a_world_of_your_own_drifts_too():
    class Own:
        level = 4.0

        def sample(self, key, theta, n):
            return self.level - theta + jax.random.normal(key, (n, 1))

    world = pf.Drifting(Own(), lambda t: {"level": 4.0 + t})
    with jax.enable_x64(True):
        key = jax.random.key(0)
        moved = world.sample(key, jnp.ones(1), 3, t=2.0) - world.sample(key, jnp.ones(1), 3, t=0.0)
    np.testing.assert_allclose(moved, 2.0)


class Table:
    """A world that looks up its mean by the round."""

    means = jnp.linspace(4.0, 5.0, 8)

    def sample(self, key, theta, n, t):
        return self.means[t] - theta[0] + 0.1 * jax.random.normal(key, (n, 1))


@pytest.mark.filterwarnings("ignore::performative.errors.LocalOptimumWarning")
@pytest.mark.slow
def test_the_round_is_a_whole_number_everywhere():
    problem = pf.Problem(lambda price, demand: -price[0] * demand[0], pf.Box([0.0], [5.0]))
    results = pf.simulate({"rgd": pf.repeated_gradient(problem, step=0.1)}, Table(), rounds=6, realizations=2)
    assert np.all(np.isfinite(results.regret))
