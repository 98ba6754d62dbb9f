"""`performative check`: the constants, assumptions, steps and bounds of one problem, as a screen of text."""

from __future__ import annotations

import math
import runpy
import sys
from pathlib import Path
from typing import Any, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table

from performative import theory
from performative.environments import LocationFamily
from performative.experiments.reproduce import EXPERIMENTS, WARMUP
from performative.problem import Problem
from performative.validation import MOST_SEED, positive, whole


class Report(NamedTuple):
    """The constants of a problem; the settings and the bounds at a horizon T, or None and why there are none."""

    constants: theory.Constants
    rounds: int
    settings: dict[str, Any] | None
    bounds: theory.Bounds | None
    reason: str


def load(name: str, sensitivity: float = 1.0, seed: int = 0, realization: int = 0) -> tuple[Problem, Any]:
    """The problem and environment of an experiment's instance, or those a Python file defines."""
    if name in EXPERIMENTS:
        whole("seed", seed, 0, MOST_SEED), whole("realization", realization, 0)
        instance = EXPERIMENTS[name].instance(seed, realization, positive("sensitivity", sensitivity), WARMUP)
        return instance.truth, instance.environment
    path = Path(name)
    if path.suffix != ".py" or not path.is_file():
        raise ValueError(
            f"`problem` must be one of {sorted(EXPERIMENTS)} or a Python file that exists, but got {name!r}"
        )
    sys.path.insert(0, str(path.resolve().parent))  # as `python file.py` does
    try:
        defined = runpy.run_path(str(path))
    except (ImportError, SyntaxError, NameError) as error:
        raise ValueError(f"{path} must run, but failed: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    for variable, kind in (("problem", Problem), ("environment", LocationFamily)):
        if not isinstance(defined.get(variable), kind):
            raise ValueError(
                f"{path} must define `{variable}`, a performative.{kind.__name__}, but it is {defined.get(variable)!r}"
            )
    return defined["problem"], defined["environment"]


def report(problem: Problem, environment: Any, rounds: int, exploration: float = 1.0) -> Report:
    """The constants of a problem, and Theorem 1 at T = `rounds`, or from where it speaks if that is later."""
    whole("rounds", rounds, 1)
    constants = theory.constants(problem, environment, exploration)
    if not math.isfinite(constants.horizon):
        return Report(constants, rounds, None, None, "L_g is infinite")
    rounds = max(rounds, int(constants.horizon))
    settings = constants.settings(rounds)
    try:
        bounds = constants.theorem(rounds)
    except ValueError as error:
        return Report(constants, rounds, settings, None, str(error))
    if not math.isfinite(bounds.regret):
        return Report(constants, rounds, settings, None, "a constant it needs is not bounded")
    return Report(constants, rounds, settings, bounds, "")


_SYMBOLS = {
    "decision_convexity": "γ_θ",
    "data_convexity": "γ_Z",
    "smoothness": "β",
    "data_smoothness": "β_Z",
    "loss_lipschitz": "L_θ",
    "data_lipschitz": "L_Z",
    "convexity": "γ",
    "lipschitz": "L",
    "radius": "R",
    "constraint_lipschitz": "L_g",
    "constraint_bound": "C",
    "variance": "σ²",
    "uniform_variance": "σ² uniform",
    "trace": "tr Σ",
    "sensitivity": "σ_max(A)",
    "least_response": "σ_min(A)",
    "effect_error": "‖A‖²_F",
    "multipliers": "‖λ*‖",
}
_MARKS = {True: "[green]holds[/]", False: "[red]fails[/]", None: "[yellow]open[/]"}


def show(name: str, found: Report, console: Console | None = None) -> None:
    """Print a report."""
    console = console or Console()
    constants = found.constants
    style: dict[str, Any] = {"box": box.SIMPLE_HEAD, "padding": (0, 1), "pad_edge": False, "title_justify": "left"}
    table = Table(title=f"{name}: constants", **style)
    table.add_column("", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("how it was found")
    for field, symbol in _SYMBOLS.items():
        table.add_row(symbol, f"{getattr(constants, field):.5g}", constants.evidence[field])
    first, second = constants.gain
    table.add_row("K₁, K₂", f"{first:.4g}, {second:.4g}", constants.evidence["gain"])
    kappa = constants.noise
    table.add_row("κ₁, κ₂, κ₃", f"{kappa.kappa1:g}, {kappa.kappa2:g}, {kappa.kappa3:g}", "Gaussian probes, exact")
    console.print(table)
    table = Table(title="assumptions", **style)
    for column in ("", "assumption", "evidence"):
        table.add_column(column, no_wrap=column == "")
    for item in constants.assumptions:
        table.add_row(_MARKS[item.holds], item.name, item.evidence)
    console.print(table)
    console.print(f"The theorem applies from T ≥ 32 L_g² = {constants.horizon:,}.")
    if found.settings is not None:
        console.print(
            f"Steps for T = {found.rounds:,}: η = 1/√T = {found.settings['step']:.4g}, δ = {found.settings['control']:.5g}, "
            f"ζ_t = 2/({kappa.kappa1:g}·t + {2 * kappa.kappa3:g}), n = {found.settings['warmup']:,}."
        )
    if found.bounds is None:
        console.print(f"No bound at T = {found.rounds:,}: {found.reason}.")
    else:
        still_open = [item.name for item in constants.needed if item.holds is None]
        condition = f"If what is open holds ({', '.join(still_open)}), the" if still_open else "The"
        bounds, rounds = found.bounds, found.bounds.rounds
        limited = (
            f"each average violation at most {bounds.violation / rounds:.4g}, " if constants.constraint_bound else ""
        )
        console.print(
            f"{condition} average regret is at most {bounds.regret / rounds:.4g}, {limited}the average squared error of the "
            f"gradient at most {bounds.gradient_error / rounds:.4g} and of the effect at most "
            f"{bounds.parameter_error / rounds:.4g}."
        )
    if name in EXPERIMENTS:
        console.print(
            "The paper runs it outside the theorem: η = 0.005, δ = 1, ζ_t = 1/(t + 10); δ = 1 lies below the interval's end."
        )
