"""`performative check`: what the theory says about a problem."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from performative.theory.report import Report


def check(
    problem: Annotated[
        str,
        typer.Argument(help="regression, portfolio, or a Python file that defines `problem` and `environment`."),
    ],
    rounds: Annotated[int, typer.Option(help="The horizon T of the steps and bounds.")] = 1_000_000,
    sensitivity: Annotated[float, typer.Option(help="ε; for an experiment only.")] = 1.0,
    realization: Annotated[int, typer.Option(help="Which random instance; for an experiment only.")] = 0,
    seed: Annotated[int, typer.Option(help="The random seed; for an experiment only.")] = 0,
    exploration: Annotated[float, typer.Option(help="The standard deviation of the probes.")] = 1.0,
) -> None:
    """Print a problem's constants, which of the theorem's assumptions it meets, the steps to use and the bounds."""
    from performative.theory.report import load, report

    try:
        loaded, environment = load(problem, sensitivity, seed, realization)
        result = report(loaded, environment, rounds, exploration)
    except (ValueError, TypeError) as error:
        raise typer.BadParameter(str(error)) from error
    show(problem, result)


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
    "duality_gap": "gap of λ*",
}
_MARKS = {True: "[green]holds[/]", False: "[red]fails[/]", None: "[yellow]undecided[/]"}


def show(name: str, report: Report, console: Console | None = None) -> None:
    """Print a report."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from performative.experiments.settings import EXPERIMENTS

    console = console or Console()
    constants = report.constants
    style: dict[str, Any] = {"box": box.SIMPLE_HEAD, "padding": (0, 1), "pad_edge": False, "title_justify": "left"}
    table = Table(title=f"{name}: constants", **style)
    table.add_column("", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("how it was computed")
    for field, symbol in _SYMBOLS.items():
        table.add_row(symbol, f"{getattr(constants, field):.5g}", constants.evidence[field])
    first, second = constants.gain
    table.add_row("K₁, K₂", f"{first:.4g}, {second:.4g}", constants.evidence["gain"])
    kappa = constants.noise
    table.add_row("κ₁, κ₂, κ₃", f"{kappa.kappa1:g}, {kappa.kappa2:g}, {kappa.kappa3:g}", "proved: Gaussian probes")
    console.print(table)
    table = Table(title="assumptions", **style)
    for column in ("", "assumption", "evidence"):
        table.add_column(column, no_wrap=column == "")
    for item in constants.assumptions:
        table.add_row(_MARKS[item.holds], item.name, item.evidence)
    console.print(table)
    console.print(f"The theorem applies from T ≥ 32 L_g² = {constants.horizon:,}.")
    if report.settings is not None:
        console.print(
            f"Steps for T = {report.rounds:,}: η = 1/√T = {report.settings['step']:.4g}, δ = {report.settings['control']:.5g}, "
            f"ζ_t = 2/({kappa.kappa1:g}·t + {2 * kappa.kappa3:g}), n = {report.settings['warmup']:,}."
        )
    if report.bounds is None:
        console.print(f"No bound at T = {report.rounds:,}: {report.reason}.")
    else:
        undecided = [item.name for item in constants.needed if item.holds is None]
        if not report.slater:
            undecided = [name for name in undecided if name != "Slater"]
            console.print("Slater's condition fails: the violation is only O(T^(3/4)), whatever the multipliers.")
        condition = f"If the undecided assumptions hold ({', '.join(undecided)}), the" if undecided else "The"
        bounds, rounds = report.bounds, report.bounds.rounds
        on_violation = (
            f"each average violation at most {bounds.violation / rounds:.4g}, " if constants.constraint_bound else ""
        )
        console.print(
            f"{condition} average regret is at most {bounds.regret / rounds:.4g}, {on_violation}the average squared error of the "
            f"gradient at most {bounds.gradient_error / rounds:.4g} and of the effect at most "
            f"{bounds.parameter_error / rounds:.4g}."
        )
        if bounds.proved:
            console.print("These bounds are proved, up to rounding.")
        else:
            console.print(f"These bounds are estimated, not proved: {', '.join(bounds.doubts)}.")
    if name in EXPERIMENTS:
        console.print(
            "The paper's settings are outside the theorem: η = 0.005, ζ_t = 1/(t + 10), and δ = 1, below its interval."
        )
