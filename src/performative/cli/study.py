"""`performative study`: live studies from a terminal, without writing Python."""

from __future__ import annotations

import contextlib
import csv
import datetime
import json
import math
import os
import secrets
import shlex
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from performative.study import Deployment, Study
    from performative.study.rehearsal import Rehearsal as Rehearsed
    from performative.study.spec import Described


app = typer.Typer(help="Run live studies: ask for decisions, deploy them, report what happened.", no_args_is_help=True)
Stored = Annotated[Path, typer.Option("--store", help="The file that holds the study.")]
Named = Annotated[str | None, typer.Option("--name", help="The name of the study, if the file holds several.")]
Number = Annotated[int, typer.Option("--deployment", help="The number of the deployment, as printed by `ask`.")]
By = Annotated[str | None, typer.Option("--as", help="Who does it; the system's user, if left out.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Theory = Annotated[bool, typer.Option("--theory", help="Use the words of the theory: θ_t, slack, multipliers, risk.")]
AllowCode = Annotated[
    bool, typer.Option("--allow-code", help="Import the functions that the file names, if the method needs them.")
]
Rehearsal = Annotated[
    bool, typer.Option("--rehearsal/--no-rehearsal", help="Play twenty deployments in make-believe worlds first.")
]


@app.command()
def new(
    spec: Annotated[Path, typer.Argument(help="A TOML file that describes decisions, constraints, loss and method.")],
    store: Stored,
    rehearsal: Rehearsal = True,
) -> None:
    """Create a study from a description whose first deployments were rehearsed, or list every error in the description."""
    with _errors():
        from performative.study import Study
        from performative.study.spec import read

        described = read(spec)
        if rehearsal and not (store.exists() and described.name in Study.names(store)):
            typer.echo(f"{_rehearsed(described)}\n")
        with Study.of_described(store, described) as study:
            typer.echo(f"study {study.name} created in {store}")


@app.command()
def rehearse(
    spec: Annotated[Path, typer.Argument(help="A TOML file that describes decisions, constraints, loss and method.")],
) -> None:
    """Play the first twenty deployments of a description in make-believe worlds, and store nothing.

    In one of them data do not react, in the others weakly and strongly. Shown are decisions, how far they move, and what they
    could cost.
    """
    with _errors():
        from performative.study.spec import read

        typer.echo(str(_rehearsed(read(spec))))


@app.command()
def ask(
    store: Stored, name: Named = None, as_json: AsJson = False, theory: Theory = False, allow_code: AllowCode = False
) -> None:
    """Print the decisions to deploy now; repeated calls return the same decisions until you report or cancel them."""
    with _opened(store, name, allow_code=allow_code) as study:
        deployment = study.ask()
        if as_json:
            typer.echo(json.dumps(_plain(deployment)))
            return
        _say(_words(study, deployment, theory))
        reasons = study.why()
        if reasons is not None:
            _say(f"why: {(reasons.theory if theory else reasons.sentences)[0]}")
        which = "" if name is None else f" --name {shlex.quote(name)}"
        place = f"--store {shlex.quote(str(store))}{which} --deployment {deployment.id}"
        if deployment.approved:
            typer.echo(f"next: performative study tell FILE {place}")
            return
        typer.echo(f"next: performative study approve {place}")
        typer.echo(f"  or: performative study decline --reason WHY {place}")


@app.command()
def approve(
    store: Stored,
    deployment: Number,
    name: Named = None,
    decisions: Annotated[
        list[str] | None,
        typer.Option(help='What to deploy in its place, such as "3.50,4.49"; once for each decision of the proposal.'),
    ] = None,
    by: By = None,
    allow_code: AllowCode = False,
) -> None:
    """Approve a proposal, or other feasible decisions in its place."""
    with _opened(store, name, allow_code=allow_code) as study:
        wanted = None if not decisions else [_numbers("--decisions", text) for text in decisions]
        _say(_words(study, study.approve(deployment, wanted, by)))


@app.command()
def decline(
    reason: Annotated[str, typer.Option(help="Why the proposal is declined.")],
    store: Stored,
    deployment: Number,
    name: Named = None,
    upper: Annotated[
        list[str] | None,
        typer.Option(
            help='A bound for all proposals to come, such as "milk=5", or "0=5" for the first number; "milk=inf" lifts it.'
        ),
    ] = None,
    lower: Annotated[list[str] | None, typer.Option(help='The same from below, such as "milk=2".')] = None,
    by: By = None,
    allow_code: AllowCode = False,
) -> None:
    """Decline a proposal; the next `ask` proposes anew, within the bounds that are given."""
    with _opened(store, name, allow_code=allow_code) as study:
        names = study.labels.decisions or ()
        low, high = _bounds("--lower", lower, names), _bounds("--upper", upper, names)
        with warnings.catch_warnings(record=True, action="always") as caught:
            study.decline(deployment, reason, lower=low, upper=high, by=by)
        typer.echo(f"proposal {deployment} declined; `ask` for the next one")
        for warning in caught:
            typer.echo(f"warning: {warning.message}", err=True)


@app.command()
def tell(
    data: Annotated[Path, typer.Argument(help="The samples observed: a .csv, .json or .parquet file.")],
    store: Stored,
    deployment: Number,
    name: Named = None,
    sep: Annotated[str, typer.Option(help="What separates the cells of a CSV file.")] = ",",
    decimal: Annotated[str, typer.Option(help="The decimal sign of its numbers.")] = ".",
    ignore: Annotated[list[str] | None, typer.Option(help="A column of it to leave out, such as a date.")] = None,
    deployed: Annotated[
        list[str] | None,
        typer.Option(help='What was really deployed, such as "3.50,4.49"; once for each decision of the deployment.'),
    ] = None,
    in_order: Annotated[
        bool, typer.Option("--in-order", help="Its columns are in the order of a sample, where names do not say so.")
    ] = False,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="They are right, though they look as if they could not be.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Report them without asking, in a script.")] = False,
    allow_code: AllowCode = False,
) -> None:
    """Report what was observed, once you have looked at what was read.

    Rows are samples; with several decisions, the column `decision` (0, 1, …) tells them apart.
    """
    with _opened(store, name, allow_code=allow_code) as study:
        from performative.errors import HeldBack
        from performative.study.observed import read_observed

        actual = None if not deployed else [_numbers("--deployed", text) for text in deployed]
        samples = read_observed(data, study.deployment(deployment).decisions, sep, decimal, ignore or ())
        seen = study.preview(deployment, samples, actual, in_order=in_order)
        typer.echo(str(seen if confirm else seen._replace(doubts=())))  # they follow as an error
        if seen.doubts and not confirm:
            raise HeldBack(seen.doubts)
        if not yes:
            if not sys.stdin.isatty():
                raise ValueError(
                    "nothing was reported, since nobody can be asked here: look at what was read, and add --yes"
                )
            typer.confirm("report these?", abort=True)
        told = study.tell(deployment, samples, actual, in_order=in_order, confirm=confirm)
        for limit, excess in told.violated.items():
            typer.echo(
                f"warning: what was deployed violates {limit} by {excess:.4g}; it is learned from all the same",
                err=True,
            )
        following = study.outcome.place(study.told, told.round)
        typer.echo(f"deployment {deployment} reported; next is {following}: ask for its decisions")


@app.command()
def retract(
    reason: Annotated[str, typer.Option(help="Why the report is wrong.")],
    store: Stored,
    deployment: Number,
    name: Named = None,
    by: By = None,
    allow_code: AllowCode = False,
) -> None:
    """Take back what was reported for a deployment: nothing is learned from it any more. It can be reported again."""
    with _opened(store, name, allow_code=allow_code) as study:
        study.retract(deployment, reason, by)
        typer.echo(
            f"the report of deployment {deployment} is retracted; `tell` may report it again, with the right samples"
        )


@app.command()
def amend(
    spec: Annotated[Path, typer.Argument(help="The TOML file of the study, changed.")],
    reason: Annotated[str, typer.Option(help="Why the method changes.")],
    store: Stored,
    name: Named = None,
    by: By = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether it is right.")] = False,
    rehearsal: Rehearsal = True,
) -> None:
    """Go on with other costs, constraints, bounds or options; all that was learned is kept. What changes is shown first."""
    with _opened(store, name) as study:
        typer.echo(str(study.amendment(spec, rehearse=rehearsal)))
        if not yes and not typer.confirm("amend the study?"):
            typer.echo("nothing was changed")
            return
        study.amend(spec, reason, by)
        typer.echo(f"study {study.name} amended")


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
    theory: Theory = False,
    allow_code: AllowCode = False,
) -> None:
    """Show where the study stands: what is deployed, what it brings, what limits cost, warnings, and what to do next."""
    with _opened(store, name, readonly=True, allow_code=allow_code) as study:
        if watch and as_json:
            raise ValueError("`--watch` and `--json` cannot be combined")
        if not watch:
            current = study.status()
            if as_json:
                typer.echo(json.dumps(current.plain()))
            else:
                _say(current.theory() if theory else str(current))
            return
        from rich.live import Live
        from rich.text import Text

        with contextlib.suppress(KeyboardInterrupt), Live(auto_refresh=False, vertical_overflow="visible") as live:
            shown = 0
            while True:
                if study.count != shown:
                    shown = study.count
                    current = study.status()
                    live.update(Text(current.theory() if theory else str(current)), refresh=True)
                time.sleep(every)


@app.command()
def why(store: Stored, name: Named = None, as_json: AsJson = False, theory: Theory = False) -> None:
    """Say why the next decisions are what they are: what is expected of them, what a probe costs, and which limits hold."""
    with _opened(store, name, readonly=True) as study:
        reasons = study.why()
        if reasons is None:
            raise ValueError("the method of this study does not explain its decisions; `safe_apda` does")
        if as_json:
            typer.echo(json.dumps(reasons._asdict()))
        else:
            _say("\n".join(reasons.theory if theory else reasons.sentences))


@app.command()
def note(text: Annotated[str, typer.Argument(help="What to write down.")], store: Stored, name: Named = None) -> None:
    """Write a note into the log; it changes nothing else."""
    with _opened(store, name) as study:
        study.note(text)
        typer.echo("noted")


@app.command()
def log(store: Stored, name: Named = None, as_json: AsJson = False, theory: Theory = False) -> None:
    """List every event of the study, one per line."""
    with _opened(store, name, readonly=True) as study:
        from performative.study.clock import set_back
        from performative.study.encoding import plain
        from performative.study.lines import Teller

        teller = Teller(study.constraint_names, study.labels, study.outcome, theory)
        latest = -math.inf
        for event in study.events():
            if as_json:
                typer.echo(json.dumps(plain(event)))
                continue
            at = datetime.datetime.fromtimestamp(event.at).isoformat(" ", "seconds")
            back = set_back(latest, event.at)
            latest = event.at
            _say(
                f"{event.number:>6}  {at}  {event.kind:7}  {teller.line(event)}"
                + ("" if back is None else f"  (the clock was set back by {back})")
            )


@app.command()
def plot(
    store: Stored,
    name: Named = None,
    out: Annotated[Path, typer.Option(help="The file to write: .png or .pdf.")] = Path("study.png"),
    allow_code: AllowCode = False,
) -> None:
    """Draw what was deployed, what it brought, what was gained, the room left in limits, and how the data react."""
    from performative.plotting import save

    with _opened(store, name, readonly=True, allow_code=allow_code) as study:
        _require_ending(out, ".png", ".pdf")
        save(study.plot(), out)
        typer.echo(f"written to {out}")


@app.command()
def verify(
    store: Stored,
    name: Named = None,
    allow_code: AllowCode = False,
    key: Annotated[Path | None, typer.Option(help="The file of the key with which the study must be signed.")] = None,
    against: Annotated[str | None, typer.Option(help="A digest that `verify` printed earlier, kept elsewhere.")] = None,
) -> None:
    """Replay the whole study from its log and compare the results bit for bit; print the digest of the log.

    With --key and --against, nothing is replayed unless the signature or the digest shows that the log was not changed.
    """
    with _opened(store, name, readonly=True, allow_code=allow_code) as study:
        if key is not None:
            secret = key.read_bytes()
            typer.echo(f"signed with the key {_key_name(secret)} up to event {study.signed(secret)}")
        if against is not None:
            typer.echo(
                f"nothing was changed up to event {study.held(against)}, the last one when the digest was {against}"
            )
        replay = study.verify()
        typer.echo(f"verified bit for bit; events: {replay.events}, reports: {replay.told}")
        if replay.unreplayed:
            typer.echo(f"{replay.unreplayed} of the events by their digests alone")
            for reason in replay.because:
                typer.echo(f"  {reason}")
        typer.echo(f"digest: {study.digest}")


@app.command()
def key(
    out: Annotated[Path, typer.Option(help="The file to write, which only you may read; keep it from others.")],
) -> None:
    """Make a key to sign studies with."""
    with _errors():
        secret = secrets.token_hex(32).encode()
        with open(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secret)
        typer.echo(f"key {_key_name(secret)} written to {out}")


@app.command()
def sign(
    store: Stored,
    key: Annotated[
        Path, typer.Option(help="The file of the key, of at least 32 bytes; `performative study key` makes one.")
    ],
    name: Named = None,
) -> None:
    """Sign all events so far: `verify --key` then shows that none of them was changed, whatever is added later."""
    with _opened(store, name) as study:
        secret = key.read_bytes()
        study.sign(secret)
        typer.echo(f"signed with the key {_key_name(secret)} up to event {study.signed(secret)}")


@app.command()
def copy(
    path: Annotated[Path, typer.Option("--from", help="The file to copy; it may be in use.")],
    to: Annotated[Path, typer.Option(help="The file to write, which must not exist.")],
) -> None:
    """Copy a file of studies as it is at this moment, and verify the copy; other means may miss the latest events."""
    with _errors(), _warnings():
        from performative.study import copies

        names = copies.copy(path, to)
        typer.echo(f"copied to {to} and verified: {', '.join(names)}")


def _key_name(secret: bytes) -> str:
    from performative.study.signing import key_name, require_key

    require_key(secret)
    return key_name(secret)


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
def _opened(store: Path, name: str | None, readonly: bool = False, allow_code: bool = False) -> Iterator[Study]:
    with _errors():
        from performative.study import Study

        if not store.exists():
            created = f"performative study new SPEC --store {shlex.quote(str(store))}"
            raise ValueError(f"{store} does not exist; create a study with `{created}`")
        with _warnings():
            study = Study.open(store, _chosen(store, name), readonly=readonly, allow_code=allow_code)
        with study:
            yield study


def _chosen(store: Path, name: str | None) -> str:
    """The name of the study, or of the only one in the file."""
    from performative.study import Study

    names = [name] if name is not None else Study.names(store)
    if not names:
        raise ValueError(
            f"{store} holds no study; create one with `performative study new SPEC --store {shlex.quote(str(store))}`"
        )
    if len(names) > 1:
        raise ValueError(f"{store} holds several studies; choose one with `--name`: {', '.join(names)}")
    return names[0]


@contextlib.contextmanager
def _warnings() -> Iterator[None]:
    """Print warnings about the file of a study as lines."""
    from performative.errors import StudyWarning

    with warnings.catch_warnings(record=True, action="always", category=StudyWarning) as caught:
        yield
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        typer.echo(f"warning: {message}", err=True)


def _numbers(option: str, text: str) -> list[float]:
    """The numbers of a decision, separated by commas."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f'`{option}` must be numbers such as "3.50,4.49", but got {text!r}') from None


def _bounds(option: str, texts: list[str] | None, names: Sequence[str]) -> dict[Any, float] | None:
    """Bounds by the name of the number that they hold for, or its place."""
    bounds: dict[Any, float] = {}
    for text in texts or ():
        key, _, bound = (part.strip() for part in text.rpartition("="))
        try:
            bounds[int(key) if key.isdecimal() and key not in names else key] = float(bound)
        except ValueError:
            raise ValueError(
                f'`{option}` must be a name or a place and a bound, such as "milk=5" or "0=5", but got {text!r}'
            ) from None
    return bounds or None


def _rehearsed(described: Described) -> Rehearsed:
    """What a rehearsal shows; it may wait for the compiler, so a terminal says what is going on."""
    from performative.study.rehearsing import rehearsed

    if sys.stderr.isatty():
        typer.echo("rehearsing …", err=True)
    return rehearsed(described)


def _plain(deployment: Deployment) -> dict[str, Any]:
    why = {key: value.tolist() for key, value in deployment.why._asdict().items()}
    return deployment._asdict() | {"decisions": deployment.decisions.tolist(), "why": why}


def _words(study: Study, deployment: Deployment, theory: bool = False) -> str:
    from performative.study.lines import deployment_lines, theory_lines

    names, labels = study.constraint_names, study.labels
    if theory:
        return "\n".join(theory_lines(deployment, names, labels))
    return "\n".join(deployment_lines(deployment, study.told, names, labels, study.outcome))


def _say(text: str) -> None:
    """Print text for people, in signs that the terminal, or the pipe, can take."""
    from performative.study.words import printable

    typer.echo(printable(text, getattr(sys.stdout, "encoding", None)))
