"""`make bench`: every speed target as a ratio inside one run, on one core, in float64, random numbers and metrics included.

Prints the table and writes it to benchmarks/results.md. A lane is one method at one sensitivity at one realization.
"""

from __future__ import annotations

import os

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import platform
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import performative as pf
from benchmarks.peers import numba_fused, numpy_plain, numpy_vectorized
from performative.experiments.settings import METHODS as ALL_METHODS
from performative.experiments.settings import cast_of
from performative.numerics.precision import precise
from performative.problems import regression
from performative.problems.instance import WARMUP, Instance
from performative.simulation import engine
from performative.simulation.worlds import make_worlds
from performative.truth.metrics import Truth

METHODS = ["apda", "pd-ps", "oracle"]
REALIZATIONS = 100
RESULTS = Path(__file__).parent / "results.md"


class Row(NamedTuple):
    """One line of the table."""

    claim: str
    target: str
    measured: str
    met: bool


def pinned() -> None:
    """One core, the one this process is on."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[0]})


def interleaved(calls: dict[str, Callable[[], float]], times: int = 4) -> dict[str, float]:
    """The least time of each call, the calls taken in turn so that all meet the same machine."""
    least = dict.fromkeys(calls, np.inf)
    for _ in range(times):
        for name, call in calls.items():
            least[name] = min(least[name], call())
    return least


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


def against_peers() -> list[Row]:
    """Targets 1 to 3."""
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
        times = interleaved(
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
    return [
        _row("1. time per lane-round against a hand-fused Numba loop", ours / times["numba"], at_most=0.6),
        _row("2a. lane-rounds per second against plain NumPy", times["numpy plain"] / ours, at_least=50),
        _row(
            "2b. the same against NumPy vectorized over 100 realizations", times["numpy vectorized"] / ours, at_least=2
        ),
        _row("3. a user's own functions against the built-in experiment", times["own functions"] / ours, at_most=3),
    ]


def large_dense() -> list[Row]:
    """Target 4: d = k = n = 1000, one realization, against streaming the effect matrix through memory."""
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
        times = interleaved(
            {
                "round": lambda: clocked(lambda: batch.advance(batch.round + 100)) / 100,
                "pass": lambda: clocked(lambda: [stream(matrix, vector).block_until_ready() for _ in range(50)]) / 50,
            }
        )
    print(f"  a round {times['round'] * 1e3:.3f} ms, a pass over the matrix {times['pass'] * 1e3:.3f} ms", flush=True)
    return [
        _row(
            f"4. d = k = n = 1000: a round against {passes} passes over the effect",
            times["round"] / (passes * times["pass"]),
            at_most=2,
        )
    ]


def large_loss(theta: jax.Array, z: jax.Array) -> jax.Array:
    return -jnp.sum(z * theta) + jnp.sum(theta**2)


def memory() -> list[Row]:
    """Target 5: peak memory of a worker, and that it does not grow with the rounds."""
    script = (
        "import sys; from benchmarks.memory import peak; from performative.experiments.reproduce import reproduce; "
        "reproduce('regression', rounds=int(sys.argv[1]), realizations=50); print(peak())"
    )
    peaks = []
    for rounds in (300, 3000):
        ran = subprocess.run([sys.executable, "-c", script, str(rounds)], capture_output=True, text=True, check=True)
        peaks.append(float(ran.stdout.split()[-1]))
    grown = peaks[1] / peaks[0]
    measured = f"{peaks[1]:.0f} MB at 3000 rounds, {grown:.2f}× that at 300"
    return [
        Row(
            f"5. peak memory of a worker with all {len(ALL_METHODS)} methods",
            "under 1024 MB, not growing",
            measured,
            peaks[1] < 1024 and grown < 1.05,
        )
    ]


def _row(claim: str, ratio: float, at_most: float | None = None, at_least: float | None = None) -> Row:
    if at_most is not None:
        return Row(claim, f"≤ {at_most:g}×", f"{ratio:.2f}×", ratio <= at_most)
    assert at_least is not None
    return Row(claim, f"≥ {at_least:g}×", f"{ratio:.1f}×", ratio >= at_least)


def main() -> None:
    pinned()
    rows = [*against_peers(), *large_dense(), *memory()]
    lines = ["| target | wanted | measured | met |", "|---|---|---|---|"]
    lines += [f"| {row.claim} | {row.target} | {row.measured} | {'yes' if row.met else '**no**'} |" for row in rows]
    table = "\n".join(lines)
    print(f"\n{table}")
    cpu = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        "?",
    )
    machine = f"{platform.machine()}, {cpu}, {os.cpu_count()} cores, Python {platform.python_version()}, JAX {jax.__version__}"
    RESULTS.write_text(
        f"# Benchmarks\n\nPrinted by `make bench` on {date.today()}, one core of: {machine}. Ratios of the least of four "
        f"interleaved runs.\n\n{table}\n"
    )


if __name__ == "__main__":
    main()
