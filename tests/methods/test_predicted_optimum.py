"""Least squares and Thompson sampling: the optimum that a linear model predicts."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scanning import regret, scan, violation

import performative as pf
from performative.estimators.posterior import drawn
from performative.losses import Revenue
from performative.numerics.precision import precise
from performative.numerics.randomness import new_key

EFFECT = np.array([[-1.5, 0.3], [0.2, -1.0]])
PROBLEM = pf.Problem(Revenue(), pf.Box([0.0, 0.0], [5.0, 5.0]), [pf.constraints.Linear([1.0, 1.0], 4.0, name="cap")])
MARKET = pf.LocationFamily(pf.Gaussian([4.0, 5.0], 0.25 * np.ones(2)), EFFECT)
START = [1.0, 1.0]


@functools.cache
def played(make):
    return scan(make(PROBLEM, start=START, samples=20), MARKET, 200, runs=4)


@pytest.mark.parametrize("make", [pf.least_squares, pf.thompson])
def test_it_ends_at_the_optimum_breaks_nothing_and_pays_little(make):
    """The optimum is on the cap, where the pull must not give way; staying at the start costs 3.25 a deployment."""
    runs = played(make)
    best = pf.performative_optimum(PROBLEM, MARKET)
    np.testing.assert_allclose(best.decision, [1.5, 2.5], atol=1e-6)
    np.testing.assert_allclose(runs.final, best.decision, atol=0.15)
    assert violation(PROBLEM, runs) <= 0.0
    stays = pf.performative_risk(PROBLEM, MARKET, START) - best.risk
    assert regret(PROBLEM, MARKET, runs) < 0.1 * stays


def test_least_squares_begins_with_a_random_design_around_its_start():
    runs = scan(pf.least_squares(PROBLEM, start=START, design=6, exploration=0.1, samples=20), MARKET, 12, runs=4)
    np.testing.assert_array_equal(runs.first[0].reshape(4, 2), np.tile(START, (4, 1)))
    apart = np.abs(runs.later[0][:, :6, 0] - START)
    assert 0.2 < apart.max() <= 0.5  # a tenth of sup‖θ‖/√2 = 5
    assert np.linalg.norm(runs.later[0][:, 6, 0] - START, axis=-1).min() > 0.5


def test_least_squares_deploys_what_its_own_regression_predicts_to_be_best():
    """By the moments of all that was deployed and observed, and by a solver of its own."""
    runs = scan(pf.least_squares(PROBLEM, start=START, design=6, samples=20), MARKET, 12)
    decisions = np.concatenate([runs.first[0][0], runs.later[0][0, :-1, 0]])
    samples = np.concatenate([runs.first[1][0], runs.later[1][0, :-1, 0]])
    moments = pf.estimators.JointMoments.of(np.repeat(decisions, 20, axis=0), samples.reshape(-1, 2))
    effect = moments.effect(ridge=0.0)
    world = pf.LocationFamily(pf.Gaussian(moments.data - effect @ moments.decision, 0.25 * np.ones(2)), effect)
    np.testing.assert_allclose(runs.later[0][0, -1, 0], pf.performative_optimum(PROBLEM, world).decision, atol=5e-3)


@pytest.mark.slow
def test_draws_follow_the_posterior():
    """A ∼ N(Â, Σ ⊗ P) and m ∼ N(z̄, Σ/count), by the moments of 4,000 draws; five standard errors."""
    belief = jax.tree.map(jnp.asarray, played(pf.thompson).state.belief)
    method = pf.thompson(PROBLEM, start=START, samples=20)
    with precise():
        keys = jax.random.split(new_key(3), 4_000)
        fit = method.learner.fit(belief, method.learner.variances(belief, method.ridge))
        models, effects = jax.jit(jax.vmap(lambda key: drawn(fit, key)))(keys)
    belief = fit.regression
    sigma = np.asarray(belief.covariance) * float(belief.count) / (float(belief.count) - 3.0)
    wanted = np.kron(sigma, np.linalg.inv(np.asarray(belief.moments.scatter) + method.ridge * np.eye(2)))
    rows = np.asarray(effects).reshape(4_000, -1) - np.asarray(belief.effect).reshape(-1)
    size = np.sqrt(np.diag(wanted))
    np.testing.assert_array_less(np.abs(rows.mean(axis=0)), 5 * size / np.sqrt(4_000))
    np.testing.assert_array_less(np.abs(np.cov(rows.T) - wanted), 5 * np.outer(size, size) * np.sqrt(2 / 4_000))
    levels = np.asarray(models.data) - np.asarray(belief.data)
    np.testing.assert_allclose(levels.var(axis=0), np.diag(sigma) / float(belief.count), rtol=5 * np.sqrt(2 / 4_000))


def test_draws_become_one_as_data_come_in():
    runs = played(pf.thompson)
    spread = runs.decisions.std(axis=0).sum(axis=-1)
    assert spread[100:].mean() < 0.5 * spread[1:6].mean()


@pytest.mark.slow
def test_a_structured_effect_is_drawn_and_learned():
    """A diagonal effect: two numbers; the draws stay in its shape."""
    shift = lambda effect, theta: effect * theta  # noqa: E731
    world = pf.LocationFamily(pf.Gaussian([4.0, 5.0], 0.25 * np.ones(2)), [-1.5, -1.0], shift)
    method = pf.thompson(PROBLEM, start=START, samples=20, shift=shift, effect=np.zeros(2), prior=10.0)
    runs = scan(method, world, 200)
    np.testing.assert_allclose(runs.state.belief.effect, [-1.5, -1.0], atol=0.2)
    assert violation(PROBLEM, runs) <= 0.0


@pytest.mark.slow
def test_a_loss_with_a_kink_will_do():
    """The newsvendor, whose loss safe APDA refuses: samples moved to the decision take the place of moments."""
    case = pf.problems.get("newsvendor")
    method = pf.thompson(case.problem, start=[1.0], samples=20, reservoir=50)
    assert abs(float(scan(method, case.environment.world, 60).final[0]) - float(case.optimum.decision[0])) < 0.6


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pf.least_squares(PROBLEM, design=1), "`design` must be a whole number >= 2"),
        (lambda: pf.least_squares(PROBLEM, exploration=0.0), "`exploration > 0` must hold"),
        (lambda: pf.thompson(PROBLEM, prior=-1.0), "`prior > 0` must hold"),
        (lambda: pf.thompson(PROBLEM, start=[9.0, 0.0]), "`start` must lie in the decision set"),
        (lambda: pf.thompson(PROBLEM, samples=0), "`samples` must be a whole number >= 1"),
        (lambda: pf.least_squares(PROBLEM, reservoir=0), "`reservoir` must be a whole number >= 1"),
        (lambda: pf.thompson(pf.Problem(Revenue(), pf.Reals(2))), "`decisions` must be bounded"),
        (lambda: pf.thompson(PROBLEM, shift=lambda a, x: a * x), "`effect` must be given with `shift`"),
        (
            lambda: pf.thompson(PROBLEM).tell(
                pf.thompson(PROBLEM).init(new_key(0)), np.ones((2, 2)), np.ones((2, 1, 2))
            ),
            "`decisions` must be one decision, but got 2",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_draws_move_where_unmoved_data_explain_most_of_the_noise():
    """The second datum never moves and explains nine tenths of the first one's noise."""
    shift = lambda a, theta: jnp.stack([a[0] * theta[0], 0.0 * theta[0]])  # noqa: E731
    world = pf.LocationFamily(pf.Gaussian([10.0, 0.0], [[4.0, 1.9], [1.9, 1.0]]), np.array([-2.0]), shift)
    problem = pf.Problem(lambda theta, z: -theta[0] * z[0] + 0.0 * z[1], pf.Box([0.0], [5.0]))
    runs = scan(pf.thompson(problem, start=[1.0], samples=3, shift=shift, effect=[0.0]), world, 40)
    deployed = runs.later[0][0, :, 0, 0]
    assert np.std(deployed[:10]) > 0.1  # it stood still at the start where a draw was not a number
    assert abs(deployed[-1] - 2.5) < 1.0  # of the way from 1 to 2.5; the prior still holds the effect back
