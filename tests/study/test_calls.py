"""The compiled calls of a method: methods that cannot be compiled, and those whose first tell must fail."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from market import PROBLEM, market_problem, run

import performative as pf
from performative import losses


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Place:
    round: object
    decision: object
    multipliers: object
    seen: object


class Looker:
    """A user's method that branches on its numbers, so that it cannot be compiled, and keeps a list that grows."""

    def __init__(self):
        self.problem = PROBLEM

    def init(self, key):
        return Place(jnp.asarray(1), jnp.array([0.1, 0.1]), jnp.zeros(1), ())

    def ask(self, state, key):
        return state.decision[None]

    def wanted(self, state):
        return 1

    def tell(self, state, decisions, samples):
        moved = state.decision + 0.01 * samples[0, 0]
        decision = moved if float(moved.sum()) < 2.0 else state.decision
        return Place(state.round + 1, decision, state.multipliers, (*state.seen, samples[0, 0, 0])[-3:])


def test_a_users_method_that_cannot_be_compiled(path):
    with pf.Study.create(path, "eu", Looker()) as study:
        run(study, 6)
        state = study.state
    with pf.Study.open(path, "eu", Looker()) as again:
        assert np.array_equal(again.state.decision, state.decision)
        assert len(again.state.seen) == 3
        assert run(again, 9).verify().told == 8


def test_a_first_tell_that_must_fail_is_refused_on_creation(path):
    for make in (pf.safe_apda, pf.apda):
        with pytest.raises(ValueError, match="must hold 3 numbers each, like the effect's rows"):
            pf.Study.create(path, "eu", make(market_problem(loss=losses.Revenue()), effect=np.zeros((3, 2))))
    assert not path.exists()
    anything = market_problem(loss=lambda theta, z: -jnp.sum(theta) * jnp.sum(z))
    pf.Study.create(path, "eu", pf.apda(anything, warmup=20, effect=np.zeros((70, 2)))).close()
