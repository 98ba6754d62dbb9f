"""The clock by which events are dated, which somebody may set back."""

from __future__ import annotations

import datetime

SLEWED = 1.0
"""By how many seconds clocks are corrected without a word."""


def set_back(before: float, after: float) -> datetime.timedelta | None:
    """By how much the clock was set back between two events, of which the first is dated `before`; None if it was not.

    >>> print(set_back(7260.0, 3600.0), set_back(7260.0, 7260.5), set_back(7260.0, 7259.5))
    1:01:00 None None
    """
    return datetime.timedelta(seconds=round(before - after)) if before - after > SLEWED else None
