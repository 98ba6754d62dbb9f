"""`make scaling`: how time and memory of a run grow with its rounds, realizations, dimension, base samples and constraints.

Every point is a process of its own on one core. The time of a round is the slope between a short and a long run, so that
compiling is left out; memory is the peak of the process. Prints the tables and writes them to benchmarks/scaling.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.memory import peak

RESULTS = Path(__file__).parent / "scaling.md"
USUAL = {"rounds": 10_000, "realizations": 50, "dimension": 10, "samples": 1000, "constraints": 1, "loss": "quadratic"}
AXES: dict[str, list[dict[str, Any]]] = {
    "rounds T": [{"rounds": rounds} for rounds in (5_000, 50_000, 500_000)],
    "realizations R": [{"realizations": count} for count in (25, 50, 100, 200, 400)],
    "dimension d, dense effect, R = 10": [
        {"dimension": size, "realizations": 10, "rounds": max(100, 1_000_000 // size**2)}
        for size in (10, 30, 100, 300, 1000)
    ],
    "base samples n, loss quadratic in the data": [{"samples": count} for count in (100, 1_000, 10_000)],
    "base samples n, logistic loss": [
        {"samples": count, "loss": "logistic", "rounds": 20_000_000 // (count * 50)} for count in (100, 1_000, 10_000)
    ],
    "constraints m, linear": [{"constraints": count} for count in (1, 10, 100, 1_000)],
}


def run(point: dict[str, Any]) -> None:
    """Measure one point and print it: seconds a round, and the peak memory in MB."""
    import jax
    import jax.numpy as jnp

    import performative as pf

    random = np.random.default_rng(0)
    size = point["dimension"]

    def quadratic(theta: Any, z: Any) -> Any:
        return -jnp.sum(z * theta) + jnp.sum(theta**2)

    def logistic(theta: Any, z: Any) -> Any:
        return jnp.log1p(jnp.exp(-jnp.sum(z * theta))) + 0.1 * jnp.sum(theta**2)

    rows = random.normal(size=(point["constraints"], size)) / np.sqrt(size)
    problem = pf.Problem(
        {"quadratic": quadratic, "logistic": logistic}[point["loss"]],
        pf.Ball(10.0),
        [pf.constraints.Linear(rows, 10.0)],
    )
    effect = 0.3 * random.normal(size=(size, size)) / np.sqrt(size)
    world = pf.LocationFamily(pf.Gaussian(random.normal(size=size), np.ones(size)), effect)
    optimum = pf.Solution(
        np.zeros(size), np.zeros(point["constraints"]), np.float64(0), np.float64(0), False, "not needed"
    )

    def seconds(rounds: int) -> float:
        begun = time.perf_counter()
        pf.simulate(
            {"apda": pf.apda(problem, warmup=point["samples"])},
            world,
            rounds=rounds,
            realizations=point["realizations"],
            record=[rounds],
            optimum=optimum,
            progress=False,
        )
        return time.perf_counter() - begun

    short = max(point["rounds"] // 10, 10)
    seconds(short)  # compiles
    slope = min(seconds(point["rounds"]) - seconds(short) for _ in range(2)) / (point["rounds"] - short)
    print(json.dumps({"round": slope, "total": slope * point["rounds"], "memory": peak(), "jax": jax.__version__}))


def measured(point: dict[str, Any]) -> dict[str, float]:
    """One point, in a process of its own."""
    flags = {**os.environ, "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"}
    command = [sys.executable, "-m", "benchmarks.scaling", json.dumps(USUAL | point)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=flags)
    return dict(json.loads(ran.stdout.splitlines()[-1]))


def exponents(sizes: list[float], values: list[float]) -> str:
    """The slope in log-log between neighboring points."""
    slopes = np.diff(np.log(values)) / np.diff(np.log(sizes))
    return ", ".join(f"{slope:.2f}" for slope in slopes)


def main() -> None:
    if len(sys.argv) > 1:
        run(json.loads(sys.argv[1]))
        return
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[0]})
    empty = measured({"rounds": 100, "realizations": 1, "samples": 10})
    lines = [
        "# Growth of time and memory",
        "",
        "Printed by `make scaling`, one core. Exponents are slopes in log-log between neighboring points.",
        f"A run of next to nothing peaks at {empty['memory']:.0f} MB: Python, JAX and the compiler.",
    ]
    for axis, points in AXES.items():
        key = next(iter(points[0]))
        found = [measured(point) for point in points]
        sizes = [point[key] for point in points]
        of = "total" if key == "rounds" else "round"
        lines += [
            "",
            f"## {axis}",
            "",
            f"| {key} | {'run, s' if of == 'total' else 'round, µs'} | peak memory, MB |",
            "|---|---|---|",
        ]
        lines += [
            f"| {size:,} | {result[of] * (1 if of == 'total' else 1e6):.3g} | {result['memory']:.0f} |"
            for size, result in zip(sizes, found, strict=True)
        ]
        lines += ["", f"Exponents: time {exponents(sizes, [result[of] for result in found])}."]
        print("\n".join(lines[-(len(found) + 7) :]), flush=True)
    RESULTS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
