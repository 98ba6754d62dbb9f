"""Unbounded problems name the direction in which their risk falls without end."""

import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf

STILL = pf.LocationFamily(pf.Gaussian([1.0, 2.0], [1.0, 1.0]), np.zeros((2, 2)))


def revenue(theta, z):
    return -jnp.sum(theta * z)


@pytest.mark.parametrize(
    ("decisions", "rules", "direction"),
    [
        (pf.Reals(2), None, np.array([1.0, 2.0]) / np.sqrt(5)),
        (pf.Reals(2), [pf.constraints.Linear([1.0, 1.0], 3.0)], np.array([-1.0, 1.0]) / np.sqrt(2)),
        (pf.HalfSpace([0.0, 1.0], 3.0), None, np.array([1.0, 0.0])),
    ],
    ids=["everywhere", "along a constraint", "along the set"],
)
def test_the_direction_is_named(decisions, rules, direction):
    with pytest.raises(pf.UnboundedProblem, match=r"falls without end from .* bound the decision there") as caught:
        pf.performative_optimum(pf.Problem(revenue, decisions, rules), STILL)
    np.testing.assert_allclose(caught.value.direction, direction, atol=1e-4)


def test_a_risk_on_frozen_data_can_be_unbounded_too():
    world = pf.LocationFamily(pf.Gaussian([1.0, 2.0], [1.0, 1.0]), 0.3 * np.eye(2))
    with pytest.raises(pf.UnboundedProblem, match="the risk on frozen data"):
        pf.stable_point(pf.Problem(revenue, pf.Reals(2)), world)


def test_a_bounded_risk_on_an_unbounded_set_is_solved():
    best = pf.performative_optimum(pf.Problem(lambda t, z: jnp.sum((t - z) ** 2), pf.Reals(2)), STILL)
    np.testing.assert_allclose(best.decision, [1.0, 2.0], atol=1e-8)
