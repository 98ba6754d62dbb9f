"""How a constant is known: proved, estimated, or not at all.

A supremum that a search found, or an average over draws, is only estimated: the true one may be larger. A bound is proved if all
that it is made of is.
"""

from __future__ import annotations

_PROVED, _ESTIMATED, _UNKNOWN = "proved", "estimated", "unknown"


def proved(how: str) -> str:
    """The evidence of a constant that holds for certain, up to rounding."""
    return f"{_PROVED}: {how}"


def estimated(how: str) -> str:
    """The evidence of a constant that a search or a finite number of draws gave."""
    return f"{_ESTIMATED}: {how}"


def unknown(how: str) -> str:
    """Why no constant is known."""
    return f"{_UNKNOWN}: {how}"


def is_proved(evidence: str) -> bool:
    """Whether a constant with this evidence is proved."""
    return evidence.startswith(_PROVED)
