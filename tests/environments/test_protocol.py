"""What every world whose truth is known promises: its risk is the mean loss of its samples, and misfits are refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_world import ELSEWHERE, SQUARE, THETA, WORLDS, bent, squared

import performative as pf
from performative.numerics.precision import precise
from performative.numerics.randomness import new_key

DRAWS = 50_000


@pytest.mark.parametrize("name", WORLDS)
def test_the_risk_is_the_mean_loss_of_samples(name):
    """5·10⁴ draws, within five standard errors; `where` moves the data and not the decision."""
    world, problems = WORLDS[name], [pf.Problem(loss, SQUARE) for loss in (squared, bent)]

    @jax.jit
    def sampled_and_exact(theta, where):
        here, there = world.sample(new_key(1), theta, DRAWS), world.sample(new_key(2), where, DRAWS)
        pairs = [(squared, here), (bent, here), (squared, there)]
        losses = jnp.stack([jax.vmap(lambda z, f=f: f(theta, z))(z) for f, z in pairs])
        risk = world.risk(problems[0])
        return losses, risk(theta, where), risk(where, where), risk(where)

    with precise():
        losses, decoupled, diagonal, risk = sampled_and_exact(jnp.asarray(THETA), jnp.asarray(ELSEWHERE))
    exact = [pf.performative_risk(problem, world, THETA) for problem in problems]
    for drawn, expected in zip(np.asarray(losses), [*exact, float(decoupled)], strict=True):
        assert abs(drawn.mean() - expected) <= 5 * drawn.std() / np.sqrt(DRAWS)
    assert float(diagonal) == pytest.approx(float(risk), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["normal", "bernoulli", "poisson", "mixture", "strategic, logistic"])
def test_the_optimum_is_found_in_any_of_them(name):
    world, problem = WORLDS[name], pf.Problem(squared, SQUARE)
    optimum = pf.performative_optimum(problem, world)
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, 41)] * 2), axis=-1).reshape(-1, 2)
    with precise():
        least = np.min(np.asarray(jax.jit(jax.vmap(world.risk(problem)))(jnp.asarray(grid))))
    assert float(optimum.risk) <= least + 1e-9
    assert float(optimum.kkt_residual) < 1e-6


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
    problem = pf.Problem(squared, SQUARE)
    with pytest.raises(ValueError, match=message):
        pf.performative_optimum(problem, world)
    with pytest.raises(ValueError, match=message):
        pf.simulate({"rgd": pf.repeated_gradient(problem)}, world, rounds=2)
