"""The command `performative`: each command parses, calls one library function and prints."""

from __future__ import annotations

import typer

from performative.cli import check, compare, reproduce, study

app = typer.Typer(
    help="Decisions that change the data they are based on: performative prediction under constraints.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (reproduce.demo, reproduce.reproduce, check.check, compare.compare):
    app.command()(command)
app.add_typer(study.app, name="study")


@app.callback()
def main() -> None:
    """Decisions that change the data they are based on: performative prediction under constraints."""
