"""Methods that forget follow a world that drifts."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative.estimators.standard_errors import confidence
from performative.numerics.precision import precise
from performative.numerics.randomness import new_key

BEFORE, AFTER = np.array([[-1.0, 0.2], [0.1, -0.8]]), np.array([[-0.4, -0.3], [0.4, -1.5]])
MEAN, LATER = np.array([3.0, 2.0]), np.array([2.0, 3.5])


def revenue(theta, z):
    return -jnp.sum(theta * z)


def curved(theta, z):
    """Not quadratic in the data, so that a reservoir is kept."""
    return -jnp.sum(theta * z) + 0.01 * jnp.sum(jnp.log(jnp.cosh(z)))


def problem(loss=revenue):
    return pf.Problem(loss, pf.Box([0.0, 0.0], [3.0, 3.0]), [pf.constraints.Linear([1.0, 1.0], 3.0)])


@functools.cache
def played(name, loss, forgetting, rounds):
    """The method and the states of 10 runs after rounds in which the effect went from one matrix to another."""
    if name == "safe":
        method = pf.safe_apda(problem(loss), forgetting=forgetting, reservoir=50)
    else:
        method = pf.apda(
            problem(loss), recycle=True, forgetting=forgetting, warmup=20, exploration=0.3, start=[1.0, 1.0]
        )
    with precise():

        def run(key):
            def observed(t, decisions, n):
                share = t / rounds
                effect, mean = BEFORE + (AFTER - BEFORE) * share, MEAN + (LATER - MEAN) * share
                noise = 0.2 * jax.random.normal(jax.random.fold_in(key, 10_000 + t), (decisions.shape[0], n, 2))
                return (mean + decisions @ effect.T)[:, None] + noise

            def round_(state, t):
                decisions = method.ask(state, jax.random.fold_in(key, t))
                return method.tell(state, decisions, observed(t, decisions, 1)), None

            state = method.init(key)
            decisions = method.ask(state, key)
            state = method.tell(state, decisions, observed(0, decisions, method.wanted(state)))
            return jax.lax.scan(round_, state, jnp.arange(1, rounds))[0]

        keys = jax.vmap(functools.partial(jax.random.fold_in, new_key(0)))(jnp.arange(10))
        return method, jax.jit(jax.vmap(run))(keys)


def errors(name, loss, forgetting, rounds):
    """The mean squared errors of the effect and of the decision in the world as it is at the end."""
    _, states = played(name, loss, forgetting, rounds)
    market = pf.LocationFamily(pf.Gaussian(LATER, np.full(2, 0.04)), AFTER)
    best = pf.performative_optimum(problem(loss), market).decision
    estimate = getattr(states.belief, "mean_effect", states.belief.effect)
    effect = float(np.mean(np.sum((np.asarray(estimate) - AFTER) ** 2, axis=(1, 2))))
    return effect, float(np.mean(np.sum((np.asarray(states.decision) - best) ** 2, axis=1)))


@pytest.mark.slow
@pytest.mark.parametrize("loss", [pytest.param(revenue, marks=pytest.mark.slow), curved])
def test_safe_apda_that_forgets_follows_an_effect_that_drifts(loss):
    """The effect and the decision are nearer to the truth of today for it."""
    follows, stays = errors("safe", loss, 0.98, 1_000), errors("safe", loss, 1.0, 1_000)
    assert follows[0] < 0.5 * stays[0]
    assert follows[1] < 0.5 * stays[1]
    _, states = played("safe", loss, 0.98, 1_000)
    np.testing.assert_allclose(np.asarray(states.belief.count), 50.0, rtol=1e-6)  # 1/(1 − 0.98)


@pytest.mark.slow
def test_apda_that_forgets_follows_an_effect_that_drifts():
    """Of the effect alone: the last decision shakes with the noise of the few samples that it rests on."""
    assert errors("apda", revenue, 0.99, 3_000)[0] < 0.5 * errors("apda", revenue, 1.0, 3_000)[0]


def test_a_factor_of_one_changes_nothing():
    problem_ = problem()
    one, other = pf.safe_apda(problem_), pf.safe_apda(problem_, forgetting=1.0)
    assert jax.tree.structure(one) == jax.tree.structure(other)
    assert one.learner.memory is None


def told(forgetting, rounds, **options):
    """The method after these rounds, and what was deployed and brought in each, with two samples a deployment."""
    method = pf.safe_apda(problem(), start=[1.0, 1.0], samples=2, forgetting=forgetting, **options)
    state, random, log = method.init(new_key(0)), np.random.default_rng(0), []
    for _ in range(rounds):
        decision = np.asarray(method.ask(state, new_key(0)))[0]
        samples = MEAN + BEFORE @ decision + 0.2 * random.normal(size=(2, 2))
        state = method.tell(state, decision[None], samples[None])
        log.append((decision, samples))
    return method, state, log


def test_as_long_as_nothing_has_faded_all_is_the_same_to_the_bit():
    """What is kept for standard errors touches nothing else, and these are the same up to rounding."""
    (one, forgets, log), (other, remembers, same) = (told(f, 12, deployments=20) for f in (0.97, 1.0))
    assert all(x.tobytes() == y.tobytes() for x, y in zip(jax.tree.leaves(log), jax.tree.leaves(same), strict=True))
    assert remembers.belief.squared is None
    for name in ("moments", "spread", "within", "effect", "covariance", "noise"):
        leaves = (jax.tree.leaves(getattr(state.belief, name)) for state in (forgets, remembers))
        assert all(np.asarray(x).tobytes() == np.asarray(y).tobytes() for x, y in zip(*leaves, strict=True)), name
    errors = [
        confidence(method.learner, method.prediction, state.belief, state.decision, np.array([1.0, 1.0]), draws=100)
        for method, state in ((one, forgets), (other, remembers))
    ]
    for name in ("effect", "effect_error", "risk", "gain"):  # the other errors rest on draws
        np.testing.assert_allclose(getattr(errors[0], name), getattr(errors[1], name), rtol=1e-9, err_msg=name)


def test_standard_errors_are_those_of_least_squares_with_weights():
    """The noise is as large in old samples as in new ones: σ² S⁻¹ (Σ w² x xᵀ) S⁻¹, and not σ² S⁻¹."""
    method, state, log = told(0.8, 40, exploration=3.0)
    weights, fading, count = np.zeros(0), 8.0, 0.0
    for _ in log:
        share = min(1.0, fading / count) if count else 1.0
        weights, count = np.append(share * weights, 1.0), share * count + 2.0
    x, z = np.array([decision for decision, _ in log]), np.array([samples for _, samples in log])
    rows, w = np.concatenate([np.ones((40, 1)), x], axis=1), np.repeat(weights, 2)
    rows, z = np.repeat(rows, 2, axis=0), z.reshape(-1, 2)
    inverse = np.linalg.inv((w[:, None] * rows).T @ rows)
    line = inverse @ (w[:, None] * rows).T @ z
    left = z - rows @ line
    noise = (w[:, None] * left).T @ left / (np.sum(w) - 3.0 * np.sum(w**2) / np.sum(w))
    spread = inverse @ ((w**2)[:, None] * rows).T @ rows @ inverse
    known = confidence(method.learner, method.prediction, state.belief, state.decision, np.array([1.0, 1.0]), draws=100)
    np.testing.assert_allclose(known.effect, line[1:].T, rtol=1e-6)
    np.testing.assert_allclose(known.effect_error, np.sqrt(np.outer(np.diag(noise), np.diag(spread)[1:])), rtol=1e-6)
    np.testing.assert_allclose(float(state.belief.squared.count), np.sum(w**2), rtol=1e-12)

    any_matrix = pf.safe_apda(problem(), forgetting=0.8, shift=lambda a, x: a @ x, effect=np.zeros((2, 2)))
    structured = confidence(
        any_matrix.learner, method.prediction, state.belief, state.decision, np.array([1.0, 1.0]), draws=100
    )
    np.testing.assert_allclose(structured.effect_error, known.effect_error, rtol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pf.safe_apda(problem(), forgetting=1.1), "`forgetting <= 1` must hold"),
        (lambda: pf.safe_apda(problem(), forgetting=0.0), "`forgetting > 0` must hold"),
        (lambda: pf.apda(problem(), forgetting=0.9), "`forgetting` requires `recycle=True`"),
    ],
)
def test_bad_factors_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.slow
def test_exploration_does_not_end_where_old_data_fade():
    """What probes have cost fades like the data: in the last 2,000 of 6,000 rounds, one in twenty or more is still a probe."""
    method = pf.safe_apda(
        pf.Problem(lambda theta, z: -z @ theta + theta @ theta, pf.Box([0.0], [1.0]), dimension=1),
        start=[0.2],
        forgetting=0.9,
        loss_budget=None,
    )

    def round_(state, key):
        x = method._decide(state)
        z = 3.0 - 2.0 * x[0] + jax.random.normal(key, (1,))
        after = method._planned(method.learn(state, x, z[None, None]), state.round)
        return after, jnp.any(jnp.abs(x[0] - state.decision) > 1e-9)

    with precise():
        first = method.init(new_key(0))
        state = method.tell(first, method.ask(first, new_key(0)), jnp.array([[[2.0]]]))
        keys = jax.random.split(new_key(1), 6_000)
        probed = np.asarray(jax.jit(lambda state: jax.lax.scan(round_, state, keys)[1])(state))
    assert np.mean(probed[-2_000:]) >= 0.05
