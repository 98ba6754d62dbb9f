"""`python -m benchmarks.starving`: Safe APDA on problems that starve exploration: a bound or a vertex holds the decision.

Regret per deployment at 10³, 10⁴ and 10⁵ deployments of one sample, 20 realizations, and the exponent over the last decade.
"""

from __future__ import annotations

import argparse
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

import performative as pf

REALIZATIONS = 20


def loss(theta: Array, z: Array) -> Array:
    """−zᵀθ + ‖θ‖²."""
    return -jnp.sum(z * theta) + jnp.sum(theta * theta)


def problems() -> dict[str, tuple[pf.Problem, Any, list[float] | None]]:
    """By name: the problem, the world and the start."""

    def world(mean: list[float], variance: float, effect: list[list[float]]) -> pf.LocationFamily:
        return pf.LocationFamily(pf.Gaussian(mean, variance * np.eye(len(mean))), effect=effect)

    slanted = [[-1.0, 0.3], [0.2, -1.0]]
    cap = pf.constraints.Linear([1.0, 1.0], 1.0)
    return {
        "a bound believed by mistake": (
            pf.Problem(loss, pf.Box([0.0, 0.0], [1.0, 1.0])),
            world([2.0, 9.0], 25.0, [[-1.0, 0.0], [0.0, -6.0]]),
            [0.5, 1.0],
        ),
        "held in one dimension": (pf.Problem(loss, pf.Box([0.0], [10.0])), world([-3.0], 4.0, [[-1.0]]), [5.0]),
        "held at a vertex": (
            pf.Problem(loss, pf.Box([0.0, 0.0], [10.0, 10.0])),
            world([-3.0, -2.0], 4.0, slanted),
            [5.0, 5.0],
        ),
        "unbounded, one linear constraint": (
            pf.Problem(loss, pf.sets.Reals(2), [cap]),
            world([3.0, 4.0], 1.0, slanted),
            None,
        ),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.starving", description=__doc__)
    parser.add_argument("--deployments", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    deployments = asked.deployments
    if deployments < 10_000:
        parser.error(
            f"--deployments must be at least 10,000, since exponents are over a decade, but got {deployments:,}"
        )
    marks = [count for count in (1_000, 10_000, 100_000, 1_000_000) if count <= deployments]
    print(f"| | {' | '.join(f'{count:,}' for count in marks)} | exponent | largest violation |")
    print("|---|" + "---|" * (len(marks) + 2))
    for name, (problem, world, start) in problems().items():
        for budget in (1.0, None):
            method = pf.safe_apda(problem, start=start, loss_budget=budget)
            runs = pf.simulate({"safe": method}, world, rounds=deployments, realizations=REALIZATIONS, seed=asked.seed)
            one = runs.isel(algorithm=0)
            mean, rounds = one["deployed_regret"].mean("realization").values, one["t"].values
            regrets = [float(mean[int(np.argmin(np.abs(rounds - count)))]) for count in marks]
            label = name if budget else f"{name}, no budget"
            cells = " | ".join(f"{regret:.3g}" for regret in regrets)
            exponent = np.log10(regrets[-1] / regrets[-2])
            print(f"| {label} | {cells} | {exponent:.2f} | {float(one['deployed_violation'].max()):.2g} |", flush=True)


if __name__ == "__main__":
    main()
