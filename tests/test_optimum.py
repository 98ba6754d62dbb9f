"""The reference optimum and the stable point against closed forms, cvxpy and repeated minimisation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

import performative as pf
from performative.numerics.precision import precise
from performative.solvers.derivatives import Model
from performative.solvers.kkt import Point
from performative.solvers.sequential import below


def mean_estimation(theta, z):
    return 0.5 * jnp.sum((z - theta) ** 2)


def test_gaussian_mean_estimation_in_closed_form():
    """E‖z − θ‖²/2 with z = m + aθ: θ_PO = m/(1 − a) (zero bias), θ_PS = m/(1 − a) too; with a ridge they part."""
    a, m, ridge = 0.4, 1.5, 0.3
    world = pf.LocationFamily(pf.Gaussian([m], [0.5]), [[a]])
    problem = pf.Problem(lambda t, z: mean_estimation(t, z) + 0.5 * ridge * jnp.sum(t**2), pf.Box([-9.0], [9.0]))
    optimum = pf.performative_optimum(problem, world)
    stable = pf.stable_point(problem, world)
    np.testing.assert_allclose(optimum.decision, m * (1 - a) / ((1 - a) ** 2 + ridge), rtol=1e-9)
    np.testing.assert_allclose(stable.decision, m / (1 - a + ridge), rtol=1e-9)
    assert optimum.risk < stable.risk
    expected = 0.5 * ((m - (1 - a) * optimum.decision[0]) ** 2 + 0.5 + ridge * optimum.decision[0] ** 2)
    np.testing.assert_allclose(optimum.risk, expected, rtol=1e-12)
    assert not optimum.local
    assert "global" in optimum.message


def test_active_constraint_multiplier_in_closed_form():
    """min ½(θ − c)² on the line with θ ≤ b < c: θ = b, λ = c − b."""
    world = pf.LocationFamily(pf.Gaussian([2.0], [1.0]), [[0.0]])
    problem = pf.Problem(mean_estimation, pf.Reals(1), lambda theta: theta - 0.5)
    optimum = pf.performative_optimum(problem, world)
    np.testing.assert_allclose(optimum.decision, [0.5], atol=1e-9)
    np.testing.assert_allclose(optimum.multipliers, [1.5], atol=1e-7)
    assert optimum.kkt_residual < 1e-9


def test_optimum_and_multipliers_against_cvxpy(small):
    import cvxpy as cp

    problem, world, effect = small
    optimum = pf.performative_optimum(problem, world)
    x = cp.Variable(3)
    hessian = np.eye(3) - (effect + effect.T) / 2
    rows = [cp.sum(x) <= 0.8, cp.quad_form(x, np.diag([1.0, 2.0, 3.0])) <= 0.5]
    cp.Problem(cp.Minimize(-world.base.mean @ x + cp.quad_form(x, hessian)), [*rows, x >= 0, x <= 1]).solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12
    )
    np.testing.assert_allclose(optimum.decision, x.value, atol=1e-7)
    np.testing.assert_allclose(optimum.multipliers, [float(np.squeeze(row.dual_value)) for row in rows], atol=1e-6)
    assert optimum.kkt_residual < 1e-9


def logistic(theta, z):
    return jnp.logaddexp(0.0, -z[0] * jnp.sum(theta * z[1:])) + 0.05 * jnp.sum(theta**2)


def test_a_loss_that_is_not_quadratic_on_an_empirical_base_against_scipy():
    from scipy.optimize import minimize

    random = np.random.default_rng(0)
    labels = np.sign(random.normal(size=200))
    points = np.column_stack([labels, labels[:, None] * 0.8 + random.normal(size=(200, 2))])
    effect = np.vstack([np.zeros(2), 0.2 * random.normal(size=(2, 2))])
    world = pf.LocationFamily(pf.Empirical(points), effect)
    problem = pf.Problem(
        logistic, pf.Ball(10.0), [pf.constraints.Function(lambda t: jnp.sum(t**4) - 0.05, "quartic")], dimension=2
    )
    optimum = pf.performative_optimum(problem, world)

    def risk(theta):
        z = points + effect @ theta
        return np.mean(np.logaddexp(0, -z[:, 0] * (z[:, 1:] @ theta))) + 0.05 * theta @ theta

    found = minimize(
        risk, np.full(2, 0.1), constraints=[{"type": "ineq", "fun": lambda t: 0.05 - np.sum(t**4)}], tol=1e-14
    )
    np.testing.assert_allclose(optimum.decision, found.x, atol=1e-5)
    assert optimum.risk <= found.fun + 1e-9
    assert optimum.multipliers[0] > 0
    assert optimum.kkt_residual < 1e-7


@pytest.mark.parametrize("strength", [0.5, 4.0])
def test_stable_point_against_long_repeated_minimisation(small, strength):
    """At weak sensitivity plain repetition converges to it; at strong sensitivity repetition cycles but it is still found."""
    problem, world, effect = small
    world = pf.LocationFamily(world.base, strength * effect)
    stable = pf.stable_point(problem, world)
    theta = np.zeros(3)
    import cvxpy as cp

    for _ in range(60):
        x = cp.Variable(3)
        drift = world.base.mean + strength * effect @ theta
        feasible = [x >= 0, x <= 1, cp.sum(x) <= 0.8, cp.quad_form(x, np.diag([1.0, 2.0, 3.0])) <= 0.5]
        cp.Problem(cp.Minimize(-drift @ x + cp.sum_squares(x)), feasible).solve(solver=cp.CLARABEL)
        before, theta = theta, x.value
    if strength < 1:
        np.testing.assert_allclose(stable.decision, theta, atol=1e-5)
        assert np.linalg.norm(theta - before) < 1e-6
    assert stable.kkt_residual < 1e-8


def test_stable_point_where_plain_repetition_diverges():
    """Contraction factor −3: θ ← m − 3θ diverges, yet θ = m/4 is stable."""
    world = pf.LocationFamily(pf.Gaussian([2.0], [1.0]), [[-3.0]])
    problem = pf.Problem(mean_estimation, pf.Box([-50.0], [50.0]))
    np.testing.assert_allclose(pf.stable_point(problem, world).decision, [0.5], atol=1e-8)


def test_a_non_convex_problem_says_so():
    world = pf.LocationFamily(pf.Gaussian([1.0, 0.5], [0.1, 0.1]), 3.0 * np.eye(2))
    problem = pf.Problem(lambda t, z: -jnp.sum(z * t) + jnp.sum(t**2), pf.Box(np.zeros(2), np.ones(2)))
    optimum = pf.performative_optimum(problem, world)  # Hessian 2I − 2·3I
    assert optimum.local
    assert "not convex" in optimum.message
    bent = pf.Problem(mean_estimation, pf.Ball(2.0), lambda theta: 0.25 - jnp.sum(theta**2), dimension=2)
    optimum = pf.performative_optimum(
        bent, pf.LocationFamily(pf.Gaussian([0.1, 0.0], [1.0, 1.0]), np.zeros((2, 2))), start=[0.6, 0.1]
    )
    assert optimum.local
    assert "constraint g1 is not convex" in optimum.message


def test_conflicting_constraints_are_named_with_the_amount():
    constraints = [
        pf.constraints.Linear([1.0, 1.0], 0.5, name="cap"),
        pf.constraints.Linear([-1.0, -1.0], -0.9, name="floor"),
        pf.constraints.Linear([1.0, -1.0], 5.0, name="idle"),
    ]
    problem = pf.Problem(mean_estimation, pf.Box(np.zeros(2), np.ones(2)), constraints)
    world = pf.LocationFamily(pf.Gaussian(np.zeros(2), np.ones(2)), np.zeros((2, 2)))
    with pytest.raises(pf.InfeasibleProblem, match="cap, floor") as caught:
        pf.performative_optimum(problem, world)
    assert caught.value.violation == pytest.approx(0.2, abs=1e-7)  # half of 0.9 − 0.5 each
    assert set(caught.value.conflicting) == {"cap", "floor"}


@pytest.mark.parametrize("decisions", [pf.Simplex(1.0), pf.Budget(1.0), pf.Ball(0.3), pf.HalfSpace([1.0, 2.0], 0.4)])
def test_optimum_on_every_set_satisfies_the_certificate(decisions):
    world = pf.LocationFamily(pf.Gaussian([1.0, 0.2], [1.0, 1.0]), 0.1 * np.array([[1.0, 2.0], [0.0, 1.0]]))
    problem = pf.Problem(mean_estimation, decisions, dimension=2)
    optimum = pf.performative_optimum(problem, world)
    assert optimum.kkt_residual < 1e-8
    grid = np.random.default_rng(0).normal(size=(300, 2))
    for point in grid:
        from performative.safety import _projected

        inside = _projected(problem.of_dimension(2), point)
        assert pf.performative_risk(problem, world, inside) >= optimum.risk - 1e-9


def test_risk_of_an_environment_that_only_samples_is_an_average(small):
    problem, world, _ = small

    class OnlySamples:
        def sample(self, key, theta, n):
            return world.sample(key, theta, n)

    theta = np.array([0.2, 0.3, 0.1])
    exact = pf.performative_risk(problem, world, theta)
    averaged = pf.performative_risk(problem, OnlySamples(), theta, samples=200_000)
    assert averaged == pytest.approx(exact, abs=5 * 0.2 / np.sqrt(200_000))  # std of zᵀθ here is about 0.15


SQUARE = pf.Box([0.0, 0.0], [5.0, 5.0])
DRIFT = 0.3 * np.eye(2)
WORLD = pf.LocationFamily(pf.Gaussian([1.0, 2.0], np.eye(2)), DRIFT)


def test_a_risk_with_downward_kinks_is_not_convex_and_solved_from_several_starts():
    """E of −|θ − z| has no curvature anywhere; its least value on [−3, 3] is at −3."""
    world = pf.LocationFamily(pf.Empirical([-0.5, -0.4, 5.0]), [[0.0]])
    problem = pf.Problem(lambda t, z: -jnp.sum(jnp.abs(t - z)), pf.Box([-3.0], [3.0]))
    for start in (None, [3.0], [1.0]):
        optimum = pf.performative_optimum(problem, world, start=start)
        np.testing.assert_allclose(optimum.decision, [-3.0], atol=1e-9)
        assert optimum.risk == pytest.approx(-13.1 / 3)
        assert optimum.local
        assert "not convex" in optimum.message
        assert "9 starts" in optimum.message


def test_a_constraint_with_downward_kinks_is_not_convex():
    problem = pf.Problem(mean_estimation, pf.Box([-3.0, -3.0], [3.0, 3.0]), lambda t: 1 - jnp.sum(jnp.abs(t)))
    world = pf.LocationFamily(pf.Gaussian([0.1, 0.3], np.eye(2)), np.zeros((2, 2)))
    optimum = pf.performative_optimum(problem, world)
    assert optimum.local
    assert "constraint g1 is not convex" in optimum.message
    np.testing.assert_allclose(optimum.decision, [0.4, 0.6], atol=1e-6)  # the nearest point of |θ₁| + |θ₂| = 1
    kinked = pf.Problem(mean_estimation, pf.Box([-3.0, -3.0], [3.0, 3.0]), lambda t: jnp.sum(jnp.abs(t)) - 1)
    assert not pf.performative_optimum(kinked, world).local


def test_a_stable_point_says_whether_the_risk_on_frozen_data_is_convex(small):
    """For −(θ − z)² on [−10, 10] the minimiser on frozen data is the end farther from the mean m + 0.3 θ."""
    problem = pf.Problem(lambda t, z: -jnp.sum((t - z) ** 2), pf.Box([-10.0, -10.0], [10.0, 10.0]))
    world = pf.LocationFamily(pf.Gaussian([3.0, 2.0], np.eye(2)), DRIFT)
    stable = pf.stable_point(problem, world)  # m₂ = 2: no end is stable
    assert stable.local
    assert "not convex" in stable.message
    assert "has a risk lower by" in stable.message
    stable = pf.stable_point(problem, pf.LocationFamily(pf.Gaussian([4.0, -5.0], np.eye(2)), DRIFT), start=[9.0, -9.0])
    np.testing.assert_allclose(stable.decision, [-10.0, 10.0])
    assert stable.local
    assert "the decision has the least risk" in stable.message
    stable = pf.stable_point(small[0], small[1])
    assert not stable.local
    assert "global" in stable.message


def test_constraints_that_can_be_met_are_not_blamed():
    others = [pf.constraints.Linear([1.0, 0.0], 3.0, name=f"ok{i}") for i in range(4)]
    problem = pf.Problem(mean_estimation, SQUARE, [pf.constraints.Linear([1.0, 1.0], -1.0, name="x"), *others])
    with pytest.raises(pf.InfeasibleProblem) as caught:
        pf.performative_optimum(problem, WORLD)
    assert set(caught.value.conflicting) == {"x"}
    assert caught.value.conflicting["x"] == pytest.approx(1.0)
    assert caught.value.violation == pytest.approx(1.0)


def test_a_start_without_derivatives_is_left():
    """A norm has no gradient at 0, where the search begins."""
    problem = pf.Problem(mean_estimation, SQUARE, lambda t: jnp.linalg.norm(t) - 1)
    optimum = pf.performative_optimum(problem, WORLD)
    np.testing.assert_allclose(optimum.decision, np.array([1.0, 2.0]) / np.sqrt(5), atol=1e-7)
    assert not optimum.local
    optimum = pf.performative_optimum(pf.Problem(lambda t, z: jnp.linalg.norm(t) - t @ z, SQUARE), WORLD)
    np.testing.assert_allclose(optimum.decision, [5.0, 5.0], atol=1e-9)  # −(m + 0.3 θ)ᵀθ is concave and wins
    steep = pf.Problem(lambda t, z: 5 * jnp.linalg.norm(t) - t @ z, SQUARE)
    optimum = pf.performative_optimum(steep, pf.LocationFamily(WORLD.base, -DRIFT))
    np.testing.assert_allclose(optimum.decision, [0.0, 0.0], atol=1e-6)  # the kink itself
    optimum = pf.performative_optimum(pf.Problem(lambda t, z: jnp.sum(jnp.sqrt(t) * z), SQUARE), WORLD)
    np.testing.assert_allclose(optimum.decision, [0.0, 0.0], atol=1e-9)
    assert optimum.local


@jax.custom_jvp
def rough(x):
    return x


rough.defjvp(lambda primals, tangents: (primals[0], jnp.nan * tangents[0]))


def test_stable_point_of_a_linear_loss_is_not_a_corner():
    """Repetition goes from corner to corner for ever. On Σθ = 9 the risk −θᵀz is stable where all z are equal."""
    base, effect = np.array([9.0, 8.0, 7.0]), np.array([[-1.6, 0.3, 0.2], [0.3, -1.4, 0.2], [0.2, 0.2, -1.2]])
    budget = pf.constraints.Linear(np.ones(3), 9.0)
    problem = pf.Problem(lambda theta, z: -jnp.sum(theta * z), pf.Box(np.ones(3), np.full(3, 6.0)), [budget])
    stable = pf.stable_point(problem, pf.LocationFamily(pf.Gaussian(base, np.eye(3)), effect))
    per_unit, offset = np.linalg.solve(effect, np.ones(3)), np.linalg.solve(effect, base)
    level = (9.0 + offset.sum()) / per_unit.sum()
    np.testing.assert_allclose(stable.decision, level * per_unit - offset, rtol=1e-8)
    np.testing.assert_allclose(stable.multipliers, [level], rtol=1e-8)


@pytest.mark.parametrize("find", [pf.performative_optimum, pf.stable_point])
def test_what_is_not_finite_is_named_before_anything_is_solved(find):
    with pytest.raises(
        ValueError, match=r"the average loss must be finite on the decision set, but is nan at \[0. 0.\]"
    ):
        find(pf.Problem(lambda t, z: jnp.nan * jnp.sum(t * z), SQUARE), WORLD)
    with pytest.raises(ValueError, match=r"the gradient of the loss must be finite, .* at \[0. 0.\]"):
        find(pf.Problem(lambda t, z: jnp.sum((rough(t) - z) ** 2), SQUARE), WORLD)
    with pytest.raises(ValueError, match=r"the gradient of constraint bad must be finite, .* at \[0. 0.\]"):
        find(
            pf.Problem(mean_estimation, SQUARE, [pf.constraints.Function(lambda t: jnp.sum(rough(t)) - 1, "bad")]),
            WORLD,
        )


def test_a_simulation_names_what_is_not_finite():
    problem = pf.Problem(lambda t, z: jnp.nan * jnp.sum(t * z), SQUARE)
    with pytest.raises(ValueError, match="the average loss must be finite"):
        pf.simulate({"a": pf.pd_ps(problem, step=0.1)}, WORLD, rounds=3, realizations=1, seed=0)


@pytest.mark.parametrize("sign", [[-1.0, -1.0], [1.0, -1.0]])
def test_a_stationary_point_that_curves_downwards_is_left(sign):
    """±θ₁² − θ₂² on [−1, 1]²: 0 is stationary, and a maximiser or a saddle."""
    problem = pf.Problem(lambda t, z: jnp.sum(jnp.asarray(sign) * t * t) + 0 * jnp.sum(z), pf.Box([-1, -1], [1, 1]))
    optimum = pf.performative_optimum(problem, WORLD, start=[0.0, 0.0])
    np.testing.assert_allclose(np.abs(optimum.decision), np.array(sign) == -1, atol=1e-8)
    assert optimum.local

    def risk(theta):
        return Model(np.sum(sign * theta**2), 2 * np.array(sign) * theta, 2 * np.diag(sign))

    with precise():
        left = below(risk, problem, Point(np.zeros(2), np.zeros(0), 0.0))
    assert risk(left).value < -0.9


@pytest.mark.parametrize("unit", [1e-12, 1e12])
@pytest.mark.parametrize("find", [pf.performative_optimum, pf.stable_point])
def test_the_unit_of_the_loss_does_not_matter(find, unit):
    world = pf.LocationFamily(pf.Gaussian([3.0, 2.0], np.eye(2)), DRIFT)

    def quartic(unit, theta, z):
        return unit * jnp.sum((theta - z) ** 4)

    def solution(unit, constraints):
        return find(pf.Problem(Partial(quartic, unit), pf.Box([-10.0, -10.0], [10.0, 10.0]), constraints), world)

    np.testing.assert_allclose(solution(unit, None).decision, np.array([3.0, 2.0]) / 0.7, atol=1e-6)
    budget = [pf.constraints.Linear([1.0, 1.0], 5.0, name="budget")]
    scaled, plain = solution(unit, budget), solution(1.0, budget)
    np.testing.assert_allclose(scaled.decision, plain.decision, atol=1e-6)
    np.testing.assert_allclose(scaled.multipliers, unit * plain.multipliers, rtol=1e-6)
    assert plain.multipliers[0] > 1


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
def test_a_convex_risk_with_kinks_has_no_better_neighbour(loss, world, decisions, limit):
    problem = pf.Problem(loss, decisions, [pf.constraints.Linear([1.0, 1.0], limit, name="budget")])
    optimum = pf.performative_optimum(problem, world)
    assert optimum.kkt_residual <= 1e-7
    assert not optimum.local
    assert (optimum.multipliers[0] > 1e-3) == (limit == 1.0)
    random = np.random.default_rng(1)
    near = optimum.decision + 10.0 ** random.uniform(-4, 0, size=(400, 1)) * random.normal(size=(400, 2))
    feasible = [point for point in near if decisions.contains(point) and np.sum(point) <= limit][:40]
    assert len(feasible) == 40
    for point in feasible:
        assert pf.performative_risk(problem, world, point) >= optimum.risk - 1e-8


@pytest.mark.parametrize("find", [pf.performative_optimum, pf.stable_point])
def test_a_start_outside_the_decision_set_is_refused(find):
    with pytest.raises(ValueError, match=r"`start` must lie in the decision set Box.*, but got \[9. 9.\]"):
        find(pf.Problem(mean_estimation, SQUARE), WORLD, start=[9.0, 9.0])
