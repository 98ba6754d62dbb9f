"""One definition of the KKT residual: what a solution says is what `certify` finds, for every kind of problem."""

import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative.truth.optimum import certify

SQUARE = pf.Box([0.0, 0.0], [5.0, 5.0])
DRIFT = 0.3 * np.eye(2)
WORLD = pf.LocationFamily(pf.Gaussian([1.0, 2.0], np.eye(2)), DRIFT)
SAMPLES = pf.LocationFamily(pf.Empirical(np.random.default_rng(0).normal([1.0, 2.0], 1.0, size=(30, 2))), DRIFT)
BUDGET = [pf.constraints.Linear([1.0, 1.0], 1.0, name="budget")]


def squared(theta, z):
    return 0.5 * jnp.sum((theta - z) ** 2)


def pinball(theta, z):
    return jnp.sum(jnp.maximum(0.8 * (z - theta), -0.2 * (z - theta)))


def product(theta, z):
    return theta[0] * z[0]


ROOT = pf.ParametricFamily(pf.Normal(1.0), lambda theta: jnp.sqrt(theta + 1.0))
CASES = {
    "smooth": (pf.Problem(squared, SQUARE), WORLD),
    "constrained": (pf.Problem(squared, SQUARE, BUDGET), WORLD),
    "curved": (pf.Problem(squared, pf.Ball(0.5, [0.0, 0.0]), lambda t: jnp.sum(t**2) - 0.1), WORLD),
    "kinked": (pf.Problem(pinball, SQUARE), SAMPLES),
    "kinked and constrained": (pf.Problem(pinball, SQUARE, BUDGET), SAMPLES),
    "kinked in the decision": (pf.Problem(lambda t, z: squared(t, z) + 3.0 * jnp.sum(jnp.abs(t - 0.5)), SQUARE), WORLD),
    "at a bound": (pf.Problem(lambda t, z: -jnp.sum(t) + 0.0 * z[0], SQUARE), WORLD),
    "degenerate": (pf.Problem(squared, SQUARE, [*BUDGET, pf.constraints.Linear([2.0, 2.0], 2.0, name="again")]), WORLD),
    "not convex": (pf.Problem(lambda t, z: -squared(t, z), SQUARE), WORLD),
    "steep at a bound": (pf.Problem(product, pf.Box([-1.0], [1.0])), ROOT),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("find", [pf.performative_optimum, pf.stable_point])
def test_a_solution_is_certified_with_the_residual_it_reports(name, find):
    problem, world = CASES[name]
    solution = find(problem, world)
    again = certify(problem, world, solution)
    assert float(again.kkt_residual) == float(solution.kkt_residual)
    assert solution.kkt_residual <= 1e-7
    assert (again.scope, again.stable) == (solution.scope, solution.stable)


def test_where_the_gradient_is_steep_the_answer_has_all_its_digits():
    """PR(θ) = θ√(θ + 1) is least at −2/3; the slope at −1 is infinite."""
    best = pf.performative_optimum(*CASES["steep at a bound"])
    np.testing.assert_allclose(best.decision, [-2 / 3], atol=1e-9)
    assert best.kkt_residual < 1e-9
    with pytest.raises(pf.SolverFailed, match="no KKT point"):
        certify(*CASES["steep at a bound"], [-2 / 3 + 2e-6])


def test_a_point_beside_a_kink_is_refused_and_one_within_a_ten_millionth_is_not():
    problem = pf.Problem(lambda t, z: jnp.sum(jnp.abs(t - 1.0)) + 0.0 * z[0], pf.Box([-5.0, -5.0], [5.0, 5.0]))
    assert certify(problem, WORLD, [1.0, 1.0 + 5e-8]).kkt_residual < 1e-9
    with pytest.raises(pf.SolverFailed):
        certify(problem, WORLD, [1.0, 1.0 + 1e-6])


def test_multipliers_must_fit_the_constraints():
    with pytest.raises(ValueError, match="`multipliers` must hold one number for each of 1 constraints"):
        certify(pf.Problem(squared, SQUARE, BUDGET), WORLD, [0.0, 1.0], [])
