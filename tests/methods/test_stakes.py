from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from playing import small

import performative as pf
from performative.budget import HOPED, NOTHING, Budget, Ledger
from performative.losses import Revenue
from performative.methods.stakes import SHARES, WHOLE, Limits, Over, Stakes
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


@pytest.mark.slow
def test_the_error_of_a_loss_over_the_start_is_that_of_effects_and_means_as_they_may_be(stakes):
    """Revenue is affine in the data: draws of the effect and of the mean spread as the standard error says."""
    x, start, draws = np.array([2.5, 0.5]), np.array([1.0, 1.0]), 20_000
    with precise():
        value, error, largest = (float(part) for part in stakes.over_start(jnp.asarray(x)))
    belief, known = stakes.fit.regression, stakes.fit.known
    random = np.random.default_rng(1)
    joint = np.zeros((2, 2, 2, 2))  # of rows k and l: the noise that they have in common
    alone, scatter, noise = (np.asarray(part) for part in (known.covariance, known.scatter, known.noise))
    joint[0, :, 1] = np.asarray(known.alike)[0, 1] * alone[0] @ scatter @ alone[1] / np.sqrt(noise[0] * noise[1])
    joint[1, :, 0] = joint[0, :, 1].T
    joint[0, :, 0], joint[1, :, 1] = alone
    effect = random.multivariate_normal(np.ravel(known.effect), joint.reshape(4, 4), size=draws).reshape(draws, 2, 2)
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
        (1.0, [0.9] * 9, 0),  # affordable
        (1.0, [3.0, 2.8, 2.0, 1.5, 0.9, 0.8, 0.7, 0.6, 0.5], 4),  # half of it is
        (1.0, [3.0, 2.8, 2.0, 1.5, 1.1, 0.8, 0.7, 0.6, 0.5], 9),  # less than half is not worth the budget
        (0.0, [3.0, 2.8, 2.0, 1.5, 1.1, -0.1, -0.2, -0.3, -0.3], 5),  # unless it is surely better than the start
    ],
)
def test_budget_is_spent_on_long_moves_alone(left, values, place):
    share = np.array(SHARES)
    assert share[4] == WHOLE
    by_share = np.array([*values, 0.0])

    def over(x):
        return Over(jnp.asarray(by_share)[jnp.argmin(jnp.abs(x[0] - share))], jnp.zeros(()), jnp.zeros(()))

    with precise():
        limits = Limits(jnp.asarray(left), jnp.asarray(2.0), lambda x: jnp.asarray(True))
        reach = limits.reach(jnp.zeros(2), jnp.ones(2), over)
    assert int(reach.place) == place
    assert reach.decision.tolist() == [share[place]] * 2
    assert float(reach.bound) == pytest.approx([*values, 0.0][place])
    assert float(reach.whole.value) == pytest.approx(values[0])


def test_a_way_that_leaves_the_constraints_is_not_taken():
    problem, _ = small()  # θ₁ + θ₂ ≤ 1
    with precise():
        limits = Limits(jnp.asarray(1.0), jnp.asarray(2.0), lambda x: jnp.all(problem.g(x) <= 0.0))
        better = Over(jnp.asarray(-1.0), jnp.zeros(()), jnp.zeros(()))
        reach = limits.reach(jnp.zeros(2), jnp.ones(2), lambda x: better)
    assert reach.decision.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("kinked", [False, True])
@pytest.mark.slow
def test_a_loss_that_hardly_feels_the_data_is_still_bent(kinked):
    """A deviation from a target that is met: the slope in the data is 0, and what may be lost is the variance of their mean."""
    loss = (lambda theta, z: jnp.abs(z[0] - 4.0)) if kinked else (lambda theta, z: (z[0] - 4.0) ** 2)
    method = pf.safe_apda(pf.Problem(loss, pf.Box([0.0], [4.0]), dimension=1), start=[1.0], samples=40, reservoir=400)
    random = np.random.default_rng(0)
    state = method.init(new_key(0))
    for _ in range(10):
        state = method.tell(state, jnp.array([[1.0]]), random.normal(4.0, 1.0, size=(1, 40, 1)))
    with precise():
        fit = method.learner.fit(state.belief, state.prior.variances(method.learner, state.belief))
        stakes = Stakes.of(method.prediction, fit, jnp.asarray(method.start))
        straight, curved = stakes.over_start(jnp.array([2.0])), stakes.curved(jnp.array([2.0]))(jnp.array([2.0]))
        spread = np.sqrt(float(fit.known.errors(jnp.ones(1))[0]))
    # The prior lets the mean be off by its size times the share of the range: √(1² + 4²)/4, or a little over 1.
    off = random.normal(0.0, spread, size=100_000)
    noise = random.normal(size=100_000)
    losses = np.abs(noise + off) - np.abs(noise) if kinked else (noise + off) ** 2 - noise**2
    assert abs(float(straight.value)) < 0.2 * losses.mean()
    # What is seen of the noise in 400 samples, and a second difference for the average over a Gaussian.
    assert float(curved.value) == pytest.approx(losses.mean(), rel=0.3 if kinked else 0.1)


def test_what_is_overspent_must_be_made_up_for_if_losses_say_that_the_model_is_wrong():
    """Ten deployments lost 3 each by what was observed, and gained 1 each by the model."""
    with precise():
        ledger = Ledger.empty(1)
        for away in (False, *[True] * 10):
            loss = jnp.asarray(-2.0 if away else -5.0)
            ledger = ledger.after(jnp.asarray([float(away)]), loss, jnp.abs(loss), jnp.asarray(not away))
        gain, none, sure = jnp.asarray(-1.0), jnp.zeros((1, 1)), jnp.asarray(2.5)
        spent, refuted = ledger.spent(jnp.asarray(0.1), gain, jnp.asarray(0.1), none, sure)
        assert bool(refuted)
        assert float(spent) > 30.0
        spent, refuted = ledger.spent(jnp.asarray(10.0), gain, jnp.asarray(0.1), none, sure)
        assert not bool(refuted)
        assert float(spent) == pytest.approx(-7.5)  # noise may have been all that was observed
        for left, place in ((0.0, 0), (-0.5, 0), (-20.0, len(SHARES) - 1)):
            limits = Limits(jnp.asarray(left), sure, lambda x: jnp.asarray(True))
            over = lambda x: Over(-x[0], 0.1 * x[0], 0.1 * x[0])  # noqa: E731
            assert int(limits.reach(jnp.zeros(1), jnp.ones(1), over).place) == place


@pytest.mark.parametrize(("loss", "unit"), [(5.0, 5.0), (NOTHING, NOTHING), (0.9 * NOTHING, HOPED), (0.0, HOPED)])
def test_a_start_that_stakes_next_to_nothing_has_a_share_of_what_is_expected_as_its_budget(loss, unit):
    """The first plan that leaves the start sets what is expected, 1 here, and no later one changes it."""
    with precise():
        ledger = Ledger.empty(1)
        there, at_start = jnp.zeros(1), jnp.asarray(True)
        ledger = ledger.after(there, jnp.asarray(loss), jnp.asarray(loss), at_start)
        budget = Budget(jnp.asarray(2.0))
        assert float(budget.allowance(ledger, jnp.asarray(1.0))) == pytest.approx(2.0 * loss)
        for gain in (-3.0, 0.0, 1.0, 7.0):
            ledger = ledger.promised(jnp.asarray(gain))
        assert float(budget.allowance(ledger, jnp.asarray(30.0))) == pytest.approx(2.0 * unit)
        assert float(budget.allowance(ledger.faded(0.5), jnp.asarray(120.0))) == pytest.approx(4.0 * unit)
