# ruff: noqa: NPY002
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf

PROBLEM = pf.Problem(lambda price, demand: -price[0] * demand[0], pf.Box([0.0], [5.0]))
METHOD = pf.repeated_gradient(PROBLEM, step=0.1)


class GlobalNumpy:
    def sample(self, key, theta, n):
        return 4.0 - theta[0] + np.random.normal(size=(n, 1))


class GlobalPython:
    def sample(self, key, theta, n):
        return 4.0 - theta[0] + random.gauss(0.0, 1.0) + jax.random.normal(key, (n, 1))


class OwnGenerator:
    def __init__(self):
        self.rng = np.random.default_rng(0)

    def sample(self, key, theta, n):
        return 4.0 - theta[0] + self.rng.normal(size=(n, 1))


class CountsCalls:
    calls = 0

    def sample(self, key, theta, n):
        self.calls += 1
        return 4.0 - theta[0] + 0.0 * self.calls + jax.random.normal(key, (n, 1))


COUNTER = [0]


class CountsInAGlobal:
    def sample(self, key, theta, n):
        COUNTER[0] += 1
        return 4.0 - theta[0] + 0.0 * COUNTER[0] + jax.random.normal(key, (n, 1))


class AdvancesAGenerator:
    def __init__(self):
        self.days = (day for day in range(1000))

    def sample(self, key, theta, n):
        return 4.0 - theta[0] + 0.0 * next(self.days) + jax.random.normal(key, (n, 1))


class FrozenNoise:
    def sample(self, key, theta, n):
        return 4.0 - theta[0] + jnp.asarray(np.random.default_rng(0).normal(size=(n, 1)))


@pytest.mark.parametrize(
    ("world", "reason"),
    [
        (GlobalNumpy, "two calls differ"),
        (GlobalPython, "two calls differ"),
        (OwnGenerator, "two calls differ"),
        (CountsCalls, "changed `calls`"),
        (CountsInAGlobal, r"changed `sample.COUNTER\[0\]`"),
        (AdvancesAGenerator, "changed `days"),
        (FrozenNoise, "two different keys gave the same 8 samples"),
    ],
)
def test_worlds_that_a_program_would_freeze_are_refused_with_the_way_out(world, reason):
    method = pf.repeated_gradient(PROBLEM, step=0.1, samples=3)
    state = np.random.get_state(), random.getstate()
    try:
        with pytest.raises(pf.NotPure, match=reason) as caught:
            pf.simulate({"rgd": method}, world(), rounds=3, realizations=2)
    finally:
        np.random.set_state(state[0])
        random.setstate(state[1])
    assert "HostWorld" in str(caught.value)


def test_a_loss_that_draws_is_refused():
    noisy = pf.Problem(lambda price, demand: -price[0] * demand[0] * np.random.normal(), pf.Box([0.0], [5.0]))
    market = pf.LocationFamily(pf.Gaussian([4.0], [0.25]), effect=[[-1.0]])
    state = np.random.get_state()
    try:
        with pytest.raises(pf.NotPure, match="global random state of numpy"):
            pf.simulate({"rgd": pf.repeated_gradient(noisy, step=0.1)}, market, rounds=3, realizations=2)
    finally:
        np.random.set_state(state)


def test_deterministic_worlds_are_pure():
    class Exact:
        def sample(self, key, theta, n):
            return jnp.full((n, 1), 4.0 - theta[0])

    best = pf.Solution.of(np.array([2.0]), np.zeros(0), -4.0, 0.0, False, "closed form")
    runs = pf.simulate({"rgd": METHOD}, Exact(), rounds=3, realizations=2, optimum=best, samples=2)
    assert np.all(np.isfinite(runs.decision))


class IgnoresItsKey:
    def sample(self, key, theta, n, t):
        return 4.0 - theta[0] + 0.01 * t + jnp.linspace(-1.0, 1.0, n)[:, None]


def test_a_world_with_a_round_that_ignores_its_key_is_refused():
    with pytest.raises(pf.NotPure, match="draw with its key"):
        pf.simulate({"rgd": METHOD}, IgnoresItsKey(), rounds=3, realizations=2)


def test_a_simulator_with_a_generator_of_its_own_is_refused():
    own = np.random.default_rng()
    world = pf.HostWorld(lambda rng, theta, n: 4.0 - theta[0] + own.normal(size=n))
    with pytest.raises(pf.NotPure, match="two calls differ"):
        pf.simulate({"rgd": METHOD}, world, rounds=3, realizations=2)
    with pytest.raises(pf.NotPure, match="two calls differ"):
        pf.performative_optimum(PROBLEM, world)
