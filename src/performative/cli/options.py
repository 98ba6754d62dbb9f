"""Options that several commands share, such as `--methods`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Methods = Annotated[
    list[str] | None,
    typer.Option(
        help="Names, comma-separated or repeated; all by default. `reproduce` knows apda, pd-ps, oracle, apda-recycle and "
        "safe-apda; `compare` also takes module:function for your own."
    ),
]
Out = Annotated[Path, typer.Option(help="The directory to write results to.")]


def separated(items: list[str] | None) -> list[str]:
    """The names in an option that may be repeated and hold several, with commas between them."""
    return [name.strip() for item in items or [] for name in item.split(",") if name.strip()]
