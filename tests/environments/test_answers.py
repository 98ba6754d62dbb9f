from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative.environments.answers import Signature, signature_of

PROBLEM = pf.Problem(lambda theta, z: 0.5 * jnp.sum((theta - z) ** 2), pf.Box([-9.0], [9.0]))


class Plain:
    def sample(self, key, theta, n):
        return jnp.zeros((n, 1))


class WithRound:
    def sample(self, key, theta, n, t):
        return jnp.full((n, 1), 1.0 * t)


class WithState:
    def init(self, key):
        return jnp.zeros(())

    def sample(self, key, theta, n, state):
        return jnp.full((n, 1), state), state + 1.0


class WithBoth(WithState):
    def sample(self, key, theta, n, state, t):
        return jnp.full((n, 1), 100.0 * t + state), state + 1.0


@pytest.mark.parametrize(
    ("world", "signature"),
    [
        (Plain(), Signature(False, False)),
        (WithRound(), Signature(True, False)),
        (WithState(), Signature(False, True)),
        (WithBoth(), Signature(True, True)),
    ],
)
def test_the_arguments_of_sample_say_what_a_world_takes(world, signature):
    assert signature_of(world) == signature


def test_a_state_needs_an_init():
    class NoInit:
        def sample(self, key, theta, n, state):
            return jnp.zeros((n, 1)), state

    with pytest.raises(TypeError, match="both init"):
        signature_of(NoInit())


class State(NamedTuple):
    round: jax.Array
    decision: jax.Array
    multipliers: jax.Array


class Listener:
    """A method that deploys its decision twice, and takes the last sample for its next."""

    problem = PROBLEM

    def init(self, key):
        return State(jnp.ones((), int), jnp.zeros(1), jnp.zeros(0))

    def ask(self, state, key):
        return jnp.stack([state.decision, state.decision])

    def wanted(self, state):
        return 1

    def tell(self, state, decisions, samples):
        return State(state.round + 1, samples[-1, -1], state.multipliers)


@pytest.mark.parametrize(
    ("world", "heard"),
    [
        (WithState(), [0.0, 1.0, 3.0, 5.0]),  # two deployments a round, one state
        (WithBoth(), [0.0, 101.0, 203.0, 305.0]),
    ],
)
def test_a_simulation_passes_the_round_and_the_state_on(world, heard):
    runs = pf.simulate({"listener": Listener()}, world, rounds=4, realizations=2, record=[1, 2, 3, 4])
    np.testing.assert_array_equal(runs.decision.values[0, :, :, 0], [heard, heard])
    assert np.all(np.isnan(runs.regret))  # a world with a state has no risk of a decision
    assert np.all(np.isfinite(runs.loss))


@pytest.mark.filterwarnings("ignore::performative.errors.LocalOptimumWarning")
@pytest.mark.slow
def test_a_world_that_takes_the_round_is_measured_against_every_recorded_round():
    runs = pf.simulate(
        {"listener": Listener()}, WithRound(), rounds=6, realizations=2, record=[1, 2, 3, 4, 5, 6], samples=2
    )
    np.testing.assert_allclose(runs.optimal_decision.values[0, :, 0], [1, 2, 3, 4, 5, 6], atol=1e-6)
    # θ_t is what was heard in round t − 1, one behind the optimum t; in round 1 it is 0.
    np.testing.assert_allclose(runs.dynamic_regret.values, 0.5, atol=1e-6)
    np.testing.assert_allclose(runs.optimum.values[0], 3.5, atol=1e-6)  # the best fixed decision
    fixed = np.mean([0.5 * (t - 1 - t) ** 2 - 0.5 * (3.5 - t) ** 2 for t in range(1, 7)])
    np.testing.assert_allclose(runs.regret.isel(t=-1).values, fixed, atol=1e-6)
