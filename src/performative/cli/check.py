"""`performative check`: a report on the theory as a screen of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from performative.theory.report import Report


def check(
    problem: Annotated[
        str, typer.Argument(help="regression, portfolio, or a Python file with `problem` and `environment`")
    ],
    rounds: Annotated[int, typer.Option(help="T, the horizon to recommend steps for.")] = 1_000_000,
    sensitivity: Annotated[float, typer.Option(help="ε of an experiment.")] = 1.0,
    realization: Annotated[int, typer.Option(help="Which random instance of an experiment.")] = 0,
    seed: Annotated[int, typer.Option(help="The seed of an experiment.")] = 0,
    exploration: Annotated[float, typer.Option(help="The standard deviation of the probes.")] = 1.0,
) -> None:
    """Which of the theorem's assumptions a problem meets, its constants, the steps to use and the bounds that follow."""
    from performative.theory.report import load, report

    try:
        named, where = load(problem, sensitivity, seed, realization)
        found = report(named, where, rounds, exploration)
    except (ValueError, TypeError) as error:
        raise typer.BadParameter(str(error)) from error
    show(problem, found)


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
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from performative.experiments.reproduce import EXPERIMENTS

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
