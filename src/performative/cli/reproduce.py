"""`performative reproduce` and `performative demo`: the paper's experiments, as tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from performative.cli.options import Methods, Out, separated

if TYPE_CHECKING:
    import xarray as xr


def demo(out: Out = Path("runs/demo")) -> None:
    """Run both of the paper's experiments at small scale, print a table and draw a figure for each; takes about a minute."""
    _reproduce(["regression", "portfolio"], rounds=5000, realizations=10, out=out)


def reproduce(
    experiment: Annotated[str, typer.Argument(help="regression, portfolio or all.")],
    rounds: Annotated[int | None, typer.Option(help="The number of rounds, T; 20,000 by default.")] = None,
    realizations: Annotated[
        int | None, typer.Option(help="Independent runs, each on its own random instance; 50 by default.")
    ] = None,
    sensitivity: Annotated[
        list[float] | None, typer.Option(help="ε; repeat the option for several; 1 and 10 by default.")
    ] = None,
    methods: Methods = None,
    seed: Annotated[int, typer.Option(help="The random seed.")] = 0,
    workers: Annotated[int, typer.Option(help="How many processes to use; the results do not depend on it.")] = 2,
    cluster: Annotated[
        str | None, typer.Option(help="Run on a cluster instead: dask://host:port or ray://host:port.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Run at the paper's scale: 10⁶ rounds and 100 realizations by default.")
    ] = False,
    out: Out = Path("runs/reproduce"),
) -> None:
    """Run the paper's experiments, print a table and write results.nc, summary.json, figure.png and figure.pdf for each.

    Run the same command again to resume an interrupted run; the results are the same bit for bit.
    """
    names = ["regression", "portfolio"] if experiment == "all" else [experiment]
    _reproduce(
        names,
        out,
        rounds=(1_000_000 if full else 20_000) if rounds is None else rounds,
        realizations=(100 if full else 50) if realizations is None else realizations,
        sensitivities=sensitivity or [1.0, 10.0],
        **({"methods": separated(methods)} if methods else {}),
        seed=seed,
        workers=workers,
        cluster=cluster,
    )


def _reproduce(experiments: list[str], out: Path, **settings: Any) -> None:
    from performative.experiments.files import write
    from performative.experiments.reproduce import reproduce

    for name in experiments:
        directory = out / name
        try:
            dataset = reproduce(name, out=directory, **settings)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error
        except KeyboardInterrupt:
            results = directory / "results.nc"
            recorded = f"results so far are in {results}" if results.exists() else "nothing is recorded yet"
            typer.echo(f"interrupted; {recorded}; run the same command to resume", err=True)
            raise typer.Exit(130) from None
        write(dataset, directory)
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

    from performative.experiments.files import summary

    numbers = summary(dataset)
    table = Table(
        title=f"{numbers['experiment']}: {numbers['realizations']} realizations × {numbers['rounds']} rounds, "
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
