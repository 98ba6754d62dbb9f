"""`python -m benchmarks.coverage`: how often the 95 % intervals in the status of a study hold the truth, in markets of each kind.

Prices are set by `pf.safe_apda`; after 10, 30 and 100 weeks the belief is computed from the log as `status` does, and compared
with the true profit now, its gain over today's, and the profit of the best prices. Widths are multiples of the possible gain.
Where the prices are today's, the gain is 0 for sure: such gains do not count, and a line below the table says how many there are.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

import performative as pf
from benchmarks.markets import KINDS, STORE_DAYS, Floats, Live, Markets, Policy, play
from performative.study import belief

MARKS = (10, 30, 100)
QUANTITIES = ("risk now", "gain over the start", "risk at the optimum")


class Week(NamedTuple):
    """What was deployed in a week (N, d), what it brought (N, n, k), and the decision afterward (N, d)."""

    prices: Floats
    sales: Floats
    decision: Floats


class Logged:
    """A policy that keeps a log."""

    def __init__(self, policy: Live) -> None:
        self._policy = policy
        self.weeks: list[Week] = []

    def ask(self) -> Floats:
        """What the policy asks for."""
        return self._policy.ask()

    def tell(self, prices: Floats, sales: Floats) -> None:
        """Tell it, and note what it decides."""
        self._policy.tell(prices, sales)
        self.weeks.append(Week(prices, sales, np.asarray(self._policy._state.decision)))


class Claim(NamedTuple):
    """An interval, None if it is too early for one, the truth, and what the width is measured in.

    It is `certain` that the gain of the start over itself is 0.
    """

    quantity: str
    weeks: int
    low: float | None
    high: float | None
    extrapolates: bool
    truth: float
    possible: float
    certain: bool

    @property
    def holds(self) -> bool:
        """Whether the truth is in the interval."""
        return self.low is not None and self.high is not None and self.low <= self.truth <= self.high


def claims(
    kind: str,
    count: int,
    marks: Sequence[int] = MARKS,
    seed: int = 0,
    market_seed: int = 0,
    samples: int = STORE_DAYS,
    weekly: float = 0.0,
    products: int = 5,
) -> Iterator[Claim]:
    """What the status claims in some markets of one kind, after so many weeks; `seed` is that of the sales."""
    markets = Markets.of(kind, products, count, market_seed, weekly)
    method = pf.safe_apda(markets.problem, start=markets.today, samples=samples)
    best = markets.best_profit()
    today = markets.profit(np.tile(markets.today, (count, 1)))
    logged = Logged(Live(method, count, seed))
    policy: Policy = logged
    play(policy, markets, best, max(marks), samples, seed=seed + 1)
    state: Any = method.init(jax.random.key(0))  # asked for the structure of the effect, which there is none of
    for index in range(count):
        recent = belief.Recent()
        market = markets.one(index)
        for number, week in enumerate(logged.weeks, start=1):
            recent.add(number, week.prices[index][None], week.sales[index][None])
            if number not in marks:
                continue
            world = belief.believed(method, state, recent)
            assert world is not None
            decision = week.decision[index]
            known = (
                belief.predicted(world, decision),
                belief.gain(world, decision, markets.today),
                belief.optimum(world, method.problem, decision, markets.today),
            )
            now = float(market.profit(decision[None])[0])
            truths = (-now, now - today[index], -best[index])
            for quantity, one, truth in zip(QUANTITIES, known, truths, strict=True):
                assert one is not None, f"no {quantity}"
                extrapolates = one.low is not None and one.reason is not None
                possible = float(best[index] - today[index])
                certain = quantity == QUANTITIES[1] and np.array_equal(decision, markets.today)
                yield Claim(quantity, number, one.low, one.high, extrapolates, float(truth), possible, certain)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=__doc__)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--products", type=int, default=5)
    parser.add_argument("--markets", type=int, default=40)
    parser.add_argument("--market-seed", type=int, default=0, help="other markets than those of the documentation")
    parser.add_argument("--seed", type=int, default=0, help="other sales in the same markets")
    parser.add_argument(
        "--weekly", type=float, default=0.0, help="how good or bad weeks are for all alike, such as 0.05"
    )
    asked = parser.parse_args()
    print("| demand | weeks | claim | holds | width | too early | extrapolates |\n|---|---|---|---|---|---|---|")
    certain = []
    for kind in asked.kinds:
        options = {"seed": asked.seed, "market_seed": asked.market_seed, "weekly": asked.weekly}
        made = list(claims(kind, asked.markets, products=asked.products, **options))
        for weeks in MARKS:
            for quantity in QUANTITIES:
                all_of = [one for one in made if (one.quantity, one.weeks) == (quantity, weeks)]
                shown = [one for one in all_of if one.low is not None and one.high is not None and not one.certain]
                holds, width = "–", "–"
                if shown:
                    holds = f"{np.mean([one.holds for one in shown]):.0%}"
                    width = f"{np.mean([(one.high - one.low) / one.possible for one in shown]):.2f}"  # type: ignore[operator]
                early, far = np.mean([one.low is None for one in all_of]), np.mean([one.extrapolates for one in all_of])
                print(
                    f"| {kind} | {weeks} | {quantity} | {holds} | {width} | {early:.0%} | {far:.0%} |",
                    flush=True,
                )
                if any(one.certain for one in all_of):
                    certain.append(f"{kind}, {weeks} weeks: {np.mean([one.certain for one in all_of]):.0%}")
    if certain:
        print(f"\nAt today's prices, where the gain is 0 for sure: {'; '.join(certain)}")


if __name__ == "__main__":
    main()
