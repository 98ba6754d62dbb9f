"""The reference optimum against closed forms, cvxpy and scipy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative.numerics.precision import precise


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


@pytest.mark.parametrize("decisions", [pf.Simplex(), pf.Budget(1.0), pf.Ball(0.3), pf.HalfSpace([1.0, 2.0], 0.4)])
def test_optimum_on_every_set_satisfies_the_certificate(decisions):
    world = pf.LocationFamily(pf.Gaussian([1.0, 0.2], [1.0, 1.0]), 0.1 * np.array([[1.0, 2.0], [0.0, 1.0]]))
    problem = pf.Problem(mean_estimation, decisions, dimension=2)
    optimum = pf.performative_optimum(problem, world)
    assert optimum.kkt_residual < 1e-8
    with precise():
        points = jnp.asarray(np.random.default_rng(0).normal(size=(300, 2)))
        risks = jax.jit(lambda points: jax.vmap(world.risk(problem))(jax.vmap(problem.decisions.project)(points)))(
            points
        )
    assert np.min(np.asarray(risks)) >= optimum.risk - 1e-9


SQUARE = pf.Box([0.0, 0.0], [5.0, 5.0])
DRIFT = 0.3 * np.eye(2)
WORLD = pf.LocationFamily(pf.Gaussian([1.0, 2.0], np.eye(2)), DRIFT)


@pytest.mark.parametrize("find", [pf.performative_optimum, pf.stable_point])
def test_a_start_outside_the_decision_set_is_refused(find):
    with pytest.raises(ValueError, match=r"`start` must lie in the decision set Box.*, but got \[9. 9.\]"):
        find(pf.Problem(mean_estimation, SQUARE), WORLD, start=[9.0, 9.0])


@pytest.mark.parametrize("find", [pf.performative_optimum, pf.stable_point])
def test_an_optimum_is_refused_a_bad_start(find):
    with pytest.raises(ValueError, match=r"`start` must be finite, but got nan at index \[0\]"):
        find(pf.Problem(mean_estimation, SQUARE), WORLD, start=[np.nan, 0.0])
    with pytest.raises(ValueError, match=r"`start`|dimension"):
        find(pf.Problem(mean_estimation, SQUARE), WORLD, start=[0.0, 0.0, 0.0])


def bumped(center, theta, z):
    return (theta[0] - z[0]) ** 2 - 3 * jnp.exp(-(((theta[0] - center) / 0.02) ** 2))


@pytest.mark.parametrize("center", [-0.9, -0.57, -0.25, 0.08, 0.41, 0.74])
def test_a_narrow_bump_is_found_and_never_called_global(center):
    problem = pf.Problem(jax.tree_util.Partial(bumped, np.float64(center)), pf.Box([-1.0], [1.0]))
    best = pf.performative_optimum(problem, pf.LocationFamily(pf.Gaussian([0.0], [1.0]), [[0.0]]))
    assert best.scope == "local"
    assert abs(best.decision[0] - center) < 0.02
    assert "points" in best.message


def test_only_what_is_proved_convex_is_called_global():
    """exp is convex by the rules; a sigmoid on a stretch where it happens to be convex is not."""
    still = pf.LocationFamily(pf.Gaussian([1.0], [1.0]), [[0.0]])
    proved = pf.Problem(lambda t, z: jnp.exp(t[0] * 0.3) - t[0] * z[0], pf.Box([-5.0], [5.0]))
    assert pf.performative_optimum(proved, still).scope == "global"
    lucky = pf.Problem(lambda t, z: jax.nn.sigmoid(t[0]) - 0.2 * t[0] * z[0], pf.Box([-3.0], [-1.0]))
    best = pf.performative_optimum(lucky, still)
    assert best.scope == "local"
    assert "not proved convex" in best.message


def test_a_solution_reads_well():
    world = pf.LocationFamily(pf.Gaussian([3.0], [1.0]), [[0.0]])
    problem = pf.Problem(lambda t, z: jnp.sum((t - z) ** 2), pf.Box([0.0], [2.0]), lambda t: t - 1.0)
    text = str(pf.performative_optimum(problem, world))
    lines = text.splitlines()
    assert lines[0] == "global optimum"
    for words in ("decision      [1.]", "risk          5", "multipliers   [4.]", "KKT residual  "):
        assert any(line.strip().startswith(words) for line in lines), text
    assert "the performative risk is convex, since it is quadratic, and so are the constraints" in lines[-1]


def test_a_point_that_is_worse_than_one_already_seen_is_no_optimum():
    willing = np.random.default_rng(0).normal(5.0, 1.0, (1000, 1))
    world = pf.Reaction(pf.Empirical(willing), lambda price, z: z)
    problem = pf.Problem(lambda price, z: -price[0] * jnp.where(z[0] > price[0], 1.0, 0.0), pf.Box([0.0], [9.0]))
    with pytest.raises(pf.SolverFailed, match=r"the risk is lower.*a loss that jumps"):
        pf.performative_optimum(problem, world)
