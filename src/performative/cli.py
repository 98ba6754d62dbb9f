"""The command `performative`: parses, calls one library function and prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import xarray as xr

app = typer.Typer(
    help="Decisions that change the data they are based on: performative prediction under constraints.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Out = Annotated[Path, typer.Option(help="Where results are written.")]


@app.callback()
def main() -> None:
    """Decisions that change the data they are based on: performative prediction under constraints."""


@app.command()
def demo(out: Out = Path("runs/demo")) -> None:
    """Both experiments of the paper, small: a table in the terminal and a figure each, in under a minute."""
    _reproduce(["regression", "portfolio"], rounds=5000, realizations=10, sensitivities=[1.0, 10.0], out=out)


def _reproduce(experiments: list[str], out: Path, **settings: Any) -> None:
    from performative.experiments import reproduce

    for name in experiments:
        directory = out / name
        dataset = reproduce.reproduce(name, **settings)
        reproduce.write(dataset, directory)
        _print_summary(dataset, directory)


def _print_summary(dataset: xr.Dataset, directory: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    from performative.experiments.reproduce import SUMMARISED, summary

    numbers = summary(dataset)
    table = Table(
        title=f"{numbers['experiment']}: {numbers['realizations']} realisations × {numbers['rounds']} rounds, "
        f"mean at the last round ({numbers['seconds']:.1f} s)"
    )
    table.add_column("ε", justify="right")
    table.add_column("method")
    for name in SUMMARISED:
        table.add_column(name.replace("_", "\n"), justify="right")
    for row in numbers["settings"]:
        values = [f"{row['final'][name]['mean']:.3g}" for name in SUMMARISED]
        table.add_row(f"{row['sensitivity']:g}", row["method"], *values)
    console = Console()
    console.print(table)
    console.print(f"written to {directory}: results.nc, summary.json, figure.png, figure.pdf\n")
