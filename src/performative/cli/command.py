"""The command `performative`, which gathers all commands; `--version`."""

from __future__ import annotations

from typing import Annotated

import typer

from performative import __version__
from performative.cli import check, compare, plot, reproduce, study
from performative.cli.compiled import keep_compiled

app = typer.Typer(
    help="Find the best decision when decisions change the data: performative prediction under constraints.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (reproduce.demo, reproduce.reproduce, compare.compare, check.check, plot.plot):
    app.command()(command)
app.add_typer(study.app, name="study")


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"performative {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Find the best decision when decisions change the data: performative prediction under constraints."""
    keep_compiled()
