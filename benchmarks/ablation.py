"""`python -m benchmarks.ablation`: the markets of `benchmarks.markets` with each part of `safe_apda` taken away, one at a time.

A part is taken away by other constants of its modules, or by an option. Every line is computed in a process of its own, in which
nothing was compiled before, and without the cache of compiled programs: one that was compiled with a constant keeps it. It prints
the table, with the columns of the markets, and writes docs/safe/ablation.md.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import importlib.util
import multiprocessing
import os
import shlex
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import performative as pf
from benchmarks.markets import Live, ask, asked_for, head, line, play, title
from performative.numerics.kept import SWITCH

PATH = Path(__file__).parent.parent / "docs" / "safe" / "ablation.md"
MODULES = (
    "methods.prior",
    "methods.planning",
    "methods.pace",
    "methods.probes",
    "methods.prospects",
    "methods.safe_primal_dual",
    "estimators.fitting",
    "budget",
)
"""Where constants of the method may be defined, and where they may be imported by name."""


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of the method: the constants and the options that take it away."""

    constants: Mapping[str, float] = dataclasses.field(default_factory=dict)
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)


PARTS = {
    "nothing": Part(),
    "the prior on own coordinates": Part({"OTHERS": 2.0}),
    "what cross effects have in common": Part({"ALIKE": 0.0}),
    "that effects may be weak": Part({"ODDS": 1e9}),
    "that the start may be right": Part({"RIGHT": 0.0}),
    "a prior that data make smaller": Part({"LEAST": 1.0}),
    "pessimism": Part({"PESSIMISM": 0.0}),
    "the trust region": Part({"FIRST_RADIUS": 1.0, "SMALLEST": 1.0, "LARGEST": 1.0}),
    "steps beyond it": Part({"BENT": 1e9}),
    "fading of far deployments": Part({"CURVED": 0.0}),
    "what a line may be off": Part({"STRAIGHTEST": 0.0}),
    "probes": Part(options={"exploration": 1e-9}),
    "that what holds θ is stiff": Part({"STIFF": 0.0}),
    "the price of probes": Part(options={"exploration": 1e6}),
    "the least curvature": Part({"FLATTEST": 1e-6}),
    "the budget": Part(options={"loss_budget": None}),
}
"""What is taken away, by its name in the table. All others together may change by OTHERS, each of four by half of that. Probes
that are worth a million times as much are deployed whatever they cost."""


def holders(constant: str) -> list[ModuleType]:
    """The modules that define a constant or import it by name; an error if none does."""
    known = [f"performative.{name}" for name in MODULES if importlib.util.find_spec(f"performative.{name}")]
    found = [module for module in map(importlib.import_module, known) if hasattr(module, constant)]
    if not found:
        raise AttributeError(f"`{constant}` must be a constant of one of {', '.join(known)}, but none has it")
    return found


def set_constants(constants: Mapping[str, float]) -> None:
    """Give constants other values wherever they are read."""
    for name, value in constants.items():
        for module in holders(name):
            setattr(module, name, value)


def measured(name: str, kind: str, asked: argparse.Namespace) -> str:
    """The line of one part in the markets of one kind; for a process of its own."""
    part = PARTS[name]
    os.environ[SWITCH] = "off"
    set_constants(part.constants)
    markets = asked_for(kind, asked)
    method = pf.safe_apda(markets.problem, start=markets.today, samples=asked.samples, **part.options)
    policy = Live(method, asked.markets, 0)
    return line(name, play(policy, markets, markets.best_profit(), asked.weeks, asked.samples))


def table(kind: str, asked: argparse.Namespace, names: list[str]) -> list[str]:
    """All lines for one kind of demand, printed as they come."""
    lines = [title(asked_for(kind, asked), asked), ""]
    lines += head("without", asked.weeks)
    print("", *lines, sep="\n", flush=True)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(asked.workers, context, max_tasks_per_child=1) as pool:
        for row in pool.map(measured, names, [kind] * len(names), [asked] * len(names)):
            print(row, flush=True)
            lines.append(row)
    return lines


def main(words: list[str] | None = None) -> None:
    """Print the tables for the kinds asked for, and write them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ablation", description=__doc__)
    ask(parser)
    parser.add_argument("--only", nargs="+", choices=PARTS, help="parts, by their names in the table")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=PATH)
    asked = parser.parse_args(words)
    names = asked.only or list(PARTS)
    command = shlex.join(["python", "-m", "benchmarks.ablation", *(sys.argv[1:] if words is None else words)])
    tables = ["\n".join(table(kind, asked, names)) for kind in asked.kinds]
    intro = (
        "# Safe APDA without its parts\n\nEach part taken away, one at a time, in the markets of [safe.md](../safe.md) "
        f"(`{command}`): the mean gain of all weeks so far as a share of the best possible gain.\n"
    )
    asked.out.write_text("\n\n".join([intro.rstrip(), *tables]) + "\n")


if __name__ == "__main__":
    main()
