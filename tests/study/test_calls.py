"""The compiled calls of a method: what is compiled how often, what cannot be, and methods whose first tell must fail."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from market import PROBLEM, answer, market_problem, run

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


class Planner(Looker):
    """A user's method that plans in every other round. The number it keeps has no type of its own in JAX, only in the store."""

    def init(self, key):
        return Place(jnp.asarray(0), jnp.array([0.1, 0.1]), jnp.zeros(1), jnp.zeros(()))

    def learn(self, state, decisions, samples):
        if samples.shape[1] > 3:
            raise ValueError("at most three samples")
        seen = jnp.where(samples.mean() > 0, 1.0, 2.0)
        return Place(state.round + 1, state.decision, state.multipliers, seen)

    def plans(self, round):
        return round % 2 == 0

    def plan(self, state):
        return dataclasses.replace(state, decision=state.decision + 0.01 * state.seen)

    def tell(self, state, decisions, samples):
        learned = self.learn(state, decisions, samples)
        return jax.lax.cond(self.plans(state.round), self.plan, lambda state: state, learned)


def test_a_plan_is_compiled_once_whatever_the_samples_and_whether_the_study_goes_on_or_is_opened_again(path, caplog):
    def compiled():
        names = re.findall(r"Compiling jit\((_[a-z]+)\)", caplog.text)
        caplog.clear()
        return names

    def tell(study, count):
        deployment = study.ask()
        study.tell(deployment, answer(deployment, count))

    planner = Planner()
    with jax.log_compiles(), caplog.at_level("WARNING"):
        with pf.Study.create(path, "eu", planner) as study:
            with pytest.raises(ValueError, match="at most three samples"):
                tell(study, 4)
            tell(study, 1)
            assert sorted(compiled()) == ["_ask", "_begin", "_learn", "_plan"]
            tell(study, 1)
            assert compiled() == []
            tell(study, 3)
            assert compiled() == ["_learn"]
            assert study.verify().told == 3
        with pf.Study.open(path, "eu", planner) as again:
            tell(again, 1)
            assert compiled() == []
            np.testing.assert_allclose(again.state.decision, [0.12, 0.12])  # after rounds 0 and 2


def test_a_first_tell_that_must_fail_is_refused_on_creation(path):
    for make in (pf.safe_apda, pf.apda):
        with pytest.raises(ValueError, match="must hold 3 numbers each, like the effect's rows"):
            pf.Study.create(path, "eu", make(market_problem(loss=losses.Revenue()), effect=np.zeros((3, 2))))
    assert not path.exists()
    anything = market_problem(loss=lambda theta, z: -jnp.sum(theta) * jnp.sum(z))
    pf.Study.create(path, "eu", pf.apda(anything, warmup=20, effect=np.zeros((70, 2)))).close()
