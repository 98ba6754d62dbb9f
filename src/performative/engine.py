"""The compiled loop: all methods, variants and realisations of a batch advance together, round by round.

Randomness is a function of the seed, the realisation and the round, and of nothing else: chunks, workers and the order of
methods cannot change a result.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from performative.lanes import over_lanes
from performative.metrics import Tally, record
from performative.precision import new_key
from performative.pytrees import pytree, stack

BLOCK = 16
"""Rounds whose random numbers are drawn together; few enough to stay in cache, many enough for long loops."""


@pytree()
class World:
    """What one realisation consists of, apart from chance: the methods, the environment and the truth."""

    methods: Any
    environment: Any
    truth: Any


@pytree()
class Run:
    """One method under way: its state and its tally."""

    state: Any
    tally: Any


Runs = dict[str, Run]


class Needs(NamedTuple):
    """The random numbers of one round: lengths of normal vectors for asking, (index, samples) for the world's answers."""

    normals: frozenset[int]
    answers: frozenset[tuple[int, int]]


class Noise(NamedTuple):
    """The random numbers of one round of one realisation, and the keys for parts that draw their own."""

    ask_key: Any
    world_key: Any
    normals: dict[str, Any]
    answers: dict[str, Any]


class Batch:
    """A batch of realisations under way. Its lanes are all variants of all its realisations, variant by variant.

    `variants` is a list of lists: the worlds of each realisation that share one noise (one per sensitivity, say).
    """

    def __init__(self, worlds: Sequence[Sequence[World]], realizations: Sequence[int], seed: int) -> None:
        variants = len(worlds[0])
        self._world = stack([world[variant] for variant in range(variants) for world in worlds], axis=-1)
        self._keys = jax.vmap(functools.partial(jax.random.fold_in, new_key(seed)))(np.asarray(realizations))
        self._shape = (variants, len(worlds))
        first = {name: int(method.init(new_key(0)).round) for name, method in worlds[0][0].methods.items()}
        opening = tuple(name for name, round_ in first.items() if round_ == 0)
        self.runs: Runs = _begin(self._world, self._keys, opening)
        self.round = 1
        """The next round to run."""

    def advance(self, stop: int) -> None:
        """Run the rounds before `stop` that have not been run."""
        self.runs = jax.block_until_ready(_advance(self._world, self.runs, self._keys, self.round, stop))
        self.round = stop

    def snapshot(self) -> dict[str, dict[str, np.ndarray[Any, Any]]]:
        """The recorded variables after the last round, arrays (..., variant, realization) for each method."""
        values = jax.device_get(_snapshot(self._world, self.runs, self.round - 1))
        return jax.tree.map(lambda a: a.reshape(*a.shape[:-1], *self._shape), values)  # type: ignore[no-any-return]

    def failed(self) -> dict[str, np.ndarray[Any, Any]]:
        """The first round whose iterates were not finite (0 if none), arrays (variant, realization)."""
        return {name: np.asarray(run.tally.failed).reshape(self._shape) for name, run in self.runs.items()}


def first_answer(environment: Any, decision: Array, seed: int, realization: int, n: int) -> Array:
    """The n samples (n, k) that round 0 of a realisation observes at `decision`."""
    world_key = _round_keys(jax.random.fold_in(new_key(seed), realization), 0)[1]
    return environment.sample(jax.random.fold_in(world_key, 0), decision, n)  # type: ignore[no-any-return]


@functools.partial(jax.jit, static_argnames="opening")
def _begin(world: World, keys: Array, opening: tuple[str, ...]) -> Runs:
    """Initial states, and round 0 for the methods that open with a warm-up."""

    def begin(world: World, key: Array) -> Runs:
        runs = {}
        for name, method in world.methods.items():
            state = method.init(jax.random.fold_in(key, 0))
            runs[name] = Run(state, Tally.empty(world.truth, state.decision))
        return runs

    copies = _lanes(world) // keys.shape[0]
    runs: Runs = over_lanes(begin)(world, jnp.tile(keys, copies))
    warm = {name: runs[name] for name in opening}
    noise = _repeated(_noise(world, keys, _needs(world, warm), 0), copies)
    return runs | over_lanes(functools.partial(_round, t=jnp.asarray(0)))(world, warm, noise)


@jax.jit
def _advance(world: World, runs: Runs, keys: Array, start: Array, stop: Array) -> Runs:
    """Rounds start, …, stop−1. The bounds are numbers of the compiled program, so any chunk runs the same code."""
    needs, copies = _needs(world, runs), _lanes(world) // keys.shape[0]

    def block(carry: tuple[Array, Runs]) -> tuple[Array, Runs]:
        first, runs = carry
        noise = jax.vmap(lambda t: _noise(world, keys, needs, t))(first + jnp.arange(BLOCK))

        def body(offset: Array, runs: Runs) -> Runs:
            drawn = jax.tree.map(lambda rounds: lax.dynamic_index_in_dim(rounds, offset, keepdims=False), noise)
            one_round = over_lanes(functools.partial(_round, t=first + offset))
            return one_round(world, runs, _repeated(drawn, copies))  # type: ignore[no-any-return]

        return first + BLOCK, lax.fori_loop(0, jnp.minimum(stop - first, BLOCK), body, runs)

    return lax.while_loop(lambda carry: carry[0] < stop, block, (jnp.asarray(start), runs))[1]


@jax.jit
def _snapshot(world: World, runs: Runs, t: Array) -> dict[str, dict[str, Array]]:
    def snapshot(world: World, runs: Runs) -> dict[str, dict[str, Array]]:
        effect = getattr(world.environment, "effect", None) if world.truth.risk is not None else None
        return {name: record(world.truth, run.tally, run.state, effect, t) for name, run in runs.items()}

    return over_lanes(snapshot)(world, runs)  # type: ignore[no-any-return]


def _round(world: World, runs: Runs, noise: Noise, t: Array) -> Runs:
    """Round t of one lane: ask, let the world answer, tell, count."""

    def answer(decision: Array, index: int, wanted: int) -> Array:
        numbers = noise.answers.get(f"{index}/{wanted}")
        if numbers is not None:
            return world.environment.respond(numbers, decision)  # type: ignore[no-any-return]
        return world.environment.sample(jax.random.fold_in(noise.world_key, index), decision, wanted)  # type: ignore[no-any-return]

    after = {}
    for name, run in runs.items():
        method, state = world.methods[name], run.state
        if hasattr(method, "normals"):
            decisions = method.decide(state, noise.normals[f"{method.normals}"])
        else:
            decisions = method.ask(state, noise.ask_key)
        wanted = method.wanted(state)
        samples = jnp.stack([answer(decisions[index], index, wanted) for index in range(decisions.shape[0])])
        told = method.tell(state, decisions, samples)
        after[name] = Run(told, run.tally.after_round(world.truth, state, told, decisions, wanted, t))
    return after


def _round_keys(key: Array, t: Any) -> tuple[Array, Array]:
    """The keys of round t: for asking, and for the world."""
    ask_key, world_key = jax.random.split(jax.random.fold_in(key, t + 1))
    return ask_key, world_key


def _noise(world: World, keys: Array, needs: Needs, t: Any) -> Noise:
    """The random numbers of round t of each realisation, on the last axis."""
    environment = _one_lane(world).environment

    def draw(key: Array) -> Noise:
        ask_key, world_key = _round_keys(key, t)
        return Noise(
            ask_key,
            world_key,
            {f"{size}": jax.random.normal(ask_key, (size,)) for size in sorted(needs.normals)},
            {
                f"{index}/{wanted}": environment.noise(jax.random.fold_in(world_key, index), wanted)
                for index, wanted in sorted(needs.answers)
            },
        )

    return jax.vmap(draw, out_axes=-1)(keys)


def _needs(world: World, runs: Runs) -> Needs:
    """What one round of these runs draws, found by asking abstractly."""
    normals: set[int] = set()
    answers: set[tuple[int, int]] = set()
    world, runs = _one_lane(world), _one_lane(runs)
    for name, run in runs.items():
        method = world.methods[name]
        asked = jax.eval_shape(lambda method, state: method.ask(state, new_key(0)), method, run.state)
        if hasattr(method, "normals"):
            normals.add(method.normals)
        if hasattr(world.environment, "noise"):
            answers |= {(index, method.wanted(run.state)) for index in range(asked.shape[0])}
    return Needs(frozenset(normals), frozenset(answers))


def _one_lane(tree: Any) -> Any:
    """The shapes of a single lane."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[:-1], leaf.dtype), tree)


def _lanes(tree: Any) -> int:
    return int(jax.tree.leaves(tree)[0].shape[-1])


def _repeated(noise: Noise, copies: int) -> Noise:
    """The same noise for each variant of a realisation."""
    if copies == 1:
        return noise
    return jax.tree.map(lambda leaf: jnp.concatenate([leaf] * copies, axis=-1), noise)
