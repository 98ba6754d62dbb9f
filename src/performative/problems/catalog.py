"""The catalog of standard problems, by name."""

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
from performative.validation import like

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
"""The function that makes each problem, by name."""


def names() -> tuple[str, ...]:
    """The names of all standard problems.

    >>> import performative as pf
    >>> pf.problems.names()[:3]
    ('gaussian-mean', 'regression', 'portfolio')
    """
    return tuple(PROBLEMS)


def get(problem: str, **options: Any) -> Case:
    """The problem of this name; `options` are those of the function that makes it, `PROBLEMS[problem]`.

    >>> import performative as pf
    >>> case = pf.problems.get("gaussian-mean", strength=0.5)
    >>> case.optimum.decision.round(3), case.stable.decision.round(3)
    (array([0.723, 0.177]), array([0.628, 0.272]))
    """
    if problem not in PROBLEMS:
        raise ValueError(f"`problem` must be one of {list(PROBLEMS)}, but got {problem!r}{like(problem, PROBLEMS)}")
    return PROBLEMS[problem](**options)
