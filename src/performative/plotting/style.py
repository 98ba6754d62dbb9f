"""Colors, dashes and markers, legible in grayscale and to color-blind readers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Okabe–Ito colors ordered by lightness; dashes and markers tell the curves apart without color.
COLORS = ("#000000", "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00")
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (5, 1, 1, 1)))


def save(figure: Figure, path: Path) -> None:
    """Write a figure without dates, so that the same data give the same file.

    >>> import pathlib, tempfile, performative as pf
    >>> from matplotlib.figure import Figure
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first, second = (pathlib.Path(folder, name) for name in ("first.pdf", "second.pdf"))
    ...     for path in (first, second):
    ...         pf.plotting.save(Figure(), path)
    ...     first.read_bytes() == second.read_bytes()
    True
    """
    import matplotlib as mpl

    without_date: dict[str, Any] = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}
    with mpl.rc_context({"svg.hashsalt": "performative"}):
        figure.savefig(path, dpi=150, metadata=without_date.get(path.suffix, {"Software": None}))
