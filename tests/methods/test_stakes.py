from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from playing import small

import performative as pf
from performative.losses import Revenue
from performative.methods.stakes import SHARES, WHOLE, Limits, Over, Stakes, Way
from performative.numerics.precision import precise
from performative.numerics.randomness import new_key

PROBLEM = pf.Problem(Revenue(), pf.Box([0.0, 0.0], [5.0, 5.0]))


@pytest.fixture(scope="module")
def stakes():
    """What forty days at several prices say of the start (1, 1)."""
    random = np.random.default_rng(0)
    x = random.uniform(0.5, 2.0, size=(40, 2))
    z = np.array([9.0, 7.0]) + x @ np.array([[-2.0, 0.3], [0.5, -1.0]]).T + random.normal(size=(40, 2))
    method = pf.safe_apda(PROBLEM, start=[1.0, 1.0], history=(x, z))
    state = method.init(new_key(0))
    with precise():
        fit = method.learner.fit(state.belief, state.prior.variances(method.learner, state.belief))
        return Stakes.of(method.prediction, fit, jnp.asarray(method.start))


def test_the_error_of_a_loss_over_the_start_is_that_of_effects_and_means_as_they_may_be(stakes):
    """Revenue is affine in the data: draws of the effect and of the mean spread as the standard error says."""
    x, start, draws = np.array([2.5, 0.5]), np.array([1.0, 1.0]), 20_000
    with precise():
        value, error, largest = (float(part) for part in stakes.over_start(jnp.asarray(x)))
    belief, known = stakes.fit.regression, stakes.fit.known
    random = np.random.default_rng(1)
    rows = [
        random.multivariate_normal(mean, covariance, size=draws)
        for mean, covariance in zip(np.asarray(known.effect), np.asarray(known.covariance), strict=True)
    ]
    effect = np.stack(rows, axis=1)
    level = np.asarray(belief.data) + random.multivariate_normal(
        np.zeros(2), np.asarray(belief.covariance) / float(belief.count), size=draws
    )
    losses = [-((level + effect @ (at - np.asarray(belief.decision))) @ at) for at in (x, start)]
    over = losses[0] - losses[1]
    assert value == pytest.approx(over.mean(), abs=4.0 * over.std() / np.sqrt(draws))
    # Four standard errors of a standard deviation are 4/√(2·20,000) = 2 %.
    assert error == pytest.approx(np.sqrt(float(stakes.fit.misfit)) * over.std(), rel=0.02)
    assert error <= largest <= np.sqrt(2.0) * error * (1.0 + 1e-9)  # of two rows


def test_the_start_loses_nothing_over_itself(stakes):
    with precise():
        assert [float(part) for part in stakes.over_start(stakes.start)] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("left", "values", "place"),
    [
        (1.0, [0.9] * 7, 0),  # affordable
        (1.0, [3.0, 2.0, 0.9, 0.8, 0.7, 0.6, 0.5], 2),  # half of it is
        (1.0, [3.0, 2.0, 1.1, 0.8, 0.7, 0.6, 0.5], 7),  # less than half is not worth the budget
        (0.0, [3.0, 2.0, 1.1, -0.1, -0.2, -0.3, -0.3], 3),  # unless it is surely better than the start
    ],
)
def test_budget_is_spent_on_long_moves_alone(left, values, place):
    share = np.array(SHARES)
    assert share[2] == WHOLE
    way = Way(share[:, None] * np.ones((1, 2)), Over(np.array([*values, 0.0]), np.zeros(8), np.zeros(8)))
    limits = Limits(np.float64(left), np.float64(2.0), lambda tries: np.ones(len(tries), bool))
    with precise():
        assert int(limits.farthest(way)[0]) == place


def test_a_way_that_leaves_the_constraints_is_not_taken():
    way = Way(np.linspace(1.0, 0.0, 8)[:, None] * np.ones((1, 2)), Over(np.full(8, -1.0), np.zeros(8), np.zeros(8)))
    problem, _ = small()  # θ₁ + θ₂ ≤ 1
    with precise():
        limits = Limits(jnp.asarray(1.0), jnp.asarray(2.0), lambda tries: jax.vmap(problem.g)(tries)[:, 0] <= 0.0)
        assert int(limits.farthest(way)[0]) == 4
