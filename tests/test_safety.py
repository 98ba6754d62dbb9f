"""What may be deployed: pulls and projections are feasible, and a problem without room is refused."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from playing import play, small, small_loss
from scanning import regret, scan, violation

import performative as pf
from performative.numerics.precision import precise
from performative.safety import Pull
from performative.solvers.feasibility import strictly_feasible


def product_loss(theta, z):
    return jnp.sum(theta * z)


@jax.jit
def pulled(pull, problem, points):
    """The points projected on Θ, what they are pulled to, and g of both."""
    candidates = jax.vmap(problem.decisions.project)(points)
    safe = jax.vmap(lambda candidate: pull(problem, candidate))(candidates)
    return candidates, safe, jax.vmap(problem.g)(candidates), jax.vmap(problem.g)(safe)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 4]))  # two sizes, so that two programs are compiled
def test_what_is_pulled_is_feasible_and_what_is_feasible_stays(seed, d):
    random = np.random.default_rng(seed)
    factor = random.normal(size=(d, d))
    problem = pf.Problem(
        product_loss,
        pf.Ball(10.0),
        [
            pf.constraints.Linear(random.normal(size=(3, d)), random.uniform(0.01, 1.0, size=3)),
            pf.constraints.Quadratic(factor @ factor.T, random.uniform(0.01, 1.0), linear=0.01 * random.normal(size=d)),
        ],
    )
    pull = prepared(Pull(), problem)
    assert pull.quadratic
    with precise():
        points = random.normal(size=(50, d)) * 10 ** random.uniform(-2, 1, size=(50, 1))
        candidates, safe, before, after = map(np.asarray, pulled(pull, problem, points))
    assert after.max() <= 0.0
    assert np.max(np.linalg.norm(safe, axis=1)) <= 10.0 * (1 + 1e-9)
    fine = np.all(before + pull.margin <= 0.0, axis=1)
    np.testing.assert_allclose(safe[fine], candidates[fine], atol=1e-14)


def test_bisection_agrees_with_the_exact_way_and_serves_any_function():
    quadratic = pf.constraints.Quadratic(np.eye(2), 0.25)
    same = pf.constraints.Function(lambda theta: jnp.sum(theta**2) - 0.25 + 0.0 * jnp.exp(theta[0]))
    bent = pf.constraints.Function(lambda theta: jnp.exp(jnp.sum(theta)) - 1.5)
    with precise():
        candidate = jnp.asarray([[1.5, -0.3]])
        decisions = []
        for constraint in (quadratic, same, bent):
            problem = pf.Problem(small_loss, pf.Box([-2.0, -2.0], [2.0, 2.0]), [constraint])
            pull = prepared(Pull(), problem, anchor=[-0.1, 0.1])
            assert pull.quadratic == (constraint is quadratic)
            _, safe, _, values = pulled(pull, problem, candidate)
            assert float(jnp.max(values)) <= 0.0
            decisions.append(safe)
        np.testing.assert_allclose(decisions[0], decisions[1], rtol=1e-9)


@pytest.mark.parametrize("size", [0.303, 0.0066, 1.0])
def test_a_bent_quadratic_constraint_is_never_broken(size):
    """A ring around 0 that the way to the anchor crosses, and another constraint that ends the way inside it."""
    limits = [
        pf.constraints.Quadratic(-np.eye(2), -0.25, name="ring"),
        pf.constraints.Linear([[size, 1], [size, -1]], 1.2 * size),
    ]
    problem = pf.Problem(small_loss, pf.Ball(3.0), limits)
    pull = prepared(Pull(), problem, anchor=[-1.0, 0.0])
    assert not pull.quadratic
    candidates = np.random.default_rng(0).normal(size=(300, 2))
    candidates[0] = [0.671, -1.972]
    with precise():
        assert float(jnp.max(pulled(pull, problem, candidates)[3])) <= 0.0


def beyond_a_disk(theta):
    return jnp.linalg.norm(theta) - 0.5


@pytest.mark.parametrize(
    ("function", "anchor"),
    [
        (beyond_a_disk, [0.0, 0.0]),
        pytest.param(beyond_a_disk, None, marks=pytest.mark.slow),
        pytest.param(lambda theta: -jnp.log(theta) - 1.0, [0.9, 0.9], marks=pytest.mark.slow),
        pytest.param(lambda theta: 0.5 - jnp.sqrt(theta[0]), [0.9, 0.9], marks=pytest.mark.slow),
    ],
)
def test_constraints_without_values_or_derivatives_somewhere_are_met(function, anchor):
    problem, environment = small(constraints=[pf.constraints.Function(function)])
    runs = scan(pf.safe_apda(problem, anchor=anchor, exploration=5.0), environment, 60)
    assert np.all(np.isfinite(runs.every))
    assert violation(problem, runs) <= 0.0


def scaled(low, high):
    """The same two constraints, times so much."""
    return [
        pf.constraints.Linear([low, 0.0], 0.3 * low, name="low"),
        pf.constraints.Quadratic(high * np.eye(2), high * 0.5),
    ]


@pytest.mark.slow
def test_constraints_of_very_different_size():
    """10⁻³ and 10³ times the same two constraints: nothing infeasible, and regret as with equal ones; 10⁻⁶ and 10⁶ are met."""
    plain, environment = small(constraints=scaled(1.0, 1.0))
    regrets = []
    for low, high, exploration in ((1.0, 1.0, 1.0), (1e-3, 1e3, 1.0), (1e-6, 1e6, 3.0)):
        problem, _ = small(constraints=scaled(low, high))
        method = pf.safe_apda(problem, anchor=[0.0, 0.0], exploration=exploration)
        runs = scan(method, environment, 3_000, runs=4)
        assert violation(problem, runs) <= 0.0
        regrets.append(regret(plain, environment, runs))
    assert regrets[1] == pytest.approx(regrets[0], rel=0.2)


def prepared(safety, problem, anchor=None):
    return safety.prepared(problem, strictly_feasible(problem, anchor))


def test_a_solver_that_fails_asks_for_an_anchor():
    limits = [pf.constraints.Linear([1e-6, 0.0], 0.3e-6), pf.constraints.Quadratic(1e9 * np.eye(2), 0.5e9)]
    problem, _ = small(constraints=limits)
    try:
        method = pf.safe_apda(problem)
    except ValueError as error:
        assert "pass an `anchor`" in str(error)  # noqa: PT017
    else:
        assert np.max(np.asarray(problem.g(method.safety.anchor))) < 0


def test_the_nearest_feasible_decision_by_cvxpy():
    problem, _ = small()
    with precise():
        nearest = np.asarray(prepared(pf.safety.Nearest(), problem)(problem, jnp.asarray([2.0, 1.0])))
    np.testing.assert_allclose(nearest, [1.0, 0.0], atol=1e-6)
    assert np.max(np.asarray(problem.g(nearest))) <= 0.0
    odd = pf.Problem(small_loss, pf.Ball(1.0), [pf.constraints.Function(lambda theta: 0.1 - jnp.sum(theta**2), "ring")])
    with pytest.raises(ValueError, match="constraint ring must have a convex form"):
        prepared(pf.safety.Nearest(), odd.of_dimension(2), anchor=[0.8, 0.0])


@pytest.mark.slow
def test_the_nearest_decision_is_deployed_on_request():
    """In a compiled loop; feasible, and never farther from the candidate than the pull."""
    problem, environment = small()
    method = pf.safe_apda(problem, safety=pf.safety.Nearest(), exploration=3.0)
    assert violation(problem, scan(method, environment, 4, runs=2)) <= 0.0
    with precise():
        candidate = jnp.asarray([1.9, 0.3])
        far = jnp.linalg.norm(pulled(method.safety.pull, problem, candidate[None])[1][0] - candidate)
        assert jnp.linalg.norm(method.safety(problem, candidate) - candidate) <= far + 1e-7


@pytest.mark.parametrize(
    ("safety", "remedy"),
    [
        ("luck", r"must be an object such as pf.safety.Pull\(\), but got 'luck'"),
        ("pull", r"got 'pull'; pass an object, pf.safety.Pull\(\)"),
        ("nearest", r"got 'nearest'; pass an object, pf.safety.Nearest\(\)"),
        (pf.safety.Pull, r"got <class .*Pull'>; pass an object, pf.safety.Pull\(\)"),
        (pf.safety.Nearest, r"got <class .*Nearest'>; pass an object, pf.safety.Nearest\(\)"),
        (pf.safety.PullToward, r"must be an object such as pf.safety.Pull\(\), but got <class .*PullToward'>"),
    ],
)
def test_a_safety_that_is_no_object_is_refused_with_the_remedy(safety, remedy):
    with pytest.raises(TypeError, match=remedy):
        pf.safe_apda(small()[0], safety=safety)


@pytest.mark.slow
def test_the_nearest_decision_is_deployed_live_and_in_a_simulation():
    problem, environment = small()
    method = pf.safe_apda(problem, safety=pf.safety.Nearest(), exploration=3.0)
    _, decisions, _ = play(method, environment, 6)
    with precise():
        assert float(jnp.max(jax.vmap(problem.g)(jnp.asarray(decisions)))) <= 0.0
    runs = pf.simulate({"safe": method}, environment, rounds=2, realizations=2)
    assert float(runs["deployed_violation"].max()) == 0.0


def test_a_problem_without_room_is_refused_with_the_slack_and_who_blocks():
    limits = [pf.constraints.Linear([1.0, 0.0], 0.0, name="low"), pf.constraints.Linear([-1.0, 0.0], 0.0, name="high")]
    with pytest.raises(pf.NoStrictlyFeasibleDecision, match=r"largest slack is .*; limited by: .*low") as refused:
        pf.safe_apda(small(constraints=limits)[0])
    assert set(refused.value.blocking) == {"low", "high"}
    with pytest.raises(ValueError, match="`anchor` must lie in the decision set"):
        pf.safe_apda(small()[0], anchor=[5.0, 5.0])
    with pytest.raises(ValueError, match=r"`anchor` must meet every constraint with g\(θ\) < 0, but cap is 1 there"):
        pf.safe_apda(small()[0], anchor=[1.0, 1.0])


@pytest.mark.filterwarnings("ignore::performative.InfeasibleStartWarning")
@pytest.mark.parametrize("start", [[2.0, 2.0], pytest.param(None, marks=pytest.mark.slow)])
def test_no_deployment_is_infeasible_from_the_first_on(start):
    problem, environment = small()
    method = pf.safe_apda(problem, start=start, exploration=3.0)
    runs = scan(method, environment, 150, runs=10)
    assert violation(problem, runs) <= 0.0
    assert runs.every.std(axis=0).min() > 0.01  # it does explore
    assert np.max(np.abs(runs.every)) <= 2.0  # the box


@pytest.mark.parametrize(
    "make",
    [
        lambda unit: pf.Box([0.0, 0.0, 1.0], [5.0 * unit, 4.0, 1.0]),
        lambda unit: pf.Product([pf.Box([0.0], [5.0 * unit]), pf.Box([0.0, 0.0], [4.0, 3.0])]),
        lambda unit: pf.Box([0.0, 0.0, 0.0], [5e-9 * unit, 4e-9, 3e-9]),
    ],
    ids=["a side without width", "a product", "sides of nanometers"],
)
def test_a_pull_does_the_same_in_cents(make):
    def pulled(unit):
        decisions, units = make(unit), np.array([unit, 1.0, 1.0])
        size = 1e-9 if decisions.radius < 1e-3 else 1.0
        cap = pf.constraints.Linear(np.array([1.0, 1.0, 0.5]) / units, bound=3.0 * size)
        problem = pf.Problem(lambda theta, z: -jnp.sum(theta * z), decisions, [cap])
        with precise():
            candidate = decisions.project(np.array([3.0, 3.5, 1.0]) * size * units)
            safety = Pull().prepared(problem, np.asarray(decisions.project(np.array([1.0, 0.5, 1.0]) * size * units)))
            return np.asarray(safety(problem, candidate)) / (size * units)

    np.testing.assert_allclose(pulled(100.0), pulled(1.0), rtol=1e-7)


@pytest.mark.parametrize("unit", [1e-2, 1.0, 1e6], ids=["cents", "ones", "millions"])
@pytest.mark.parametrize("decisions", ["unbounded", "box"])
def test_the_boundary_is_approached_to_the_ninth_digit_whatever_the_unit(decisions, unit):
    """θ₁ + θ₂ ≤ 4 units and ‖θ‖² ≤ 100 units²: candidates beyond are deployed next to the boundary, and on the right side."""
    theta = pf.Reals(2) if decisions == "unbounded" else pf.Box([-10.0 * unit] * 2, [10.0 * unit] * 2)
    limits = [
        pf.constraints.Linear([1.0, 1.0], 4.0 * unit, name="cap"),
        pf.constraints.Quadratic(np.eye(2), 100.0 * unit**2, name="disk"),
    ]
    for some in (limits[:1], limits):
        problem = pf.Problem(product_loss, theta, some)
        pull = prepared(Pull(), problem)
        with precise():
            candidates = unit * (2.0 + np.random.default_rng(0).uniform(0.0, 1.0, size=(40, 2)))
            _, safe, _, values = map(np.asarray, pulled(pull, problem, candidates))
        assert values.max() <= 0.0
        np.testing.assert_array_less(4.0 * unit - safe.sum(axis=1), 2e-8 * 4.0 * unit)


def shifted_loss(theta, z):
    return 0.5 * jnp.sum((theta - z) ** 2)


@pytest.mark.parametrize(
    ("d", "start"),
    [
        (2, None),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((1, None), (2, [1.0, 2.0]), (5, None))),
    ],
)
@pytest.mark.slow
def test_safe_apda_is_at_home_in_an_unbounded_set(d, start):
    """The optimum is on the boundary of θ₁ + … + θ_d ≤ 4, some units away from 0; what the start loses falls to a tenth."""
    problem = pf.Problem(shifted_loss, pf.Reals(d), [pf.constraints.Linear(np.ones(d), 4.0, name="cap")])
    environment = pf.LocationFamily(pf.Gaussian(np.full(d, 6.0), np.full(d, 0.25)), 0.3 * np.eye(d))
    method = pf.safe_apda(problem, start=start)
    data = pf.simulate({"safe": method}, environment, rounds=2_000, realizations=2, record=[2_000], progress=False)
    last = data.isel(t=-1)
    first = pf.performative_risk(problem, environment, method.start)
    best = pf.performative_optimum(problem, environment).risk
    assert float(last.deployed_regret.max()) < 0.1 * (float(first) - best)
    assert float(last.deployed_violation.max()) == 0.0
