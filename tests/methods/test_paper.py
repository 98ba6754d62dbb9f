"""The paper's methods: three rounds by hand, options that are refused, and what recycling gains."""

import inspect

import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative.numerics.pytrees import changed
from performative.numerics.randomness import new_key
from performative.provenance import describe

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


def test_a_step_must_be_traceable_and_stay_positive(small):
    problem, _, _ = small
    with pytest.raises(TypeError, match=r"`step` must be a function of the round written in jax\.numpy"):
        pf.apda(problem, step=lambda t: 0.1 if t < 3 else 0.01)
    with pytest.raises(ValueError, match=r"`step\(t\)` must be a positive number for every round t, but at t=10 "):
        pf.apda(problem, step=lambda t: 0.1 * (4.0 - t))


def test_exploration_without_probes_is_refused_at_the_door(small):
    problem, world, _ = small
    with pytest.raises(ValueError, match="must be the pair"):
        pf.simulate({"a": pf.apda(problem, exploration=pf.Alone())}, world, rounds=2)


@pytest.mark.slow
def test_recycling_helps_with_a_small_warm_up_and_many_samples_a_deployment(small):
    problem, world, _ = small
    runs = pf.simulate(
        {
            "plain": pf.apda(problem, warmup=5, samples=20),
            "recycle": pf.apda(problem, warmup=5, samples=20, recycle=True),
        },
        world,
        rounds=3000,
        realizations=10,
    )
    final = runs.deviation.mean("realization").isel(t=-1)
    assert float(final.sel({"algorithm": "recycle"})) < 0.2 * float(final.sel({"algorithm": "plain"}))


def test_pd_ps_has_the_options_of_apda():
    one, other = (inspect.signature(maker).parameters.values() for maker in (pf.apda, pf.pd_ps))
    assert [str(option) for option in one] == [str(option) for option in other]
    given = {"step": 0.1, "control": 2.0, "estimation_step": 0.3, "warmup": 4, "exploration": 0.5, "start": [0.5, 0.5]}
    given |= {"probes": "inside", "recycle": True, "forgetting": 0.9, "samples": 3, "effect": [[0.1, 0.2], [0.3, 0.4]]}
    given["shift"] = lambda effect, theta: 2.0 * (effect @ theta)
    problem = pf.Problem(lambda theta, z: jnp.sum((theta - z) ** 2), pf.Box(0.0, 1.0))
    assert given.keys() | {"problem"} == inspect.signature(pf.pd_ps).parameters.keys()
    anticipating, stable = pf.apda(problem, **given), pf.pd_ps(problem, **given)
    assert describe(stable) != describe(anticipating)
    same = changed(anticipating, estimator=changed(anticipating.estimator, anticipate=False))
    assert describe(stable) == describe(same)
