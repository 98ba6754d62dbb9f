"""The files of an experiment: `results.nc`, `summary.json`, `figure.png` and `figure.pdf`."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from performative.plotting.plot import plot
from performative.plotting.style import save

if TYPE_CHECKING:
    import xarray as xr

SUMMARIZED = (
    "relative_regret",
    "relative_violation",
    "worst_violation",
    "deviation",
    "estimation_error",
    "deployed_regret",
    "deployed_violation",
)


def write(dataset: xr.Dataset, directory: Path) -> None:
    """Write a dataset of `reproduce`, its summary and its figure."""
    directory.mkdir(parents=True, exist_ok=True)
    dataset.to_netcdf(directory / "results.nc", engine="netcdf4")
    (directory / "summary.json").write_text(json.dumps(summary(dataset), indent=2) + "\n")
    figure = plot(dataset)
    save(figure, directory / "figure.png")
    save(figure, directory / "figure.pdf")


def summary(dataset: xr.Dataset) -> dict[str, Any]:
    """The numbers at the last round: mean, standard deviation and median over realizations."""
    settings = []
    for sensitivity in dataset.sensitivity.values:
        for method in dataset.algorithm.values:
            final = dataset.sel({"sensitivity": sensitivity, "algorithm": method}).isel(t=-1)
            settings.append(
                {
                    "sensitivity": float(sensitivity),
                    "method": str(method),
                    "final": {
                        name: {
                            "mean": float(final[name].mean()),
                            "std": float(final[name].std()),
                            "median": float(final[name].median()),
                        }
                        for name in SUMMARIZED
                    },
                }
            )
    return {
        "experiment": dataset.attrs["experiment"],
        "rounds": int(dataset["t"][-1]),
        "realizations": int(dataset.sizes["realization"]),
        "seed": int(dataset.attrs["seed"]),
        "seconds": float(dataset.attrs.get("seconds", float("nan"))),
        "settings": settings,
    }


def require_writable(directory: Path) -> None:
    """Refuse a directory that results could not be written to, before there are any."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise ValueError(f"cannot write to {directory}: {error.strerror}") from error
