"""What `tell` would take in, to be looked at first: the range and mean of every column, beside the mean of the last report."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from performative.study.labels import Labels
    from performative.study.memory import Remembered
    from performative.study.samples import Samples


class Seen(NamedTuple):
    """A column of what was read; `last` is its mean in the last report, if there was one."""

    name: str
    unit: str
    least: float
    mean: float
    greatest: float
    last: float | None


class Preview(NamedTuple):
    """What was read from a `file` for a deployment: (b, n) `samples`, the columns, and `doubts` that say what looks wrong.

    >>> import tempfile, numpy as np, performative as pf
    >>> from performative.losses import Revenue
    >>> method = pf.repeated_gradient(pf.Problem(Revenue(), pf.Box([0.0], [5.0])))
    >>> labels = pf.study.Labels.of(data=["milk"], data_units="l")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with pf.Study.create(f"{folder}/studies.db", "prices", method, labels=labels) as study:
    ...         print(study.preview(study.ask(), [[[3.0], [4.5], [2.0]]]))
    3 samples for deployment 1
      column  unit  least    mean  greatest
      milk    l         2  3.1667       4.5
    """

    deployment: int
    file: str | None
    samples: tuple[int, int]
    columns: tuple[Seen, ...]
    doubts: tuple[str, ...]

    def __str__(self) -> str:
        """A table in plain text."""
        b, n = self.samples
        rows = f"{n} samples" if b == 1 else f"{n} samples of each of {b} decisions"
        head = ["column", "unit", "least", "mean", "greatest", *(["last time"] if self._has_last else [])]
        cells = [head, *(self._cells(column) for column in self.columns)]
        kept = [place for place, name in enumerate(head) if name != "unit" or any(one.unit for one in self.columns)]
        widths = [max(len(row[place]) for row in cells) for place in range(len(head))]
        lines = [
            "  ".join(f"{row[place]:{'<' if place < 2 else '>'}{widths[place]}}" for place in kept) for row in cells
        ]
        lines = [f"  {line}".rstrip() for line in lines]
        source = "" if self.file is None else f"{self.file}: "
        return "\n".join(
            [f"{source}{rows} for deployment {self.deployment}", *lines, *(f"doubt: {doubt}" for doubt in self.doubts)]
        )

    @property
    def _has_last(self) -> bool:
        return any(column.last is not None for column in self.columns)

    def _cells(self, column: Seen) -> list[str]:
        numbers = [column.least, column.mean, column.greatest, *([column.last] if column.last is not None else [])]
        return [column.name, column.unit, *(f"{number:.5g}" for number in numbers)]


def preview(
    deployment: int, given: Samples, labels: Labels, seen: Sequence[Remembered], doubts: tuple[str, ...]
) -> Preview:
    """What samples given for a deployment look like, after the reports `seen`."""
    values = given.values.reshape(-1, given.values.shape[2])
    names = given.columns or [f"number {place}" for place in range(values.shape[1])]
    units = labels.data_units or ("",) * len(names)
    last = seen[-1].means.mean(axis=0).tolist() if seen else [None] * len(names)
    ranges = zip(
        np.min(values, axis=0).tolist(), np.mean(values, axis=0).tolist(), np.max(values, axis=0).tolist(), strict=True
    )
    columns = [
        Seen(name, unit, *range_, before) for name, unit, range_, before in zip(names, units, ranges, last, strict=True)
    ]
    return Preview(deployment, given.file, given.values.shape[:2], tuple(columns), doubts)
