"""The stable point against closed forms and repeated minimization."""

import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf


def mean_estimation(theta, z):
    return 0.5 * jnp.sum((z - theta) ** 2)


DRIFT = 0.3 * np.eye(2)


@pytest.mark.parametrize("strength", [0.5, 4.0])
def test_stable_point_against_long_repeated_minimization(small, strength):
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


@pytest.mark.slow
def test_a_stable_point_says_whether_the_risk_on_frozen_data_is_convex(small):
    """For −(θ − z)² on [−10, 10] the minimizer on frozen data is the end farther from the mean m + 0.3 θ."""
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


def test_stable_point_of_a_linear_loss_is_not_a_corner():
    """Repetition goes from corner to corner forever. On Σθ = 9 the risk −θᵀz is stable where all z are equal."""
    base, effect = np.array([9.0, 8.0, 7.0]), np.array([[-1.6, 0.3, 0.2], [0.3, -1.4, 0.2], [0.2, 0.2, -1.2]])
    budget = pf.constraints.Linear(np.ones(3), 9.0)
    problem = pf.Problem(lambda theta, z: -jnp.sum(theta * z), pf.Box(np.ones(3), np.full(3, 6.0)), [budget])
    stable = pf.stable_point(problem, pf.LocationFamily(pf.Gaussian(base, np.eye(3)), effect))
    per_unit, offset = np.linalg.solve(effect, np.ones(3)), np.linalg.solve(effect, base)
    level = (9.0 + offset.sum()) / per_unit.sum()
    np.testing.assert_allclose(stable.decision, level * per_unit - offset, rtol=1e-8)
    np.testing.assert_allclose(stable.multipliers, [level], rtol=1e-8)


TANH = pf.ParametricFamily(pf.Normal(1.0), lambda theta: 2.0 * jnp.tanh(2.0 * theta))
LINE = pf.Problem(mean_estimation, pf.Box([-5.0], [5.0]))


def test_all_stable_points_that_were_found_are_returned():
    """θ = 2 tanh 2θ has three solutions."""
    stable = pf.stable_point(LINE, TANH, start=[1.0], starts=8)
    found = sorted(float(one.decision[0]) for one in (stable, *stable.others))
    np.testing.assert_allclose(found, [-1.9986511, 0.0, 1.9986511], atol=1e-6)
    assert "not unique: 3 stable points were found from 8 starts" in stable.message
    assert "not unique" in repr(stable)
    assert np.isnan(stable.sensitivity)
    assert "there may be other stable points" in pf.stable_point(LINE, TANH, start=[1.0]).message


def test_the_sensitivity_of_a_quadratic_loss_shows_that_a_stable_point_is_unique():
    """ℓ = ½‖z − θ‖² + ¼‖θ‖²: β = 1, γ = 1.5, ε = ‖A‖."""
    effect = np.array([[0.6, 0.2], [0.0, 0.5]])
    problem = pf.Problem(lambda t, z: mean_estimation(t, z) + 0.25 * jnp.sum(t**2), pf.Ball(9.0), dimension=2)
    stable = pf.stable_point(problem, pf.LocationFamily(pf.Gaussian([1.0, 2.0], np.eye(2)), effect))
    assert float(stable.sensitivity) == pytest.approx(np.linalg.norm(effect, 2) / 1.5)
    assert "the only stable point" in stable.message
    strong = pf.stable_point(problem, pf.LocationFamily(pf.Gaussian([1.0, 2.0], np.eye(2)), 4 * effect))
    assert strong.sensitivity > 1
    assert "there may be other" in strong.message


@pytest.mark.slow
def test_a_world_that_jumps_has_no_stable_point_and_the_error_says_why():
    world = pf.Reaction(pf.Gaussian([0.0], [1.0]), lambda theta, z0: z0 + jnp.where(theta > 0.3, -1.0, 1.0))
    with pytest.raises(pf.SolverFailed, match=r"the reaction to the decision is not continuous. At \[0.3\]"):
        pf.stable_point(LINE, world)


@pytest.mark.slow
def test_newton_finds_the_stable_point_where_repetition_circles():
    """Individuals with logistic utility who move far: the data answer more strongly than the decision moves."""
    random = np.random.default_rng(0)
    x = random.normal(size=(300, 3))
    y = (x @ [1.0, -1.0, 0.5] + 0.5 * random.normal(size=300) > 0).astype(float)
    world = pf.strategic_response(pf.Empirical(np.column_stack([x, y])), ease=30.0, utility="logistic", wanted=1)
    problem = pf.Problem(
        lambda t, z: (z[-1] - z[:-1] @ t[:3] - t[3]) ** 2,
        pf.Ball(5.0),
        [pf.constraints.Linear([1.0, 1.0, 1.0, 0.0], 0.3, name="cap")],
        dimension=4,
    )
    assert pf.stable_point(problem, world).kkt_residual < 1e-7
