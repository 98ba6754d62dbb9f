import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import performative as pf
from performative.constraints import Chance, CVaR, Expected, Gap, Linear
from performative.errors import SolverFailed
from performative.solvers.conic import solve
from performative.truth.optimum import certify

MARKET = pf.LocationFamily(pf.Gaussian([4.0, 3.0], [0.25, 0.3]), effect=[[-1.0, 0.2], [0.1, -0.8]])
PRICES = pf.Box([0.0, 0.0], [5.0, 5.0])


def revenue(prices, units):
    return -jnp.sum(prices * units)


def floor(bound):
    return Expected(lambda prices, units: -jnp.sum(units), bound=-bound, name="volume")


def lagrangian_slope(problem, world, solution, step=1e-5):
    """The gradient of PR + λᵀg by differences of what the public functions say."""
    theta, lam = np.asarray(solution.decision), np.asarray(solution.multipliers)

    def lagrangian(at):
        g = np.concatenate([np.asarray(problem.known.g(at)), pf.induced(problem, world, at)])
        return float(pf.performative_risk(problem.known, world, at)) + lam @ g

    axes = step * np.eye(len(theta))
    return np.array([(lagrangian(theta + axis) - lagrangian(theta - axis)) / (2 * step) for axis in axes])


def test_prices_with_a_volume_floor_have_the_optimum_of_the_formula():
    """Revenue −pᵀ(m + Ap) under 1ᵀ(m + Ap) ≥ 4: (A + Aᵀ)p = −m − λAᵀ1, with λ from the floor."""
    mean, effect, ones = np.array([4.0, 3.0]), np.asarray(MARKET.effect), np.ones(2)
    inverse = np.linalg.inv(effect + effect.T)
    free, along = -inverse @ mean, -inverse @ effect.T @ ones
    multiplier = (4.0 - ones @ (mean + effect @ free)) / (ones @ effect @ along)
    problem = pf.Problem(revenue, PRICES, [Linear([1.0, 1.0], 6.0, name="cap"), floor(4.0)])
    best = pf.performative_optimum(problem, MARKET)
    assert best.scope == "global"
    assert best.kkt_residual < 1e-7
    np.testing.assert_allclose(best.decision, free + multiplier * along, atol=1e-8)
    np.testing.assert_allclose(best.multipliers, [0.0, multiplier], atol=1e-7)
    np.testing.assert_allclose(lagrangian_slope(problem, MARKET, best), 0.0, atol=1e-7)
    np.testing.assert_allclose(pf.induced(problem, MARKET, best.decision), 0.0, atol=1e-8)


def test_a_portfolio_with_a_limit_on_its_worst_returns_agrees_with_a_cone_program():
    mean, covariance = np.array([1.0, 1.25, 0.8]), np.array([[0.5, 0.1, 0.0], [0.1, 0.6, 0.1], [0.0, 0.1, 0.3]])
    market = pf.LocationFamily(pf.Gaussian(mean, covariance), effect=-0.1 * np.eye(3))
    problem = pf.Problem(
        lambda share, returns: -jnp.sum(share * returns) + 0.2 * jnp.sum(share**2),
        pf.Box([0.0] * 3, [1.0] * 3),
        [
            Linear([1.0] * 3, 1.0, name="budget"),
            CVaR(lambda w, r: -jnp.sum(w * r), level=0.9, bound=-0.1, name="tail"),
        ],
    )
    w, worst = cp.Variable(3), stats.norm.pdf(stats.norm.ppf(0.9)) / 0.1
    tail = -mean @ w + 0.1 * cp.sum_squares(w) + worst * cp.norm(np.linalg.cholesky(covariance).T @ w)
    limits = [cp.sum(w) <= 1.0, tail <= -0.1]
    program = cp.Problem(cp.Minimize(-mean @ w + 0.3 * cp.sum_squares(w)), [*limits, w >= 0, w <= 1])
    solve(program)
    best = pf.performative_optimum(problem, market)
    assert best.kkt_residual < 1e-7
    np.testing.assert_allclose(best.decision, w.value, atol=1e-6)
    np.testing.assert_allclose(best.multipliers, [float(np.squeeze(one.dual_value)) for one in limits], atol=1e-5)
    np.testing.assert_allclose(lagrangian_slope(problem, market, best), 0.0, atol=1e-7)


def credit():
    random = np.random.default_rng(0)
    group = random.integers(0, 2, 500)
    people = np.stack([random.normal(size=500) + 0.4 * group, random.normal(size=500), group], axis=1)

    def approved(theta, z):
        return jax.nn.sigmoid(theta[0] * z[0] + theta[1] * z[1])

    def default(theta, z):
        return jnp.logaddexp(0.0, 0.3 - theta[0] * z[0] - theta[1] * z[1]) + 0.05 * jnp.sum(theta**2)

    world = pf.LocationFamily(pf.Empirical(people), effect=[[0.3, 0.0], [0.0, 0.2], [0.0, 0.0]])
    limits = [
        Gap(approved, group=2, at_most=0.02),
        Expected(lambda theta, z: 0.6 - approved(theta, z), name="approval"),
    ]
    return pf.Problem(default, pf.Box([-3.0, -3.0], [3.0, 3.0]), limits), world, people


def test_credit_with_an_approval_rate_and_a_group_gap_is_certified_and_both_limits_hold_it():
    problem, world, people = credit()
    best = pf.performative_optimum(problem, world)
    assert best.kkt_residual < 1e-7
    assert problem.constraint_names == ("gap[more]", "gap[less]", "approval")
    assert np.all(np.asarray(best.multipliers) >= -1e-9)
    assert best.multipliers[0] > 0.1
    assert best.multipliers[2] > 0.1
    np.testing.assert_allclose(lagrangian_slope(problem, world, best), 0.0, atol=1e-7)
    # by hand, on the people as they react
    theta = np.asarray(best.decision)
    moved = people[:, :2] + theta * [0.3, 0.2]
    rate = 1.0 / (1.0 + np.exp(-moved @ theta))
    inside = people[:, 2] == 1
    by_hand = rate[inside].mean() - rate[~inside].mean()
    found = pf.induced(problem, world, theta)
    np.testing.assert_allclose(found, [by_hand - 0.02, -by_hand - 0.02, 0.6 - rate.mean()], atol=1e-12)


def test_a_gap_between_groups_one_of_which_is_empty_has_no_value():
    problem, _, people = credit()
    world = pf.LocationFamily(pf.Empirical(people[people[:, 2] == 1]), effect=np.zeros((3, 2)))
    assert np.all(np.isnan(pf.induced(problem, world, [1.0, 1.0])[:2]))
    with pytest.raises(ValueError, match="constraint gap"):
        pf.performative_optimum(problem, world)


def test_a_stable_point_leaves_the_reaction_out_of_the_gradient_of_a_limit():
    """ℓ = −ps + ½p², s = 4 − p, spend ps ≤ 3: p = 1, with λ = (s − p)/s = 2/3 on frozen data, ½ for the optimum."""
    spend = Expected(lambda price, units: price[0] * units[0], bound=3.0, name="spend")
    problem = pf.Problem(lambda p, s: -p[0] * s[0] + 0.5 * p[0] ** 2, pf.Box([0.0], [1.5]), [spend])
    market = pf.LocationFamily(pf.Gaussian([4.0], [0.25]), effect=[[-1.0]])
    stable = pf.stable_point(problem, market)
    np.testing.assert_allclose(stable.decision, [1.0], atol=1e-8)
    np.testing.assert_allclose(stable.multipliers, [2.0 / 3.0], atol=1e-7)
    assert certify(problem, market, stable).kkt_residual < 1e-7
    best = pf.performative_optimum(problem, market)
    np.testing.assert_allclose(best.decision, [1.0], atol=1e-8)
    np.testing.assert_allclose(best.multipliers, [0.5], atol=1e-7)


def test_a_stable_point_that_no_decision_on_its_data_can_make_feasible_is_refused_with_the_reason():
    problem = pf.Problem(lambda p, s: -jnp.sum(p * s) + 0.5 * jnp.sum(p**2), PRICES, [floor(6.9)])
    with pytest.raises(SolverFailed, match="if h depends on the data alone"):
        pf.stable_point(problem, MARKET)


def test_what_no_decision_can_cause_is_infeasible_and_named():
    with pytest.raises(pf.InfeasibleProblem, match=r"smallest max g\(θ\) is 1; in conflict .*volume"):
        pf.performative_optimum(pf.Problem(revenue, PRICES, [floor(8.0)]), MARKET)


class Shop:
    """The market, known by its samples alone."""

    def sample(self, key, theta, n):
        return MARKET.sample(key, theta, n)


def test_a_world_that_only_samples_has_averages_over_its_draws():
    limits = [floor(4.0), Chance(lambda p, s: s[0] - 2.0, at_most=0.5), CVaR(lambda p, s: s[1], level=0.8, bound=2.0)]
    problem = pf.Problem(revenue, PRICES, limits)
    exact, drawn = (pf.induced(problem, world, [1.5, 1.0]) for world in (MARKET, Shop()))
    # 100,000 draws: four standard errors of a sum of two normal numbers, of a share, and of the mean of the worst fifth
    assert np.all(np.abs(exact - drawn) < 4 * np.array([0.75, 0.5, 1.5]) / np.sqrt(100_000))
    best = pf.performative_optimum(pf.Problem(revenue, PRICES, [floor(4.0)]), Shop(), samples=2_000)
    assert np.max(np.abs(np.asarray(best.decision) - 2.0)) < 0.1


def test_a_world_with_a_formula_for_its_loss_averages_other_functions_as_the_world_inside_does():
    formula = pf.ClosedForm(
        MARKET, revenue, lambda theta, where: -theta @ (jnp.array([4.0, 3.0]) + MARKET.effect @ where)
    )
    problem = pf.Problem(revenue, PRICES, [floor(4.0)])
    np.testing.assert_array_equal(pf.induced(problem, formula, [1.5, 1.0]), pf.induced(problem, MARKET, [1.5, 1.0]))


def test_a_world_that_moves_is_refused():
    drifting = pf.Drifting(MARKET, lambda t: {"base.mean": jnp.array([4.0, 3.0]) + 0.01 * t})
    with pytest.raises(TypeError, match="changes from round to round"):
        pf.induced(pf.Problem(revenue, PRICES, [floor(4.0)]), drifting, [1.0, 1.0])


def test_other_draws_move_what_a_limit_holds_as_far_as_they_are_said_to():
    """E exp(−θ)·5 ≥ 2.5 holds θ at log 2; the spread of the mean of 1,000 draws of sd 0.5 moves it by 0.5/√1000/2.5."""

    class Fading:
        def sample(self, key, theta, n):
            return 5.0 * jnp.exp(-theta[0]) + 0.5 * jax.random.normal(key, (n, 1))

    limit = Expected(lambda p, z: -z[0], bound=-2.5, name="volume")
    problem = pf.Problem(lambda p, z: -p[0] * z[0], pf.Box([0.0], [3.0]), [limit])
    best = pf.performative_optimum(problem, Fading(), samples=1_000)
    spread = 0.5 / np.sqrt(1_000) / 2.5
    assert abs(float(best.decision[0]) - np.log(2.0)) < 4 * spread
    assert 0.3 * spread < float(best.error.decision) < 2.0 * spread  # a standard deviation of eight draws
