"""Algorithm 1, line by line, against NumPy written here."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative.numerics.precision import precise
from performative.numerics.randomness import new_key

D, K, N = 2, 3, 7
MATRIX = np.array([[1.0, 0.3], [0.3, 2.0]])


def loss(theta, z):
    """Quadratic in both, with a product: no term vanishes by accident."""
    return 0.5 * jnp.sum((z[:2] - theta) ** 2) + z[2] * theta[0] + 0.3 * jnp.sum(theta**2)


def gradient_by_hand(theta, base, effect, anticipate):
    z = base + effect @ theta
    in_theta = np.mean(theta - z[:, :2], axis=0) + np.array([np.mean(z[:, 2]), 0.0]) + 0.6 * theta
    in_z = np.mean(np.column_stack([z[:, :2] - theta, np.full(len(z), theta[0])]), axis=0)
    return in_theta + effect.T @ in_z if anticipate else in_theta


def g_by_hand(theta):
    return np.array([theta.sum() - 0.3, theta @ MATRIX @ theta - 0.2])


def jacobian_by_hand(theta):
    return np.stack([np.ones(2), 2 * MATRIX @ theta])


@pytest.fixture(scope="module")
def problem():
    return pf.Problem(
        loss,
        pf.Ball(0.6),
        [pf.constraints.Linear(np.ones(2), 0.3), pf.constraints.Quadratic(MATRIX, 0.2)],
    )


@pytest.mark.parametrize("name", ["apda", "pd_ps", "oracle"])
@pytest.mark.parametrize("samples", [1, 3])
def test_three_rounds_by_hand(problem, name, samples):
    random = np.random.default_rng(1)
    truth = random.normal(size=(K, D))
    eta, delta, start = 0.2, 0.7, np.array([0.3, 0.4])
    options = {"step": eta, "control": delta, "warmup": N, "start": start, "samples": samples}
    if name == "oracle":
        method = pf.oracle(problem, effect=truth, **options)
    else:
        method = getattr(pf, name)(problem, estimation_step=lambda t: 0.5 / (t + 1), **options)

    state = method.init(new_key(0))
    assert int(state.round) == 0
    warm = method.ask(state, new_key(1))
    assert np.array_equal(warm, np.zeros((1, D)))
    assert method.wanted(state) == N
    base = random.normal(size=(N, K))
    state = method.tell(state, warm, base[None])

    theta, lam, largest = start, np.zeros(2), 0.0
    effect = truth if name == "oracle" else np.zeros((K, D))
    for t in (1, 2, 3):
        assert int(state.round) == t
        decisions = np.asarray(method.ask(state, new_key(10 + t)))
        assert np.array_equal(decisions[0], np.asarray(state.decision))
        z = random.normal(size=(len(decisions), samples, K))
        state = method.tell(state, decisions, z)
        if name != "oracle":
            u, change = decisions[1] - decisions[0], z[1].mean(axis=0) - z[0].mean(axis=0)
            effect = effect + 0.5 / (t + 1) * np.outer(change - effect @ u, u)
        gradient = gradient_by_hand(theta, base, effect, anticipate=name != "pd_ps")
        moved = theta - eta * (gradient + jacobian_by_hand(theta).T @ lam)
        lam = np.maximum(lam + eta * (g_by_hand(theta) - delta * eta * lam), 0.0)
        theta = moved * min(1.0, 0.6 / np.linalg.norm(moved))
        np.testing.assert_allclose(state.decision, theta, rtol=0, atol=1e-12)
        np.testing.assert_allclose(state.multipliers, lam, rtol=0, atol=1e-12)
        np.testing.assert_allclose(state.belief.effect, effect, rtol=0, atol=1e-12)
        largest = max(largest, lam.max())
    assert largest > 0  # the dual step was exercised


def warmed(method, base, effect):
    """The method's belief after a warm-up with `base`, with the effect put in its place."""
    state = method.init(new_key(0))
    state = method.tell(state, method.ask(state, new_key(1)), base[None])
    from performative.numerics.pytrees import changed

    return changed(state.belief, effect=jnp.asarray(effect))


def logistic_loss(theta, z):
    return jnp.logaddexp(0.0, -z[0] * jnp.sum(theta * z[1:])) + 0.1 * jnp.sum(theta**2)


@pytest.mark.parametrize("loss_function", [loss, logistic_loss])
def test_gradients_against_finite_differences_of_the_empirical_risk(loss_function):
    random = np.random.default_rng(2)
    effect, base = random.normal(size=(K, D)), random.normal(size=(40, K))
    problem = pf.Problem(loss_function, pf.Ball(5.0), dimension=D)
    theta = np.array([0.4, -0.2])

    def empirical_risk(at, where):
        with precise():
            z = jnp.asarray(base + effect @ where)
            return float(jnp.mean(jax.vmap(lambda z: loss_function(jnp.asarray(at), z))(z)))

    def difference(function):
        steps = 1e-5 * np.eye(D)
        return np.array([(function(theta + h) - function(theta - h)) / 2e-5 for h in steps])

    for method, expected in [
        (pf.apda(problem, warmup=40), difference(lambda t: empirical_risk(t, t))),
        (pf.pd_ps(problem, warmup=40), difference(lambda t: empirical_risk(t, theta))),
        (pf.apda(problem, warmup=40, recycle=True), difference(lambda t: empirical_risk(t, t))),
    ]:
        belief = warmed(method, base, effect)
        with precise():
            gradient = method.estimator.gradient(method.problem, belief, jnp.asarray(theta))
        np.testing.assert_allclose(gradient, expected, atol=2e-9)  # central differences at 1e-5 are good to 1e-10


def errors_of_estimate(sign, dimension, width, rounds, lanes, step):
    """‖Â_t − A‖² averaged over lanes, by the library's own update with the given sign."""
    from performative.estimators import PairedLeastSquares
    from performative.numerics.pytrees import callable_node
    from performative.shifts import apply_effect

    learner = PairedLeastSquares(callable_node(apply_effect), callable_node(step), None, 1.0)
    random = np.random.default_rng(3)
    effect = random.normal(size=(width, dimension))

    def update(estimate, inputs, t):
        u, z, z_probe = inputs
        decisions = jnp.stack([jnp.zeros(dimension), u])
        new = learner.update(estimate, decisions, jnp.stack([z, z_probe + effect @ u])[:, None], t)
        return estimate + sign * (new - estimate)

    with precise():
        one_round = jax.jit(jax.vmap(update, in_axes=(0, 0, None)))
        estimate = jnp.zeros((lanes, width, dimension))
        errors = [float(np.sum(effect**2))]
        for t in range(1, rounds + 1):
            inputs = tuple(random.normal(size=(lanes, size)) for size in (dimension, width, width))
            estimate = one_round(estimate, inputs, t)
            errors.append(float(jnp.mean(jnp.sum((estimate - effect) ** 2, axis=(1, 2)))))
    return np.array(errors)


def test_estimation_error_follows_the_recursion_of_lemma_e1_and_falls_like_one_over_t():
    dimension, width, lanes = 3, 2, 2000
    kappa1, kappa2, kappa3 = 1.0, dimension, dimension + 2
    step = pf.steps.excited(dimension)
    errors = errors_of_estimate(+1, dimension, width, 400, lanes, step)
    # For Gaussian probes E[‖u‖²uuᵀ] = (d+2)I, so the lemma holds with equality; tr Σ = width.
    expected = [errors[0]]
    for t in range(1, 401):
        zeta = 2.0 / (kappa1 * t + 2 * kappa3)
        expected.append((1 - kappa1 * zeta * (2 - zeta * kappa3)) * expected[-1] + 2 * zeta**2 * kappa2 * width)
    # 2000 lanes, each with a relative spread of order 1: five standard errors are about 0.11.
    np.testing.assert_allclose(errors[1:], expected[1:], rtol=0.11)
    slope = np.polyfit(np.log(np.arange(100, 401)), np.log(errors[100:]), 1)[0]
    assert -1.15 < slope < -0.85


def test_the_printed_sign_diverges():
    """Algorithm 1, line 7 prints Â − ζ(…)uᵀ; the error then grows without bound instead of falling."""
    errors = errors_of_estimate(-1, 3, 2, 100, 50, pf.steps.excited(3))
    assert errors[-1] > 100 * errors[0]
    assert errors_of_estimate(+1, 3, 2, 100, 50, pf.steps.excited(3))[-1] < errors[0]


@pytest.mark.parametrize("control", [1.0, 5.0])
def test_a_long_noiseless_run_ends_at_the_regularised_saddle_point(control):
    """Primal and dual against cvxpy: with no noise the iterates settle where PR + λg − ½δη‖λ‖² has its saddle.

    Maximising over λ ≥ 0 turns that into min PR(θ) + Σ (g_i⁺)²/(2δη), with λ = g⁺/(δη).
    """
    import cvxpy as cp

    effect = np.array([[0.3, -0.1], [0.2, 0.1]])
    mean, eta = np.array([2.0, 1.5]), 0.05
    constraints = [pf.constraints.Linear(np.ones(2), 0.5), pf.constraints.Quadratic(MATRIX, 0.2)]
    problem = pf.Problem(
        lambda theta, z: -jnp.sum(theta * z) + jnp.sum(theta**2), pf.Box(np.zeros(2), np.ones(2)), constraints
    )
    world = pf.LocationFamily(pf.Gaussian(mean, np.zeros(2)), effect)
    method = pf.oracle(problem, effect=effect, step=eta, control=control, warmup=1)
    run = pf.simulate({"oracle": method}, world, rounds=20_000, realizations=1, record=2)
    x = cp.Variable(2)
    hessian = np.eye(2) - (effect + effect.T) / 2
    risk = -mean @ x + cp.quad_form(x, hessian)
    penalties = [cp.square(cp.pos(cp.sum(x) - 0.5)), cp.square(cp.pos(cp.quad_form(x, MATRIX) - 0.2))]
    cp.Problem(cp.Minimize(risk + sum(penalties) / (2 * control * eta)), [x >= 0, x <= 1]).solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10
    )
    g = np.array([x.value.sum() - 0.5, x.value @ MATRIX @ x.value - 0.2])
    # A gap of 1e-10 leaves cvxpy's decision within sqrt(2e-10) = 1.5e-5, and g/(δη) within 1.5e-5·|∇g|/(δη) of the truth.
    np.testing.assert_allclose(run.decision[0, 0, -1], x.value, atol=1.5e-5)
    np.testing.assert_allclose(run.multipliers[0, 0, -1], np.maximum(g, 0) / (control * eta), atol=6e-4)


def test_warm_up_outside_zero_is_mapped_back_with_the_current_estimate():
    """Θ without 0: the warm-up is deployed at the projection of 0, and its samples follow Â when it changes."""
    effect = np.array([[0.5, 0.0], [0.1, 0.3]])
    problem = pf.Problem(lambda theta, z: jnp.sum((z - theta) ** 2), pf.Box([1.0, 1.0], [2.0, 2.0]))
    method = pf.oracle(problem, effect=effect, warmup=5)
    state = method.init(new_key(0))
    warm = method.ask(state, new_key(0))
    np.testing.assert_array_equal(warm, [[1.0, 1.0]])
    base = np.random.default_rng(0).normal(size=(5, 2))
    state = method.tell(state, warm, (base + effect @ np.ones(2))[None])
    theta = np.array([1.3, 1.8])
    with precise():
        predicted = method.estimator.predicted_risk(problem, state.belief, jnp.asarray(theta))
    expected = np.mean(np.sum((base + effect @ theta - theta) ** 2, axis=1))
    np.testing.assert_allclose(predicted, expected, rtol=1e-12)


@pytest.mark.parametrize("loss_function", [loss, logistic_loss])
def test_recycled_samples_are_mapped_back_with_the_current_estimate(loss_function):
    """After a few rounds the predicted risk is the average over *all* samples, each mapped with today's Â."""
    random = np.random.default_rng(4)
    problem = pf.Problem(loss_function, pf.Ball(5.0), dimension=D)
    method = pf.apda(problem, warmup=30, recycle=True, estimation_step=0.1, samples=2)
    state = method.init(new_key(0))
    seen_z, seen_theta = [], []
    for t in range(6):
        decisions = np.asarray(method.ask(state, new_key(t)))
        z = random.normal(size=(len(decisions), method.wanted(state), K))
        state = method.tell(state, decisions, z)
        seen_z += list(z.reshape(-1, K))
        seen_theta += list(np.repeat(decisions, z.shape[1], axis=0))
    theta, effect = np.array([0.2, 0.3]), np.asarray(state.belief.effect)
    if loss_function is logistic_loss:  # a reservoir: as many points as the warm-up, each one that was observed
        points = np.asarray(state.belief.base.observed.joint.points)
        everything = np.column_stack([seen_z, seen_theta])
        assert len(points) == 30
        assert all(np.min(np.abs(everything - point).sum(axis=1)) < 1e-12 for point in points)
        assert any(np.min(np.abs(everything[30:] - point).sum(axis=1)) < 1e-12 for point in points)
        seen_z, seen_theta = points[:, :K], points[:, K:]
    base = np.asarray(seen_z) + (theta - np.asarray(seen_theta)) @ effect.T
    with precise():
        expected = jnp.mean(jax.vmap(lambda z: loss_function(jnp.asarray(theta), z))(jnp.asarray(base)))
        predicted = method.estimator.predicted_risk(problem, state.belief, jnp.asarray(theta))
    np.testing.assert_allclose(predicted, expected, rtol=1e-12)


def test_steps_by_name():
    theorem = pf.steps.theorem(horizon=10_000, lipschitz=2.0, dimension=3)
    eta = 0.01
    assert theorem["step"] == pytest.approx(eta)
    # δ solves 2δ²η² − δ + 4L_g² = 0, the lower root.
    assert 2 * theorem["control"] ** 2 * eta**2 - theorem["control"] + 4 * 2.0**2 == pytest.approx(0, abs=1e-9)
    with precise():
        assert float(theorem["estimation_step"](jnp.asarray(4.0))) == pytest.approx(2 / (4 + 2 * 5))
        assert float(pf.steps.experiment()["estimation_step"](jnp.asarray(4.0))) == pytest.approx(1 / 14)
    with pytest.raises(ValueError, match="horizon >= 32 lipschitz²"):
        pf.steps.theorem(horizon=100, lipschitz=2.0, dimension=3)
