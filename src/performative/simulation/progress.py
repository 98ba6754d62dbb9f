"""The progress bar, which also says when a program is compiled."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

from performative.numerics.programs import told_of_compiling


def ignore(rounds: int) -> None:
    """Show nothing."""


class progress_bar:
    """A progress bar over rounds or other units, or nothing; a context that gives the function to advance it."""

    def __init__(self, show: bool, total: int, unit: str = "rounds") -> None:
        self._bar: Any = None
        self._told = contextlib.ExitStack()
        self._total, self._unit = total, unit
        if show:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TimeRemainingColumn(),
            )
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)

    def __enter__(self) -> Callable[[int], None]:
        if self._bar is None:
            return ignore
        self._bar.start()
        task = self._bar.add_task(self._unit, total=self._total)

        def tell(program: str) -> None:
            doing = f"{self._unit} (compiling {program})" if program else self._unit
            self._bar.update(task, description=doing, refresh=True)

        self._told.enter_context(told_of_compiling(tell))
        return functools.partial(self._bar.advance, task)

    def __exit__(self, *_: object) -> None:
        self._told.close()
        if self._bar is not None:
            self._bar.stop()
