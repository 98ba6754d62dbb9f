"""`python -m benchmarks.careful`: what the first weeks may cost where today's prices are right, or too high already.

On the data of the first week alone, raising every price seems to gain: buyers have not been seen to leave. Here they do. Twenty
markets of each kind of demand, five products and 50 store-days a week, with budgets of one week's profit (the default), a fifth
and a twentieth of it. A last table counts how often one price exceeds its budget with few samples; `--one` prints it alone.
"""

from __future__ import annotations

import argparse
import dataclasses

import numpy as np
from scipy.stats import norm

import performative as pf
from benchmarks.markets import CAP, COSTS, STORE_DAYS, TODAY, Floats, Live, Markets, play
from performative.losses import Revenue

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
ONE, ONE_WEEKS = 200, 60
"""How many runs of one price, and how long they are."""


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


def one_price(steepness: float, samples: int, budget: float) -> tuple[int, float]:
    """In how many runs of one price the budget was ever exceeded, and how many budgets were ever lost at most.

    Two units are sold at today's price of two, with noise of sd 1, and `steepness` fewer for each unit that it is raised. With a
    steepness of one today's price is right, with two it is too high by a quarter.
    """
    problem = pf.Problem(Revenue(), pf.Box([0.0], [5.0]))
    policy = Live(pf.safe_apda(problem, start=[2.0], samples=samples, loss_budget=budget), ONE, 0)
    random, lost = np.random.default_rng(0), np.zeros((ONE_WEEKS, ONE))
    for week in range(ONE_WEEKS):
        price = policy.ask()
        mean = 2.0 - steepness * (price - 2.0)
        lost[week] = 4.0 - (price * mean)[:, 0]
        policy.tell(price, mean[:, None] + random.normal(size=(ONE, samples, 1)))
    week_at_start = 2.0 * (2.0 * (2.0 * norm.cdf(2.0) - 1.0) + 2.0 * norm.pdf(2.0))  # E|θz| at θ = 2, z ∼ N(2, 1)
    allowed = budget * week_at_start * np.sqrt(np.maximum(np.arange(1, ONE_WEEKS + 1), 30.0) / 30.0)
    share = (np.cumsum(lost, axis=0) / allowed[:, None]).max(axis=0)
    return int(np.sum(share > 1.0)), float(share.max())


def one_price_table() -> None:
    """Print how often the budget is exceeded with one price."""
    print(f"\none price, {ONE_WEEKS} weeks: over budget, of {ONE} runs (the most that was lost, in budgets)\n")
    print("| samples a week, budget | today's price is right | a little too high | too high by a quarter |")
    print("|---|---|---|---|")
    for samples in (1, 5, STORE_DAYS):
        for budget in BUDGETS[:2]:
            counts = (one_price(steepness, samples, budget) for steepness in (1.0, 1.5, 2.0))
            cells = " | ".join(f"{count} ({most:.1f})" for count, most in counts)
            print(f"| {samples}, {budget:g} | {cells} |", flush=True)


def markets_tables() -> None:
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


def main() -> None:
    """Print all tables, or that of one price alone."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.careful", description=__doc__)
    parser.add_argument("--one", action="store_true", help="one price alone")
    if not parser.parse_args().one:
        markets_tables()
    one_price_table()


if __name__ == "__main__":
    main()
