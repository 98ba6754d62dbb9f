"""What people wait for: commands, studies and comparisons beside `python -c "import jax"`: `python -m benchmarks terminal`.

Every time is the least of several, taken in turn with that of the import, so that a busy machine slows both.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import performative as pf
from benchmarks.rows import Row, at_most, in_turn, under
from performative.numerics.kept import SWITCH

LENGTHS = (10, 10_000)
"""How many rounds the studies have."""
TIMES = 5
SPEC = """
name = "prices"

[decisions]
type = "box"
lower = [1.0, 1.0, 1.0]
upper = [6.0, 6.0, 6.0]

[[constraints]]
type = "linear"
coefficients = [1.0, 1.0, 1.0]
bound = 9.0
name = "mean price"

[loss]
type = "revenue"
cost = [0.8, 1.0, 1.2]

[data]
columns = ["a", "b", "c"]

[method]
type = "safe_apda"
start = [2.0, 2.0, 2.0]
samples = 50
"""
EFFECT = np.array([[-4.0, 0.5, 0.5], [0.5, -3.0, 0.3], [0.4, 0.4, -2.0]])


def demand(decisions: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Fifty days of sales (b, 50, 3) of three products."""
    mean = np.array([20.0, 16.0, 12.0]) + (decisions - 2.0) @ EFFECT.T
    return mean[:, None] + 3.0 * random.normal(size=(len(decisions), 50, 3))


def played(directory: Path, rounds: int) -> Path:
    """A study of so many rounds."""
    description = directory / "spec.toml"
    description.write_text(SPEC)
    store, random = directory / f"{rounds}.db", np.random.default_rng(0)
    with pf.Study.from_spec(store, description) as study:
        for _ in range(rounds):
            deployment = study.ask()
            study.tell(deployment, demand(deployment.decisions, random), confirm=True)
        study.ask()
    return store


def command(*arguments: str, cache: Path) -> Callable[[], float]:
    """How long a command takes, in seconds: `performative` with these arguments, or Python if they begin with -c."""
    program = [sys.executable] if arguments[0] == "-c" else [str(Path(sys.executable).with_name("performative"))]
    environment = os.environ | {SWITCH: str(cache)}

    def run() -> float:
        begun = time.perf_counter()
        subprocess.run([*program, *arguments], env=environment, check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - begun

    return run


def commands(directory: Path, cache: Path) -> Iterator[Row]:
    """`ask`, `tell` and `status` of short and of long studies, and what needs no study."""
    calls = {"import": command("-c", "import jax", cache=cache), "--help": command("--help", cache=cache)}
    random = np.random.default_rng(1)

    def tell(store: Path) -> float:
        with pf.Study.open(store, "prices") as study:
            deployment = study.ask()
        rows = directory / "told.csv"
        np.savetxt(rows, demand(deployment.decisions, random)[0], delimiter=",", header="a,b,c", comments="")
        where = "--store", str(store)
        spent = command(
            "study", "tell", "--yes", "--confirm", str(rows), *where, "--deployment", str(deployment.id), cache=cache
        )()
        command("study", "ask", *where, cache=cache)()
        return spent

    stores = {rounds: played(directory, rounds) for rounds in LENGTHS}
    for rounds, store in stores.items():
        for name in ("ask", "why", "status"):
            calls[f"{name}, {rounds:,} rounds"] = command("study", name, "--store", str(store), cache=cache)
        calls[f"tell, {rounds:,} rounds"] = lambda store=store: tell(store)
    for call in calls.values():
        call()  # what is compiled, is compiled here
    spent = in_turn(calls, TIMES)
    for name, seconds in spent.items():
        if name != "import":
            target = 3.0 if name.startswith(("tell", "status")) else 1.0
            yield at_most(f"`{name}` against `import jax`", seconds / spent["import"], target)
    yield from in_process(stores[LENGTHS[-1]])
    script = (
        "import sys; from performative.cli import app; from benchmarks.memory import peak\n"
        f"sys.argv = ['performative', 'study', 'ask', '--store', {str(stores[LENGTHS[-1]])!r}]\n"
        "try:\n    app()\nexcept SystemExit:\n    print(peak())\n"
    )
    yield under("peak memory of `ask`", printed(script, cache), 100, "MB")
    script = (
        "import sys, performative as pf; from benchmarks.memory import peak; from benchmarks.terminal import one_more\n"
        f"one_more({str(stores[LENGTHS[-1]])!r}); print(peak())"
    )
    yield under("peak memory of a process that asks, tells and shows the status", printed(script, cache), 350, "MB")


def printed(script: str, cache: Path) -> float:
    """The last number that a script prints."""
    environment = os.environ | {SWITCH: str(cache)}
    ran = subprocess.run([sys.executable, "-c", script], env=environment, check=True, capture_output=True, text=True)
    return float(ran.stdout.split()[-1])


def one_more(store: str) -> None:
    """Three more rounds of a study, and its status."""
    random = np.random.default_rng(2)
    with pf.Study.open(store, "prices") as study:
        for _ in range(3):
            deployment = study.ask()
            study.tell(deployment, demand(deployment.decisions, random), confirm=True)
            study.status()


def in_process(store: Path) -> Iterator[Row]:
    """The status of a long study after the first time, one more deployment told each time."""
    random, seen = np.random.default_rng(3), []
    with pf.Study.open(store, "prices") as study:
        study.status()
        for _ in range(2 * TIMES):
            deployment = study.ask()
            study.tell(deployment, demand(deployment.decisions, random), confirm=True)
            begun = time.perf_counter()
            study.status()
            seen.append(time.perf_counter() - begun)
    claim = f"`study.status()` after {LENGTHS[-1]:,} rounds, once it was called: the median"
    yield under(claim, 1000 * float(np.median(seen)), 100, "ms")


COMPARISON = ("compare", "gaussian-mean", "--methods", "safe-apda,apda", "--deployments", "1000", "--realizations", "5")
"""Two methods, 1,000 deployments, five realizations."""


def comparisons(directory: Path, cache: Path) -> Iterator[Row]:
    """A comparison that compiles all it needs, and the same again."""
    out = "--out", str(directory / "compared")
    warm, caches = command(*COMPARISON, *out, cache=cache), itertools.count()
    warm()
    calls = {
        "import": command("-c", "import jax", cache=cache),
        "cold": lambda: command(*COMPARISON, *out, cache=directory / f"cache-{next(caches)}")(),
        "warm": warm,
    }
    spent = in_turn(calls, 3)
    claim = "a comparison of two methods against `import jax`"
    yield at_most(f"{claim}, nothing compiled before", spent["cold"] / spent["import"], 15)
    yield at_most("the same, compiled before", spent["warm"] / spent["import"], 5)


def rows() -> Iterator[Row]:
    """All lines."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        directory = Path(name)
        cache = directory / "cache"
        yield from commands(directory, cache)
        yield from comparisons(directory, cache)
