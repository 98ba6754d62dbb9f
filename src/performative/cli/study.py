"""`performative study`: live studies from a terminal, without writing Python."""

from __future__ import annotations

import contextlib
import csv
import datetime
import json
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from performative.numerics.arrays import Floats
    from performative.study import Deployment, Labels, Study
    from performative.study.events import Event


app = typer.Typer(help="Run live studies: ask for decisions, deploy them, report what happened.", no_args_is_help=True)
Stored = Annotated[Path, typer.Option("--store", help="The file that holds the study.")]
Named = Annotated[str | None, typer.Option("--name", help="The name of the study, if the file holds several.")]
Number = Annotated[int, typer.Option("--deployment", help="The number of the deployment, as printed by `ask`.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def new(
    spec: Annotated[Path, typer.Argument(help="A TOML file that describes decisions, constraints, loss and method.")],
    store: Stored,
) -> None:
    """Create a study from a description, or list every error in the description."""
    with _errors():
        from performative.study import Study

        with Study.from_spec(store, spec) as study:
            typer.echo(f"study {study.name} created in {store}")


@app.command()
def ask(store: Stored, name: Named = None, as_json: AsJson = False) -> None:
    """Print the decisions to deploy now; repeated calls return the same decisions until you report or cancel them."""
    with _opened(store, name) as study:
        deployment = study.ask()
        if as_json:
            typer.echo(json.dumps(_plain(deployment)))
            return
        typer.echo(_words(study, deployment))
        reasons = study.why()
        if reasons is not None:
            typer.echo(f"why: {reasons.sentences[0]}")
        which = "" if name is None else f" --name {shlex.quote(name)}"
        place = f"--store {shlex.quote(str(store))}{which} --deployment {deployment.id}"
        typer.echo(f"next: performative study tell FILE {place}")


@app.command()
def tell(
    data: Annotated[Path, typer.Argument(help="The samples observed: a .csv, .json or .parquet file.")],
    store: Stored,
    deployment: Number,
    name: Named = None,
    sep: Annotated[str, typer.Option(help="What separates the cells of a CSV file.")] = ",",
    decimal: Annotated[str, typer.Option(help="The decimal sign of its numbers.")] = ".",
    ignore: Annotated[list[str] | None, typer.Option(help="A column of it to leave out, such as a date.")] = None,
    in_order: Annotated[
        bool, typer.Option("--in-order", help="Its columns are in the order of a sample, where names do not say so.")
    ] = False,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="They are right, though they look as if they could not be.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Report them without asking, in a script.")] = False,
) -> None:
    """Report what was observed, once you have looked at what was read.

    Rows are samples; with several decisions, the column `decision` (0, 1, …) tells them apart.
    """
    with _opened(store, name) as study:
        from performative.errors import HeldBack
        from performative.study.observed import read_observed

        samples = read_observed(data, study.deployment(deployment).decisions, sep, decimal, ignore or ())
        seen = study.preview(deployment, samples, in_order=in_order)
        typer.echo(str(seen if confirm else seen._replace(doubts=())))  # they follow as an error
        if seen.doubts and not confirm:
            raise HeldBack(seen.doubts)
        if not yes:
            if not sys.stdin.isatty():
                raise ValueError(
                    "nothing was reported, since nobody can be asked here: look at what was read, and add --yes"
                )
            typer.confirm("report these?", abort=True)
        told = study.tell(deployment, samples, in_order=in_order, confirm=confirm)
        typer.echo(f"deployment {deployment} reported; next is round {told.round}: ask for its decisions")


@app.command()
def cancel(
    reason: Annotated[str, typer.Option(help="Why the decisions could not be deployed.")],
    store: Stored,
    deployment: Number,
    name: Named = None,
) -> None:
    """Cancel a deployment that could not be carried out; the next `ask` tries the round again."""
    with _opened(store, name) as study:
        study.cancel(deployment, reason)
        typer.echo(f"deployment {deployment} canceled")


@app.command()
def status(
    store: Stored,
    name: Named = None,
    watch: Annotated[bool, typer.Option("--watch", help="Keep showing the status until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(help="Seconds between updates with --watch.", min=0.1)] = 2.0,
    as_json: AsJson = False,
) -> None:
    """Show where the study stands: decisions, constraints, estimates, warnings, and what to do next."""
    with _opened(store, name, readonly=True) as study:
        if watch and as_json:
            raise ValueError("`--watch` and `--json` cannot be combined")
        if not watch:
            current = study.status()
            typer.echo(json.dumps(current.plain()) if as_json else str(current))
            return
        from rich.live import Live
        from rich.text import Text

        with contextlib.suppress(KeyboardInterrupt), Live(auto_refresh=False, vertical_overflow="visible") as live:
            shown = 0
            while True:
                if study.count != shown:
                    shown = study.count
                    live.update(Text(str(study.status())), refresh=True)
                time.sleep(every)


@app.command()
def why(store: Stored, name: Named = None, as_json: AsJson = False) -> None:
    """Say why the next decisions are what they are: what is expected of them, what a probe costs, and which limits hold."""
    with _opened(store, name, readonly=True) as study:
        reasons = study.why()
        if reasons is None:
            raise ValueError("the method of this study does not explain its decisions; `safe_apda` does")
        typer.echo(json.dumps(reasons._asdict()) if as_json else "\n".join(reasons.sentences))


@app.command()
def note(text: Annotated[str, typer.Argument(help="What to write down.")], store: Stored, name: Named = None) -> None:
    """Write a note into the log; it changes nothing else."""
    with _opened(store, name) as study:
        study.note(text)
        typer.echo("noted")


@app.command()
def log(store: Stored, name: Named = None, as_json: AsJson = False) -> None:
    """List every event of the study, one per line."""
    with _opened(store, name, readonly=True) as study:
        from performative.study.events import plain

        for event in study.events():
            if as_json:
                typer.echo(json.dumps(plain(event)))
                continue
            at = datetime.datetime.fromtimestamp(event.at).isoformat(" ", "seconds")
            typer.echo(f"{event.number:>6}  {at}  {event.kind:6}  {_line(event, study.labels)}")


@app.command()
def plot(
    store: Stored,
    name: Named = None,
    out: Annotated[Path, typer.Option(help="The file to write: .png or .pdf.")] = Path("study.png"),
) -> None:
    """Draw decisions, losses, slack and multipliers."""
    from performative.plotting import save

    with _opened(store, name, readonly=True) as study:
        _require_ending(out, ".png", ".pdf")
        save(study.plot(), out)
        typer.echo(f"written to {out}")


@app.command()
def verify(store: Stored, name: Named = None) -> None:
    """Replay the whole study from its log and compare the results bit for bit."""
    with _opened(store, name, readonly=True) as study:
        replay = study.verify()
        typer.echo(f"verified bit for bit; events: {replay.events}, reports: {replay.told}")


@app.command()
def export(
    store: Stored,
    name: Named = None,
    out: Annotated[Path, typer.Option(help="The file to write: .nc, .csv or .parquet.")] = Path("study.nc"),
) -> None:
    """Write the history as a dataset (.nc) or as a table with a row for each deployed decision (.csv, .parquet)."""
    with _opened(store, name, readonly=True) as study:
        _require_ending(out, ".nc", ".csv", ".parquet")
        if out.suffix == ".nc":
            past = study.history()
            past.to_netcdf(out, engine="netcdf4")
            count = past.sizes["deployment"]
        else:
            rows = list(study.records())
            count = len({row["deployment"] for row in rows})
            _write_table(rows, out)
        typer.echo(f"written to {out}: {count} deployments")


def _write_table(rows: list[dict[str, Any]], out: Path) -> None:
    """A CSV or parquet file."""
    if out.suffix == ".csv":
        with out.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]) if rows else [])
            writer.writeheader()
            writer.writerows(rows)
        return
    import pandas

    pandas.DataFrame(rows).to_parquet(out, index=False)


def _require_ending(out: Path, *endings: str) -> None:
    if out.suffix not in endings:
        raise ValueError(f"`--out` must end in {', '.join(endings[:-1])} or {endings[-1]}, but got {str(out)!r}")


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    """Print errors of the library as lines without a traceback, and exit with code 1."""
    from performative.errors import SpecError
    from performative.study import StudyError

    try:
        yield
    except SpecError as error:
        for line in error.lines:
            typer.echo(f"error: {line}", err=True)
        raise typer.Exit(1) from None
    except (StudyError, ValueError, TypeError, OSError, ImportError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None


@contextlib.contextmanager
def _opened(store: Path, name: str | None, readonly: bool = False) -> Iterator[Study]:
    with _errors():
        from performative.study import Study

        if not store.exists():
            created = f"performative study new SPEC --store {shlex.quote(str(store))}"
            raise ValueError(f"{store} does not exist; create a study with `{created}`")
        names = [name] if name is not None else list(Study.names(store))
        if not names:
            raise ValueError(
                f"{store} holds no study; create one with `performative study new SPEC --store {shlex.quote(str(store))}`"
            )
        if len(names) > 1:
            raise ValueError(f"{store} holds several studies; choose one with `--name`: {', '.join(names)}")
        with Study.open(store, names[0], readonly=readonly) as study:
            yield study


def _plain(deployment: Deployment) -> dict[str, Any]:
    why = {key: value.tolist() for key, value in deployment.why._asdict().items()}
    return deployment._asdict() | {"decisions": deployment.decisions.tolist(), "why": why}


def _words(study: Study, deployment: Deployment) -> str:
    from performative.study.words import row

    lines = [
        f"deployment {deployment.id}, round {deployment.round}: {deployment.samples} samples wanted for each decision"
    ]
    names, labels = study.constraint_names, study.labels
    for place, decision in enumerate(deployment.decisions):
        offset = deployment.why.exploration[place]
        slack = ", ".join(
            f"{name} {value:.4g}" for name, value in zip(names, deployment.why.safety[place], strict=True)
        )
        decided, apart = (row(part, labels.decisions, labels.decision_units) for part in (decision, offset))
        line = f"  decision {place}: {decided}"
        line += f"  (exploring by {apart})" if offset.any() else "  (the current decision)"
        lines.append(line + (f"  slack: {slack}" if slack else ""))
    return "\n".join(lines)


def _line(event: Event, labels: Labels) -> str:
    """What an event says, in a line."""
    from performative.study.events import Asked, Canceled, Created, Noted, Observed
    from performative.study.words import row

    def shown(decision: Floats) -> str:
        return row(decision, labels.decisions, labels.decision_units)

    match event:
        case Created():
            return f"performative {event.performative}, seed {event.seed}"
        case Asked():
            return f"round {event.round}, {event.samples} samples of {'; '.join(map(shown, event.decisions))}"
        case Observed():
            b, n, _ = event.samples.shape
            return f"deployment {event.deployment}, {b} × {n} samples, decision {shown(event.planned.decision)}" + (
                f"; confirmed: {'; '.join(event.confirmed)}" if event.confirmed else ""
            )
        case Canceled():
            return f"deployment {event.deployment}: {event.reason}"
        case Noted():
            return event.text
