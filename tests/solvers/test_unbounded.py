"""Unbounded problems name the direction in which their risk decreases without bound."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative.numerics.precision import precise
from performative.solvers.derivatives import model_of
from performative.solvers.unbounded import _falls
from performative.truth.risk import true_risk

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
    with pytest.raises(
        pf.UnboundedProblem, match=r"decreases without bound from .* bound the decision there"
    ) as caught:
        pf.performative_optimum(pf.Problem(revenue, decisions, rules), STILL)
    np.testing.assert_allclose(caught.value.direction, direction, atol=1e-4)


def test_a_risk_on_frozen_data_can_be_unbounded_too():
    world = pf.LocationFamily(pf.Gaussian([1.0, 2.0], [1.0, 1.0]), 0.3 * np.eye(2))
    with pytest.raises(pf.UnboundedProblem, match="the risk on frozen data"):
        pf.stable_point(pf.Problem(revenue, pf.Reals(2)), world)


def test_a_bounded_risk_on_an_unbounded_set_is_solved():
    best = pf.performative_optimum(pf.Problem(lambda t, z: jnp.sum((t - z) ** 2), pf.Reals(2)), STILL)
    np.testing.assert_allclose(best.decision, [1.0, 2.0], atol=1e-8)


HALF_LINE = pf.Box([0.0], [np.inf])
LINE = pf.LocationFamily(pf.Gaussian([0.0], [1.0]), [[0.0]])


@pytest.mark.parametrize(
    ("loss", "rules"),
    [
        (lambda t, z: -jnp.sqrt(t[0] + 1.0), pf.constraints.Linear([1e-8], 0.5)),
        (lambda t, z: -jnp.log1p(t[0]), pf.constraints.Linear([1e-8], 0.5)),
        (lambda t, z: -t[0] + 2.0 * jnp.maximum(t[0] - 3e8, 0.0), None),
    ],
    ids=["root", "logarithm", "a turn at 3e8"],
)
def test_what_is_bounded_far_away_is_not_called_unbounded(loss, rules):
    problem = pf.Problem(loss, HALF_LINE, rules)
    risk = functools.partial(model_of, true_risk(problem, LINE))
    with precise():
        assert not _falls(problem, risk, np.zeros(1), np.ones(1))
        assert _falls(pf.Problem(loss, HALF_LINE), risk, np.zeros(1), np.ones(1)) == (rules is not None)


@pytest.mark.parametrize(
    ("loss", "decisions"),
    [
        (lambda t, z: jnp.exp(-0.001 * t[0]), HALF_LINE),
        (lambda t, z: 1.0 + jnp.exp(-t[0]), HALF_LINE),
        (lambda t, z: jax.nn.softplus(-t[0]), pf.Reals(1)),
    ],
    ids=["slow", "to one", "softplus"],
)
def test_a_least_value_that_is_not_attained_is_not_global(loss, decisions):
    found = pf.performative_optimum(pf.Problem(loss, decisions), LINE)
    assert found.scope == "local"
    assert "keeps falling, and its least value may not be attained" in found.message


def test_a_flat_direction_does_not_refute_an_optimum():
    problem = pf.Problem(lambda t, z: jnp.abs(t[0] + t[1] - z[0]), pf.Reals(2), pf.constraints.Linear([1.0, 1.0], -3.0))
    assert pf.performative_optimum(problem, STILL).scope == "global"


def test_the_message_says_how_far_a_ray_was_followed():
    with pytest.raises(pf.UnboundedProblem, match=r"in the direction \[1\.\], as far as 1e\+15") as caught:
        pf.performative_optimum(pf.Problem(lambda t, z: -t[0], HALF_LINE), LINE)
    assert caught.value.length == 1e15


def test_a_risk_that_falls_along_a_curve_says_what_to_bound():
    """θ₁ ≤ √θ₂: no ray leads to less and less risk, but a parabola does."""
    problem = pf.Problem(lambda t, z: -t[0], pf.Reals(2), lambda t: t[0] ** 2 - t[1])
    with pytest.raises(
        pf.SolverFailed, match=r"least at the edge, at last in the direction \[0\..* 0\.99.*bound the decision"
    ):
        pf.performative_optimum(problem, STILL)
