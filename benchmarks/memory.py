"""Memory of a worker with all methods, and that it does not grow with the rounds: `python -m benchmarks memory`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.rows import Row, at_most, under
from performative.numerics.kept import SWITCH


def peak() -> float:
    """The most memory this program has held, in MB. (`ru_maxrss` would count what its parent process held before it.)"""
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def rows() -> Iterator[Row]:
    """All lines."""
    script = (
        "import sys; from benchmarks.memory import peak; from performative.experiments.reproduce import reproduce; "
        "reproduce('regression', rounds=int(sys.argv[1]), realizations=50); print(peak())"
    )

    def held(rounds: int, cache: str) -> float:
        command = [sys.executable, "-c", script, str(rounds)]
        environment = os.environ | {SWITCH: cache}
        return float(
            subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()[-1]
        )

    with tempfile.TemporaryDirectory(dir=Path.cwd()) as cache:
        compiling, few, many = held(300, cache), held(300, cache), held(3000, cache)
    claim = "peak memory of a worker with all methods, 3,000 rounds of the regression"
    yield under(f"{claim}, programs at hand", many, 1024, "MB")
    yield at_most("the same against 300 rounds", many / few, 1.05)
    yield under("peak memory of a worker that compiles them, 300 rounds", compiling, 1024, "MB")
