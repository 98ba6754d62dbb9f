"""The lines of the table of `make bench`: a claim, its target and what was measured."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterable
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

RESULTS = Path(__file__).parent / "results.json"
TABLE = Path(__file__).parent.parent / "docs" / "speed.md"
GROUPS = {
    "engine": "The compiled loop",
    "memory": "Memory of workers",
    "terminal": "The terminal",
    "studies": "Studies in a process",
}
"""The groups of lines, each of a module of that name, by their titles."""
HEAD = """# How fast it is

Every target beside what it is measured against, in the same run: `make bench`, or `python -m benchmarks GROUP` for one table,
prints these lines, stores them in `benchmarks/results.json` and writes this page. Ratios are of the least of several runs, taken
in turn; cycles a second are over all of them. A lane is one method at one sensitivity at one realization.
"""


class Row(NamedTuple):
    """One line of the table."""

    claim: str
    target: str
    measured: str
    met: bool


def at_most(claim: str, ratio: float, target: float) -> Row:
    """A ratio that should not be larger."""
    return Row(claim, f"≤ {target:g}×", f"{ratio:.2f}×", ratio <= target)


def at_least(claim: str, ratio: float, target: float) -> Row:
    """A ratio that should not be smaller."""
    return Row(claim, f"≥ {target:g}×", f"{ratio:.1f}×", ratio >= target)


def over(claim: str, number: float, target: float) -> Row:
    """A number that should be larger."""
    return Row(claim, f"over {target:g}", f"{number:.0f}", number > target)


def under(claim: str, number: float, target: float, unit: str) -> Row:
    """A number with a unit that should be smaller."""
    return Row(claim, f"under {target:g} {unit}", f"{number:.3g} {unit}", number < target)


def in_turn(calls: dict[str, Callable[[], float]], times: int = 4) -> dict[str, float]:
    """The least of what each call returns, the calls taken in turn so that all meet the same machine."""
    seen = [{name: call() for name, call in calls.items()} for _ in range(times)]
    return {name: min(one[name] for one in seen) for name in calls}


def store(group: str, rows: Iterable[Row]) -> None:
    """Store the lines of a group with where and when they were measured, and write the page anew."""
    groups = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    groups[group] = {"measured": f"{date.today()}, {machine()}", "rows": [row._asdict() for row in rows]}
    groups = {name: groups[name] for name in GROUPS if name in groups}
    RESULTS.write_text(json.dumps(groups, indent=1, ensure_ascii=False) + "\n")
    TABLE.write_text(page(groups))


def page(groups: dict[str, dict[str, Any]]) -> str:
    """The page of docs that shows all lines."""
    parts = [HEAD]
    for name, group in groups.items():
        lines = ["| | target | measured | met |", "|---|---|---|---|"]
        for row in (Row(**row) for row in group["rows"]):
            lines.append(f"| {row.claim} | {row.target} | {row.measured} | {'yes' if row.met else '**no**'} |")
        head = f"## {GROUPS[name]}\n\n`python -m benchmarks {name}`, {group['measured']}."
        parts.append(head + "\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def machine() -> str:
    """The processor and what runs on it."""
    import jax

    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    cpu = next((line.split(":")[1].strip() for line in lines if "model name" in line), platform.processor() or "?")
    versions = f"Python {platform.python_version()}, JAX {jax.__version__}"
    return f"{cpu}, {os.cpu_count()} cores, {versions}"
