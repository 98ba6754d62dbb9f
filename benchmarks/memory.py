"""Memory of a worker with all methods, and that it does not grow with the rounds: `python -m benchmarks memory`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.rows import Row, at_most, under


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
    peaks = []
    for rounds in (300, 3000):
        ran = subprocess.run([sys.executable, "-c", script, str(rounds)], capture_output=True, text=True, check=True)
        peaks.append(float(ran.stdout.split()[-1]))
    yield under("peak memory of a worker with all methods, 3,000 rounds of the regression", peaks[1], 1024, "MB")
    yield at_most("the same against 300 rounds", peaks[1] / peaks[0], 1.05)
