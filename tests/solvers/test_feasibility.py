"""Infeasible problems are refused by name and amount."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative import constraints
from performative.solvers.feasibility import largest_slack, require_feasible, strictly_feasible


def loss(theta, z):
    return 0.5 * jnp.sum((z - theta) ** 2)


SQUARE = pf.Box([-1.0, -1.0], [1.0, 1.0])

BASE = pf.Gaussian([0.0, 0.0], [1.0, 1.0])

WORLD = pf.LocationFamily(BASE, 0.1 * np.eye(2))


def problem(rules=None, decisions=SQUARE, dimension=None):
    return pf.Problem(loss, decisions, rules, dimension)


LOW = constraints.Linear([1.0, 0.0], -0.5, name="low")

HIGH = constraints.Linear([-1.0, 0.0], -0.25, name="high")

IDLE = constraints.Linear([0.0, 1.0], 5.0, name="idle")


@pytest.mark.parametrize(
    ("rules", "decisions", "conflicting", "violation"),
    [
        ([LOW, HIGH, IDLE], SQUARE, {"low", "high"}, 0.375),  # θ₁ ≤ −0.5 and θ₁ ≥ 0.25 meet half-way
        ([LOW, HIGH], pf.Reals(2), {"low", "high"}, 0.375),
        ([constraints.Linear([-1.0, 0.0], -2.0, name="far"), IDLE], SQUARE, {"far"}, 1.0),  # against the set alone
        ([constraints.Quadratic(np.eye(2), -1.0, name="ball")], SQUARE, {"ball"}, 1.0),
        (lambda theta: jnp.sum(theta**2) + 2.0, SQUARE, {"g1"}, 2.0),
    ],
    ids=["conflict", "unbounded", "set", "quadratic", "function"],
)
@pytest.mark.parametrize("use", ["apda", "pd_ps", "optimum", "stable"])
def test_an_empty_feasible_set_is_refused_by_name_and_amount(use, rules, decisions, conflicting, violation):
    impossible = problem(rules, decisions)
    calls = {
        "apda": lambda: pf.apda(impossible),
        "pd_ps": lambda: pf.pd_ps(impossible),
        "optimum": lambda: pf.performative_optimum(impossible, WORLD),
        "stable": lambda: pf.stable_point(impossible, WORLD),
    }
    with pytest.raises(pf.InfeasibleProblem, match="the smallest max") as caught:
        calls[use]()
    assert set(caught.value.conflicting) == conflicting
    assert caught.value.violation == pytest.approx(violation, abs=1e-6)
    assert f"{violation:.3g}" in str(caught.value)
    for name in conflicting:
        assert name in str(caught.value)
    assert "idle" not in str(caught.value)


def test_a_constraint_that_is_not_a_number_is_refused_by_name():
    with pytest.raises(ValueError, match=r"constraint|g1"):
        pf.apda(problem(lambda theta: jnp.log(theta[0] - 0.5)))


def test_conflicting_constraints_are_named_with_the_amount():
    constraints = [
        pf.constraints.Linear([1.0, 1.0], 0.5, name="cap"),
        pf.constraints.Linear([-1.0, -1.0], -0.9, name="floor"),
        pf.constraints.Linear([1.0, -1.0], 5.0, name="idle"),
    ]
    problem = pf.Problem(loss, pf.Box(np.zeros(2), np.ones(2)), constraints)
    world = pf.LocationFamily(pf.Gaussian(np.zeros(2), np.ones(2)), np.zeros((2, 2)))
    with pytest.raises(pf.InfeasibleProblem, match="cap, floor") as caught:
        pf.performative_optimum(problem, world)
    assert caught.value.violation == pytest.approx(0.2, abs=1e-7)  # half of 0.9 − 0.5 each
    assert set(caught.value.conflicting) == {"cap", "floor"}


def test_constraints_that_can_be_met_are_not_blamed():
    others = [pf.constraints.Linear([1.0, 0.0], 3.0, name=f"ok{i}") for i in range(4)]
    problem = pf.Problem(
        loss, pf.Box([0.0, 0.0], [5.0, 5.0]), [pf.constraints.Linear([1.0, 1.0], -1.0, name="x"), *others]
    )
    with pytest.raises(pf.InfeasibleProblem) as caught:
        pf.performative_optimum(problem, WORLD)
    assert set(caught.value.conflicting) == {"x"}
    assert caught.value.conflicting["x"] == pytest.approx(1.0)
    assert caught.value.violation == pytest.approx(1.0)


@pytest.mark.slow
def test_a_feasible_set_away_from_the_start_is_found():
    """g = 1 − θ² has no slope at 0: a search from there alone would call the problem infeasible."""
    world = pf.LocationFamily(pf.Gaussian([0.5], [1.0]), [[0.0]])
    problem = pf.Problem(loss, pf.Box([-3.0], [3.0]), lambda theta: 1.0 - theta**2)
    optimum = pf.performative_optimum(problem, world)
    assert optimum.local
    assert abs(optimum.decision[0]) == pytest.approx(1.0, abs=1e-5)
    quartic = pf.Problem(loss, pf.Box([-3.0], [3.0]), lambda theta: 1.0 - theta**4)
    assert pf.performative_optimum(quartic, world, start=[-2.0]).local


def distance(center):
    return lambda theta: jnp.sum((theta - center) ** 2) - 1.0


@pytest.mark.parametrize(
    ("decisions", "rule", "expected"),
    [
        (pf.Box([-10.0] * 2, [10.0] * 2), distance(5.0), [5 - np.sqrt(0.5)] * 2),
        (pf.Box([-10.0] * 2, [10.0] * 2), distance(2.0), [2 - np.sqrt(0.5)] * 2),
        (pf.Box([-1e4], [1e4]), distance(500.0), [499.0]),
        (pf.Reals(1), distance(500.0), [499.0]),
    ],
    ids=["disk", "near disk", "far", "far on the line"],
)
def test_a_convex_feasible_set_is_found_wherever_it_is(decisions, rule, expected):
    d = len(expected)
    world = pf.LocationFamily(pf.Gaussian(np.zeros(d), np.ones(d)), np.zeros((d, d)))
    optimum = pf.performative_optimum(pf.Problem(loss, decisions, rule), world)
    np.testing.assert_allclose(optimum.decision, expected, rtol=1e-6)
    assert optimum.scope == "global"


def test_slack_is_the_largest_there_is():
    rules = [constraints.Function(distance(5.0), "disk"), constraints.Linear([1.0, 0.0], 3.0, name="left")]
    curved = problem(rules, pf.Box([-10.0] * 2, [10.0] * 2))
    found = largest_slack(curved)
    # At (x, 5) the two are equal: (x − 5)² − 1 = x − 3.
    x = (11 - np.sqrt(121 - 4 * 27)) / 2
    assert found.proved
    assert found.slack == pytest.approx(-(x - 3), abs=1e-7)
    np.testing.assert_allclose(found.decision, [x, 5.0], atol=1e-3)
    assert set(found.blocking) == {"disk", "left"}


def test_a_kink_does_not_stop_the_search():
    """max |θ_i − c_i| has kinks along the diagonals through c, where one tangent alone leads nowhere."""
    kinked = problem(lambda t: jnp.max(jnp.abs(t - jnp.array([5.0, 3.0]))) - 0.01, pf.Box([-10.0] * 2, [10.0] * 2))
    found = largest_slack(kinked)
    assert found.slack == pytest.approx(0.01, abs=1e-7)


def test_what_was_not_found_is_not_said_not_to_exist():
    """2 + sin 4θ is at least 1 everywhere, but that is not proved."""
    with pytest.raises(
        pf.InfeasibleProblem, match=r"none was found: the smallest .* is 1; .* pass it as `start`"
    ) as caught:
        pf.performative_optimum(problem(lambda theta: 2.0 + jnp.sin(4.0 * theta[0])), WORLD)
    assert not caught.value.proved


def test_the_anchor_of_a_safe_method_is_found_far_away():
    anchor = strictly_feasible(problem(distance(5.0), pf.Box([-10.0] * 2, [10.0] * 2)))
    np.testing.assert_allclose(anchor, [5.0, 5.0], atol=1e-4)


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("decisions", [SQUARE, pf.Reals(2)], ids=["square", "plane"])
def test_a_conflict_in_small_numbers_is_a_conflict(decisions, declared):
    """θ₁ ≤ −0.5 and θ₁ ≥ 0.25, both multiplied by a small number, so that the smallest max g is tiny."""
    size = 1e-9
    pair = [
        constraints.Linear([size, 0.0], -0.5 * size, name="low"),
        constraints.Linear([-size, 0.0], -0.25 * size, name="high"),
    ]
    function = constraints.Function(lambda t: size * jnp.array([t[0] + 0.5, 0.25 - t[0]]), ["low", "high"])
    with pytest.raises(pf.InfeasibleProblem, match="must exist") as caught:
        require_feasible(problem([*(pair if declared else [function]), IDLE], decisions))
    assert set(caught.value.conflicting) == {"low", "high"}
    assert caught.value.violation == pytest.approx(0.375 * size, rel=0.5)


def test_a_single_feasible_decision_in_small_numbers_is_found():
    rules = [
        constraints.Linear([1e-9, 0.0], 0.5e-9, name="low"),
        constraints.Linear([-1e-9, 0.0], -0.5e-9, name="high"),
    ]
    np.testing.assert_allclose(require_feasible(problem(rules))[0], 0.5, atol=1e-6)


UNBOUNDED = {
    "line": (pf.Reals(1), [1.0], 4.0, None),
    "line from a start": (pf.Reals(1), [1.0], 4.0, [3.9]),
    "line from an infeasible start": (pf.Reals(1), [1.0], 4.0, [5.0]),
    "plane": (pf.Reals(2), [1.0, 1.0], 4.0, None),
    "plane from a start": (pf.Reals(2), [1.0, 1.0], 4.0, [1.0, 2.5]),
    "five dimensions": (pf.Reals(5), np.ones(5), 4.0, None),
    "five dimensions from a start": (pf.Reals(5), np.ones(5), 4.0, np.full(5, 0.7)),
    "orthant": (pf.Box([0.0, 0.0], [np.inf, np.inf]), [1.0, -2.0], -3.0, None),
    "immense box": (pf.Box([-1e7], [1e7]), [1.0], 4.0, None),
    "a strip": (pf.Reals(2), [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]], [0.01, 0.01, 4.0], [0.0, 3.0]),
    "no slack at 0": (pf.Reals(2), [[1.0, 0.0], [0.0, -1.0]], [0.0, -2.0], None),
}


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "function"])
@pytest.mark.parametrize("name", UNBOUNDED)
def test_an_anchor_is_near_what_the_user_works_with_where_slack_has_no_end(name, declared):
    decisions, rows, bounds, start = UNBOUNDED[name]
    rows, bounds = np.atleast_2d(rows), np.atleast_1d(bounds)
    rule = (
        constraints.Linear(rows, bounds) if declared else lambda theta: jnp.asarray(rows) @ theta - jnp.asarray(bounds)
    )
    unbounded = problem([rule] if declared else rule, decisions, rows.shape[1])
    anchor = strictly_feasible(unbounded, start=start)
    assert np.linalg.norm(anchor) < 10
    slack = bounds - rows @ anchor
    assert np.all(slack >= 0.005 if name == "a strip" else slack >= 0.2)
    assert decisions.contains(anchor)


@pytest.mark.parametrize("unit", [1e-2, 1.0, 1e6])
@pytest.mark.parametrize("start", [None, 3.9])
def test_an_anchor_near_the_start_has_the_unit_of_the_decisions(unit, start):
    line = problem([constraints.Linear([1.0], 4.0 * unit)], pf.Reals(1))
    anchor = strictly_feasible(line, start=None if start is None else [start * unit])
    assert -4.001 * unit <= anchor[0] <= 0.001 * unit


def test_slopes_of_very_different_size_do_not_move_an_anchor_far_away():
    rules = [constraints.Linear([1e-6, 0.0], 4e-6, name="flat"), constraints.Linear([0.0, 1e6], -4e6, name="steep")]
    anchor = strictly_feasible(problem(rules, pf.Reals(2)))
    assert np.linalg.norm(anchor) < 10
    assert anchor[0] < 3.0
    assert anchor[1] < -5.0


def test_an_anchor_far_away_is_taken_where_only_that_has_slack():
    """θ ≥ 100 from 0, and a start that lies deep inside."""
    rule = [constraints.Linear([-1.0], -100.0)]
    np.testing.assert_allclose(strictly_feasible(problem(rule, pf.Reals(1))), [200.0], rtol=1e-6)
    near = strictly_feasible(problem(rule, pf.Reals(1)), start=[150.0])
    assert 150.0 <= near[0] <= 300.001


def test_the_largest_slack_stays_the_anchor_of_a_bounded_problem():
    for decisions, start in ((SQUARE, None), (pf.Box([0.0, 0.0], [900.0, 900.0]), [1.0, 1.0])):
        bounded = problem([constraints.Linear([-1.0, -1.0], -1.5)], decisions)
        np.testing.assert_array_equal(strictly_feasible(bounded, start=start), largest_slack(bounded).decision)
