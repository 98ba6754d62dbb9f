"""The compiled loop against other ways to write it, on one core: `python -m benchmarks engine`.

In float64, random numbers and metrics included. A lane is one method at one sensitivity at one realization.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np

import performative as pf
from benchmarks.peers import numba_fused, numpy_plain, numpy_vectorized
from benchmarks.rows import Row, at_least, at_most, in_turn
from performative.experiments.settings import EXPERIMENTS, cast_of
from performative.numerics.precision import precise
from performative.problems import regression
from performative.problems.instance import WARMUP, Instance
from performative.simulation import engine
from performative.simulation.worlds import make_worlds
from performative.truth.metrics import Truth

METHODS = ["apda", "pd-ps", "oracle"]
REALIZATIONS = 100
SAFE_LANES = 20
SAFE_ROUNDS = 100_000, 132_768
"""The rounds in which `safe_apda` is compared with `apda`: plans are 1,500 to 2,000 rounds apart there, and 4,096 at 10⁶."""


def clocked(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def batch_of(worlds: list[list[engine.World]]) -> engine.Batch:
    batch = engine.Batch(worlds, range(len(worlds)), 0)
    batch.advance(50)  # compiles
    return batch


def per_lane_round(batch: engine.Batch, lanes: int, rounds: int) -> Callable[[], float]:
    """µs per lane-round of the next `rounds` rounds."""
    return lambda: clocked(lambda: batch.advance(batch.round + rounds)) / rounds / lanes * 1e6


def regression_instances() -> dict[float, list[Instance]]:
    return {eps: [regression.instance(0, r, eps, WARMUP) for r in range(REALIZATIONS)] for eps in (1.0, 10.0)}


def with_own_functions(instance: Instance) -> Instance:
    """The same problem as a user would write it: plain functions, no structure told, gradients by differentiation."""
    left, right = np.triu_indices(regression.TASKS, 1)
    proximity = instance.problem.constraints[0]

    def close(bound: jax.Array, active: jax.Array, theta: jax.Array) -> jax.Array:
        rows = theta.reshape(regression.TASKS, regression.FEATURES)
        return jnp.where(active, jnp.sum((rows[left] - rows[right]) ** 2, axis=1) - bound, -1.0)

    own = jax.tree_util.Partial(OWN.setdefault("close", close), proximity.bound, proximity.active)
    problem = pf.Problem(
        own_loss,
        pf.Ball(regression.RADIUS),
        [pf.constraints.Function(own)],
        dimension=regression.TASKS * regression.FEATURES,
    )
    return instance._replace(problem=problem, truth=problem)


OWN: dict[str, Callable[..., jax.Array]] = {}


def own_loss(theta: jax.Array, z: jax.Array) -> jax.Array:
    total = 0.0
    for task in range(regression.TASKS):
        x, y = z[4 * task : 4 * task + 3], z[4 * task + 3]
        total = total + 0.5 * (y - theta[3 * task : 3 * task + 3] @ x) ** 2
    return total


def against_peers() -> Iterator[Row]:
    """The paper's methods in the regression, built in and as a user would write it."""
    instances = [regression.instance(0, r, 1.0, WARMUP) for r in range(REALIZATIONS)]
    for method in METHODS:
        numba_fused.run(instances[0], method, 100, 0)  # compiles

    def averaged(run: Callable[[str], object], lane_rounds: int) -> Callable[[], float]:
        return lambda: float(np.mean([clocked(lambda m=method: run(m)) / lane_rounds * 1e6 for method in METHODS]))

    with precise():
        lanes = REALIZATIONS * 2 * len(METHODS)
        both = regression_instances()
        own_functions = {eps: [with_own_functions(instance) for instance in rows] for eps, rows in both.items()}
        built_in = batch_of(make_worlds(cast_of(both, METHODS)))
        own = batch_of(make_worlds(cast_of(own_functions, METHODS)))
        times = in_turn(
            {
                "performative": per_lane_round(built_in, lanes, 1000),
                "own functions": per_lane_round(own, lanes, 300),
                "numba": averaged(lambda m: numba_fused.run(instances[0], m, 100_000, 0), 100_000),
                "numpy vectorized": averaged(lambda m: numpy_vectorized.run(instances, m, 400, 0), 400 * REALIZATIONS),
                "numpy plain": averaged(lambda m: numpy_plain.run(instances[0], m, 100, 0), 100),
            }
        )
    ours = times["performative"]
    for name, value in times.items():
        print(f"  {name:18} {value:10.3f} µs a lane-round", flush=True)
    yield at_most("time per lane-round against a hand-fused Numba loop", ours / times["numba"], 0.6)
    yield at_least("lane-rounds per second against plain NumPy", times["numpy plain"] / ours, 50)
    yield at_least("the same against NumPy vectorized over 100 realizations", times["numpy vectorized"] / ours, 2)
    yield at_most("a user's own functions against the built-in experiment", times["own functions"] / ours, 3)


def large_dense() -> Iterator[Row]:
    """d = k = n = 1000, one realization, against streaming the effect matrix through memory."""
    size, passes = 1000, 6  # read and write Â (update), read Â twice (shift and its transpose), read A for each answer
    random = np.random.default_rng(0)
    effect = random.normal(size=(size, size)) / np.sqrt(size) * 0.3
    problem = pf.Problem(large_loss, pf.Ball(10.0), dimension=size)
    world = pf.LocationFamily(pf.Gaussian(random.normal(size=size), np.ones(size)), effect)
    with precise():
        method = pf.apda(problem, warmup=size)
        optimum = pf.Solution(np.zeros(size), np.zeros(0), np.float64(0), np.float64(0), False, "not needed")
        batch = batch_of([[engine.World({"apda": method}, world, Truth(problem.of_dimension(size), None, optimum))]])
        matrix = jnp.asarray(effect)
        vector = jnp.ones(size)
        stream = jax.jit(lambda a, x: a @ x)
        stream(matrix, vector).block_until_ready()
        times = in_turn(
            {
                "round": lambda: clocked(lambda: batch.advance(batch.round + 100)) / 100,
                "pass": lambda: clocked(lambda: [stream(matrix, vector).block_until_ready() for _ in range(50)]) / 50,
            }
        )
    print(f"  a round {times['round'] * 1e3:.3f} ms, a pass over the matrix {times['pass'] * 1e3:.3f} ms", flush=True)
    yield at_most(
        f"d = k = n = 1000: a round against {passes} passes over the effect",
        times["round"] / (passes * times["pass"]),
        2,
    )


def large_loss(theta: jax.Array, z: jax.Array) -> jax.Array:
    return -jnp.sum(z * theta) + jnp.sum(theta**2)


def safe_lanes() -> Iterator[Row]:
    """`safe_apda` against `apda` in both experiments, all its parts included."""
    first, last = SAFE_ROUNDS
    for name, experiment in EXPERIMENTS.items():
        with precise():
            instances = {1.0: [experiment.instance(0, r, 1.0, WARMUP) for r in range(SAFE_LANES)]}
            batches = {key: batch_of(make_worlds(cast_of(instances, [key]))) for key in ("apda", "safe-apda")}
            for batch in batches.values():
                batch.advance(first)
            part = (last - first) // 4
            times = in_turn({key: per_lane_round(batch, SAFE_LANES, part) for key, batch in batches.items()})
        for key, value in times.items():
            print(f"  {name} {key:10} {value:10.3f} µs a lane-round", flush=True)
        claim = f"a lane-round of `safe_apda` against one of `apda` after {first:,} rounds, {name}"
        yield at_most(claim, times["safe-apda"] / times["apda"], 4)


def rows() -> Iterator[Row]:
    """All lines."""
    yield from against_peers()
    yield from large_dense()
    yield from safe_lanes()
