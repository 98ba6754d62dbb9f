"""The command `performative`: parses, calls one library function and prints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from performative import cli_study

if TYPE_CHECKING:
    import xarray as xr

    from performative.comparison import Comparison

app = typer.Typer(
    help="Decisions that change the data they are based on: performative prediction under constraints.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

app.add_typer(cli_study.app, name="study")

Out = Annotated[Path, typer.Option(help="Where results are written.")]


@app.callback()
def main() -> None:
    """Decisions that change the data they are based on: performative prediction under constraints."""


@app.command()
def demo(out: Out = Path("runs/demo")) -> None:
    """Both experiments of the paper, small: a table in the terminal and a figure each, in about a minute."""
    _reproduce(["regression", "portfolio"], rounds=5000, realizations=10, sensitivities=[1.0, 10.0], out=out, seed=0)


@app.command()
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


@app.command()
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
    from performative import checking

    try:
        named, where = checking.load(problem, sensitivity, seed, realization)
        report = checking.report(named, where, rounds, exploration)
    except (ValueError, TypeError) as error:
        raise typer.BadParameter(str(error)) from error
    checking.show(problem, report)


@app.command()
def compare(
    problem: Annotated[
        list[str] | None, typer.Argument(help="Names of performative.problems; all of them by default.")
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            help="Names, comma-separated or repeated; module:function for your own; all built-in ones by default."
        ),
    ] = None,
    deployments: Annotated[
        int, typer.Option(help="Samples each method may ask for, warm-up and probes included.")
    ] = 10_000,
    rounds: Annotated[int | None, typer.Option(help="So many rounds each instead of equal deployments.")] = None,
    realizations: Annotated[int, typer.Option(help="Independent runs, on noise that all methods share.")] = 20,
    seed: Annotated[int, typer.Option(help="The seed of all randomness.")] = 0,
    workers: Annotated[int, typer.Option(help="Processes; the results do not depend on it.")] = 2,
    out: Out = Path("runs/compare"),
) -> None:
    """Methods side by side on problems with known answers: a ranking for each problem, and a figure of them all."""
    from performative import comparison

    names = [name for given in methods or [] for name in given.split(",") if name]
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise typer.BadParameter(f"`--out` must be a directory that can be written, but: {error}") from error
    try:
        found = comparison.compare(
            problem or (),
            names,
            deployments=deployments,
            rounds=rounds,
            realizations=realizations,
            seed=seed,
            workers=workers,
        )
    except (ValueError, TypeError) as error:
        raise typer.BadParameter(str(error)) from error
    _print_comparison(found)
    if found.results:
        comparison.write(found, out)
        typer.echo(f"written to {out}: .nc by problem, summary.json, figure.png, figure.pdf")
    else:
        raise typer.Exit(1)


def _print_comparison(found: Comparison) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from performative.judging import BROKEN, ranking

    console = Console()
    for name, dataset in found.results.items():
        rows = ranking(dataset)
        each = dataset.attrs.get("rounds")
        table = Table(
            title=f"{name}: {dataset.attrs['deployments']} deployments" if each is None else f"{name}: {each} rounds",
            caption=f"{dataset.sizes['realization']} realisations; ± half the width of a 95 % interval",
            box=box.SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
            pad_edge=False,
            show_edge=False,
        )
        table.add_column("", justify="right", no_wrap=True)
        table.add_column("method", no_wrap=True)
        labels = ["regret a\ndeployment", "regret\nof θ", "largest\nviol.", "to\noptimum", "to\nstable", "s"]
        for label in labels if each is None else [*labels[:-1], "deploy-\nments"]:
            table.add_column(label, justify="right", no_wrap=True)
        shortened = [row.method.rpartition(":")[2] for row in rows]  # a line has room for functions, not for modules
        for row, short in zip(rows, shortened, strict=True):
            largest = max(row.deployed_violation, row.outside)
            table.add_row(
                f"{row.rank}†" if row.broke else f"{row.rank} ",
                short if shortened.count(short) == 1 else row.method,
                _with_interval(row.deployed_regret),
                _with_interval(row.regret),
                _short(largest) if largest > BROKEN else "0",
                _with_interval(row.distance),
                _with_interval(row.stable_distance),
                f"{row.seconds:.0f}" if each is None else str(row.deployments),
            )
        console.print(table)
        pairs = [(row.method, other) for row in rows for other in row.alike if row.method < other]
        alike = ", ".join(f"{one} ≈ {other}" for one, other in pairs) or "none"
        console.print(
            "† deployed decisions that break a constraint or leave Θ, by which its regret may be lower", highlight=False
        )
        console.print(f"cannot be told apart (paired t-tests, 5 % for all pairs together): {alike}\n", highlight=False)
    for item in found.skipped:
        console.print(f"{item.method} does not run on {item.problem}: {item.reason}", highlight=False, markup=False)


def _with_interval(numbers: tuple[float, float]) -> str:
    mean, half = numbers
    return f"{_short(mean)}±{_short(half, 1)}"


def _short(number: float, digits: int = 3) -> str:
    """The number in few letters: 5.3e5 and not 5.3e+05."""
    return re.sub(r"e([-+])0*", lambda sign: "e" + sign[1].replace("+", ""), f"{number:.{digits}g}")


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
