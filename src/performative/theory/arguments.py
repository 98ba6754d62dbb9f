"""Checks of the numbers that the lemmas take."""

from __future__ import annotations


def require_nonnegative(**values: float) -> None:
    """Refuse a negative number or nan; the keyword names it in the error."""
    for name, value in values.items():
        if not value >= 0:
            raise ValueError(f"`{name}` must be a number >= 0, but got {value}")
