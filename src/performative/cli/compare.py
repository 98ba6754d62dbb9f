"""`performative compare`: rankings of methods, as tables."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from performative.cli.options import Methods, Out, separated

if TYPE_CHECKING:
    from performative.comparison.results import Comparison


def compare(
    problem: Annotated[
        list[str] | None, typer.Argument(help="Problems by name, as in performative.problems; all by default.")
    ] = None,
    methods: Methods = None,
    deployments: Annotated[
        int, typer.Option(help="Deployments each method may make, warm-up and probes included.")
    ] = 10_000,
    rounds: Annotated[
        int | None, typer.Option(help="Run this many rounds of each method instead of an equal number of deployments.")
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(
            help="Samples that every deployment brings; by default each method decides and each sample counts."
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            help="Where all methods begin: numbers with commas, or 'stable'; by default the point nearest to 0."
        ),
    ] = None,
    realizations: Annotated[int, typer.Option(help="Independent runs; all methods share the noise.")] = 20,
    seed: Annotated[int, typer.Option(help="The random seed.")] = 0,
    workers: Annotated[int, typer.Option(help="How many processes to use; the results do not depend on it.")] = 2,
    out: Out = Path("runs/compare"),
) -> None:
    """Rank methods on problems with known answers, and draw one figure of all results.

    The same command resumes an interrupted comparison.
    """
    from performative import comparison

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise typer.BadParameter(f"cannot write to {out}: {error.strerror}") from error
    try:
        results = comparison.compare(
            problem or (),
            methods=separated(methods),
            deployments=deployments,
            rounds=rounds,
            samples=samples,
            start=_decision(start),
            realizations=realizations,
            seed=seed,
            workers=workers,
            checkpoint=out / "checkpoints",
        )
    except (ValueError, TypeError) as error:
        raise typer.BadParameter(str(error)) from error
    except KeyboardInterrupt:
        typer.echo(f"interrupted; finished methods are kept in {out}; run the same command to resume", err=True)
        raise typer.Exit(130) from None
    _print_comparison(results)
    if results.results:
        comparison.write(results, out)
        shutil.rmtree(out / "checkpoints", ignore_errors=True)
        typer.echo(f"written to {out}: .nc by problem, summary.json, figure.png, figure.pdf")
    else:
        raise typer.Exit(1)


def _decision(start: str | None) -> list[float] | str | None:
    """The numbers of an option such as 1.0,2.5, or the word itself."""
    if start is None or start.isalpha():
        return start
    try:
        return [float(number) for number in start.split(",")]
    except ValueError as error:
        raise ValueError(f"`start` must be numbers with commas or 'stable', but got {start!r}") from error


def _print_comparison(comparison: Comparison) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from performative.comparison.ranks import BROKEN, ranking

    console = Console()
    for name, dataset in comparison.results.items():
        rows = ranking(dataset)
        each = dataset.attrs.get("rounds")
        budget = f"{dataset.attrs['deployments']} deployments" if each is None else f"{each} rounds"
        size = dataset.attrs.get("samples")
        table = Table(
            title=f"{name}: {budget}" if size is None else f"{name}: {budget} of {size} samples",
            caption=f"{dataset.sizes['realization']} realizations; ± half the width of a 95% interval",
            box=box.SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
            pad_edge=False,
            show_edge=False,
        )
        table.add_column("", justify="right", no_wrap=True)
        table.add_column("method", no_wrap=True)
        labels = ["regret per\ndeployment", "regret\nof θ", "largest\nviol.", "to\noptimum", "to\nstable", "s"]
        for label in labels if each is None else [*labels[:-1], "deploy-\nments"]:
            table.add_column(label, justify="right", no_wrap=True)
        shortened = [
            row.method.rpartition(":")[2] for row in rows
        ]  # a line has room for the function, not for its module
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
            "† deployed decisions that break a constraint or leave Θ, which may lower its regret", highlight=False
        )
        console.print(f"not distinguishable (paired t-tests, 5% for all pairs together): {alike}\n", highlight=False)
    for item in comparison.skipped:
        console.print(f"{item.method} does not run on {item.problem}: {item.reason}", highlight=False, markup=False)


def _with_interval(numbers: tuple[float, float]) -> str:
    mean, half = numbers
    return f"{_short(mean)}±{_short(half, 1)}"


def _short(number: float, digits: int = 3) -> str:
    """The number in few characters: 5.3e5 rather than 5.3e+05."""
    return re.sub(r"e([-+])0*", lambda sign: "e" + sign[1].replace("+", ""), f"{number:.{digits}g}")
