"""The paper's framework under limits on what a decision causes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative.constraints import Chance, CVaR, Expected, Linear
from performative.numerics.precision import precise

MARKET = pf.LocationFamily(pf.Gaussian([4.0, 3.0], [0.25, 0.3]), effect=[[-1.0, 0.2], [0.1, -0.8]])
VOLUME = Expected(lambda prices, units: -jnp.sum(units), bound=-4.0, name="volume")
CAP = Linear([1.0, 1.0], 6.0, name="cap")


def revenue(prices, units):
    return -jnp.sum(prices * units)


def problem(*limits):
    return pf.Problem(revenue, pf.Box([0.0, 0.0], [5.0, 5.0]), list(limits))


def told(method, base, count=1):
    """The state after the warm-up with these samples and rounds in which every deployment brings their mean."""
    state = method.init(jax.random.key(0))
    state = method.tell(state, method.ask(state, jax.random.key(1)), base[None])
    for t in range(count):
        decisions = method.ask(state, jax.random.key(2 + t))
        samples = np.asarray([base.mean(axis=0) + MARKET.effect @ np.asarray(one) for one in decisions])
        state = method.tell(state, decisions, samples[:, None])
    return state


@pytest.mark.parametrize("recycle", [False, True])
def test_a_round_is_the_paper_s_with_the_predicted_average_in_place_of_g(recycle):
    base = np.random.default_rng(0).normal(loc=[4.0, 3.0], size=(50, 2))
    method = pf.oracle(
        problem(VOLUME, CAP), effect=MARKET.effect, step=0.1, control=0.5, warmup=50, start=[3.0, 2.5], recycle=recycle
    )
    state = told(method, base)
    theta, effect, mean = np.array([3.0, 2.5]), np.asarray(MARKET.effect), base.mean(axis=0)
    units = mean + effect @ theta
    slope = -units - effect.T @ theta  # λ is 0 at first
    np.testing.assert_allclose(state.decision, np.clip(theta - 0.1 * slope, 0.0, 5.0), atol=1e-12)
    g = np.array([theta.sum() - 6.0, 4.0 - units.sum()])
    np.testing.assert_allclose(state.multipliers, np.maximum(0.1 * g, 0.0), atol=1e-12)
    after = told(method, base, 2)
    theta, lam = np.asarray(state.decision), np.asarray(state.multipliers)
    units = mean + effect @ theta
    slope = -units - effect.T @ theta + lam[0] * np.ones(2) - lam[1] * effect.sum(axis=0)
    np.testing.assert_allclose(after.decision, np.clip(theta - 0.1 * slope, 0.0, 5.0), atol=1e-12)


def test_without_anticipation_the_data_stay_while_the_gradient_of_a_limit_is_taken():
    """PD-PS: of E[p·units] it takes the prices' part, not the reaction's; of E[units] nothing."""
    spend = Expected(
        lambda prices, units: jnp.stack([jnp.sum(prices * units), jnp.sum(units)]), name=["spend", "units"]
    )
    base = np.random.default_rng(0).normal(loc=[4.0, 3.0], size=(50, 2))
    for make, reacts in ((pf.pd_ps, 0.0), (pf.apda, 1.0)):
        method = make(problem(spend), effect=MARKET.effect, warmup=50)
        state = told(method, base)
        with precise():
            whole = method.problem.resolved(method.estimator.source(state.belief))
            theta = jnp.array([1.0, 2.0])
            effect = np.asarray(state.belief.effect)
            units = base.mean(axis=0) + effect @ np.asarray(theta)
            np.testing.assert_allclose(whole.g(theta), [theta @ units, units.sum()], atol=1e-12)
            np.testing.assert_allclose(
                jax.jacrev(whole.g)(theta),
                [units + reacts * effect.T @ np.asarray(theta), reacts * effect.sum(axis=0)],
                atol=1e-12,
            )


def test_apda_finds_the_optimum_under_a_volume_floor_and_its_multiplier():
    limited = problem(VOLUME, CAP)
    runs = pf.simulate(
        {"apda": pf.apda(limited, warmup=500)}, MARKET, rounds=10_000, realizations=4, seed=0, record=[1, 10_000]
    )
    best = pf.performative_optimum(limited, MARKET)
    last = runs.isel(algorithm=0, t=-1)
    assert list(runs.constraint.values) == ["cap", "volume"]
    # steps of 5e-3 leave θ within a few hundredths of the optimum, and 500 base samples the level of sales within .5/√500
    np.testing.assert_allclose(last.decision.mean("realization"), best.decision, atol=0.15)
    np.testing.assert_allclose(last.multipliers.mean("realization"), best.multipliers, atol=0.15)


def test_a_simulation_measures_the_true_average_of_a_limit():
    limited = problem(VOLUME, CAP)
    method = pf.oracle(limited, effect=MARKET.effect, warmup=20, start=[3.0, 2.5])
    runs = pf.simulate({"oracle": method}, MARKET, rounds=3, realizations=1, seed=0, record=[1, 2, 3])
    one = runs.isel(algorithm=0, realization=0)
    g = np.array([[*np.asarray(limited.known.g(x)), *pf.induced(limited, MARKET, x)] for x in one.decision.values])
    np.testing.assert_allclose(one.violation.values, np.cumsum(g, axis=0) / np.arange(1, 4)[:, None], atol=1e-12)
    # the warm-up deploys 0, where 7 units are sold: nothing is broken there
    worst = np.maximum.accumulate(np.maximum(g.max(axis=1), 0.0))
    np.testing.assert_allclose(one.deployed_violation.values, worst, atol=1e-12)


def test_probabilities_and_the_worst_cases_are_predicted_from_the_samples_themselves():
    late = Chance(lambda prices, units: units[0] - 1.5, at_most=0.2)
    tail = CVaR(lambda prices, units: units[1], level=0.9, bound=1.9)
    base = np.random.default_rng(0).normal(size=(4_000, 2)) * [0.5, 0.3**0.5] + [4.0, 3.0]
    limited = problem(late, tail)
    for recycle in (False, True):
        method = pf.oracle(limited, effect=MARKET.effect, warmup=4_000, recycle=recycle)
        state = told(method, base)
        with precise():
            predicted = limited.resolved(method.estimator.source(state.belief))
            for theta in ([2.0, 1.0], [3.0, 2.0]):
                found, true = np.asarray(predicted.g(jnp.array(theta))), pf.induced(limited, MARKET, theta)
                # 4,000 draws: four standard errors of a share and of the mean of the worst tenth, and what smoothing adds
                assert np.all(np.abs(found - true) < [4 * 0.5 / 63 + 0.01, 4 * 0.6 / 20])
                assert np.all(np.abs(jax.jacrev(predicted.g)(jnp.array(theta))).sum(axis=1) > 0)


@pytest.mark.parametrize(
    "make",
    [
        pf.safe_apda,
        pf.two_stage,
        pf.repeated_gradient,
        pf.one_point,
        pf.thompson,
        pf.least_squares,
        pf.repeated_minimization,
    ],
)
def test_methods_that_do_not_predict_the_data_of_a_decision_refuse_such_limits(make):
    with pytest.raises(
        TypeError, match=r"constraints on what a decision causes, \['volume'\], need a method that predicts"
    ):
        make(problem(VOLUME))


def test_a_study_refuses_such_limits_and_leaves_no_file(tmp_path):
    method = pf.apda(problem(VOLUME), warmup=10)
    with pytest.raises(ValueError, match=r"\['volume'\] depend on what a decision causes"):
        pf.Study.create(tmp_path / "a.db", "a", method)
    assert not list(tmp_path.iterdir())
