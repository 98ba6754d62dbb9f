"""Performative gradient descent."""

import jax.numpy as jnp
import numpy as np
import pytest
from scanning import scan

import performative as pf
from performative.numerics.precision import precise


@pytest.mark.slow
def test_perfgd_follows_a_mean_that_is_not_linear_where_a_location_method_is_misled():
    """ℓ = θz and a mean √(θ + 1): PR = θ√(θ + 1), optimum −2/3, stable point at the end of Θ (Izzo, Ying, Zou 2021)."""
    problem = pf.Problem(lambda theta, z: jnp.sum(theta * z), pf.Box([-0.9], [1.0]))
    family = pf.Normal(0.01)
    environment = pf.ParametricFamily(family, lambda theta: jnp.sqrt(jnp.maximum(theta + 1.0, 0.01)))
    methods = {
        "perfgd": pf.perfgd(problem, family=family, memory=100, step=0.01, exploration=0.05),
        "score": pf.score_gradient(problem, log_density=environment.log_density, step=0.01),
        "rgd": pf.repeated_gradient(problem, step=0.01),
        "two-stage": pf.two_stage(problem, stage=500, exploration=0.5),
    }
    final = {name: scan(method, environment, 5_000, runs=10).final[0] for name, method in methods.items()}
    assert final["perfgd"] == pytest.approx(-2 / 3, abs=0.05)
    assert final["score"] == pytest.approx(-2 / 3, abs=0.05)
    assert final["rgd"] == pytest.approx(-0.9, abs=1e-9)
    assert abs(final["two-stage"] + 2 / 3) > 0.08


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bernoulli", "poisson"])
def test_perfgd_serves_exponential_families(name):
    """ℓ = −θz + ½θ² in one dimension: PR = −θf(θ) + ½θ², the optimum by a fine grid."""
    families = {
        "bernoulli": (pf.Bernoulli(), lambda theta: 0.9 - 0.4 * theta),
        "poisson": (pf.Poisson(most=40), lambda theta: 2.0 * jnp.exp(-0.5 * theta)),
    }
    family, parameter = families[name]
    problem = pf.Problem(lambda theta, z: jnp.sum(-theta * z + 0.5 * theta**2), pf.Box([0.0], [2.0]))
    environment = pf.ParametricFamily(family, parameter)
    grid = np.linspace(0, 2, 20_001)
    with precise():
        optimum = grid[np.argmin(-grid * np.asarray(parameter(jnp.asarray(grid))) + 0.5 * grid**2)]
    method = pf.perfgd(problem, family=family, memory=200, step=0.01, exploration=0.2, samples=5)
    final = scan(method, environment, 6_000, runs=10).decisions[:, -1]
    assert abs(final.mean() - optimum) <= 5 * final.std() / np.sqrt(10) + 0.02
    assert abs(float(pf.stable_point(problem, environment).decision[0]) - optimum) > 0.1
