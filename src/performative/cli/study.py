"""`performative study`: live studies from a terminal, without writing Python."""

from __future__ import annotations

import contextlib
import datetime
import json
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from performative.study import Deployment, Study


app = typer.Typer(help="Live studies: ask, deploy, tell; kept in a file.", no_args_is_help=True)
Stored = Annotated[Path, typer.Option("--store", help="The file of studies.")]
Named = Annotated[str | None, typer.Option("--name", help="Which study of the file, if it holds several.")]
Number = Annotated[int, typer.Option("--deployment", help="The deployment's number, as `ask` printed it.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


@app.command()
def new(
    spec: Annotated[Path, typer.Argument(help="A TOML file: decisions, constraints, loss and method.")],
    store: Stored,
) -> None:
    """Create a study from a description; every error in it is listed."""
    with _errors():
        from performative.study import Study

        with Study.from_spec(store, spec) as study:
            typer.echo(f"study {study.name} created in {store}")


@app.command()
def ask(store: Stored, name: Named = None, as_json: AsJson = False) -> None:
    """The decisions to deploy now: the same until they are told or cancelled."""
    with _opened(store, name) as study:
        deployment = study.ask()
        if as_json:
            typer.echo(json.dumps(_plain(deployment)))
            return
        typer.echo(_words(study, deployment))
        which = "" if name is None else f" --name {shlex.quote(name)}"
        place = f"--store {shlex.quote(str(store))}{which} --deployment {deployment.id}"
        typer.echo(f"then: performative study tell FILE {place}")


@app.command()
def tell(
    data: Annotated[Path, typer.Argument(help="What was observed: a .csv, .json or .parquet file.")],
    store: Stored,
    deployment: Number,
    name: Named = None,
) -> None:
    """Tell what was observed. Rows are samples; of several decisions, a column `decision` says which (0, 1, …) they answer."""
    from performative.study.status import row

    with _opened(store, name) as study:
        told = study.tell(deployment, _samples(data, study, deployment))
        typer.echo(f"deployment {deployment} told: round {told.round}, decision {row(told.decision)}")


@app.command()
def cancel(
    reason: Annotated[str, typer.Option(help="Why it could not be deployed.")],
    store: Stored,
    deployment: Number,
    name: Named = None,
) -> None:
    """The open decisions could not be deployed: the next `ask` tries again."""
    with _opened(store, name) as study:
        study.cancel(deployment, reason)
        typer.echo(f"deployment {deployment} cancelled")


@app.command()
def status(
    store: Stored,
    name: Named = None,
    watch: Annotated[bool, typer.Option("--watch", help="Go on showing it until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(help="Seconds between looks.", min=0.1)] = 2.0,
    as_json: AsJson = False,
) -> None:
    """Where the study stands: decisions, constraints, what is believed of the world, warnings, and what to do next."""
    with _opened(store, name, readonly=True) as study:
        if watch and as_json:
            raise ValueError("`--watch` and `--json` must not be given together")
        if not watch:
            found = study.status()
            typer.echo(json.dumps(found.plain()) if as_json else str(found))
            return
        from rich.live import Live
        from rich.text import Text

        with contextlib.suppress(KeyboardInterrupt), Live(auto_refresh=False, vertical_overflow="visible") as live:
            seen = 0
            while True:
                if study.count != seen:
                    seen = study.count
                    live.update(Text(str(study.status())), refresh=True)
                time.sleep(every)


@app.command()
def log(store: Stored, name: Named = None, as_json: AsJson = False) -> None:
    """Every event of the study, one a line."""
    with _opened(store, name, readonly=True) as study:
        for number, header, arrays in study.events():
            if as_json:
                values = {key: array.tolist() for key, array in arrays.items()} if number else {}
                typer.echo(json.dumps({"event": number, **header, **values}))
                continue
            at = datetime.datetime.fromtimestamp(header["at"]).isoformat(" ", "seconds")
            typer.echo(f"{number:>6}  {at}  {header['kind']:6}  {_told(header, arrays)}")


@app.command()
def plot(
    store: Stored,
    name: Named = None,
    out: Annotated[Path, typer.Option(help="A .png or .pdf file.")] = Path("study.png"),
) -> None:
    """A figure: decisions, losses, slack and multipliers."""
    from performative.plotting import save

    with _opened(store, name, readonly=True) as study:
        _require_ending(out, ".png", ".pdf")
        save(study.plot(), out)
        typer.echo(f"written to {out}")


@app.command()
def verify(store: Stored, name: Named = None) -> None:
    """Compute everything again from the log and compare it to the bit."""
    with _opened(store, name, readonly=True) as study:
        replay = study.verify()
        typer.echo(f"{replay.events} events and {replay.told} tells are as they were, to the bit")


@app.command()
def export(
    store: Stored,
    name: Named = None,
    out: Annotated[Path, typer.Option(help="A .nc, .csv or .parquet file.")] = Path("study.nc"),
) -> None:
    """The history of the study as a dataset (.nc), or as a table with a row for each decision deployed (.csv, .parquet)."""
    with _opened(store, name, readonly=True) as study:
        from performative.study.history import to_frame

        _require_ending(out, ".nc", ".csv", ".parquet")
        past = study.history()
        if out.suffix == ".nc":
            past.to_netcdf(out, engine="netcdf4")
        elif out.suffix == ".csv":
            to_frame(past).to_csv(out, index=False)
        else:
            to_frame(past).to_parquet(out, index=False)
        typer.echo(f"written to {out}: {past.sizes['deployment']} deployments")


def _require_ending(out: Path, *endings: str) -> None:
    if out.suffix not in endings:
        raise ValueError(f"`out` must end in {', '.join(endings[:-1])} or {endings[-1]}, but got {str(out)!r}")


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    """Errors of the library in one line each, without a traceback, and exit code 1."""
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

        names = [name] if name is not None else list(Study.names(store))
        if len(names) != 1:
            raise ValueError(f"`--name` must say which study of {store}: {', '.join(names)}")
        with Study.open(store, names[0], readonly=readonly) as study:
            yield study


def _samples(path: Path, study: Study, number: int) -> Any:
    """The samples (b, n, k) of a file."""
    from performative.environments.tables import read_frame

    if path.suffix.lower() == ".json":
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path} must be JSON, but: {error}") from error
        flat = isinstance(values, list) and values and isinstance(values[0], list)
        return [values] if flat and not isinstance(values[0][:1] and values[0][0], list) else values
    frame = read_frame(path, None)
    if frame.empty:
        raise ValueError(f"{path} must hold at least one sample, but has no rows")
    if "decision" not in frame.columns:
        return frame
    which = frame.pop("decision")
    count = len(study.deployment(number).decisions)
    parts = [frame[which == place] for place in range(count)]
    if sum(map(len, parts)) != len(frame):
        raise ValueError(f"the column `decision` must hold 0 to {count - 1}, but got {sorted(set(which.tolist()))}")
    if len({len(part) for part in parts}) > 1:
        raise ValueError(f"every decision must have as many samples, but they have {[len(part) for part in parts]}")
    return parts


def _plain(deployment: Deployment) -> dict[str, Any]:
    why = {key: value.tolist() for key, value in deployment.why._asdict().items()}
    return deployment._asdict() | {"decisions": deployment.decisions.tolist(), "why": why}


def _words(study: Study, deployment: Deployment) -> str:
    from performative.study.status import row

    lines = [
        f"deployment {deployment.id}, round {deployment.round}: {deployment.samples} samples wanted of each decision"
    ]
    names = study.method.problem.constraint_names
    for place, decision in enumerate(deployment.decisions):
        apart = deployment.why.exploration[place]
        held = ", ".join(f"{name} {value:.4g}" for name, value in zip(names, deployment.why.safety[place], strict=True))
        line = f"  decision {place}: {row(decision)}"
        line += f"  (exploring by {row(apart)})" if apart.any() else "  (the current decision)"
        lines.append(line + (f"  slack: {held}" if held else ""))
    return "\n".join(lines)


def _told(header: dict[str, Any], arrays: Any) -> str:
    from performative.study.status import row

    if header["kind"] == "ask":
        rows = "; ".join(row(one) for one in arrays["decisions"])
        return f"round {header['round']}, {header['samples']} samples of {rows}"
    if header["kind"] == "tell":
        b, n, _ = arrays["samples"].shape
        return f"deployment {header['deployment']}, {b} × {n} samples, decision {row(arrays['decision'])}"
    if header["kind"] == "cancel":
        return f"deployment {header['deployment']}: {header['reason']}"
    return str(header.get("text") or f"performative {header['performative']}, seed {header['seed']}")
