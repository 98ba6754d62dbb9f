"""`performative reproduce` and `performative demo`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from performative.cli.options import Out

if TYPE_CHECKING:
    import xarray as xr


def demo(out: Out = Path("runs/demo")) -> None:
    """Both experiments of the paper, small: a table in the terminal and a figure each, in about a minute."""
    _reproduce(["regression", "portfolio"], rounds=5000, realizations=10, sensitivities=[1.0, 10.0], out=out, seed=0)


def reproduce(
    experiment: Annotated[str, typer.Argument(help="regression, portfolio or all")],
    rounds: Annotated[int | None, typer.Option(help="T, 20 000 by default.")] = None,
    realizations: Annotated[
        int | None, typer.Option(help="Independent runs, each on a random instance of its own; 50 by default.")
    ] = None,
    sensitivity: Annotated[
        list[float] | None, typer.Option(help="ε; may be given several times; 1 and 10 by default.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The seed of all randomness.")] = 0,
    workers: Annotated[int, typer.Option(help="Processes; the result does not depend on it.")] = 2,
    cluster: Annotated[
        str | None, typer.Option(help="dask://host:port or ray://host:port instead of processes.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="The paper's scale by default: 10⁶ rounds, 100 realisations.")
    ] = False,
    out: Out = Path("runs/reproduce"),
) -> None:
    """The paper's experiments: results.nc, summary.json, figure.png and figure.pdf for each, and a table here.

    An interrupted run, started again with the same --out, goes on where it stopped and ends with the same bits.
    """
    names = ["regression", "portfolio"] if experiment == "all" else [experiment]
    _reproduce(
        names,
        out,
        rounds=(1_000_000 if full else 20_000) if rounds is None else rounds,
        realizations=(100 if full else 50) if realizations is None else realizations,
        sensitivities=sensitivity or [1.0, 10.0],
        seed=seed,
        workers=workers,
        cluster=cluster,
    )


def _reproduce(experiments: list[str], out: Path, **settings: Any) -> None:
    from performative.experiments import reproduce

    for name in experiments:
        directory = out / name
        try:
            dataset = reproduce.reproduce(name, out=directory, **settings)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error
        except KeyboardInterrupt:
            kept = (
                f"what is done is in {directory / 'results.nc'}"
                if (directory / "results.nc").exists()
                else "nothing is recorded yet"
            )
            typer.echo(f"interrupted; {kept}, and the same command goes on from here", err=True)
            raise typer.Exit(130) from None
        reproduce.write(dataset, directory)
        _print_summary(dataset, directory)


_SHORT = {
    "relative_regret": "relative\nregret",
    "relative_violation": "relative\nviol.",
    "worst_violation": "worst\nviol.",
    "deviation": "devi-\nation",
    "estimation_error": "effect\nerror",
    "deployed_regret": "deployed\nregret",
    "deployed_violation": "deployed\nviol.",
}


def _print_summary(dataset: xr.Dataset, directory: Path) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from performative.experiments.reproduce import summary

    numbers = summary(dataset)
    table = Table(
        title=f"{numbers['experiment']}: {numbers['realizations']} realisations × {numbers['rounds']} rounds, "
        f"means at the end ({numbers['seconds']:.0f} s)",
        box=box.SIMPLE_HEAD,
        padding=(0, 0),
        pad_edge=False,
        show_edge=False,
    )
    table.add_column("ε", justify="right", no_wrap=True)
    table.add_column("method", no_wrap=True)
    for name in _SHORT:
        table.add_column(_SHORT[name], justify="right", no_wrap=True)
    for row in numbers["settings"]:
        values = [f"{row['final'][name]['mean']:.2g}" for name in _SHORT]
        table.add_row(f"{row['sensitivity']:g}", row["method"], *values)
    console = Console()
    console.print(table)
    console.print(f"written to {directory}: results.nc, summary.json, figure.png, figure.pdf\n")
