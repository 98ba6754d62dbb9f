"""`performative check`: the constants, assumptions, steps and bounds of one problem, as a screen of text."""

from __future__ import annotations

import math
import runpy
from pathlib import Path
from typing import Any, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table

from performative import theory
from performative.environments import LocationFamily
from performative.experiments.reproduce import EXPERIMENTS, WARMUP
from performative.problem import Problem
from performative.validation import whole


class Report(NamedTuple):
    """The constants of a problem; the bounds at the horizon T, or why there are none."""

    constants: theory.Constants
    rounds: int
    bounds: theory.Bounds | None
    reason: str


def load(name: str, sensitivity: float = 1.0, seed: int = 0, realization: int = 0) -> tuple[Problem, Any]:
    """The problem and environment of an experiment's instance, or those a Python file defines."""
    if name in EXPERIMENTS:
        instance = EXPERIMENTS[name].instance(seed, realization, sensitivity, WARMUP)
        return instance.truth, instance.environment
    path = Path(name)
    if path.suffix != ".py" or not path.is_file():
        raise ValueError(
            f"`problem` must be one of {sorted(EXPERIMENTS)} or a Python file that exists, but got {name!r}"
        )
    defined = runpy.run_path(str(path))
    for variable, kind in (("problem", Problem), ("environment", LocationFamily)):
        if not isinstance(defined.get(variable), kind):
            raise ValueError(
                f"{path} must define `{variable}`, a performative.{kind.__name__}, but it is {defined.get(variable)!r}"
            )
    return defined["problem"], defined["environment"]


def report(problem: Problem, environment: Any, rounds: int, exploration: float = 1.0) -> Report:
    """The constants of a problem, and Theorem 1 at T = `rounds` where it speaks."""
    whole("rounds", rounds, 1)
    constants = theory.constants(problem, environment, exploration)
    try:
        bounds = constants.theorem(rounds)
    except ValueError as error:
        return Report(constants, rounds, None, str(error))
    if not math.isfinite(bounds.regret):
        return Report(constants, rounds, None, "a constant it needs could not be bounded")
    return Report(constants, rounds, bounds, "")


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
        table.add_row(symbol, f"{getattr(constants, field):.5g}", constants.evidence.get(field, "exact"))
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
    if found.bounds is None:
        console.print(f"No steps and no bound at T = {found.rounds:,}: {found.reason}.")
        return
    bounds = found.bounds
    console.print(
        f"Steps for T = {bounds.rounds:,}: η = 1/√T = {bounds.step:.4g}, δ = {bounds.control:.5g}, "
        f"ζ_t = 2/({kappa.kappa1:g}·t + {2 * kappa.kappa3:g}), n = {bounds.warmup:,}."
    )
    console.print(
        f"Then the average regret is at most {bounds.regret / bounds.rounds:.4g}, each average violation at most "
        f"{bounds.violation / bounds.rounds:.4g}, the average squared error of the gradient at most "
        f"{bounds.gradient_error / bounds.rounds:.4g} and of the effect at most {bounds.parameter_error / bounds.rounds:.4g}."
    )
    if name in EXPERIMENTS:
        console.print(
            "The paper runs it outside the theorem: η = 0.005, δ = 1, ζ_t = 1/(t + 10); δ = 1 lies below the interval's end."
        )
