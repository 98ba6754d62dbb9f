"""Convex risks with kinks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative.numerics.precision import precise

SQUARE = pf.Box([0.0, 0.0], [5.0, 5.0])
DRIFT = 0.3 * np.eye(2)
WORLD = pf.LocationFamily(pf.Gaussian([1.0, 2.0], np.eye(2)), DRIFT)


def pinball(theta, z):
    return jnp.sum(jnp.maximum(jnp.array([0.8, 0.7]) * (z - theta), jnp.array([-0.2, -0.3]) * (z - theta)))


def hinge(theta, z):
    return jnp.maximum(0.0, 1.0 - z[0] * jnp.sum(theta * z[1:]))


def drawn_classes():
    random = np.random.default_rng(0)
    labels = np.sign(random.normal(size=60))
    return np.column_stack([labels, 0.8 * labels[:, None] + random.normal(size=(60, 2))])


@pytest.mark.parametrize(
    ("loss", "world", "decisions"),
    [
        (pinball, WORLD, SQUARE),
        (
            pinball,
            pf.LocationFamily(pf.Empirical(np.random.default_rng(0).normal([1.0, 2.0], 1.0, size=(60, 2))), DRIFT),
            SQUARE,
        ),
        (hinge, pf.LocationFamily(pf.Empirical(drawn_classes()), np.zeros((3, 2))), pf.Ball(10.0)),
    ],
    ids=["newsvendor on a Gaussian base", "newsvendor on samples", "hinge"],
)
@pytest.mark.parametrize("limit", [1.0, 9.0], ids=["bound", "free"])
@pytest.mark.slow
def test_a_convex_risk_with_kinks_has_no_better_neighbor(loss, world, decisions, limit):
    problem = pf.Problem(loss, decisions, [pf.constraints.Linear([1.0, 1.0], limit, name="budget")])
    optimum = pf.performative_optimum(problem, world)
    assert optimum.kkt_residual <= 1e-7
    assert not optimum.local
    assert (optimum.multipliers[0] > 1e-3) == (limit == 1.0)
    random = np.random.default_rng(1)
    near = optimum.decision + 10.0 ** random.uniform(-4, 0, size=(400, 1)) * random.normal(size=(400, 2))
    feasible = [point for point in near if decisions.contains(point) and np.sum(point) <= limit][:40]
    assert len(feasible) == 40
    with precise():
        risks = jax.jit(jax.vmap(world.risk(problem)))(jnp.asarray(feasible))
    assert np.min(np.asarray(risks)) >= optimum.risk - 1e-8


@pytest.mark.parametrize("base", [pf.Empirical(np.arange(11.0)), pf.Gaussian([5.0], [4.0])])
def test_a_loss_with_a_kink_has_its_optimum_at_the_median(base):
    """E|z − θ| with z = z₀ + aθ: the optimum is where (1 − a)θ is the median of z₀."""
    world = pf.LocationFamily(base, [[0.2]])
    problem = pf.Problem(lambda theta, z: jnp.sum(jnp.abs(z - theta)), pf.Box([-20.0], [20.0]))
    optimum = pf.performative_optimum(problem, world)
    np.testing.assert_allclose(optimum.decision, [5.0 / 0.8], atol=1e-7)
    stable = pf.stable_point(problem, world)
    np.testing.assert_allclose(stable.decision, [5.0 / 0.8], atol=1e-7)
