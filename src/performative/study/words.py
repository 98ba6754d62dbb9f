"""Numbers of a study as people read them."""

from __future__ import annotations

from performative.numerics.arrays import Floats


def row(decision: Floats) -> str:
    """A decision as text."""
    return "[" + ", ".join(f"{value:.6g}" for value in decision) + "]"
