"""`performative plot`: the figure of a dataset in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def plot(
    results: Annotated[
        Path, typer.Argument(help="A .nc file written by simulate, reproduce, compare or study export.")
    ],
    out: Annotated[Path, typer.Option(help="The figure to write; its extension sets the format: .png, .pdf or .svg.")],
) -> None:
    """Draw the figure of a dataset in a file."""
    import xarray as xr

    from performative import plotting

    if out.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise typer.BadParameter(f"`--out` must end in .png, .pdf or .svg, but got {out}")
    if not out.absolute().parent.is_dir():
        raise typer.BadParameter(f"the directory of `--out` does not exist: {out}")
    if not results.is_file():
        raise typer.BadParameter(f"{results} does not exist or is not a file")
    try:
        dataset = xr.load_dataset(results, engine="netcdf4")
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{results} is not a valid netCDF file: {error}") from error
    try:
        figure = plotting.plot(dataset)
    except ValueError as error:
        raise typer.BadParameter(f"{results}: {error}") from error
    plotting.save(figure, out)
    typer.echo(f"written to {out}")
