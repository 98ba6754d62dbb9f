"""`python -m benchmarks.markets`: the first hundred weeks of a team that sets prices, in forty markets of each kind of demand.

Every market has costs, today's prices and a cap on the basket; a week brings sales of some store-days. Shares are the mean profit
of all weeks so far over today's, as a share of what the best prices would gain; all prices deployed count, probes included.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

import performative as pf
from performative.numerics.precision import precise

Floats = NDArray[np.float64]
KINDS = ("linear", "logit", "quadratic", "nested")
MARKETS, WEEKS, STORE_DAYS = 40, 100, 50
VISITORS, SPREAD, SIMILARITY = 200.0, 0.2, 0.6
COSTS = np.array([2.0, 3.0, 1.5, 4.0, 2.5])
TODAY = np.array([3.5, 4.5, 2.6, 5.8, 4.0])
CAP = 26.0


@dataclasses.dataclass(frozen=True)
class Markets:
    """Markets of one kind, side by side: prices (N, d) bring sales (N, n, d).

    `weekly` is by how much a week is good or bad for all products and store-days alike, in logarithms: one standard deviation.
    """

    kind: str
    costs: Floats
    today: Floats
    cap: float
    numbers: dict[str, Floats]
    weekly: float = 0.0

    @staticmethod
    def of(kind: str, products: int = 5, count: int = MARKETS, seed: int = 0, weekly: float = 0.0) -> Markets:
        """Some markets whose demand is linear, logit, convex-quadratic or nested logit."""
        random = np.random.default_rng([seed, KINDS.index(kind)])
        times = -(-products // len(COSTS))
        costs, today = (np.tile(numbers, times)[:products] for numbers in (COSTS, TODAY))
        size = (count, products)
        if kind in ("logit", "nested"):
            crowd = np.log(products / len(COSTS))  # as many buyers, whatever the number of products
            numbers = {
                "attraction": random.uniform(-1.6, -0.2, size) - crowd,
                "sensitivity": random.uniform(0.5, 1.1, size),
            }
        else:
            units = random.uniform(20.0, 60.0, size)
            own = random.uniform(1.5, 3.0, size) * units / today
            cross = random.uniform(0.0, 0.125, (*size, products)) * own[:, :, None] * len(COSTS) / products
            effect = cross * (1.0 - np.eye(products)) - own[:, :, None] * np.eye(products)
            bend = random.uniform(0.0, 0.35, size) if kind == "quadratic" else np.zeros(size)
            numbers = {"units": units, "effect": effect, "bend": 0.5 * bend * own / today}
        return Markets(kind, costs, today, CAP * products / len(COSTS), numbers, weekly)

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """The lowest and the highest prices."""
        return 1.05 * self.costs, 3.0 * self.costs

    @property
    def problem(self) -> pf.Problem:
        """What the team knows: costs, bounds and the cap."""
        costs = self.costs
        return pf.Problem(
            lambda prices, units: -jnp.sum((prices - costs) * units),
            pf.Box(*self.bounds),
            [pf.constraints.Linear(np.ones(len(costs)), self.cap, name="basket")],
        )

    def one(self, index: int) -> Markets:
        """One of the markets, as a batch of one."""
        return dataclasses.replace(self, numbers={name: part[[index]] for name, part in self.numbers.items()})

    def units(self, prices: Floats) -> Floats:
        """The mean sales (N, d) of a store-day."""
        moved = prices - self.today
        if self.kind == "logit":
            pull = np.exp(self.numbers["attraction"] - self.numbers["sensitivity"] * moved)
            return VISITORS * pull / (1.0 + pull.sum(1, keepdims=True))
        if self.kind == "nested":  # the first three of five products are alike, and so are the others
            pull = np.exp((self.numbers["attraction"] - self.numbers["sensitivity"] * moved) / SIMILARITY)
            first = np.arange(prices.shape[1]) % len(COSTS) < 3
            totals = [pull[:, nest].sum(1, keepdims=True) for nest in (first, ~first)]
            everything = 1.0 + sum(total**SIMILARITY for total in totals)
            return VISITORS * pull * np.where(first, *(total ** (SIMILARITY - 1.0) for total in totals)) / everything
        linear = self.numbers["units"] + np.einsum("nij,nj->ni", self.numbers["effect"], moved)
        return np.maximum(linear + self.numbers["bend"] * moved**2, 0.01)

    def profit(self, prices: Floats) -> Floats:
        """The mean profit (N,) of a store-day."""
        return np.sum((prices - self.costs) * self.units(prices), axis=1)

    def sales(self, random: np.random.Generator, prices: Floats, store_days: int) -> Floats:
        """Poisson sales around the mean times a lognormal store-day, and a lognormal week."""
        crowd = np.exp(SPREAD * random.normal(size=(len(prices), store_days, 1)) - 0.5 * SPREAD**2)
        if self.weekly:
            crowd = crowd * np.exp(self.weekly * random.normal(size=(len(prices), 1, 1)) - 0.5 * self.weekly**2)
        return random.poisson(self.units(prices)[:, None] * crowd).astype(float)

    def best_profit(self) -> Floats:
        """The profit (N,) of the best prices, the best of several local searches."""
        random = np.random.default_rng(0)
        low, high = self.bounds
        starts = [self.today, *(np.clip(self.today * random.uniform(0.8, 1.4, len(low)), low, high) for _ in range(5))]
        found = []
        for index in range(len(next(iter(self.numbers.values())))):
            market = self.one(index)
            unit = market.profit(self.today[None])[0]
            ends = [
                minimize(
                    lambda prices, market=market, unit=unit: -market.profit(prices[None])[0] / unit,
                    start,
                    method="SLSQP",
                    bounds=list(zip(low, high, strict=True)),
                    constraints=[{"type": "ineq", "fun": lambda prices: self.cap - prices.sum()}],
                )
                for start in starts
            ]
            found.append(max(-end.fun for end in ends if self.cap - end.x.sum() > -1e-6) * unit)
        return np.array(found)


class Policy(Protocol):
    """Sets the prices of all markets, week by week."""

    def ask(self) -> Floats:
        """Prices (N, d)."""

    def tell(self, prices: Floats, sales: Floats) -> None:
        """Sales (N, n, d) at these prices."""


class Live:
    """A method of the library, one copy for each market."""

    def __init__(self, method: Any, count: int, seed: int) -> None:
        self._method, self._keys = method, jax.random.split(jax.random.key(seed), count)
        with precise():
            self._state = jax.vmap(method.init)(self._keys)
            self._ask, self._tell = jax.jit(jax.vmap(method.ask)), jax.jit(jax.vmap(method.tell))

    def ask(self) -> Floats:
        """What the method asks for."""
        with precise():
            self._keys = jax.vmap(lambda key: jax.random.split(key)[0])(self._keys)
            return np.asarray(self._ask(self._state, self._keys))[:, 0]

    def tell(self, prices: Floats, sales: Floats) -> None:
        """Tell it."""
        with precise():
            self._state = self._tell(self._state, prices[:, None], sales[:, None])


@dataclasses.dataclass
class Stay:
    """Today's prices, every week."""

    prices: Floats

    def ask(self) -> Floats:
        """Today's prices."""
        return self.prices

    def tell(self, prices: Floats, sales: Floats) -> None:
        """Nothing is learned."""


class LeastSquaresPrices:
    """Least squares of all weeks, the predicted best prices within `step` of the last ones, and random signs on each price.

    With a `design` of some weeks, prices in those weeks are random within ±10 %, and `step` is infinite afterward.
    """

    def __init__(
        self, markets: Markets, count: int, seed: int, *, step: float = 0.05, signs: float = 0.05, design: int = 0
    ):
        self._markets, self._random = markets, np.random.default_rng(seed)
        self._step, self._signs, self._design = step, signs, design
        self._center = np.tile(markets.today, (count, 1))
        self._prices: list[Floats] = []
        self._means: list[Floats] = []

    def ask(self) -> Floats:
        """The next prices."""
        today, week = self._markets.today, len(self._prices)
        if week == 0:
            return self._center
        if week <= self._design:
            return self._inside(today * (1.0 + 0.1 * self._random.uniform(-1.0, 1.0, self._center.shape)))
        self._center = self._predicted_best()
        noise = self._signs * (week + 1) ** -0.25 * self._random.choice([-1.0, 1.0], size=self._center.shape)
        return self._inside(self._center + noise * today)

    def tell(self, prices: Floats, sales: Floats) -> None:
        """Add a week."""
        self._prices.append(prices)
        self._means.append(sales.mean(1))

    def _predicted_best(self) -> Floats:
        today, costs = self._markets.today, self._markets.costs
        prices, means = np.array(self._prices), np.array(self._means)
        price, mean = prices.mean(0), means.mean(0)
        apart, moved = (prices - price) / today, means - mean
        scatter = np.einsum("tni,tnj->nij", apart, apart) + 1e-5 * np.eye(len(today))
        effect = np.einsum("tni,tnj->nij", moved, apart) @ np.linalg.inv(scatter) / today
        bend = np.abs(np.linalg.eigvalsh(effect + np.swapaxes(effect, 1, 2))).max(1) + 1e-9
        best = ahead = self._center
        for turn in range(60):  # accelerated projected gradient steps
            slope = mean + np.einsum("nij,nj->ni", effect, ahead - price)
            slope = slope + np.einsum("nji,nj->ni", effect, ahead - costs)
            last, best = best, self._inside(ahead + slope / bend[:, None], self._center, self._step)
            ahead = best + turn / (turn + 3) * (best - last)
        return best

    def _inside(self, prices: Floats, center: Floats | None = None, step: float = np.inf) -> Floats:
        """The nearest prices within the bounds, the cap and, if given, a share `step` of the center."""
        low, high = self._markets.bounds
        if center is not None:
            low, high = np.maximum(low, center * (1.0 - step)), np.minimum(high, center * (1.0 + step))
        below, above = np.zeros(len(prices)), np.full(len(prices), float(np.max(prices)))
        for _ in range(50):
            middle = 0.5 * (below + above)
            over = np.clip(prices - middle[:, None], low, high).sum(1) > self._markets.cap
            below, above = np.where(over, middle, below), np.where(over, above, middle)
        clipped = np.clip(prices, low, high)
        pulled = np.clip(prices - above[:, None], low, high)
        return np.where((clipped.sum(1) > self._markets.cap)[:, None], pulled, clipped)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a policy earned: gains over today (weeks, N) as shares of today's profit, and what the best prices gain (N,)."""

    gains: Floats
    possible: Floats

    def share(self, weeks: int) -> float:
        """The mean gain of the first weeks, as a share of the best possible one."""
        return float(self.gains[:weeks].mean() / self.possible.mean())

    @property
    def worst_week(self) -> float:
        """The lowest gain of any week in any market."""
        return float(self.gains.min())

    def worst_market(self, since: int = 10) -> float:
        """The lowest mean gain of any market at the end of any week from `since` on."""
        means = np.cumsum(self.gains, axis=0) / np.arange(1, len(self.gains) + 1)[:, None]
        return float(means[since - 1 :].min())

    @property
    def deepest(self) -> Floats:
        """The most that each market was ever behind today's prices in total, in weeks of today's profit."""
        return np.maximum(-np.cumsum(self.gains, axis=0).min(axis=0), 0.0)


def play(policy: Policy, markets: Markets, possible: Floats, weeks: int, store_days: int, seed: int = 1) -> Outcome:
    """Run a policy in all markets; the noise is the same for every policy that sets the same prices."""
    random = np.random.default_rng(seed)
    count = len(possible)
    today = markets.profit(np.tile(markets.today, (count, 1)))
    low, high = markets.bounds
    gains = []
    for _ in range(weeks):
        prices = policy.ask()
        if np.any(prices < low - 1e-6) or np.any(prices > high + 1e-6) or np.any(prices.sum(1) > markets.cap + 1e-6):
            raise ValueError(f"prices must keep bounds and cap, but got {prices[np.argmax(prices.sum(1))]}")
        gains.append(markets.profit(prices) / today - 1.0)
        policy.tell(prices, markets.sales(random, prices, store_days))
    return Outcome(np.array(gains), possible / today - 1.0)


Maker = Callable[[Markets, int, int], Policy]


def policies(store_days: int) -> dict[str, Maker]:
    """Everyone who sets prices, by the name in the table."""

    def live(make: Callable[[Markets], Any]) -> Maker:
        return lambda markets, count, seed: Live(make(markets), count, seed)

    return {
        "today's prices": lambda markets, count, seed: Stay(np.tile(markets.today, (count, 1))),
        "safe_apda": live(lambda m: pf.safe_apda(m.problem, start=m.today, samples=store_days)),
        "least squares within ±5 %": LeastSquaresPrices,
        "ten random weeks, then least squares": lambda markets, count, seed: LeastSquaresPrices(
            markets, count, seed, step=np.inf, signs=0.0, design=10
        ),
        "repeated retraining": live(lambda m: pf.repeated_minimization(m.problem, start=m.today, samples=store_days)),
    }


def title(markets: Markets, asked: argparse.Namespace) -> str:
    """What is above a table."""
    today = markets.profit(np.tile(markets.today, (asked.markets, 1)))
    held_out = f" with seed {asked.market_seed}" if asked.market_seed else ""
    held_out += f" with good and bad weeks ({asked.weekly:g})" if asked.weekly else ""
    return (
        f"{asked.markets} markets{held_out} of {markets.kind} demand, {asked.products} products, {asked.samples} store-days a "
        f"week: the best prices gain {np.mean(markets.best_profit() / today - 1.0):+.1%}"
    )


def marks(weeks: int) -> list[int]:
    """After how many weeks gains are shown."""
    return [mark for mark in (10, 30, 100) if mark <= weeks]


def head(first: str, weeks: int) -> list[str]:
    """The first two lines of a table, whose first column is named."""
    names = [first, *(f"{mark} weeks" for mark in marks(weeks)), "worst week", "worst market", "deepest, 95 %"]
    return [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]


def line(name: str, outcome: Outcome) -> str:
    """A line of a table."""
    shares = " | ".join(f"{outcome.share(mark):.0%}" for mark in marks(len(outcome.gains)))
    return (
        f"| {name} | {shares} | {outcome.worst_week:+.0%} | {outcome.worst_market():+.1%} "
        f"| {np.quantile(outcome.deepest, 0.95):.2f} weeks |"
    )


def ask(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which markets are played, and how."""
    parser.add_argument("--kinds", nargs="+", default=["logit", "quadratic"], choices=KINDS)
    parser.add_argument("--products", type=int, default=5)
    parser.add_argument("--samples", type=int, default=STORE_DAYS, help="store-days in a week")
    parser.add_argument("--weeks", type=int, default=WEEKS)
    parser.add_argument("--markets", type=int, default=MARKETS)
    parser.add_argument("--market-seed", type=int, default=0, help="other markets than those of the documentation")
    parser.add_argument(
        "--weekly", type=float, default=0.0, help="how good or bad weeks are for all alike, such as 0.05"
    )


def asked_for(kind: str, asked: argparse.Namespace) -> Markets:
    """The markets of one kind of demand."""
    return Markets.of(kind, asked.products, asked.markets, asked.market_seed, asked.weekly)


def main() -> None:
    """Print the table for the kinds, products and store-days asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.markets", description=__doc__)
    ask(parser)
    parser.add_argument("--only", nargs="+", help="names of policies")
    asked = parser.parse_args()
    for kind in asked.kinds:
        markets = asked_for(kind, asked)
        possible = markets.best_profit()
        print("", title(markets, asked), "", *head("policy", asked.weeks), sep="\n")
        for name, make in policies(asked.samples).items():
            if asked.only and name not in asked.only:
                continue
            outcome = play(make(markets, asked.markets, 0), markets, possible, asked.weeks, asked.samples)
            print(line(name, outcome), flush=True)


if __name__ == "__main__":
    main()
