"""A method in an environment, run in the ways that rules compare."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.numerics.pytrees import as_node, pytree
from performative.numerics.randomness import new_key
from performative.simulation.engine import Batch, World, round_keys
from performative.simulation.worlds import make_worlds

TOGETHER = (0, 1, 2)
"""Realisations that are simulated together."""
Numbers = np.ndarray[Any, Any]
SMALL = 1e-3
"""The least size that differences are a share of: of a run of zeros, only rounding is left to compare."""


class Seen(NamedTuple):
    """A copy of a state before round t, and of what it deployed; nothing was deployed from the last state."""

    t: int
    decision: Numbers
    multipliers: Numbers
    leaves: list[Numbers]
    structure: Any
    deployed: Numbers = np.zeros((0, 0))


class Trial:
    """A method in an environment. What several checks look at is run once."""

    def __init__(self, given: Any, environment: Any, rounds: int, seed: int) -> None:
        self.given, self.environment, self.rounds, self.seed = given, environment, rounds, seed
        self.key = jax.random.fold_in(new_key(seed), 0)  # of realisation 0
        self.random = global_random()

    @functools.cached_property
    def method(self) -> Any:
        """The method with its dimension known."""
        if self.given.problem.dimension is None:
            return self.given.of_dimension(self.environment.dimension)
        return self.given

    def start(self) -> Any:
        """The state that a simulation starts with."""
        return self.method.init(jax.random.fold_in(self.key, 0))

    def first(self, state: Any) -> int:
        """The first round: 0 is a warm-up."""
        return 0 if int(state.round) == 0 else 1

    def ask(self, state: Any, t: int) -> Array:
        """What round t deploys, with the key that a simulation has for it."""
        return self.method.ask(state, _keys(self.key, t, answers=0)[0])

    def answer(self, state: Any, decisions: Any, t: int) -> Array:
        """What the world answers, with the keys that a simulation has for it."""
        keys, wanted = _keys(self.key, t, answers=len(decisions))[1:], self.method.wanted(state)
        environment = as_node(self.environment)
        return jnp.stack([_sample(environment, key, x, wanted) for key, x in zip(keys, decisions, strict=True)])

    def play(self) -> list[Seen]:
        """Ask, let the world answer and tell, by hand: all states from the first to the last."""
        state = self.start()
        rounds = range(self.first(state), self.rounds + 1)
        seen = []
        for t in rounds:
            before = _seen(state, t)
            decisions = self.ask(state, t)
            seen.append(before._replace(deployed=np.array(decisions)))
            state = self.method.tell(state, decisions, self.answer(state, decisions, t))
        return [*seen, _seen(state, self.rounds + 1)]

    @functools.cached_property
    def played(self) -> list[Seen]:
        """One such run."""
        return self.play()

    def simulate(self, realizations: Sequence[int]) -> Simulated:
        """What `performative.simulate` does: these realisations at once, in the compiled loop."""
        batch = Batch([[self._world]] * len(realizations), realizations, self.seed)
        recorded = []
        for t in range(1, self.rounds + 1):
            batch.advance(t + 1)
            run = batch.runs["method"]
            recorded.append((np.array(run.tally.decision), np.array(run.state.multipliers)))
        decisions, multipliers = zip(*recorded, strict=True)
        return Simulated(np.stack(decisions), np.stack(multipliers))

    def alone(self, realization: int) -> Simulated:
        """One realisation, in the company of copies of itself.

        The program is the one that runs different realisations together, which spares compiling another.
        """
        return self.simulate([realization] * len(TOGETHER)).of(0)

    @functools.cached_property
    def _world(self) -> World:
        """The method in its environment. No metrics of the truth: no optimum need be found."""
        return make_worlds({"method": self.method}, Unmeasured(as_node(self.environment)), None, None)[0]


class Simulated(NamedTuple):
    """θ_t and λ_{t+1} of every round t, arrays (round, d, realisation) and (round, m, realisation)."""

    decisions: Numbers
    multipliers: Numbers

    def of(self, position: int) -> Simulated:
        """Those of one realisation."""
        return Simulated(self.decisions[..., position], self.multipliers[..., position])

    def gap(self, other: Simulated) -> float:
        """The largest difference, as a share of the largest number; nan if there is one anywhere."""
        return float(np.max([gap(one, another) for one, another in zip(self, other, strict=True)]))


@pytree()
class Unmeasured:
    """An environment that answers, and keeps its truth to itself."""

    environment: Any

    def __getattr__(self, name: str) -> Any:
        if name in ("sample", "normals", "respond"):
            return getattr(self.environment, name)
        raise AttributeError(name)


_keys = jax.jit(round_keys, static_argnames="answers")


@functools.partial(jax.jit, static_argnames="n")
def _sample(environment: Any, key: Array, decision: Array, n: int) -> Array:
    return environment.sample(key, decision, n)


def _seen(state: Any, t: int) -> Seen:
    copies = np.array(state.decision), np.array(state.multipliers)
    return Seen(t, *copies, leaves(state), jax.tree.structure(state))


def leaves(state: Any) -> list[Numbers]:
    """Copies of all arrays of a state, keys as their words."""
    copies = []
    for leaf in jax.tree.leaves(state):
        if jnp.issubdtype(getattr(leaf, "dtype", np.float64), jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        copy = np.array(leaf)
        if copy.dtype.kind not in "biufc":
            raise TypeError(f"a state must be a pytree of numbers, but holds a {type(leaf).__name__}")
        copies.append(copy)
    return copies


def same_bits(one: list[Numbers], other: list[Numbers]) -> bool:
    """Whether two lists of arrays are the same, bit for bit."""
    return [_identified(array) for array in one] == [_identified(array) for array in other]


def _identified(array: Numbers) -> tuple[Any, ...]:
    return array.shape, array.dtype, array.tobytes()


def gap(one: Numbers, other: Numbers) -> float:
    """The largest difference, as a share of the largest number."""
    largest = np.max(np.abs(other), initial=SMALL)
    return float(np.max(np.abs(one - other), initial=0.0) / largest)


def global_random() -> dict[str, Any]:
    """The random states that all programs share, in a form that compares."""
    kind, words, *rest = np.random.get_state()  # noqa: NPY002
    return {"numpy": (kind, np.asarray(words).tobytes(), *rest), "Python": random.getstate()}
