"""`python -m benchmarks.drifting`: what forgetting is worth in a world that drifts, and what it costs in one that does not."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

import performative as pf

ROUNDS, REALIZATIONS = 1000, 20
BEFORE, AFTER = np.array([[-1.0, 0.2], [0.1, -0.8]]), np.array([[-0.4, -0.3], [0.4, -1.5]])
MEAN, LATER = np.array([3.0, 2.0]), np.array([2.0, 3.5])
KEPT = (1.0, 0.995, 0.99, 0.98)


def main() -> None:
    """Print the dynamic regret of safe APDA for each weight that past data keep, where the market drifts and where it stays."""
    problem = pf.Problem(
        lambda prices, demand: -jnp.sum(prices * demand),
        pf.Box([0.0, 0.0], [3.0, 3.0]),
        [pf.constraints.Linear([1.0, 1.0], bound=3.0, name="cap")],
    )
    market = pf.LocationFamily(pf.Gaussian(MEAN, 0.04 * np.eye(2)), BEFORE)

    def path(t: object) -> dict[str, object]:
        share = t / ROUNDS  # type: ignore[operator]
        return {"base.mean": MEAN + share * (LATER - MEAN), "effect": BEFORE + share * (AFTER - BEFORE)}

    methods = {f"{kept:g}": pf.safe_apda(problem, forgetting=kept) for kept in KEPT}
    drifting = pf.simulate(methods, pf.Drifting(market, path), rounds=ROUNDS, realizations=REALIZATIONS)
    still = pf.simulate(methods, market, rounds=ROUNDS, realizations=REALIZATIONS)
    print(f"safe APDA, {ROUNDS} rounds, {REALIZATIONS} realizations: mean regret of a round ± standard error")
    print("| forgetting | drifting market, against its moving optimum | market that stays |")
    print("|---|---|---|")
    for name in methods:
        columns = [drifting.dynamic_regret.sel(algorithm=name), still.regret.sel(algorithm=name)]
        cells = []
        for column in columns:
            last = column.isel(t=-1).values
            cells.append(f"{last.mean():.4f} ± {last.std(ddof=1) / np.sqrt(len(last)):.4f}")
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
