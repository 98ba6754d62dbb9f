"""Numbers of a study as people read them."""

from __future__ import annotations

from collections.abc import Sequence

from performative.numerics.arrays import Floats


def row(decision: Floats, names: Sequence[str] | None = None, units: Sequence[str] | None = None) -> str:
    """A decision as text, by name if its numbers have names."""
    if names is None:
        return "[" + ", ".join(f"{value:.6g}" for value in decision) + "]"
    each = units or [""] * len(names)
    return ", ".join(
        f"{name} {value:.6g} {unit}".strip() for name, value, unit in zip(names, decision, each, strict=True)
    )
