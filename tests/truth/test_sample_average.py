import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf

PROBLEM = pf.Problem(
    lambda price, demand: -price[0] * demand[0],
    pf.Box([0.0], [9.0]),
    [pf.constraints.Linear([1.0], bound=4.0, name="cap")],
)


class Smooth:
    def sample(self, key, theta, n):
        return 10.0 - theta[0] + jax.random.normal(key, (n, 1))


class Counts:
    """Counts jump with the price: their derivative is zero, though they react."""

    def sample(self, key, theta, n):
        visits = jax.random.uniform(key, (n, 20)) < (10.0 - theta[0]) / 20.0
        return jnp.sum(visits, axis=1, keepdims=True).astype(theta.dtype)


def test_a_sampled_risk_comes_with_its_standard_error():
    risk = pf.performative_risk(PROBLEM, Smooth(), [3.0], samples=10_000)
    assert risk.standard_error == pytest.approx(3.0 / 100, rel=0.05)  # sd(3·Z) = 3
    assert abs(risk + 21.0) < 4 * risk.standard_error
    known = pf.LocationFamily(pf.Gaussian([10.0], [1.0]), effect=[[-1.0]])
    assert pf.performative_risk(PROBLEM, known, [3.0]).standard_error == 0.0


@pytest.mark.parametrize(
    ("world", "how"),
    [(Smooth, "with derivatives"), pytest.param(Counts, "without derivatives", marks=pytest.mark.slow)],
)
@pytest.mark.slow
def test_the_optimum_of_a_world_that_only_samples(world, how):
    free = pf.Problem(PROBLEM.loss, pf.Box([0.0], [9.0]))
    best = pf.performative_optimum(free, world(), samples=20_000)
    assert how in best.message
    assert best.local
    # PR is flat at its minimum 5: an error of 0.3 there costs 0.09 of 25.
    assert abs(float(best.decision[0]) - 5.0) < 0.3
    capped = pf.performative_optimum(PROBLEM, world(), samples=20_000)
    np.testing.assert_allclose(capped.decision, [4.0], atol=1e-5)
    np.testing.assert_allclose(capped.multipliers, [2.0], atol=0.5)  # −PR'(4) = 2


def test_a_host_world_has_an_optimum():
    world = pf.HostWorld(lambda rng, price, n: 10.0 - price[0] + rng.normal(size=n))
    best = pf.performative_optimum(pf.Problem(PROBLEM.loss, pf.Box([0.0], [9.0])), world, samples=20_000)
    np.testing.assert_allclose(best.decision, [5.0], atol=0.05)


@pytest.mark.filterwarnings("ignore::performative.errors.LocalOptimumWarning")
@pytest.mark.slow
def test_sampled_regret_agrees_with_the_truth_within_its_error():
    known = pf.LocationFamily(pf.Gaussian([10.0], [1.0]), effect=[[-1.0]])
    best = pf.performative_optimum(PROBLEM, known)

    class Sampled:
        def sample(self, key, theta, n):
            return known.sample(key, theta, n)

    methods = {"rgd": pf.repeated_gradient(PROBLEM, step=0.05)}
    exact = pf.simulate(methods, known, rounds=40, realizations=4)
    sampled = pf.simulate(methods, Sampled(), rounds=40, realizations=4, optimum=best)
    np.testing.assert_allclose(sampled.decision.values, exact.decision.values, rtol=1e-12)
    last = {"t": -1}
    for name in ("regret", "deployed_regret"):
        apart = (sampled[name] - exact[name]).isel(last).values
        assert np.all(np.abs(apart) < 4 * sampled[f"{name}_error"].isel(last).values)
    np.testing.assert_array_equal(sampled.optimum.values, np.broadcast_to(best.decision, (4, 1)))
    assert not np.any(sampled.optimum_local)


def test_a_world_with_its_own_risk_works_everywhere():
    class Known(Counts):
        def risk(self, problem):
            return lambda theta, where: -theta[0] * (10.0 - where[0])

    free = pf.Problem(PROBLEM.loss, pf.Box([0.0], [9.0]))
    assert pf.performative_risk(free, Known(), [3.0]) == pytest.approx(-21.0)
    np.testing.assert_allclose(pf.performative_optimum(free, Known()).decision, [5.0], atol=1e-6)
    np.testing.assert_allclose(pf.stable_point(free, Known()).decision, [9.0], atol=1e-6)
    runs = pf.simulate({"rgd": pf.repeated_gradient(free, step=0.05)}, Known(), rounds=5, realizations=2, record=2)
    expected = -runs.decision * (10.0 - runs.decision) + 25.0
    np.testing.assert_allclose(runs.regret.isel(t=0), expected.isel(t=0, coordinate=0), atol=1e-6)


def test_a_risk_of_the_wrong_form_is_refused():
    class Wrong(Counts):
        def risk(self, problem):
            return lambda theta: -theta[0]

    with pytest.raises(TypeError, match=r"function of \(theta, where\)"):
        pf.performative_risk(PROBLEM, Wrong(), [3.0])


class Poisson:
    def sample(self, key, theta, n):
        return jax.random.poisson(key, 100.0 * jnp.exp(-theta[0]), (n, 1)).astype(theta.dtype)


@pytest.mark.parametrize(
    "world", [Poisson(), pf.HostWorld(lambda rng, theta, n: rng.poisson(100.0 * np.exp(-theta[0]), size=n))]
)
@pytest.mark.slow
def test_counts_whose_derivatives_are_wrong_inside_the_set_alone(world):
    problem = pf.Problem(lambda price, z: -price[0] * z[0], pf.Box([0.0], [5.0]))
    best = pf.performative_optimum(problem, world, samples=4000)
    # The risk is −100·p·exp(−p); at both ends of the set its derivative without the reaction is small or right.
    assert best.risk == pytest.approx(-100.0 / np.e, rel=0.02)
    assert best.decision[0] == pytest.approx(1.0, abs=0.1)
