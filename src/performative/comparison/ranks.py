"""Which method is better: a ranking by paired tests, with Holm's correction, that says which methods it cannot distinguish."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import xarray as xr


LEVEL = 0.05
"""The chance, for all pairs together, of finding a difference between two equal methods."""
BROKEN = 1e-6
"""Deployed violations and distances from Θ up to this count as none."""
FAR = 1e100
"""Anything larger counts as not finite: its square would overflow."""
_AT_THE_END = (
    "deployed_regret",
    "regret",
    "deployed_violation",
    "outside",
    "distance",
    "stable_distance",
    "deployments",
)


class Row(NamedTuple):
    """One line of the ranking: means at the end of the budget, with half the width of their 95% intervals.

    >>> import performative as pf
    >>> comparison = pf.compare("revenue", methods=["rgd", "rrm"], deployments=50, realizations=2)
    >>> row: pf.comparison.Row = pf.comparison.ranking(comparison.results["revenue"])[0]
    >>> mean, half = row.deployed_regret
    >>> f"{row.rank}. {row.method}: {mean:.1f} ± {half:.1f}"
    '1. rgd: 0.8 ± 0.2'
    """

    rank: int
    method: str
    deployed_regret: tuple[float, float]
    regret: tuple[float, float]
    deployed_violation: float
    outside: float
    distance: tuple[float, float]
    stable_distance: tuple[float, float]
    seconds: float
    deployments: int
    alike: tuple[str, ...]

    @property
    def broke(self) -> bool:
        """Whether it deployed a decision that breaks a constraint or is not in Θ."""
        return max(self.deployed_violation, self.outside) > BROKEN


def ranking(dataset: xr.Dataset) -> list[Row]:
    """Methods by their regret per deployment; those that no other method beats come first.

    A method's rank is 1 plus the number of methods that are better by a paired t-test over realizations, at 5% for all pairs
    together (Holm 1979); `alike` names those it cannot be distinguished from. Methods of the same rank are sorted by their means;
    those whose numbers were not finite come last.

    >>> import performative as pf
    >>> comparison = pf.compare("revenue", methods=["rgd", "rrm"], deployments=50, realizations=2)
    >>> [row.rank for row in pf.comparison.ranking(comparison.results["revenue"])][0]
    1
    """
    from scipy import special

    names = [str(name) for name in dataset.algorithm.values]
    final = {variable: dict(zip(names, dataset[variable].values[..., -1], strict=True)) for variable in _AT_THE_END}
    seconds = dict(zip(names, dataset["seconds"].values.tolist(), strict=True))
    values = final["deployed_regret"]
    finite = [name for name in names if np.all(np.abs(values[name]) < FAR)]  # false for NaN
    pairs = []
    for one, other in itertools.combinations(finite, 2):
        apart = values[one] - values[other]
        spread = float(np.std(apart, ddof=1))
        chance = float(np.all(apart == 0))
        if spread > 0:
            t = float(np.mean(apart)) / (spread / math.sqrt(len(apart)))
            chance = 2.0 * float(special.stdtr(len(apart) - 1, -abs(t)))
        pairs.append((chance, one, other))
    better: dict[str, set[str]] = {name: set() for name in names}
    alike: dict[str, set[str]] = {name: set() for name in names}
    distinct = True
    for index, (chance, one, other) in enumerate(sorted(pairs)):
        distinct = distinct and chance <= LEVEL / (len(pairs) - index)
        if not distinct:
            alike[one].add(other)
            alike[other].add(one)
        else:
            worse, best = (one, other) if values[one].mean() > values[other].mean() else (other, one)
            better[worse].add(best)
    quantile = float(special.stdtrit(dataset.sizes["realization"] - 1, 0.975))

    def interval(variable: str, name: str) -> tuple[float, float]:
        values = final[variable][name]
        size = float(np.max(np.abs(values)))
        size = size if math.isfinite(size) and size > 0 else 1.0  # squares of immense numbers would not be finite
        return float(np.mean(values)), quantile * size * float(np.std(values / size, ddof=1)) / math.sqrt(len(values))

    rows = [
        Row(
            rank=1 + len(better[name]) if name in finite else len(names),
            method=name,
            deployed_regret=interval("deployed_regret", name),
            regret=interval("regret", name),
            deployed_violation=float(np.max(final["deployed_violation"][name])),
            outside=float(np.max(final["outside"][name])),
            distance=interval("distance", name),
            stable_distance=interval("stable_distance", name),
            seconds=seconds[name],
            deployments=int(final["deployments"][name]),
            alike=tuple(other for other in names if other in alike[name]),
        )
        for name in names
    ]
    return sorted(rows, key=lambda row: (row.rank, row.method not in finite, row.deployed_regret[0]))
