"""Methods of the field under the framework's constraints, against closed forms."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative import estimators
from performative.numerics.precision import precise
from performative.numerics.randomness import new_key
from performative.solvers import augmented_lagrangian as solver

EFFECT = np.array([[0.3, 0.1], [0.0, 0.2]])


def loss(theta, z):
    return 0.5 * jnp.sum((theta - z) ** 2)


def setting(bound=5.0, strength=1.0):
    """Mean estimation: PR = ½‖θ − m − Aθ‖² + const; the stable point solves (I − A)θ = m."""
    problem = pf.Problem(loss, pf.Ball(10.0), [pf.constraints.Linear([1.0, 1.0], bound)])
    environment = pf.LocationFamily(pf.Gaussian(np.array([1.0, 0.5]), 0.04 * np.ones(2)), strength * EFFECT)
    return problem, environment


def last(runs, name):
    return runs["decision"].sel({"algorithm": name}).isel(t=-1).mean("realization").values


def slanted(theta, z):
    """½‖θ − z‖² + 0.3⟨θ, z⟩, so that the stable point is not the optimum."""
    return 0.5 * jnp.sum((theta - z) ** 2) + 0.3 * jnp.sum(theta * z)


def slanted_setting(bound=0.6):
    """With z = m + Aθ: frozen, the gradient is θ − 0.7z; in full ∇PR = (I − 0.7A)θ − 0.7m + Aᵀ(z − 0.7θ)."""
    problem = pf.Problem(slanted, pf.Ball(3.0), [pf.constraints.Linear([1.0, 1.0], bound)])
    environment = setting()[1]
    return problem, environment


def closed_forms(bound=0.6):
    """Optimum and stable point where the constraint binds: a linear system in (θ, λ)."""
    a, m, one = EFFECT, np.array([1.0, 0.5]), np.ones(2)
    frozen = np.eye(2) - 0.7 * a
    full = frozen + a.T @ a - 0.7 * a.T
    found = []
    for matrix, side in ((full, 0.7 * m - a.T @ m), (frozen, 0.7 * m)):
        system = np.block([[matrix, one[:, None]], [one[None, :], np.zeros((1, 1))]])
        found.append(np.linalg.solve(system, [*side, bound])[:2])
    return found


def test_the_closed_forms_of_these_tests_agree_with_the_solvers():
    problem, environment = slanted_setting()
    optimum, stable = closed_forms()
    np.testing.assert_allclose(pf.performative_optimum(problem, environment).decision, optimum, atol=1e-7)
    np.testing.assert_allclose(pf.stable_point(problem, environment).decision, stable, atol=1e-7)
    assert np.linalg.norm(optimum - stable) > 0.05


def test_stable_point_methods_end_at_the_stable_point_and_not_at_the_optimum():
    problem, environment = slanted_setting()
    optimum, stable = closed_forms()
    methods = {
        "rgd": pf.repeated_gradient(problem, step=0.01, control=0.01, samples=20),
        "rgd, exact": pf.repeated_gradient(problem, step=0.05, control=0.01, environment=environment),
        "rrm": pf.repeated_minimization(problem, samples=2_000),
        "rrm, exact": pf.repeated_minimization(problem, environment=environment),
    }
    runs = pf.simulate(methods, environment, rounds=3_000, realizations=4)
    for name, tolerance in {"rgd": 0.02, "rgd, exact": 1e-3, "rrm": 0.01, "rrm, exact": 1e-6}.items():
        np.testing.assert_allclose(last(runs, name), stable, atol=tolerance, err_msg=name)
        assert np.linalg.norm(last(runs, name) - optimum) > 0.03
    assert float(runs["deployed_violation"].sel({"algorithm": "rrm"}).max()) < 1e-6  # each minimisation is constrained


def test_optimum_methods_end_at_the_optimum_and_not_at_the_stable_point():
    problem, environment = slanted_setting()
    optimum, stable = closed_forms()
    family = pf.Normal(0.04 * np.ones(2))
    known = pf.ParametricFamily(family, lambda theta: jnp.array([1.0, 0.5]) + EFFECT @ theta)
    methods = {
        "two-stage": pf.two_stage(problem, stage=4_000),
        "perfgd": pf.perfgd(problem, family=family, memory=400, step=2e-3, control=0.1, exploration=0.2, samples=4),
        "score": pf.score_gradient(problem, log_density=known.log_density, step=2e-3, control=0.1, samples=4),
    }
    runs = pf.simulate(methods, environment, rounds=10_000, realizations=10)
    for name in methods:
        final = runs["decision"].sel({"algorithm": name}).isel(t=-1).values
        error = final.std(axis=0) / np.sqrt(len(final))  # five of them, and the drift of a step that does not fade
        assert np.all(np.abs(final.mean(axis=0) - optimum) <= 5 * error + 0.01), (name, final.mean(axis=0), optimum)
        assert np.linalg.norm(final.mean(axis=0) - stable) > 0.03


def test_repeated_gradient_descent_diverges_where_the_reaction_is_stronger_than_the_curvature():
    """θ ← θ − η(θ − m − Aθ) grows if A has an eigenvalue above 1; the set stops it."""
    problem, environment = setting(bound=50.0, strength=5.0)
    runs = pf.simulate({"rgd": pf.repeated_gradient(problem, step=0.05)}, environment, rounds=2_000, realizations=3)
    final = runs["decision"].isel({"algorithm": 0, "t": -1}).values
    np.testing.assert_allclose(np.linalg.norm(final, axis=-1), 10.0, rtol=1e-6)


def test_repeated_minimization_circles_where_the_reaction_is_strong():
    """θ ← m + aθ with a = −1.5 jumps from end to end of Θ though the stable point m/(1 − a) is there; the optimum is missed."""
    problem = pf.Problem(loss, pf.Box([-2.0], [2.0]))
    environment = pf.LocationFamily(pf.Gaussian([0.5], [0.01]), [[-1.5]])
    method = pf.repeated_minimization(problem, environment=environment, start=[0.3])
    runs = pf.simulate({"rrm": method}, environment, rounds=60, realizations=1, record=range(1, 61))
    path = runs["decision"].isel({"algorithm": 0, "realization": 0, "coordinate": 0}).values
    np.testing.assert_allclose(path[:3], [0.3, 0.5 - 1.5 * 0.3, 0.5 - 1.5 * 0.05], atol=1e-6)
    np.testing.assert_allclose(np.abs(path[-6:]), 2.0, atol=1e-6)
    assert np.all(path[-6:-1] * path[-5:] < 0)
    assert float(pf.stable_point(problem, environment).decision[0]) == pytest.approx(0.2, abs=1e-6)
    weak = pf.LocationFamily(pf.Gaussian([0.5], [0.01]), [[-0.5]])
    calm = pf.simulate({"rrm": pf.repeated_minimization(problem, environment=weak)}, weak, rounds=40)
    assert last(calm, "rrm")[0] == pytest.approx(0.5 / 1.5, abs=1e-5)


def test_perfgd_follows_a_mean_that_is_not_linear_where_a_location_method_is_misled():
    """ℓ = θz and a mean √(θ + 1): PR = θ√(θ + 1), optimum −2/3, stable point at the end of Θ (Izzo, Ying, Zou 2021)."""
    problem = pf.Problem(lambda theta, z: jnp.sum(theta * z), pf.Box([-0.9], [1.0]))
    family = pf.Normal(0.01)
    environment = pf.ParametricFamily(family, lambda theta: jnp.sqrt(jnp.maximum(theta + 1.0, 0.01)))
    methods = {
        "perfgd": pf.perfgd(problem, family=family, memory=100, step=0.01, exploration=0.05),
        "score": pf.score_gradient(problem, log_density=environment.log_density, step=0.01),
        "rgd": pf.repeated_gradient(problem, step=0.01),
        "two-stage": pf.two_stage(problem, stage=500, exploration=0.5),
    }
    runs = pf.simulate(methods, environment, rounds=5_000, realizations=10)
    assert last(runs, "perfgd")[0] == pytest.approx(-2 / 3, abs=0.05)
    assert last(runs, "score")[0] == pytest.approx(-2 / 3, abs=0.05)
    assert last(runs, "rgd")[0] == pytest.approx(-0.9, abs=1e-9)
    assert abs(last(runs, "two-stage")[0] + 2 / 3) > 0.08


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bernoulli", "poisson"])
def test_perfgd_serves_exponential_families(name):
    """ℓ = −θz + ½θ² in one dimension: PR = −θf(θ) + ½θ², the optimum by a fine grid."""
    families = {
        "bernoulli": (pf.Bernoulli(), lambda theta: 0.9 - 0.4 * theta),
        "poisson": (pf.Poisson(most=40), lambda theta: 2.0 * jnp.exp(-0.5 * theta)),
    }
    family, parameter = families[name]
    problem = pf.Problem(lambda theta, z: jnp.sum(-theta * z + 0.5 * theta**2), pf.Box([0.0], [2.0]))
    environment = pf.ParametricFamily(family, parameter)
    grid = np.linspace(0, 2, 20_001)
    with precise():
        optimum = grid[np.argmin(-grid * np.asarray(parameter(jnp.asarray(grid))) + 0.5 * grid**2)]
    method = pf.perfgd(problem, family=family, memory=200, step=0.01, exploration=0.2, samples=5)
    runs = pf.simulate({"perfgd": method}, environment, rounds=6_000, realizations=10)
    final = runs["decision"].isel({"algorithm": 0, "t": -1}).values
    assert abs(final.mean() - optimum) <= 5 * final.std() / np.sqrt(10) + 0.02
    assert abs(float(pf.stable_point(problem, environment).decision[0]) - optimum) > 0.1


def test_confidence_bounds_find_the_best_arm_of_a_risk_that_is_not_convex():
    """PR(θ) = θf(θ) with two valleys on [−1, 1]; L is the steepest slope of the mean in θ."""
    problem = pf.Problem(lambda theta, z: jnp.sum(theta * z), pf.Box([-1.0], [1.0]), lambda theta: theta[0] - 0.9)
    environment = pf.ParametricFamily(pf.Normal(0.01), lambda theta: jnp.sin(6.0 * theta))
    method = pf.confidence_bounds(problem, sensitivity=6.0, arms=41, samples=2)
    runs = pf.simulate({"ucb": method}, environment, rounds=3_000, realizations=5)
    risks = method.arms[:, 0] * np.sin(6 * method.arms[:, 0])
    best = method.arms[np.argmin(risks), 0]
    assert np.max(method.arms) <= 0.9
    late = runs["decision"].isel({"algorithm": 0, "t": -1}).values[:, 0]
    assert np.all(late * np.sin(6 * late) <= risks.min() + 0.02), (late, best)
    assert float(runs["deployed_violation"].max()) == 0.0
    regret = runs["deployed_regret"].isel({"algorithm": 0}).mean("realization")
    assert float(regret.isel(t=-1)) < 0.2 * float(regret.sel({"t": 100}, method="nearest"))


def test_confidence_bounds_hold_where_losses_are_noisy_and_one_arm_has_none():
    """ℓ = 10θz with z ∼ N(−0.2, 1): at θ = 0 the loss is constant, and must not lend its certainty to the others.

    50 realisations × 300 rounds; the optimum θ = 1 is ruled out for good in none, and its bound lies above its risk in at
    most 5 % of all rounds.
    """
    problem = pf.Problem(lambda theta, z: 10.0 * jnp.sum(theta * z), pf.Box([0.0], [1.0]))
    environment = pf.LocationFamily(pf.Gaussian([-0.2], [1.0]), [[0.0]])
    method = pf.confidence_bounds(problem, sensitivity=0.1, arms=11, samples=2)
    with precise():

        def one(key):
            def turn(state, key):
                z = environment.sample(key, state.decision, 2)
                told = method.tell(state, state.decision[None], z[None])
                return told, (method.lower_bounds(told.belief, told.round), told.decision[0])

            return jax.lax.scan(turn, method.init(key), jax.random.split(key, 300))[1]

        bounds, decisions = jax.jit(jax.vmap(one))(jax.random.split(new_key(5), 50))
    truth = -2.0 * method.arms[:, 0]
    assert np.mean(np.asarray(bounds)[:, :, -1] > truth[-1]) <= 0.05
    assert np.all(np.max(np.asarray(decisions)[:, -100:], axis=1) > 0.5)


@pytest.mark.parametrize(
    ("decisions", "low", "high"),
    [
        (pf.Ball(0.1, [1.0, 1.0]), 0.9, 1.1),
        (pf.Simplex(1.0, 2), 0.0, 1.0),
        (pf.Box([10.0, 10.0], [11.0, 11.0]), 10.0, 11.0),
    ],
)
def test_the_arms_cover_any_bounded_set(decisions, low, high):
    arms = pf.confidence_bounds(pf.Problem(loss, decisions), sensitivity=1.0, arms=10).arms
    assert len(arms) >= 10
    assert all(decisions.contains(arm) for arm in arms)
    np.testing.assert_allclose([arms.min(), arms.max()], [low, high], atol=1e-3)


@pytest.mark.parametrize("scales", [(1.0, 1.0, 1.0), (1.0, 100.0, 1.0), (1e-3, 1.0, 1e3)])
@pytest.mark.parametrize("decisions", [pf.Box(-5.0 * np.ones(3), 5.0 * np.ones(3)), pf.Ball(2.0, np.zeros(3))])
def test_the_solver_of_the_loop_agrees_with_cvxpy(scales, decisions):
    """Random quadratics under three rows of unlike units, from a cold start and from its own answer."""
    import cvxpy as cp

    random = np.random.default_rng(0)
    for _ in range(4):
        root = random.normal(size=(3, 3))
        curvature, pull = root @ root.T + 0.3 * np.eye(3), 3.0 * random.normal(size=3)
        rows = random.normal(size=(3, 3)) * np.asarray(scales)[:, None]
        bounds = 0.3 * np.abs(random.normal(size=3)) * scales
        problem = pf.Problem(loss, decisions, [pf.constraints.Linear(rows, bounds)])
        variable = cp.Variable(3)
        objective = 0.5 * cp.quad_form(variable, cp.psd_wrap(curvature)) - pull @ variable
        cp.Problem(cp.Minimize(objective), [*decisions.declare(variable), rows @ variable <= bounds]).solve(
            solver="CLARABEL"
        )
        with precise():
            risk = lambda theta, c=curvature, p=pull: 0.5 * theta @ (c @ theta) - p @ theta  # noqa: E731
            solve = jax.jit(lambda theta, lam, p=problem, r=risk: solver.minimize(p, r, theta, lam, 5.0))
            cold = solve(jnp.zeros(3), jnp.zeros(3))
            warm = solve(*cold)
        np.testing.assert_allclose(cold.decision, variable.value, atol=1e-4)
        np.testing.assert_allclose(warm.decision, variable.value, atol=1e-4)


@pytest.mark.parametrize(("bound", "best"), [(2.0, 0.5 / 0.7), (0.4, 0.4)])
def test_one_point_descent_ends_near_the_optimum(bound, best):
    """In one dimension, where its variance is least; with the constraint θ ≤ bound, which binds or does not."""
    problem = pf.Problem(loss, pf.Box([-2.0], [2.0]), [pf.constraints.Linear([1.0], bound)])
    environment = pf.LocationFamily(pf.Gaussian([0.5], [0.01]), [[0.3]])
    method = pf.one_point(problem, step=2e-3, exploration=0.3, start=[-1.0])
    runs = pf.simulate({"one": method}, environment, rounds=20_000, realizations=10)
    assert last(runs, "one")[0] == pytest.approx(best, abs=0.1)


def saddle_setting(constraints=None):
    """φ = ½x² − ½y² + xy + z₁x + z₂y with z = m + A(x, y): ∇φ frozen is linear, and its root a linear system."""
    effect, mean = np.array([[0.2, -0.1], [0.3, 0.1]]), np.array([0.5, -0.4])
    problem = pf.Problem(
        lambda theta, z: 0.5 * theta[0] ** 2 - 0.5 * theta[1] ** 2 + theta[0] * theta[1] + jnp.sum(z * theta),
        pf.Box([-5.0, -5.0], [5.0, 5.0]),
        constraints,
    )
    environment = pf.LocationFamily(pf.Gaussian(mean, 0.01 * np.ones(2)), effect)
    return problem, environment, np.linalg.solve(np.array([[1.0, 1.0], [1.0, -1.0]]) + effect, -mean)


def test_a_constraint_on_the_maximiser_moves_the_equilibrium():
    """y ≥ −0.3 binds, as the equilibrium has y = −0.502; then ∂φ/∂x = 0 gives x = −(m₁ + (1 + A₁₂)y)/(1 + A₁₁)."""
    problem, environment, root = saddle_setting([pf.constraints.Linear([0.0, -1.0], 0.3)])
    assert root[1] < -0.5
    runs = pf.simulate(
        {"saddle": pf.saddle(problem, ascending=[1], step=0.01, samples=10)}, environment, rounds=3_000, realizations=5
    )
    np.testing.assert_allclose(last(runs, "saddle"), [-(0.5 - 0.9 * 0.3) / 1.2, -0.3], atol=0.02)


def test_saddle_descent_and_ascent_meet_at_the_equilibrium():
    problem, environment, root = saddle_setting()
    runs = pf.simulate(
        {"saddle": pf.saddle(problem, ascending=[1], step=0.01, samples=10)}, environment, rounds=3_000, realizations=5
    )
    np.testing.assert_allclose(last(runs, "saddle"), root, atol=0.02)
    descent = pf.simulate({"rgd": pf.repeated_gradient(problem, step=0.01)}, environment, rounds=3_000)
    assert np.linalg.norm(last(descent, "rgd") - root) > 1.0  # descending in both runs away


@pytest.mark.parametrize("name", ["one_point", "two_point"])
def test_derivative_free_gradients_have_the_right_mean(name):
    """Of PR averaged over a ball, which for a quadratic risk has the same gradient: over 2·10⁵ draws, within five errors."""
    problem, environment = setting()
    theta, count = np.array([0.4, -0.3]), 200_000
    method = getattr(pf, name)(problem, exploration=0.5)
    with precise():

        def draw(key):
            asking, answering = jax.random.split(key)
            decisions = method.exploration.decisions(jax.random.normal(asking, (2,)), jnp.asarray(theta))
            keys = jax.random.split(answering, decisions.shape[0])
            samples = jax.vmap(lambda key, x: environment.sample(key, x, 1))(keys, decisions)
            belief = method.estimator.update(problem, method.estimator.init(problem, key), decisions, samples, 1)
            return method.estimator.gradient(problem, belief, jnp.asarray(theta))

        drawn = np.asarray(jax.jit(jax.vmap(draw))(jax.random.split(new_key(0), count)))
        exact = np.asarray(jax.grad(functools.partial(risk, environment))(jnp.asarray(theta)))
    error = drawn.std(axis=0) / np.sqrt(count)
    assert np.all(np.abs(drawn.mean(axis=0) - exact) <= 5 * error)


def risk(environment, theta):
    gap = theta - environment.base.mean - environment.effect @ theta
    return 0.5 * jnp.sum(gap * gap)


def test_two_point_descent_ends_near_the_optimum_of_a_world_it_knows_nothing_of():
    problem, environment = setting(bound=1.0)
    optimum = pf.performative_optimum(problem, environment)
    method = pf.two_point(problem, step=2e-3, control=0.1, exploration=0.2)
    runs = pf.simulate({"two": method}, environment, rounds=20_000, realizations=10)
    np.testing.assert_allclose(last(runs, "two"), optimum.decision, atol=0.05)


def test_methods_from_samples_refuse_what_they_cannot_use():
    problem, _ = setting()
    method = pf.repeated_gradient(problem)
    state = method.init(new_key(0))
    with pytest.raises(ValueError, match="`decisions` must be the one decision"):
        method.tell(state, np.zeros((2, 2)), np.zeros((2, 1, 2)))
    with pytest.raises(ValueError, match="`exploration > 0` must hold"):
        pf.two_point(problem, exploration=-1.0)
    assert isinstance(method.estimator, estimators.FrozenData)


WIDE = pf.Problem(loss, pf.Box(np.zeros(4), np.ones(4)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: pf.confidence_bounds(WIDE, sensitivity=1.0), "the dimension must be at most 3, but it is 4"),
        (
            lambda p: pf.confidence_bounds(pf.Problem(loss, pf.Reals(2)), sensitivity=1.0),
            "the decision set must be bounded",
        ),
        (lambda p: pf.confidence_bounds(p, sensitivity=0.0), "`sensitivity > 0` must hold"),
        (lambda p: pf.confidence_bounds(p, sensitivity=1.0, samples=1), "`samples` must be a whole number >= 2"),
        (lambda p: pf.perfgd(p, family=pf.Mixture([pf.Normal(1.0)])), "`family` must be an exponential family"),
        (lambda p: pf.perfgd(p, family=pf.Normal([1.0, 1.0]), memory=2), "`memory` must be a whole number >= 3"),
        (lambda p: pf.score_gradient(p, log_density=None), "the density being known, but got None"),
        (lambda p: pf.two_stage(p, stage=2), "`stage` must be a whole number >= 3"),
        (lambda p: pf.two_stage(p, shift=lambda a, x: a * x), "`effect` must be given with `shift`"),
        (lambda p: pf.repeated_minimization(p, samples=0), "`samples` must be a whole number >= 1"),
        (lambda p: pf.repeated_minimization(p, environment=3), "whose truth is known"),
        (lambda p: pf.saddle(p, ascending=[2]), "`ascending` must be at most 1"),
        (lambda p: pf.repeated_minimization(pf.Problem(loss, pf.Ball(1.0))), "dimension must be known"),
    ],
)
def test_methods_say_what_they_cannot_serve(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make(setting()[0])


@pytest.mark.slow
def test_two_stage_regresses_a_structured_effect():
    """A diagonal effect: two numbers, learnt to five standard errors, and none of the others."""
    problem = pf.Problem(slanted, pf.Ball(3.0), dimension=2)
    shift = lambda effect, theta: effect * theta  # noqa: E731
    environment = pf.LocationFamily(pf.Gaussian([1.0, 0.5], 0.04 * np.ones(2)), [0.4, -0.2], shift)
    method = pf.two_stage(problem, stage=1_000, shift=shift, effect=np.zeros(2))
    runs = pf.simulate({"two": method}, environment, rounds=1_200, realizations=10)
    assert float(runs["estimation_error"].isel({"t": -1}).max()) < 2 * (5 * 0.2 / np.sqrt(1_000)) ** 2
    best = pf.performative_optimum(problem, environment).decision
    np.testing.assert_allclose(last(runs, "two"), best, atol=0.01)
