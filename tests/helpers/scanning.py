"""Runs of a method as one compiled loop, several at once: for tests that look at decisions and states, not at metrics."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import performative as pf
from performative.methods.protocol import plans_ahead, takes_normals
from performative.numerics.precision import precise
from performative.numerics.randomness import new_key, standard_normal


class Runs(NamedTuple):
    """The last states, θ_t of every round (runs, rounds, d), and decisions and samples of the first and of the later rounds."""

    states: object
    decisions: np.ndarray
    first: tuple[np.ndarray, np.ndarray]
    later: tuple[np.ndarray, np.ndarray]

    @property
    def final(self):
        """The mean of θ_T over the runs."""
        return self.decisions[:, -1].mean(axis=0)

    @property
    def state(self):
        """The last state of the first run."""
        return jax.tree.map(lambda leaf: leaf[0], self.states)

    @property
    def every(self):
        """All deployments (…, d) of a method that deploys one decision a round."""
        return np.concatenate([self.first[0][:, None], self.later[0]], axis=1).reshape(-1, self.decisions.shape[-1])


def scan(method, environment, rounds, runs=1, seed=0):
    """`rounds` rounds, the warm-up included if there is one."""
    with precise():
        keys = jax.vmap(functools.partial(jax.random.fold_in, new_key(seed)))(jnp.arange(runs))
        states, *rounds_played = _scan(method, environment, keys, rounds)
    return Runs(states, *jax.tree.map(np.asarray, rounds_played))


def regret(problem, environment, runs):
    """The mean of PR − PR(θ_PO) over all deployments."""
    with precise():
        risks = _risks(problem, environment, jnp.asarray(runs.every))
    return float(np.asarray(risks).mean()) - float(pf.performative_optimum(problem, environment).risk)


def violation(problem, runs):
    """The largest g of all deployments."""
    with precise():
        return float(jnp.max(_values(problem, jnp.asarray(runs.every))))


@jax.jit
def _risks(problem, environment, decisions):
    return jax.vmap(environment.risk(problem))(decisions)


@jax.jit
def _values(problem, decisions):
    return jax.vmap(problem.g)(decisions)


@functools.partial(jax.jit, static_argnames="rounds")
def _scan(method, environment, keys, rounds):
    """All numbers are drawn ahead of the loop: what it holds is compiled, and random bits are the most of it."""

    asking = method.normals if takes_normals(method) else 0

    def ask(state, normals):
        return method.decide(state, normals) if takes_normals(method) else method.ask(state, new_key(0))

    def needed(state):
        count = jax.eval_shape(ask, state, jnp.zeros(asking)).shape[0]
        return asking + count * environment.normals(method.wanted(state))

    plans = plans_ahead(method)

    def play(state, normals):
        decisions = ask(state, normals[:asking])
        answers = normals[asking:].reshape(decisions.shape[0], -1)
        samples = jax.vmap(environment.respond)(answers, decisions)
        tell = method.learn if plans else method.tell
        return tell(state, decisions, samples), (state.decision, (decisions, samples))

    def planned(state, given):
        """A round and its plan; of round 0, which has been played, the plan alone: it takes long to compile, here once."""
        t, normals = given
        played = jax.eval_shape(play, state, normals)[1]
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), played)
        state, seen = jax.lax.cond(t > 0, play, lambda state, _: (state, nothing), state, normals)
        return jax.lax.cond(method.plans(t), method.plan, lambda state: state, state), seen

    def run(key):
        state = method.init(key)
        state, (start, first) = play(state, standard_normal(jax.random.fold_in(key, 0), needed(state)))
        size = needed(state)
        normals = standard_normal(jax.random.fold_in(key, 1), (rounds - 1) * size).reshape(rounds - 1, size)
        if plans:
            normals = jnp.concatenate([jnp.zeros((1, size)), normals])
            state, seen = jax.lax.scan(planned, state, (jnp.arange(rounds), normals))
            decisions, later = jax.tree.map(lambda leaf: leaf[1:], seen)
        else:
            state, (decisions, later) = jax.lax.scan(play, state, normals)
        return state, jnp.concatenate([start[None], decisions]), first, later

    return jax.vmap(run)(keys)
