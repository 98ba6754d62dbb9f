"""Quadratic programs over the same set, against cvxpy and against each other."""

from __future__ import annotations

import cvxpy as cp
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative.constraints import Function, Linear, Quadratic
from performative.errors import SolverFailed
from performative.solvers.conic import solve
from performative.solvers.derivatives import linearized
from performative.solvers.quadratic import ConeProgram, Sides, programs, slack_program

D = 3
CAP = Linear([[1.0, 2.0, 1.0], [1.0, 0.0, -1.0]], [1.5, 0.2])
CURVED = Function(lambda theta: jnp.sum(theta**2) - 0.9, names=("round",))
SETS = {
    "box": pf.Box(np.zeros(D), [1.0, np.inf, 2.0]),
    "budget": pf.Budget(1.5, D),
    "half space": pf.HalfSpace([1.0, -1.0, 1.0], 0.5),
    "product": pf.Product([pf.Box([0.0], [1.0]), pf.Budget(1.0)], [1, 2]),
    "reals": pf.Reals(D),
}


def model(seed):
    random = np.random.default_rng(seed)
    root = random.normal(size=(D, D))
    return root @ root.T + 0.1 * np.eye(D), random.normal(size=D)


@pytest.mark.parametrize("constraints", [[], [CAP], [CURVED, CAP]], ids=["none", "linear", "linearized"])
@pytest.mark.parametrize("name", SETS)
def test_flat_sides_need_no_cvxpy_and_lead_to_the_same(name, constraints):
    problem = pf.Problem(lambda theta, z: jnp.sum(theta * z), SETS[name], constraints, dimension=D)
    assert isinstance(programs(problem), Sides)
    cone = ConeProgram(problem)
    for seed in range(5):
        hessian, gradient = model(seed)
        theta = np.asarray(problem.decisions.project(np.random.default_rng(seed).uniform(size=D)))
        given = theta, hessian, gradient, *linearized(problem, theta)
        (x, lam), (y, mu) = programs(problem).minimize(*given), cone.minimize(*given)
        np.testing.assert_allclose(x, y, atol=1e-7)
        np.testing.assert_allclose(lam, mu, atol=1e-5)


def test_the_largest_slack_in_a_ball_needs_no_cvxpy():
    """An affine constraint is least where its slope leaves the ball."""
    row = np.array([0.5, 1.0, -1.0])
    for decisions, best in (
        (pf.Ball(5.0), -5.0 * row / np.linalg.norm(row)),
        (pf.Ball(2.0, [1.0, 0.0, 3.0]), np.array([1.0, 0.0, 3.0]) - 2.0 * row / np.linalg.norm(row)),
        (pf.Product([pf.Box([0.0], [1.0]), pf.Ball(0.7)], [1, 2]), [0.0, *(-0.7 * row[1:] / np.linalg.norm(row[1:]))]),
    ):
        problem = pf.Problem(lambda theta, z: jnp.sum(theta * z), decisions, [Linear(row, 0.9)], dimension=D)
        program = slack_program(problem)
        assert program is not None
        theta = np.asarray(problem.decisions.project(np.zeros(D)))
        x, multipliers = program.least_of_largest(theta, *linearized(problem, theta), -1e6)
        np.testing.assert_allclose(x, best, atol=1e-6)
        np.testing.assert_allclose(multipliers, [1.0], atol=1e-9)
    assert slack_program(pf.Problem(lambda theta, z: jnp.sum(theta * z), pf.Ball(5.0), [CURVED], dimension=D)) is None


def test_curved_constraints_lead_to_what_cvxpy_finds():
    """A ball, a quadratic constraint and one that is linearized, in this order among linear ones."""
    around = Quadratic(np.diag([1.0, 2.0, 0.0]), 0.6, name="around")
    problem = pf.Problem(lambda theta, z: jnp.sum(theta * z), pf.Ball(1.2), [CURVED, around, CAP], dimension=D)
    program = programs(problem)
    assert isinstance(program, ConeProgram)
    assert programs(problem) is program
    for seed in range(5):
        hessian, gradient = model(seed)
        theta = 0.3 * np.ones(D)
        g, jacobian = linearized(problem, theta)
        x, lam = program.minimize(theta, hessian, 5.0 * gradient, g, jacobian)

        y = cp.Variable(D)
        limits = [g[0] + jacobian[0] @ (y - theta) <= 0, around.declare(y) <= 0, CAP.declare(y) <= 0]
        move = y - theta
        objective = 0.5 * cp.quad_form(move, cp.psd_wrap(hessian)) + 5.0 * gradient @ move
        textbook = cp.Problem(cp.Minimize(objective), [*limits, cp.norm(y) <= 1.2])
        solve(textbook)
        np.testing.assert_allclose(x, y.value, atol=1e-5)  # on curved sets cone solvers lose half their digits
        multipliers = np.concatenate([np.ravel(limit.dual_value) for limit in limits])
        np.testing.assert_allclose(lam, multipliers, atol=1e-5)


def test_a_set_without_a_decision_is_said():
    problem = pf.Problem(lambda theta, z: jnp.sum(theta * z), pf.Box([0.0], [1.0]), [Linear([1.0], -1.0)], dimension=1)
    with pytest.raises(SolverFailed, match="PrimalInfeasible"):
        programs(problem).minimize(np.zeros(1), np.eye(1), np.ones(1), *linearized(problem, np.zeros(1)))


def test_a_constraint_may_have_a_convex_form_at_some_numbers_only():
    class Sometimes(Linear):
        def declare(self, variable):
            return None

    problem = pf.Problem(
        lambda theta, z: jnp.sum(theta * z), pf.Ball(2.0), [CAP, Sometimes([1.0, 1.0, 1.0], 0.4)], dimension=D
    )
    hessian, gradient = model(0)
    x, lam = programs(problem).minimize(np.zeros(D), hessian, -gradient, *linearized(problem, np.zeros(D)))
    assert lam.shape == (3,)
    assert np.max(np.asarray(problem.g(jnp.asarray(x)))) <= 1e-7
