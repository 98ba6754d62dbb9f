"""A method in an environment, run in the ways that the rules compare."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.checks.equality import Numbers, gap, leaves
from performative.environments.protocol import Environment
from performative.methods.protocol import Method, of_dimension
from performative.numerics.pytrees import as_node, pytree
from performative.numerics.randomness import new_key
from performative.problem import with_dimension
from performative.purity import global_random
from performative.simulation.engine import Batch, World, round_keys
from performative.simulation.worlds import Cast, make_worlds

TOGETHER = (0, 1, 2)
"""Realizations that are simulated together."""


class Snapshot(NamedTuple):
    """A copy of the state before round t, and of what round t deployed: nothing, after the last round."""

    t: int
    decision: Numbers
    multipliers: Numbers
    leaves: list[Numbers]
    structure: jax.tree_util.PyTreeDef
    deployed: Numbers = np.zeros((0, 0))


class Trial:
    """A candidate for a method in an environment. Runs that several checks use happen once."""

    def __init__(self, candidate: Any, environment: Environment, rounds: int, seed: int) -> None:
        self.candidate, self.environment, self.rounds, self.seed = candidate, environment, rounds, seed
        self.key = jax.random.fold_in(new_key(seed), 0)  # of realization 0
        self.random = global_random()
        self._alone: dict[int, Simulated] = {}

    @functools.cached_property
    def method(self) -> Method:
        """The method with its dimension known."""
        problem = with_dimension(self.candidate.problem, environment=self.environment)
        return of_dimension(self.candidate, problem.d)

    def start(self) -> Any:
        """The state that a simulation starts with."""
        return self.method.init(jax.random.fold_in(self.key, 0))

    def first(self, state: Any) -> int:
        """The first round: 0 if there is a warm-up."""
        return 0 if int(state.round) == 0 else 1

    def ask(self, state: Any, t: int) -> Array:
        """What round t deploys, with the key that a simulation has for it."""
        return self.method.ask(state, _keys(self.key, t, answers=0)[0])

    def answer(self, state: Any, decisions: Array, t: int) -> Array:
        """What the world answers, with the keys that a simulation has for it."""
        keys, wanted = _keys(self.key, t, answers=len(decisions))[1:], self.method.wanted(state)
        environment = as_node(self.environment)
        return jnp.stack([_sample(environment, key, x, wanted) for key, x in zip(keys, decisions, strict=True)])

    def play(self) -> list[Snapshot]:
        """Ask, let the world answer and tell, by hand: snapshots of all states from the first to the last."""
        state = self.start()
        snapshots = []
        for t in range(self.first(state), self.rounds + 1):
            before = _snapshot(state, t)
            decisions = self.ask(state, t)
            snapshots.append(before._replace(deployed=np.array(decisions)))
            state = self.method.tell(state, decisions, self.answer(state, decisions, t))
        return [*snapshots, _snapshot(state, self.rounds + 1)]

    @functools.cached_property
    def snapshots(self) -> list[Snapshot]:
        """The snapshots of one such run."""
        return self.play()

    def simulate(self, realizations: Sequence[int]) -> Simulated:
        """What `performative.simulate` does: these realizations at once, in the compiled loop."""
        batch = Batch([[self._world]] * len(realizations), realizations, self.seed)
        recorded = []
        for t in range(1, self.rounds + 1):
            batch.advance(t + 1)
            run = batch.runs["method"]
            recorded.append((np.array(run.tally.decision), np.array(run.state.multipliers)))
        decisions, multipliers = zip(*recorded, strict=True)
        return Simulated(np.stack(decisions), np.stack(multipliers))

    def alone(self, realization: int) -> Simulated:
        """One realization, in the company of copies of itself.

        The program is the one that runs different realizations together, so no other need be compiled.
        """
        if realization not in self._alone:
            self._alone[realization] = self.simulate([realization] * len(TOGETHER)).of(0)
        return self._alone[realization]

    @functools.cached_property
    def _world(self) -> World:
        """The method in its environment, without metrics of the truth, so that no optimum need be found."""
        return make_worlds(Cast({"method": self.method}, Unmeasured(as_node(self.environment))))[0][0]


class Simulated(NamedTuple):
    """θ_t and λ_{t+1} of every round t, arrays (round, d, realization) and (round, m, realization)."""

    decisions: Numbers
    multipliers: Numbers

    def of(self, position: int) -> Simulated:
        """The numbers of one realization."""
        return Simulated(self.decisions[..., position], self.multipliers[..., position])

    def gap(self, other: Simulated) -> float:
        """The largest difference, relative to the largest number; nan if any number is nan."""
        return float(np.max([gap(one, another) for one, another in zip(self, other, strict=True)]))


@pytree()
class Unmeasured:
    """An environment that answers but does not reveal its truth."""

    environment: Environment

    def __getattr__(self, name: str) -> Any:
        if name in ("sample", "normals", "respond"):
            return getattr(self.environment, name)
        raise AttributeError(name)


_keys = jax.jit(round_keys, static_argnames="answers")


@functools.partial(jax.jit, static_argnames="n")
def _sample(environment: Environment, key: Array, decision: Array, n: int) -> Array:
    return environment.sample(key, decision, n)


def _snapshot(state: Any, t: int) -> Snapshot:
    copies = np.array(state.decision), np.array(state.multipliers)
    return Snapshot(t, *copies, leaves(state), jax.tree.structure(state))
