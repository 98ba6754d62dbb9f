"""Standard problems whose risk, optimum and stable point are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from performative.problems import (
    credit,
    gaussian_mean,
    mixture,
    newsvendor,
    portfolio,
    regression,
    revenue,
    ride_share,
    spam,
    square_root,
)
from performative.problems.case import Case

__all__ = ["PROBLEMS", "Case", "get", "names"]

PROBLEMS: dict[str, Callable[..., Case]] = {
    "gaussian-mean": gaussian_mean.make,
    "regression": regression.make,
    "portfolio": portfolio.make,
    "revenue": revenue.make,
    "mixture": mixture.make,
    "square-root": square_root.make,
    "spam": spam.make,
    "credit": credit.make,
    "ride-share": ride_share.make,
    "newsvendor": newsvendor.make,
}
"""The maker of each problem, by name."""


def names() -> tuple[str, ...]:
    """All problems there are."""
    return tuple(PROBLEMS)


def get(name: str, **options: Any) -> Case:
    """The problem of this name; `options` are those of its maker, `PROBLEMS[name]`."""
    if name not in PROBLEMS:
        raise ValueError(f"`name` must be one of {list(PROBLEMS)}, but got {name!r}")
    return PROBLEMS[name](**options)
