"""`make bench`: every speed target as a ratio inside one run; `python -m benchmarks GROUP …` runs some groups of lines.

It prints the lines, stores them in benchmarks/results.json, and writes docs/speed.md from that.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys

from benchmarks.rows import GROUPS, store

ONE_CORE = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


def measured(group: str) -> None:
    """The lines of one group, in this process."""
    if group == "engine":  # on one core, the one this process is on
        os.environ.setdefault("XLA_FLAGS", ONE_CORE)
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    rows = []
    for row in importlib.import_module(f"benchmarks.{group}").rows():
        print(f"{'' if row.met else 'NOT MET: '}{row.claim}: {row.measured} ({row.target})", flush=True)
        rows.append(row)
    store(group, rows)


def main() -> None:
    """The groups that were asked for, each in a process of its own."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure every speed target.")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"{', '.join(GROUPS)}; all by default")
    asked = parser.parse_args().groups or list(GROUPS)
    unknown = sorted({*asked} - {*GROUPS})
    if unknown:
        parser.error(f"groups must be among {', '.join(GROUPS)}, but got {', '.join(unknown)}")
    if len(asked) == 1:
        measured(asked[0])
        return
    for group in asked:
        subprocess.run([sys.executable, "-m", "benchmarks", group], check=True)


if __name__ == "__main__":
    main()
