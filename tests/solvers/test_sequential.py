"""Sequential convex programming: stationary points that curve downward, and losses in any unit."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

import performative as pf
from performative.numerics.precision import precise
from performative.solvers.derivatives import Model
from performative.solvers.kkt import Point
from performative.solvers.sequential import below

SQUARE = pf.Box([0.0, 0.0], [5.0, 5.0])
DRIFT = 0.3 * np.eye(2)
WORLD = pf.LocationFamily(pf.Gaussian([1.0, 2.0], np.eye(2)), DRIFT)


@pytest.mark.parametrize("sign", [[-1.0, -1.0], [1.0, -1.0]])
def test_a_stationary_point_that_curves_downwards_is_left(sign):
    """±θ₁² − θ₂² on [−1, 1]²: 0 is stationary, and a maximizer or a saddle."""
    problem = pf.Problem(lambda t, z: jnp.sum(jnp.asarray(sign) * t * t) + 0 * jnp.sum(z), pf.Box([-1, -1], [1, 1]))
    optimum = pf.performative_optimum(problem, WORLD, start=[0.0, 0.0])
    np.testing.assert_allclose(np.abs(optimum.decision), np.array(sign) == -1, atol=1e-8)
    assert optimum.local

    def risk(theta):
        return Model(np.sum(sign * theta**2), 2 * np.array(sign) * theta, 2 * np.diag(sign))

    with precise():
        left = below(risk, problem, Point(np.zeros(2), np.zeros(0), 0.0))
    assert risk(left).value < -0.9


def quartic(unit, theta, z):
    return unit * jnp.sum((theta - z) ** 4)


@pytest.mark.parametrize("find", [pf.performative_optimum, pf.stable_point])
@pytest.mark.slow
def test_the_unit_of_the_loss_does_not_matter(find):
    world = pf.LocationFamily(pf.Gaussian([3.0, 2.0], np.eye(2)), DRIFT)

    def solution(unit, constraints):
        return find(pf.Problem(Partial(quartic, unit), pf.Box([-10.0, -10.0], [10.0, 10.0]), constraints), world)

    budget = [pf.constraints.Linear([1.0, 1.0], 5.0, name="budget")]
    plain = solution(1.0, budget)
    assert plain.multipliers[0] > 1
    for unit in (1e-12, 1e12):
        np.testing.assert_allclose(solution(unit, None).decision, np.array([3.0, 2.0]) / 0.7, atol=1e-6)
        scaled = solution(unit, budget)
        np.testing.assert_allclose(scaled.decision, plain.decision, atol=1e-6)
        np.testing.assert_allclose(scaled.multipliers, unit * plain.multipliers, rtol=1e-6)
