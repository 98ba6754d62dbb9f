"""The pointwise lemma behind the regret of Safe APDA, on the decisions that it takes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scanning import scan

import performative as pf
from performative.estimators.moments import JointMoments
from performative.losses import Revenue
from performative.methods.pace import ALLOWED, APART, EVERY, PACE, Allowance, middle, wide
from performative.methods.safe_primal_dual import FIRST_RADIUS, SMALLEST, SafePrimalDual
from performative.numerics.precision import precise
from performative.numerics.pytrees import changed

EFFECT = np.array([[-1.0, 0.3], [0.2, -1.5]])
MEAN = np.array([3.0, 4.0])
UPPER = np.array([1.0, 2.0])


def loss(theta, z):
    return -jnp.sum(z * theta) + 0.5 * jnp.sum(theta * theta)


def risk(theta):
    return -(MEAN + EFFECT @ theta) @ theta + 0.5 * theta @ theta


HESSIAN = np.eye(2) - EFFECT - EFFECT.T


def distance_from_normal_cone(theta):
    """How far −∇PR(θ) is from the normal cone of the box [0, UPPER] at θ."""
    down = -(HESSIAN @ theta - MEAN)
    held = np.where(theta >= UPPER - 1e-12, np.maximum(down, 0.0), np.where(theta <= 1e-12, np.minimum(down, 0.0), 0.0))
    return np.linalg.norm(down - held)


@pytest.mark.parametrize(("samples", "deployments"), [(30, 150), pytest.param(4, 450, marks=pytest.mark.slow)])
def test_the_excess_risk_of_every_decision_is_bounded_by_the_error_of_its_gradient(samples, deployments):
    problem = pf.Problem(loss, pf.Box([0.0, 0.0], UPPER))
    world = pf.LocationFamily(pf.Gaussian(MEAN, np.eye(2)), effect=EFFECT)
    method = pf.safe_apda(problem, start=[0.2, 0.2], samples=samples)
    best = pf.performative_optimum(problem, world).decision
    strongly = np.linalg.eigvalsh(HESSIAN)[0]
    key = jax.random.key(0)
    state = method.init(key)
    bounds = []
    for _ in range(deployments):
        key, asking, answering = jax.random.split(key, 3)
        asked = method.ask(state, asking)
        with jax.enable_x64(True):
            drawn = np.asarray(world.sample(answering, jnp.asarray(asked[0]), samples))
        state = method.tell(state, asked, drawn[None])
        theta = np.asarray(state.decision)
        excess = risk(theta) - risk(np.asarray(best))
        bound = distance_from_normal_cone(theta) ** 2 / (2.0 * strongly)
        assert excess <= bound + 1e-12
        bounds.append(bound)
    assert bounds[-1] < 0.1 * bounds[0]  # the bound is about decisions that improve, not about one


@pytest.mark.slow
def test_a_step_goes_as_far_as_it_is_sure_to_pay():
    """Who orders nothing and sees demand around 2 is sure to sell more; what a higher price does to demand, nobody knows yet."""
    demand = 2.0 + 0.5 * np.random.default_rng(0).normal(size=(1, 50, 1))
    newsvendor = pf.problems.get("newsvendor").problem
    ordering, pricing = (
        pf.safe_apda(problem, start=start, samples=50)
        for problem, start in ((newsvendor, [0.0]), (pf.Problem(Revenue(), pf.Box([0.0], [6.0])), [1.0]))
    )
    orders, prices = (
        method.tell(method.init(jax.random.key(0)), np.asarray(method.start)[None], demand).decision
        for method in (ordering, pricing)
    )
    assert 1.4 * FIRST_RADIUS * 6.0 < float(orders[0]) < 2.0
    assert 1.0 < float(prices[0]) <= 1.0 + (FIRST_RADIUS + 1e-9) * 1.5  # of the start


@pytest.mark.slow
def test_who_broke_promises_is_more_careful():
    """With the smallest trust region the newsvendor orders what is sold however curved the world is, and no more."""
    demand = 2.0 + 0.5 * np.random.default_rng(0).normal(size=(1, 50, 1))
    method = pf.safe_apda(pf.problems.get("newsvendor").problem, start=[0.0], samples=50)
    fresh = method.init(jax.random.key(0))
    orders = [
        float(method.tell(state, np.zeros((1, 1)), demand).decision[0])
        for state in (fresh, changed(fresh, radius=jnp.asarray(SMALLEST)))
    ]
    assert SMALLEST * 6.0 < orders[1] < 0.7 * orders[0]


def test_a_start_that_is_far_away_does_not_set_the_slope_for_good():
    """A mean of √(1 + θ) on the way from 0 to −2/3: the chord's slope is 0.6 where the curve's is 0.87."""
    case = pf.problems.get("square-root")
    method = pf.safe_apda(case.problem, start=[0.0], samples=500)
    runs = scan(method, case.environment, 150, runs=4)
    assert np.mean(np.abs(runs.decisions[:, -1, 0] + 2.0 / 3.0)) < 0.04  # 0.08 if nothing fades
    assert np.all(np.asarray(runs.states.belief.deployments) < 145)  # of 150


@pytest.mark.parametrize("noise", [0.0, 1e-6])
def test_a_line_is_no_more_exact_than_the_world_is_straight(noise):
    """Logit demand almost without noise: three deployments on one line seem to say everything of the direction across it."""
    problem = pf.Problem(Revenue(), pf.Box([0.1, 0.1], [3.0, 3.0]))
    method = pf.safe_apda(problem, start=[1.0, 1.0], samples=20)
    state, random, revenues = method.init(jax.random.key(0)), np.random.default_rng(0), []
    for _ in range(25):
        asked = method.ask(state, jax.random.key(1))
        attraction = np.exp(np.array([2.0, 1.5]) * (1.0 - np.asarray(asked[0])))
        demand = 50.0 * attraction / (1.0 + np.sum(attraction))
        revenues.append(demand @ np.asarray(asked[0]))
        state = method.tell(state, asked, demand * (1.0 + noise * random.normal(size=(1, 20, 2))))
    assert min(revenues) >= revenues[0] - 1e-9  # 33.3; one week of 5.7 if the line were believed
    assert revenues[-1] > 35.3  # of 35.4; the start for good if its misfit were


@pytest.mark.parametrize("most", [2.0, 30.0])
def test_a_price_ranges_over_its_own_size_however_wide_the_box(most):
    """Whoever allows thirty times today's price does not expect it, and a first step of an eighth of that would be no step."""
    problem = pf.Problem(Revenue(), pf.Box([0.0, -5.0, 0.0], [most, 5.0, most]))
    method = pf.safe_apda(problem, start=[1.0, 1.0, 0.0])
    np.testing.assert_allclose(method.planner.widths, [1.5, 10.0, most])


def test_how_wide_a_box_is_says_nothing():
    def first(most, start):
        box = pf.Box(np.zeros(len(start)), np.full(len(start), most))
        return pf.safe_apda(pf.Problem(Revenue(), box), start=start).planner.widths

    for most in (50.0, 1e3, 1e6, 1e9):
        np.testing.assert_allclose(first(most, [1.0, 0.3]), [1.5, 0.45])
    np.testing.assert_allclose(first(1.2, [1.0]), [1.2])
    np.testing.assert_allclose(first(0.3, [0.1, 0.0]), [0.15, 0.3])  # a start of 0 says nothing


def test_a_small_start_does_not_keep_the_range_small_for_good():
    """A weight of 0.1 % of a portfolio: probes in proportion to it would never show that it should be a tenth."""
    method = pf.safe_apda(pf.Problem(loss, pf.Box([0.0, 0.0], [0.3, 0.3])), start=[0.1, 0.001], samples=2)
    state = method.tell(method.init(jax.random.key(0)), [[0.1, 0.001]], np.array([[[1.0, 2.0], [1.5, 2.5]]]))
    first = np.array([0.15, 0.0015])
    with precise():
        plan = jax.jit(SafePrimalDual.plan)
        for t, widths in (
            (1, first),
            (256, first),
            (400, first * 400 / 256),
            (2560, [0.3, 0.015]),
            (10**6, [0.3, 0.3]),
        ):
            prior = plan(method, changed(state, round=jnp.asarray(t))).prior
            np.testing.assert_allclose(prior.widths, widths)
            np.testing.assert_allclose(prior.mixed, state.prior.mixed * (np.asarray(widths) / first))
            np.testing.assert_allclose(prior.bend, jnp.mean(jnp.sqrt(state.belief.size) @ prior.mixed))


def test_what_curvature_may_add_is_about_the_deployments_to_come():
    """Weeks of the history may have had any number of samples."""
    problem, counts = pf.Problem(Revenue(), pf.Box([0.1], [3.0])), (1, 50, 100_000)
    added = []
    for count in counts:
        past = pf.Past.of([[0.9], [1.0], [1.1]], [[11.0], [10.0], [9.0]], counts=[count] * 3)
        method = pf.safe_apda(problem, start=[1.0], samples=50, history=past)
        state = method.init(jax.random.key(0))
        with precise():
            added.append(np.sqrt(state.prior.bent(state.belief, 50) / 50 / state.belief.size)[0])
    np.testing.assert_allclose(added, 0.1 * (0.02 / 3) / 1.5**2, rtol=1e-6)


def gradient_of(omega, theta):
    """Of −(m + Aθ)ᵀθ + ‖θ‖²/2, where omega = (m, A)."""
    mean, effect = omega
    return theta - mean - (effect + effect.T) @ theta


def distance_of(down, theta):
    """How far a vector is from the normal cone of the box [0, UPPER] at θ."""
    held = np.where(theta >= UPPER - 1e-12, np.maximum(down, 0.0), np.where(theta <= 1e-12, np.minimum(down, 0.0), 0.0))
    return np.linalg.norm(down - held)


@pytest.mark.parametrize("budget", [None, 1.0])
@pytest.mark.slow
def test_decisions_lose_no_more_than_the_error_of_the_gradient_and_what_the_solver_leaves(budget):
    """Lemma 1 with the residual of the predicted risk, also where the budget or pessimism keep θ from being stationary."""
    problem = pf.Problem(loss, pf.Box([0.0, 0.0], UPPER))
    world = pf.LocationFamily(pf.Gaussian(MEAN, np.eye(2)), effect=EFFECT)
    method = pf.safe_apda(problem, start=[0.5, 0.5], samples=4, loss_budget=budget)
    best = np.asarray(pf.performative_optimum(problem, world).decision)
    strongly = np.linalg.eigvalsh(HESSIAN)[0]
    key = jax.random.key(1)
    state = method.init(key)
    shares = []
    for _ in range(40):
        key, asking, answering = jax.random.split(key, 3)
        asked = method.ask(state, asking)
        with jax.enable_x64(True):
            drawn = np.asarray(world.sample(answering, jnp.asarray(asked[0]), 4))
        state = method.tell(state, asked, drawn[None])
        theta, belief = np.asarray(state.decision), state.belief
        effect = np.asarray(belief.effect)
        predicted = gradient_of((np.asarray(belief.data) - effect @ np.asarray(belief.decision), effect), theta)
        error = np.linalg.norm(predicted - gradient_of((MEAN, EFFECT), theta))
        excess = risk(theta) - risk(best)
        bound = pf.theory.excess_risk(error + distance_of(-predicted, theta), strongly)
        assert excess <= bound + 1e-12
        shares.append(distance_of(-predicted, theta) / error)
    assert np.median(shares[20:]) < 1.0  # the residual is of the order of the error, or smaller


def starved(rounds, budget=None, constraints=()):
    """A run whose decisions hardly varied, as it would be after so many rounds."""
    problem = pf.Problem(loss, pf.Box([0.0, 0.0], UPPER), list(constraints))
    method = pf.safe_apda(problem, start=[0.5, 0.5], samples=4, loss_budget=budget)
    world = pf.LocationFamily(pf.Gaussian(MEAN, np.eye(2)), effect=EFFECT)
    key = jax.random.key(0)
    state = method.init(key)
    for _ in range(4):
        key, answering = jax.random.split(key)
        asked = method.ask(state, key)
        with jax.enable_x64(True):
            drawn = np.asarray(world.sample(answering, jnp.asarray(asked[0]), 4))
        state = method.tell(state, asked, drawn[None])
    belief = state.belief
    with precise():
        moments = changed(belief.moments, scatter=1e-6 * belief.moments.scatter, cross=1e-6 * belief.moments.cross)
        state = changed(
            state,
            belief=changed(belief, moments=moments),
            round=jnp.asarray(rounds),
            ledger=changed(state.ledger, at_start=jnp.asarray(rounds - 4.0)),
        )
        return method, jax.jit(type(method).plan)(method, state)


@pytest.mark.parametrize("constraints", [(), (pf.constraints.Linear([1.0, 1.0], 1.5),)])
@pytest.mark.slow
def test_a_wide_probe_is_deployed_where_too_little_is_known(constraints):
    method, state = starved(4_000_000, constraints=constraints)
    assert bool(state.reasons.due)
    probe = np.asarray(method.ask(state, jax.random.key(0)))[0]
    assert np.all((probe >= 0) & (probe <= UPPER))
    assert np.all(np.asarray(method.problem.g(jnp.asarray(probe))) <= 0)
    assert np.linalg.norm((probe - np.asarray(state.belief.decision)) / UPPER) > 0.2  # it is wide
    assert 1 <= int(state.repeats) <= APART
    assert float(state.explored) == 0.0  # what the allowance is for is other probes
    assert method.why(state).numbers["wide"]


@pytest.mark.slow
def test_no_wide_probe_is_due_before_the_pace_asks_for_it():
    """The share of the prior's variance that is left is at most 1, so none is due before round 1/PACE²."""
    _, state = starved(int(0.9 / PACE**2))
    assert not bool(state.reasons.due)


def test_the_budget_may_hold_a_wide_probe_back():
    _, state = starved(4_000_000, budget=1e-6)
    assert bool(state.reasons.due)
    assert bool(state.reasons.held)


@pytest.mark.parametrize("seed", range(5))
def test_a_wide_probe_goes_along_what_is_known_least(seed):
    """vᵀG⁻¹v ≥ tr G⁻¹/d, one end of the chord has ξᵀG⁻¹ξ ≥ ρ²tr G⁻¹/d, and its rounds double what is known along ξ."""
    random, d = np.random.default_rng(seed), 4
    x = random.uniform(size=(50, d)) * np.array([1.0, 1.0, 0.1, 0.01]) @ np.linalg.qr(random.normal(size=(d, d)))[0]
    cap = pf.constraints.Linear(np.ones(d), 0.8 * d)
    method = pf.safe_apda(pf.Problem(Revenue(), pf.Box(np.zeros(d), np.ones(d)), [cap]))
    with precise():
        moments = jax.tree.map(jnp.asarray, JointMoments.of(x, np.zeros((50, d))))
        ones, relative = jnp.ones(d), jnp.asarray(0.3)
        inside = middle(method.problem, method.safety, ones)
        probe = wide(method.problem, inside, ones, moments, 1, jnp.asarray(1e8), relative)
        assert bool(jnp.all(method.problem.g(probe.decision) <= 0))
    assert bool(probe.due)
    inverse = np.linalg.inv(np.asarray(moments.scatter) + 0.3 * np.eye(d))
    step = np.asarray(probe.decision) - np.asarray(moments.decision)
    length = np.linalg.norm(np.asarray(probe.decision) - np.asarray(inside))
    known = step @ inverse @ step
    assert length >= 0.1
    assert known >= length**2 * np.trace(inverse) / d
    assert int(probe.rounds) == int(np.ceil(2.0 / known))


def test_what_probes_cost_stays_within_the_allowance():
    """Also where it is small: probes are then as many as it pays for, and θ is deployed otherwise."""
    with precise():
        price, step = jnp.asarray(0.3), jnp.array([0.1, 0.2])
        unit = jnp.asarray(2.0)
        allowance = Allowance.of(unit, jnp.asarray(400.0), jnp.asarray(ALLOWED * 40.0 - 1.0))
        charge = allowance.charge(price, step)
        assert float(charge) == pytest.approx(0.3 + 0.5 * 2.0 * 0.05)
        assert float(allowance.rounds(charge)) == 2.0
        assert float(allowance.charge(jnp.asarray(-1.0), step)) == pytest.approx(0.05)
        assert float(Allowance.of(jnp.zeros(()), unit, unit).rounds(charge)) == np.inf


@pytest.mark.slow
def test_an_allowance_that_is_used_up_ends_probes():
    """One plan after round 256, with and without anything left."""
    problem = pf.Problem(loss, pf.Box([0.0, 0.0], UPPER))
    method = pf.safe_apda(problem, start=[0.2, 0.2], loss_budget=None)
    world = pf.LocationFamily(pf.Gaussian(MEAN, np.eye(2)), effect=EFFECT)
    key = jax.random.key(0)
    state = method.init(key)
    for _ in range(12):
        key, answering = jax.random.split(key)
        asked = method.ask(state, key)
        with jax.enable_x64(True):
            drawn = np.asarray(world.sample(answering, jnp.asarray(asked[0]), 1))
        state = method.tell(state, asked, drawn[None])
    plan = jax.jit(type(method).plan)
    with precise():
        late = changed(state, round=jnp.asarray(1_024), explored=jnp.zeros(()))
        free, spent = plan(method, late), plan(method, changed(late, explored=jnp.asarray(1e6)))
    assert np.any(np.asarray(free.probes) != np.asarray(free.decision))
    assert float(free.explored) > 0
    assert np.all(np.asarray(spent.probes) == np.asarray(spent.decision))
    assert float(spent.explored) == 1e6


def test_plans_are_at_most_4096_rounds_apart():
    """What the proof of Lemma 4 counts on; every round is planned at first, and one in 48 afterward at the least."""
    problem = pf.Problem(loss, pf.Box([0.0, 0.0], UPPER))
    rounds = np.arange(1, 1_000_000)
    planned = rounds[pf.safe_apda(problem).plans(rounds)]
    gaps, after = np.diff(planned), planned[:-1]
    assert np.max(gaps) == APART == 4096
    assert np.all(gaps[after < EVERY] == 1)
    assert np.all(gaps <= np.maximum(after / 48, 1.0))
    assert len(planned) < 1_000


def test_where_data_fade_plans_keep_the_pace_of_what_is_remembered():
    problem = pf.Problem(loss, pf.Box([0.0, 0.0], UPPER))
    rounds = np.arange(1, 100_000)
    planned = rounds[pf.safe_apda(problem, samples=5, forgetting=0.999).plans(rounds)]
    assert np.max(np.diff(planned)) == 64  # of about a thousand rounds


def test_a_plan_is_compiled_once(monkeypatch):
    """The first deployment changes the structure of the state, and Python's literals have types of their own in JAX."""
    plans = []
    plan = SafePrimalDual.plan
    monkeypatch.setattr(SafePrimalDual, "plan", lambda method, state: plans.append(None) or plan(method, state))

    def own_loss(theta, z):
        return -jnp.sum(z * theta) + jnp.sum(theta**2)

    method = pf.safe_apda(pf.Problem(own_loss, pf.Box([0.0, 0.0], UPPER)), start=[0.2, 0.2], samples=4)
    state = method.init(jax.random.key(0))
    for _ in range(3):
        state = method.tell(state, method.ask(state, jax.random.key(0)), np.ones((1, 4, 2)))
    assert len(plans) == 1


@pytest.mark.parametrize(
    ("options", "rounds", "ahead"),
    [
        ({}, 3.0, 5.0),
        ({}, 100.0, 50.0),
        ({}, 1024.0, 512.0),
        ({}, 1280.0, 800.0),
        ({}, 10_000.0, 20_000.0),
        ({"deployments": 100}, 30.0, 70.0),
        ({"deployments": 100, "deployments_per_round": 2}, 30.0, 20.0),
        ({"deployments": 100}, 200.0, 0.0),
        ({"forgetting": 0.75, "samples": 5}, 10_000.0, 5.0),
        ({"forgetting": 0.96875, "samples": 5}, 10_000.0, 15.5),
    ],
)
def test_a_probe_pays_over_half_as_many_rounds_again_or_those_that_are_left(options, rounds, ahead):
    method = pf.safe_apda(pf.Problem(loss, pf.Box([0.0, 0.0], UPPER)), start=[0.2, 0.2], **options)
    with precise():
        assert float(method.horizon(jnp.asarray(rounds), True)) == ahead


@pytest.mark.parametrize(
    ("quadratic", "rounds", "ahead"),
    [
        (True, 100.0, 100.0),
        (True, 2048.0, 2048.0),
        (True, 10_000.0, 20_000.0),
        (False, 100.0, 50.0),
        (False, 10_000.0, 20_000.0),
    ],
)
def test_in_one_dimension_a_probe_pays_over_as_many_rounds_again_if_the_loss_is_quadratic(quadratic, rounds, ahead):
    method = pf.safe_apda(pf.Problem(Revenue(), pf.Box([0.0], [1.0])), start=[0.2])
    with precise():
        assert float(method.horizon(jnp.asarray(rounds), quadratic)) == ahead


@pytest.mark.parametrize("decisions", [pf.Box([0.0, 0.0], [5.0, 5.0]), pf.Ball(5.0), pf.Budget(8.0, dimension=2)])
def test_after_a_decision_outside_the_set_was_deployed_the_next_one_is_inside_however_far_it_is(decisions):
    method = pf.safe_apda(pf.Problem(Revenue(), decisions, dimension=2), start=[2.0, 2.0], samples=5, max_move=0.05)
    state = method.init(jax.random.key(0))
    for _ in range(3):
        asked = method.ask(state, jax.random.key(0))
        state = method.tell(state, asked, np.full((1, 5, 2), 3.0) + 0.1 * np.arange(5)[None, :, None])
    state = method.tell(state, np.array([[7.0, 6.0]]), np.full((1, 5, 2), 1.0) + 0.1 * np.arange(5)[None, :, None])
    assert decisions.contains(np.asarray(method.ask(state, jax.random.key(0))[0]))
