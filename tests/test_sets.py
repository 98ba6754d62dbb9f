"""Decision sets: projections are the nearest points, radii are the true ones, cvxpy agrees."""

from __future__ import annotations

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import performative as pf
from performative.numerics.precision import precise

D = 4
SETS = {
    "box": pf.Box([-1.0, 0.0, -0.5, 2.0], [1.0, 3.0, -0.5, 5.0]),
    "scalar box": pf.Box(-1.0, 2.0).of_dimension(D),
    "ball": pf.Ball(1.5, [1.0, -2.0, 0.0, 0.5]),
    "centered ball": pf.Ball(2.0).of_dimension(D),
    "simplex": pf.Simplex(D, total=2.0),
    "budget": pf.Budget(1.5, D),
    "half-space": pf.HalfSpace([1.0, -2.0, 0.5, 3.0], 0.7),
    "reals": pf.Reals(D),
    "product": pf.Product([pf.Box([-1.0], [2.0]), pf.Simplex(), pf.HalfSpace([2.0], 1.0)], [1, 2, 1]),
    "bounded product": pf.Product([pf.Ball(1.0), pf.Budget(3.0)], [2, 2]),
}
BOUNDED = [name for name, decisions in SETS.items() if np.isfinite(decisions.radius)]
points = arrays(np.float64, D, elements=st.floats(-20, 20))
modest = settings(max_examples=30, deadline=None, derandomize=True)
every_set = pytest.mark.parametrize("name", SETS)

_project = jax.jit(lambda decisions, point: decisions.project(point))


def project(decisions, point):
    with precise():
        return np.asarray(_project(decisions, jnp.asarray(point)))


# Entries are at most 20 and d is 4, so that rounding is of order 1e-14; 1e-11 leaves room for ill-placed normals.
ROUNDING = 1e-11


@every_set
@modest
@given(x=points)
def test_projection_lands_in_the_set_and_stays_where_it_is(name, x):
    once = project(SETS[name], x)
    assert SETS[name].contains(once)
    np.testing.assert_allclose(project(SETS[name], once), once, atol=ROUNDING)


@every_set
@modest
@given(x=points, y=points)
def test_projection_does_not_expand_distances(name, x, y):
    apart = np.linalg.norm(project(SETS[name], x) - project(SETS[name], y))
    assert apart <= np.linalg.norm(x - y) + ROUNDING


@every_set
@modest
@given(x=points, y=points)
def test_projection_is_the_nearest_point(name, x, y):
    nearest, other = project(SETS[name], x), project(SETS[name], y)
    # The variational inequality is a product of two distances of up to 100: 1e-9 is rounding.
    assert np.dot(x - nearest, other - nearest) <= 1e-9


@pytest.mark.parametrize("name", BOUNDED)
@modest
@given(x=points)
def test_radius_bounds_every_decision(name, x):
    assert np.linalg.norm(project(SETS[name], x)) <= SETS[name].radius * (1 + 1e-12)


@pytest.mark.parametrize("name", BOUNDED)
def test_radius_is_attained(name):
    # Far-away points project on the farthest point of the set if their direction is right: try all signs of all axes.
    directions = np.concatenate([np.eye(D), -np.eye(D), np.array(np.meshgrid(*[[-1.0, 1.0]] * D)).reshape(D, -1).T])
    decisions = SETS[name]
    if name == "ball":
        directions = np.concatenate([directions, decisions.center[None]])
    if name == "bounded product":
        directions = np.array([[1.0, 1.0, 0.0, 10.0]])
    lengths = [np.linalg.norm(project(decisions, 1e3 * direction)) for direction in directions]
    np.testing.assert_allclose(max(lengths), decisions.radius, rtol=1e-12)


@pytest.mark.parametrize("name", [name for name in SETS if name not in BOUNDED])
def test_unbounded_sets_have_an_infinite_radius_and_distant_members(name):
    assert SETS[name].radius == np.inf
    far = project(SETS[name], np.array([0.0, 0.0, 0.0, -1e6]))
    assert np.linalg.norm(far) > 1e5


def test_radius_of_a_scalar_box_without_dimension_is_refused():
    with pytest.raises(ValueError, match="depends on its dimension"):
        _ = pf.Box(-1.0, 1.0).radius


@every_set
def test_projection_agrees_with_cvxpy(name):
    random = np.random.default_rng(0)
    for x in random.normal(scale=3.0, size=(3, D)):
        variable = cp.Variable(D)
        program = cp.Problem(cp.Minimize(cp.sum_squares(variable - x)), SETS[name].declare(variable))
        program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
        # A solution whose squared distance is wrong by at most 1e-10 (relative, and distances are below 10) is within
        # √1e-8 of the nearest point at worst; 1e-5 holds with room.
        np.testing.assert_allclose(project(SETS[name], x), variable.value, atol=1e-5)


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("scale", [1e3, 1e8, 1e17, 1e30])
def test_projection_lands_in_the_set_from_however_far(name, scale):
    # Membership is judged by the declared inequalities: `contains` would ask the projection about itself. Unbounded sets
    # are left out, since their own entries are as large as the point's, and so is their rounding.
    random = np.random.default_rng(1)
    variable = cp.Variable(D)
    rules = SETS[name].declare(variable)
    for x in scale * np.concatenate([random.normal(size=(5, D)), np.ones((1, D)), -np.ones((1, D))]):
        variable.value = project(SETS[name], x)
        broken = max(float(np.max(rule.violation())) for rule in rules)
        assert broken <= 1e-9, (x, variable.value)


@pytest.mark.parametrize("name", ["ball", "centered ball"])
def test_ball_projection_keeps_its_direction_where_squares_overflow(name):
    decisions = SETS[name]
    center = np.zeros(D) if decisions.center is None else decisions.center
    expected = center + float(decisions.size) * np.array([0.6, 0.0, -0.8, 0.0])
    np.testing.assert_allclose(project(decisions, 1e200 * np.array([3.0, 0.0, -4.0, 0.0])), expected, rtol=1e-12)


def test_ball_projection_keeps_points_whose_squares_underflow():
    x = 1e-200 * np.array([3.0, 0.0, -4.0, 0.0])
    np.testing.assert_allclose(project(SETS["centered ball"], x), x, rtol=1e-15)


INSIDE = {
    "box": [0.5, 1.0, -0.5, 3.0],
    "scalar box": [0.5, 1.0, -0.5, 1.0],
    "ball": [1.2, -2.1, 0.3, 0.5],
    "centered ball": [0.5, 1.0, -0.5, 1.0],
    "simplex": [0.5, 1.0, 0.5, 0.0],
    "budget": [0.1, 0.2, 0.3, 0.4],
    "half-space": [0.1, 0.2, 0.3, -0.4],
    "reals": [1e9, 1.0, -0.5, 1.0],
    "product": [0.0, 0.25, 0.75, 0.5],
    "bounded product": [0.1, 0.2, 0.3, 0.4],
}


@every_set
def test_members_project_on_themselves(name):
    # center + (x − center) and x − τ with τ = 0 may round once.
    np.testing.assert_allclose(project(SETS[name], np.array(INSIDE[name])), INSIDE[name], rtol=1e-15, atol=1e-15)


def test_membership_is_judged_in_float64_whatever_the_user_has_set():
    assert not jax.config.jax_enable_x64
    # 1e-8 is below the resolution of float32 at 1, and above the tolerance.
    assert not pf.Box(0.0, 1.0).contains([1.0 + 1e-8])
    assert pf.Box(0.0, 1.0).contains([1.0 + 1e-10])


def test_contains_refuses_points_off_the_set():
    outside = {
        "box": [0.5, 1.0, -0.5, 5.1],
        "ball": [3.0, 0.0, 0.0, 0.0],
        "simplex": [1.0, 1.0, 0.1, 0.0],
        "budget": [1.0, 1.0, 0.0, 0.0],
        "half-space": [1.0, 0.0, 0.0, 0.0],
        "product": [0.0, 0.5, 0.5, 0.6],
    }
    for name, point in outside.items():
        assert not SETS[name].contains(point), name


def test_of_dimension_fixes_a_free_set_and_checks_a_fixed_one():
    assert pf.Box(0.0, 1.0).of_dimension(3).dimension == 3
    assert pf.Ball(1.0).of_dimension(2).radius == 1.0
    with pytest.raises(ValueError, match="dimension 4, but 5 is needed"):
        SETS["box"].of_dimension(5)


@pytest.mark.parametrize("name", SETS)
def test_points_may_be_lists_of_whole_numbers(name):
    np.testing.assert_array_equal(
        SETS[name].project([3, 4, 0, -1]), SETS[name].project(np.array([3.0, 4.0, 0.0, -1.0]))
    )


@pytest.mark.parametrize(
    ("lower", "upper", "radius"),
    [
        (0.0, np.inf, np.inf),
        ([0.0, -np.inf], [np.inf, 1.0], np.inf),
        (-np.inf, np.inf, np.inf),
        ([0.0, 0.0], 2.0, 8**0.5),
    ],
)
def test_boxes_may_be_unbounded(lower, upper, radius):
    box = pf.Box(lower, upper)
    assert box.radius == radius
    point = np.array([-3.0, 5.0])
    np.testing.assert_array_equal(box.project(point), np.clip(point, lower, upper))
    assert np.all(np.isfinite(box.spread(2, 8)))


def test_unbounded_boxes_are_solved_and_refused_where_a_grid_is_searched():
    problem = pf.Problem(lambda theta, z: 0.5 * jnp.sum((theta - z) ** 2), pf.Box([0.0, -np.inf], [np.inf, 1.0]))
    world = pf.LocationFamily(pf.Gaussian([-1.0, 3.0], [0.1, 0.1]), 0.5 * np.eye(2))
    np.testing.assert_allclose(pf.performative_optimum(problem, world).decision, [0.0, 1.0], atol=1e-6)
    assert pf.safe_apda(problem).problem is not None
    with pytest.raises(ValueError, match="the decision set must be bounded, but got Box"):
        pf.confidence_bounds(problem, sensitivity=1.0)


def test_a_simplex_is_said_by_its_dimension_and_a_total_by_name():
    assert pf.Simplex(3).dimension == 3
    assert float(pf.Simplex(3).total) == 1.0
    with pytest.raises(ValueError, match=r"Simplex\(total=3\.0\)"):
        pf.Simplex(3.0)
    with pytest.raises(TypeError, match="positional"):
        pf.Simplex(3, 2)
