"""Constraints: their values, their derivatives and their convex forms agree."""

from __future__ import annotations

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative.numerics.precision import precise

D = 4
CONSTRAINTS = {
    "linear": pf.constraints.Linear([1.0, 2.0, 0.0, -1.0], 1.0),
    "quadratic": pf.constraints.Quadratic(np.eye(D), 1.0),
    "proximity": pf.constraints.Proximity(2, D, 1.0),
    "function": pf.constraints.Function(lambda theta: theta.at[0].set(0.5)[:2]),
}


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_decisions_may_be_lists_of_whole_numbers(name):
    problem = pf.Problem(lambda theta, z: z[0], pf.Reals(D), [CONSTRAINTS[name]])
    np.testing.assert_array_equal(problem.g([3, 4, 0, -1]), problem.g(np.array([3.0, 4.0, 0.0, -1.0])))
    np.testing.assert_array_equal(CONSTRAINTS[name]([3, 4, 0, -1]), problem.g([3, 4, 0, -1]))


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_derivatives_agree_with_automatic_differentiation(name):
    """`pullback` is λᵀ∇g and `steepness` ‖∇g_i‖², by whatever shortcut."""
    theta, constraint = np.array([0.3, -0.4, 0.1, 0.5]), CONSTRAINTS[name]
    with precise():
        jacobian = np.asarray(jax.jacrev(constraint)(jnp.asarray(theta)))
        multipliers = np.arange(1.0, 1.0 + len(jacobian))
        pullback = constraint.pullback(jnp.asarray(theta), jnp.asarray(multipliers))
        np.testing.assert_allclose(pullback, multipliers @ jacobian, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(constraint.steepness(jnp.asarray(theta)), np.sum(jacobian**2, axis=1), rtol=1e-12)


@pytest.mark.parametrize("name", ["linear", "quadratic", "proximity"])
def test_the_convex_form_has_the_same_values(name):
    variable = cp.Variable(D)
    expression = CONSTRAINTS[name].declare(variable)
    variable.value = np.array([0.3, -0.4, 0.1, 0.5])
    np.testing.assert_allclose(expression.value, CONSTRAINTS[name](variable.value), rtol=1e-12)


def test_a_function_and_an_indefinite_quadratic_have_no_convex_form():
    assert CONSTRAINTS["function"].declare(cp.Variable(D)) is None
    assert pf.constraints.Quadratic(np.diag([1.0, -1.0]), 1.0).declare(cp.Variable(2)) is None


def test_pairs_that_are_off_are_never_violated():
    edges = pf.constraints.Proximity(3, 3, 0.5, active=[True, False, True])
    values = np.asarray(edges([0.0, 1.0, 9.0]))
    np.testing.assert_allclose(values, [0.5, -1.0, 63.5])
    assert edges.names == ("proximity[0,1]", "proximity[0,2]", "proximity[1,2]")
