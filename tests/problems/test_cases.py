"""The standard problems: their closed forms against the library's solvers, its quadratures and its samples."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

import performative as pf
from performative import problems
from performative.numerics.precision import precise
from performative.numerics.randomness import new_key

MAKERS = {**problems.PROBLEMS, "credit, free": functools.partial(problems.get, "credit", intercept="free")}
DRAWS = 10_000


@functools.cache
def case(name):
    return MAKERS[name]()


def start(one):
    return np.asarray(one.problem.decisions.project(np.zeros(one.problem.dimension)))


def feasible(one, around, count=40):
    """Feasible decisions all over Θ and close to `around`: all of them lie on the way from a point to the start."""
    random, first = np.random.default_rng(0), start(one)
    reach = min(one.problem.decisions.radius, 3.0)
    moves = [
        length * random.normal(size=(count, len(first))) / np.sqrt(len(first))
        for length in (2 * reach, 0.5 * reach, 1e-1, 1e-2, 1e-3)
    ]
    with precise():
        points, worst = (np.asarray(part) for part in towards(one.problem, first, around + np.concatenate(moves)))
    rows = np.flatnonzero(np.any(worst <= 0, axis=1))
    return points[rows, np.argmax(worst[rows] <= 0, axis=1)]  # the farthest feasible point of each way


@jax.jit
def towards(problem, first, points):
    """Points (n, 8, d) on the ways from the projections of `points` to `first`, and their largest g."""
    shares = jnp.array([1.0, 0.999, 0.99, 0.9, 0.5, 0.25, 0.1, 0.0])
    ends = jax.vmap(problem.decisions.project)(points)
    ways = first + shares[:, None] * (ends[:, None] - first)
    return ways, jax.vmap(jax.vmap(lambda theta: jnp.max(problem.g(theta), initial=-1.0)))(ways)


def frozen(one):
    """θ ↦ the risk on the data that the stable point induces, for many θ at once."""
    with precise():
        risk = one.environment.risk(one.problem)
        return jax.jit(jax.vmap(lambda theta: risk(theta, jnp.asarray(one.stable.decision))))


@pytest.mark.parametrize("name", MAKERS)
def test_the_risk_in_closed_form_is_the_risk(name):
    """Against the library's averages, and against samples within five standard errors."""
    one = case(name)
    spread = one.problem.decisions.spread(one.problem.dimension, 3)

    @jax.jit
    def drawn(key, theta):
        return jax.vmap(one.problem.loss, (None, 0))(theta, one.environment.sample(key, theta, DRAWS))

    for index, theta in enumerate([*spread, one.optimum.decision, one.stable.decision]):
        exact = pf.performative_risk(one.problem, one.environment, theta)
        assert one.risk(theta) == pytest.approx(exact, rel=1e-8, abs=1e-10)
        if isinstance(one.environment, pf.ClosedForm):  # against the quadrature of its kinked loss
            averaged = pf.performative_risk(one.problem, one.environment.world, theta)
            assert one.risk(theta) == pytest.approx(averaged, rel=1e-5, abs=1e-6)
        with precise():
            losses = np.asarray(drawn(new_key(index), theta))
        assert abs(losses.mean() - one.risk(theta)) <= 5 * losses.std() / np.sqrt(DRAWS) + 1e-5


@pytest.mark.parametrize("name", MAKERS)
def test_the_optimum_is_the_one_the_library_finds_and_nothing_beats_it(name):
    one = case(name)
    solution = pf.performative_optimum(one.problem, one.environment)
    np.testing.assert_allclose(solution.decision, one.optimum.decision, atol=1e-5)
    np.testing.assert_allclose(solution.multipliers, one.optimum.multipliers, atol=1e-5)
    assert float(solution.risk) == pytest.approx(float(one.optimum.risk), abs=1e-9)
    assert float(one.optimum.risk) == pytest.approx(one.risk(one.optimum.decision), rel=1e-12)
    assert float(one.optimum.kkt_residual) < 1e-6
    assert min(map(one.risk, feasible(one, one.optimum.decision))) >= float(one.optimum.risk) - 1e-10


@pytest.mark.parametrize("name", MAKERS)
def test_the_stable_point_is_best_on_its_own_data(name):
    one = case(name)
    solution = pf.stable_point(one.problem, one.environment)
    np.testing.assert_allclose(solution.decision, one.stable.decision, atol=1e-4)
    np.testing.assert_allclose(solution.multipliers, one.stable.multipliers, atol=1e-4)
    assert float(one.stable.risk) == pytest.approx(one.risk(one.stable.decision), rel=1e-9)
    assert float(one.stable.kkt_residual) < 1e-6
    others = feasible(one, one.stable.decision)
    with precise():
        values = np.asarray(frozen(one)(np.concatenate([[one.stable.decision], others])))
    assert np.min(values[1:]) >= values[0] - 1e-8


@pytest.mark.parametrize("name", problems.names())
def test_the_two_points_differ_and_there_is_somewhere_to_start(name):
    one = case(name)
    assert one.name == name
    assert np.linalg.norm(one.optimum.decision - one.stable.decision) > 0.01
    assert float(one.stable.risk) > float(one.optimum.risk) + 1e-4
    with precise():
        assert np.max(np.asarray(one.problem.g(start(one))), initial=-1.0) < 0


@pytest.mark.parametrize("name", ["regression", "portfolio"])
def test_the_points_without_a_closed_form_are_those_of_scipy(name):
    """SLSQP on PR and, at the stable point, on the risk on its own data."""
    one = case(name)
    with precise():
        risk, stable = one.environment.risk(one.problem), jnp.asarray(one.stable.decision)
        slope, g = jax.jit(jax.value_and_grad(risk)), jax.jit(lambda theta: -one.problem.g(theta))
        steep, jacobian = jax.jit(jax.value_and_grad(lambda theta: risk(theta, stable))), jax.jit(jax.jacrev(g))
        bounds = None if name == "regression" else optimize.Bounds(0.0, 0.3)
        for target, value in ((one.optimum.decision, slope), (one.stable.decision, steep)):
            result = optimize.minimize(
                lambda theta, value=value: [np.asarray(part) for part in value(theta)],
                start(one),
                jac=True,
                bounds=bounds,
                method="SLSQP",
                constraints={"type": "ineq", "fun": g, "jac": jacobian},
                options={"maxiter": 1000, "ftol": 1e-14},
            )
            np.testing.assert_allclose(result.x, target, atol=1e-4)


@pytest.mark.parametrize(
    "name", ["gaussian-mean", "portfolio", "revenue", "mixture", "square-root", "ride-share", "newsvendor"]
)
def test_the_density_is_that_of_the_samples(name):
    """It has the family's form, scores average to zero, and ∇PR = E[∇ℓ + ℓ ∇log p]; of one number, it integrates to one."""
    one = case(name)
    world, loss, theta = (
        getattr(one.environment, "world", one.environment),
        one.problem.loss,
        0.5 * one.optimum.decision,
    )

    @jax.jit
    def averaged(z, theta):
        scores = jax.vmap(jax.grad(one.density, 1), (0, None))(z, theta)
        losses, direct = jax.vmap(jax.value_and_grad(loss), (None, 0))(theta, z)
        return scores, direct + losses[:, None] * scores, jax.grad(world.risk(one.problem))(theta)

    with precise():
        theta = jnp.asarray(theta)
        z = jax.jit(lambda key: world.sample(key, theta, DRAWS))(new_key(7))
        parameter = world.parameter(theta) if hasattr(world, "parameter") else world.base.mean + world.effect @ theta
        form = jax.vmap(lambda z: one.family.log_density(z, parameter))(z[:100])
        np.testing.assert_allclose(jax.vmap(one.density, (0, None))(z[:100], theta), form, rtol=1e-9)
        scores, estimates, exact = (np.asarray(part) for part in averaged(z, theta))
        if z.shape[1] == 1:
            grid = jnp.linspace(float(z.min()) - 3.0, float(z.max()) + 3.0, 20_001)
            heights = jnp.exp(jax.vmap(one.density, (0, None))(grid[:, None], theta))
            assert float(jnp.trapezoid(heights, grid)) == pytest.approx(1.0, abs=1e-9)
    for drawn, expected in ((scores, 0.0), (estimates, exact)):
        assert np.all(np.abs(drawn.mean(axis=0) - expected) <= 5 * drawn.std(axis=0) / np.sqrt(DRAWS) + 1e-9)


def test_what_a_method_may_be_told_is_there_where_it_exists():
    for name in problems.names():
        one = case(name)
        world = getattr(one.environment, "world", one.environment)
        assert (one.known_effect is None) == (not isinstance(world, pf.LocationFamily))
        assert one.known_effect is None or np.array_equal(one.known_effect, world.effect)
        assert (one.shift is None) == (one.prior is None) == (name != "regression")
        assert (one.density is None) == (one.family is None) == (name in ("regression", "spam", "credit"))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("gaussian-mean", {"strength": 0.3, "penalty": 0.1}),
        ("revenue", {"adjustment": 0.1, "cap": 100.0}),
        ("revenue", {"cap": 0.5}),
        ("mixture", {"penalty": 0.6, "noise": 1.0}),
        ("spam", {"ease": 3.0, "penalty": 0.02}),
        ("ride-share", {"gap": 0.01, "competitor": [9.0, 0.0, -9.0]}),
        ("newsvendor", {"induced": 0.45, "noise": 1.0}),
        ("newsvendor", {"induced": 0.0}),
    ],
)
def test_other_options_are_solved_as_well(name, options):
    one = problems.get(name, **options)
    optimum, stable = (
        pf.performative_optimum(one.problem, one.environment),
        pf.stable_point(one.problem, one.environment),
    )
    np.testing.assert_allclose(optimum.decision, one.optimum.decision, atol=1e-5)
    np.testing.assert_allclose(stable.decision, one.stable.decision, atol=1e-5)
    np.testing.assert_allclose(optimum.multipliers, one.optimum.multipliers, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("chess", {}, r"`problem` must be one of \['gaussian-mean', 'regression'.*but got 'chess'"),
        ("gaussian-mean", {"strength": 0.0}, "`strength > 0` must hold, but got strength=0.0"),
        ("gaussian-mean", {"penalty": 0.0}, "`penalty > 0` must hold"),
        ("regression", {"sensitivity": -1.0}, "`sensitivity > 0` must hold"),
        ("portfolio", {"seed": 0.5}, "`seed` must be a whole number"),
        ("revenue", {"cap": float("nan")}, "`cap` must be finite"),
        ("mixture", {"penalty": 0.5}, "`penalty >= 0.6` must hold"),
        ("square-root", {"noise": -1.0}, "`noise > 0` must hold"),
        ("spam", {"ease": -1.0}, "`ease > 0` must hold"),
        ("credit", {"intercept": "fixed"}, "`intercept` must be 'penalized' or 'free', but got 'fixed'"),
        ("credit", {"penalty": 0.01}, "`penalty >= 0.06` must hold"),
        ("ride-share", {"competitor": [1.0]}, "one price for each of 3 areas"),
        ("newsvendor", {"induced": 0.5}, "`0 <= induced < cost/price < 1` must hold"),
        ("newsvendor", {"cost": 2.0}, "`0 <= induced < cost/price < 1` must hold"),
    ],
)
def test_options_that_make_no_sense_are_refused(name, options, message):
    with pytest.raises(ValueError, match=message):
        problems.get(name, **options)


def test_options_that_leave_the_decision_set_are_refused():
    with pytest.raises(ValueError, match="must lead to a KKT point inside the decision set"):
        problems.get("credit", intercept="free", strength=5.0)
