"""The compiled loop: ask, sample, tell and tally, for all methods, variants and realizations of a batch together.

Randomness is a function of the seed, the realization and the round alone: chunks, workers and the order of methods cannot
change a result.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from performative.environments import protocol as worlds
from performative.environments.answers import WorldState, answer, initial_state, respond
from performative.environments.protocol import Environment
from performative.methods import protocol as methods
from performative.methods.protocol import Method, MethodState
from performative.numerics.lanes.interpreter import count_lanes, one_lane, over_lanes
from performative.numerics.lanes.values import Same
from performative.numerics.programs import Program
from performative.numerics.pytrees import changed, pytree
from performative.numerics.randomness import fold_in, new_key, normals_from
from performative.numerics.reads import Reading
from performative.sets import Reals
from performative.truth.metrics import EVERY, Tally, Truth, record

BLOCK = 8
"""Rounds whose random numbers are drawn together; few enough to stay in cache, many enough for long loops."""
WORLD = np.uint32(2**32 - 1)
"""What is folded into the key of a realization for the first state of its world; rounds fold in t + 1."""
FEW = 10
"""The most realizations whose warm-up is computed at once."""
OPTIONS: dict[str, str | bool] = {
    "xla_cpu_experimental_ynn_fusion_type": "",
    "xla_disable_hlo_passes": "tree_reduction_rewriter",
}
"""Compiler options that pay here: XLA's library for reductions is made for large arrays, and would take most of the time of the
short sums of a round."""
QUICK: dict[str, str | bool] = {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": "0"}
"""Compiler options for programs that run once or seldom: they compile in a third of the time, and run longer."""


@pytree("values")
class World:
    """What one realization consists of, apart from chance: the methods, the environment and the truth.

    `values` are what the classes of methods and environment read besides their fields: programs are compiled for them.
    """

    methods: dict[str, Method]
    environment: Environment
    truth: Truth
    values: Reading = ()


@pytree("values")
class Alone:
    """One method of a `World`, and its `values`."""

    method: Method
    values: Reading = ()


@pytree()
class Run:
    """One method under way: its state, its tally, and the state of the world that it has acted on."""

    state: MethodState
    tally: Tally
    world: WorldState = ()


Runs = dict[str, Run]


class Noise(NamedTuple):
    """The randomness of one round of one realization, shared by all methods.

    The first key and `asking` are for asking, the other keys and the rows of `answers` for the world's answers: standard normal
    numbers, as many as the most demanding method and environment take.
    """

    keys: Array
    asking: Array
    answers: Array


@pytree("places", "tree")
class Packed:
    """The worlds of all lanes, each array kept once.

    What is the same in all lanes has no axis for them, and what several parts of a world share (the problem that all methods
    know, say) is one array: a round reads less memory, and a large table is not copied for every lane.
    """

    arrays: tuple[Same | NDArray[np.generic], ...]
    places: tuple[int, ...]
    tree: jax.tree_util.PyTreeDef

    @staticmethod
    def of(worlds: Sequence[Any]) -> Packed:
        """The worlds packed; they differ in their numbers alone."""
        rows = [[np.asarray(leaf) for leaf in jax.tree.leaves(world)] for world in worlds]
        arrays: list[Same | NDArray[np.generic]] = []
        places, positions = [], {}
        for leaves in zip(*rows, strict=True):
            first = leaves[0]
            alike = all(leaf is first or _same_bits(leaf, first) for leaf in leaves)
            array = first if alike else np.stack(leaves, axis=-1)
            identity = (alike, array.shape, array.dtype, array.tobytes())
            if identity not in positions:
                positions[identity] = len(arrays)
                arrays.append(Same(array) if alike else array)
            places.append(positions[identity])
        return Packed(tuple(arrays), tuple(places), jax.tree.structure(worlds[0]))

    def part(self, lanes: np.ndarray[Any, Any]) -> Packed:
        """Some of the lanes."""
        arrays = [array if isinstance(array, Same) else array[..., lanes] for array in self.arrays]
        return Packed(tuple(arrays), self.places, self.tree)

    def unpacked(self) -> Any:
        """The world of all lanes, for `over_lanes`."""
        return jax.tree.unflatten(self.tree, [self.arrays[place] for place in self.places])


def _same_bits(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    return one.dtype == other.dtype and one.tobytes() == other.tobytes()


class Batch:
    """A batch of realizations under way. Its lanes are all variants of all its realizations, variant by variant.

    For each realization, `worlds` holds its variants: the worlds that share one noise (one per sensitivity, say).
    """

    def __init__(self, worlds: Sequence[Sequence[World]], realizations: Sequence[int], seed: int) -> None:
        variants = len(worlds[0])
        lanes = [world[variant] for variant in range(variants) for world in worlds]
        self._world = Packed.of(lanes)
        self._rounds = _ROUNDS.of(self._world)
        self._keys = jax.vmap(functools.partial(jax.random.fold_in, new_key(seed)))(np.asarray(realizations))
        self._shape = (variants, len(worlds))
        first = {name: int(FIRST_ROUND(method)) for name, method in worlds[0][0].methods.items()}
        opening = tuple(name for name, round_ in first.items() if round_ == 0)
        self._planning = {name: method for name, method in worlds[0][0].methods.items() if methods.plans_ahead(method)}
        alone = {name: [Alone(world.methods[name], world.values) for world in lanes] for name in self._planning}
        self._plans = {name: _PLAN.of(Packed.of(each)) for name, each in alone.items()}
        begun = self._planned(self._begun(opening), 0)
        self._reached: tuple[int, Runs] = (1, begun)  # one assignment: an interruption cannot split it

    @property
    def round(self) -> int:
        """The next round to run."""
        return self._reached[0]

    @property
    def runs(self) -> Runs:
        """All methods under way, their arrays with the lanes last."""
        return self._reached[1]

    def restore(self, round: int, runs: Runs) -> None:
        """Continue from where an earlier batch was."""
        self._reached = (round, runs)

    def advance(self, stop: int) -> None:
        """Run the rounds before `stop` that have not been run."""
        rounds = np.arange(self.round, stop)
        due = functools.reduce(np.logical_or, (method.plans(rounds) for method in self._planning.values()), rounds < 0)
        for end in sorted({*(rounds[due] + 1).tolist(), *([stop] if len(rounds) else [])}):
            advanced = self._rounds(self.runs, self._keys, self.round, end)
            self._reached = (end, self._planned(advanced, end - 1))
        jax.block_until_ready(self.runs)

    def _planned(self, runs: Runs, t: int) -> Runs:
        """The runs, with the plans that methods make after round t: a program of its own, compiled once for methods alike."""
        due = [name for name, method in self._planning.items() if method.plans(t)]
        return runs | {name: changed(runs[name], state=self._plans[name](runs[name].state)) for name in due}

    def _begun(self, opening: tuple[str, ...]) -> Runs:
        """The runs after round 0, a few realizations at a time: a warm-up holds all its samples at once."""
        variants, realizations = self._shape
        few = max(size for size in range(1, FEW + 1) if realizations % size == 0)
        pieces = []
        for first in range(0, realizations, few):
            rows = np.arange(first, first + few)
            lanes = (rows + realizations * np.arange(variants)[:, None]).reshape(-1)
            pieces.append(_BEGIN(self._world.part(lanes), self._keys[rows], variants=variants, opening=opening))
        return jax.block_until_ready(_JOINED(pieces, variants=variants))

    def snapshot(self) -> dict[str, dict[str, np.ndarray[Any, Any]]]:
        """The recorded variables after the last round, arrays (..., variant, realization) for each method."""
        values = jax.device_get(_SNAPSHOT(self._world, self.runs, self.round - 1))
        return jax.tree.map(lambda a: a.reshape(*a.shape[:-1], *self._shape), values)


def first_answer(environment: Environment, decision: Array, seed: int, realization: int, n: int) -> Array:
    """The n samples (n, k) that round 0 of a realization observes at `decision`."""
    keys = round_keys(jax.random.fold_in(new_key(seed), realization), 0, answers=1)
    return environment.sample(keys[1], decision, n)


def _first_round(method: Method) -> Array:
    """Where a method starts: in round 0 if it opens with a warm-up. Nothing else of its state is computed."""
    return method.init(new_key(0)).round


def _begin(packed: Packed, keys: Array, variants: int, opening: tuple[str, ...]) -> Runs:
    """Initial states, and round 0 for the methods that open with a warm-up."""
    world = packed.unpacked()

    def begin(world: World, key: Array) -> Runs:
        runs = {}
        for name, method in world.methods.items():
            state = method.init(jax.random.fold_in(key, 0))
            begun = initial_state(world.environment, jax.random.fold_in(key, WORLD))
            runs[name] = Run(state, Tally.empty(world.truth, state.decision), begun)
        return runs

    runs: Runs = over_lanes(begin)(world, jnp.tile(keys, variants))
    if not opening:
        return _settled(runs)
    warm = {name: runs[name] for name in opening}
    noise = jax.tree.map(lambda rounds: rounds[0], _noise(keys, *_needs(world, warm), jnp.zeros(1, int), once=1))
    opened = over_lanes(functools.partial(_round, t=jnp.asarray(0)))(world, warm, _repeated(noise, variants))
    return _settled(runs | opened)


def _joined(pieces: list[Runs], variants: int) -> Runs:
    """The runs of all realizations, variant by variant."""

    def joined(*leaves: Array) -> Array:
        apart = [leaf.reshape(*leaf.shape[:-1], variants, leaf.shape[-1] // variants) for leaf in leaves]
        return jnp.concatenate(apart, axis=-1).reshape(*leaves[0].shape[:-1], len(leaves) * leaves[0].shape[-1])

    return jax.tree.map(joined, *pieces)


def _settled(runs: Runs) -> Runs:
    """The same numbers in the types they keep from the first round on, so that later rounds are not compiled again."""
    return jax.tree.map(lambda leaf: lax.convert_element_type(leaf, leaf.dtype), runs)


def _rounds(packed: Packed, runs: Runs, keys: Array, start: Array, stop: Array) -> Runs:
    """Rounds start, …, stop−1. The bounds are numbers of the compiled program, so any chunk runs the same code."""
    world = packed.unpacked()
    needs, variants = _needs(world, runs), count_lanes(runs) // keys.shape[0]

    def block(carry: tuple[Array, Runs]) -> tuple[Array, Runs]:
        first, runs = carry
        noise = _noise(keys, *needs, first + jnp.arange(BLOCK), once=jnp.minimum(stop - first, 1))

        def body(offset: Array, runs: Runs) -> Runs:
            drawn = jax.tree.map(lambda rounds: lax.dynamic_index_in_dim(rounds, offset, keepdims=False), noise)
            one_round = over_lanes(functools.partial(_round, t=first + offset))
            return one_round(world, runs, _repeated(drawn, variants))

        return first + BLOCK, lax.fori_loop(0, jnp.minimum(stop - first, BLOCK), body, runs)

    return lax.while_loop(lambda carry: carry[0] < stop, block, (jnp.asarray(start), runs))[1]


def _snapshot(packed: Packed, runs: Runs, t: Array) -> dict[str, dict[str, Array]]:
    def snapshot(world: World, runs: Runs) -> dict[str, dict[str, Array]]:
        known = worlds.knows_risk(world.environment) and world.truth.excess is not None
        effect = getattr(world.environment, "effect", None) if known else None
        return {name: record(world.truth, run.tally, run.state, effect, t) for name, run in runs.items()}

    return over_lanes(snapshot)(packed.unpacked(), runs)


def _round(world: World, runs: Runs, noise: Noise, t: Array) -> Runs:
    """Round t of one lane: ask, let the world answer, tell, count."""
    environment = world.environment

    def answers(decisions: Array, wanted: int, state: Any) -> tuple[Array, Any]:
        samples = []
        for index in range(decisions.shape[0]):
            if worlds.takes_normals(environment):
                numbers = noise.answers[index, : environment.normals(wanted)]
                samples.append(respond(environment, numbers, decisions[index], t))
            else:
                drawn, state = answer(environment, noise.keys[1 + index], decisions[index], wanted, t, state)
                samples.append(drawn)
        return jnp.stack(samples), state

    after = {}
    for name, run in runs.items():
        method, state = world.methods[name], run.state
        if methods.takes_normals(method):
            decisions = method.decide(state, noise.asking[: method.normals])
        else:
            decisions = method.ask(state, noise.keys[0])
        wanted = method.wanted(state)
        samples, world_state = answers(decisions, wanted, run.world)
        tell = method.learn if methods.plans_ahead(method) else method.tell
        next_state = tell(state, decisions, samples)
        tally = run.tally.after_round(world.truth, state.decision, decisions, samples, t, noise.keys[0], strays(method))
        after[name] = Run(next_state, tally, world_state)
    return after


def _plan(packed: Packed, state: MethodState) -> MethodState:
    """The states of a method in all lanes, with its plans."""
    planned: MethodState = over_lanes(lambda alone, state: alone.method.plan(state))(packed.unpacked(), state)
    return planned


def strays(method: Any) -> slice:
    """Which of the decisions of a round may lie outside of Θ: all of them if the method does not say."""
    if isinstance(method.problem.decisions, Reals):
        return slice(0)
    return getattr(getattr(method, "exploration", None), "strays", EVERY)


def _noise(keys: Array, answers: int, asking: int, size: int, rounds: Array, once: Any) -> Noise:
    """The randomness of some rounds, the first axis, of each realization, the last axis: `standard_normal` of each key.

    Of the keys only their words are computed, in loops that run `once`: otherwise XLA would compute them again for every number.
    """

    def settled(words: tuple[Array, Array]) -> tuple[Array, Array]:
        return lax.fori_loop(0, once, lambda _, __: words, jax.tree.map(jnp.zeros_like, words))

    rows = jnp.arange(1 + answers, dtype=jnp.uint32)
    first, second = over_lanes(jax.random.key_data)(keys)
    words = settled(over_lanes(lambda first, second: fold_in(first, second, rounds + 1))(first, second))
    words = settled(over_lanes(lambda first, second: fold_in(first[:, None], second[:, None], rows))(*words))

    def ask(first: Array, second: Array) -> Array:
        return jax.vmap(functools.partial(normals_from, size=asking))(first[:, 0], second[:, 0])

    def answer(first: Array, second: Array) -> Array:
        return jax.vmap(jax.vmap(functools.partial(normals_from, size=size)))(first[:, 1:], second[:, 1:])

    row_keys = over_lanes(lambda key: jax.vmap(lambda t: round_keys(key, t, answers))(rounds))(keys)
    return Noise(row_keys, over_lanes(ask)(*words), over_lanes(answer)(*words))


def round_keys(key: Array, t: Any, answers: int) -> Array:
    """The keys of round t: the first for asking, the others for the world's answers."""
    round_key = jax.random.fold_in(key, t + 1)
    return jax.vmap(functools.partial(jax.random.fold_in, round_key))(jnp.arange(1 + answers))


def _needs(world: World, runs: Runs) -> tuple[int, int, int]:
    """The most decisions that one round of these runs deploys, and the most normal numbers that asking and one answer take."""
    world, runs = one_lane(world), one_lane(runs)
    answers, asking, size = 0, 0, 0
    for name, run in runs.items():
        method = world.methods[name]
        asked = jax.eval_shape(lambda method, state: method.ask(state, new_key(0)), method, run.state)
        answers, asking = (
            max(answers, asked.shape[0]),
            max(asking, method.normals if methods.takes_normals(method) else 0),
        )
        if worlds.takes_normals(world.environment):
            size = max(size, world.environment.normals(method.wanted(run.state)))
    return answers, asking, size


def _repeated(noise: Noise, copies: int) -> Noise:
    """The same noise for each variant of a realization."""
    if copies == 1:
        return noise
    return jax.tree.map(lambda leaf: jnp.concatenate([leaf] * copies, axis=-1), noise)


FIRST_ROUND, _ROUNDS, _PLAN = Program(_first_round, QUICK), Program(_rounds, OPTIONS), Program(_plan, OPTIONS)
_BEGIN, _JOINED, _SNAPSHOT = (Program(function, QUICK) for function in (_begin, _joined, _snapshot))
