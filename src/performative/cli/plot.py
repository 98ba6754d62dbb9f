"""`performative plot`: the figure of a dataset in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def plot(
    results: Annotated[Path, typer.Argument(help="A .nc file of simulate, reproduce, compare or study export.")],
    out: Annotated[Path, typer.Option(help="The figure to write; its ending names the format: .png, .pdf or .svg.")],
) -> None:
    """Draw the figure of a dataset in a file."""
    import xarray as xr

    from performative import plotting

    if out.suffix not in (".png", ".pdf", ".svg"):
        raise typer.BadParameter(f"`--out` must end in .png, .pdf or .svg, but got {out}")
    try:
        with xr.open_dataset(results) as dataset:
            plotting.save(plotting.plot(dataset.load()), out)
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{results}: {error}") from error
    typer.echo(f"written to {out}")
