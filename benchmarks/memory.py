"""Peak memory of this process."""

from __future__ import annotations

from pathlib import Path


def peak() -> float:
    """The most memory this program has held, in MB. (`ru_maxrss` would count what its parent process held before it.)"""
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024
