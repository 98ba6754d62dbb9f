"""`python -m benchmarks.careful`: what the first weeks may cost where today's prices are right, or too high already.

On the data of the first week alone, raising every price seems to gain: buyers have not been seen to leave. Here they do. Twenty
markets of each kind of demand, five products and 50 store-days a week, with budgets of one week's profit (the default), a fifth
and a twentieth of it.
"""

from __future__ import annotations

import dataclasses

import numpy as np

import performative as pf
from benchmarks.markets import CAP, COSTS, STORE_DAYS, TODAY, Floats, Live, Markets, play

KINDS = {
    "linear, today's prices are right": ("linear", (1.0, 1.0)),
    "linear, too high by a sixth of the margin": ("linear", (1.5, 1.5)),
    "linear, too high by a quarter of the margin": ("linear", (2.0, 2.0)),
    "constant elasticities of 1.5 to 3.5": ("power", (1.5, 3.5)),
    "constant elasticities of 3 to 5": ("power", (3.0, 5.0)),
    "saturating": ("saturating", (1.0, 3.0)),
    "a kink at today's prices": ("kinked", (2.0, 4.0)),
}
"""Forms of demand, and how steep it is: see `Steep.units`."""
BUDGETS = (1.0, 0.2, 0.05)
COUNT, WEEKS = 20, 30


@dataclasses.dataclass(frozen=True)
class Steep(Markets):
    """Markets in which demand falls steeply with its own price."""

    @staticmethod
    def with_demand(kind: str, steepness: tuple[float, float]) -> Steep:
        """Some markets of a kind, with any steepness between two."""
        random = np.random.default_rng([0, 77])
        size = (COUNT, len(COSTS))
        numbers = {"units": random.uniform(20.0, 60.0, size), "steepness": random.uniform(*steepness, size)}
        return Steep(kind, COSTS, TODAY, CAP, numbers)

    def units(self, prices: Floats) -> Floats:
        """The mean sales (N, d) of a store-day: with a steepness of 1, linear demand makes today's prices right."""
        units, steepness, moved = self.numbers["units"], self.numbers["steepness"], prices - self.today
        if self.kind == "power":
            return units * (prices / self.today) ** -steepness
        if self.kind == "saturating":
            return 2.0 * units / (1.0 + np.exp(steepness * moved))
        if self.kind == "kinked":
            return np.maximum(units * (1.0 - np.where(moved > 0, 2.0, 0.4) * steepness * moved / self.today), 0.01)
        return np.maximum(units * (1.0 - steepness * moved / (self.today - self.costs)), 0.01)


def main() -> None:
    """Print a table for each budget."""
    for budget in BUDGETS:
        print(f"\nloss_budget={budget:g}\n")
        print("| demand | best prices | 10 weeks | 30 weeks | worst week | furthest behind, in weeks | over budget |")
        print("|---|---|---|---|---|---|---|")
        for name, (kind, steepness) in KINDS.items():
            markets = Steep.with_demand(kind, steepness)
            method = pf.safe_apda(markets.problem, start=markets.today, samples=STORE_DAYS, loss_budget=budget)
            outcome = play(Live(method, COUNT, 0), markets, markets.best_profit(), WEEKS, STORE_DAYS)
            gains, behind = outcome.gains, outcome.deepest
            print(
                f"| {name} | {outcome.possible.mean():+.0%} | {gains[:10].mean():+.1%} | {gains.mean():+.1%} "
                f"| {gains.min():+.0%} | {behind.max():.2f} | {int(np.sum(behind > budget))} of {COUNT} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
