"""The results of a comparison: datasets, files and a summary."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from performative.comparison.ranks import ranking
from performative.numerics.arrays import Floats
from performative.plotting.comparison import comparison_figure
from performative.plotting.style import save
from performative.problems import Case
from performative.simulation import dataset as simulated

if TYPE_CHECKING:
    import xarray as xr


VARIABLES = ("regret", "deployed_regret", "violation", "deployed_violation", "outside", "distance", "stable_distance")


class Skipped(NamedTuple):
    """A method that did not run on a problem, and why.

    >>> import performative as pf
    >>> skipped = pf.comparison.Skipped("spam", "perfgd", reason="it needs the family of the data")
    >>> f"{skipped.method} on {skipped.problem}: {skipped.reason}"
    'perfgd on spam: it needs the family of the data'
    """

    problem: str
    method: str
    reason: str


class Comparison(NamedTuple):
    """The results by problem, and the methods that could not serve one.

    >>> import performative as pf
    >>> comparison = pf.compare("revenue", methods=["rgd", "rrm"], deployments=50, realizations=2)
    >>> sorted(comparison.results), comparison.skipped
    (['revenue'], [])
    >>> comparison.results["revenue"].algorithm.values.tolist()
    ['rgd', 'rrm']
    """

    results: dict[str, xr.Dataset]
    skipped: list[Skipped]


class Record(NamedTuple):
    """One method on one problem: each variable (realization, point), the deployments at each point, and the seconds it took.

    `optimum` holds what regret was measured against, under the names of a simulation's dataset.
    """

    variables: dict[str, Floats]
    deployments: list[int]
    seconds: float
    optimum: dict[str, Floats]


def dataset(case: Case, records: Mapping[str, Record]) -> xr.Dataset:
    """All methods of one problem; shorter records are padded with NaN."""
    import xarray as xr

    points = max(len(record.deployments) for record in records.values())

    def filled(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.pad(
            values * 1.0, [(0, 0)] * (values.ndim - 1) + [(points - values.shape[-1], 0)], constant_values=np.nan
        )

    variables: dict[str, Any] = {
        name: (
            ("algorithm", "realization", "point"),
            np.stack([filled(record.variables[name]) for record in records.values()]),
        )
        for name in VARIABLES
    }
    variables["deployments"] = (
        ("algorithm", "point"),
        np.stack([filled(np.asarray(record.deployments)) for record in records.values()]),
    )
    variables["seconds"] = (("algorithm",), [record.seconds for record in records.values()])
    for name, values in next(iter(records.values())).optimum.items():  # the same for all methods
        variables[name] = (("coordinate",) if name == "optimum" else (), values)
    dataset = xr.Dataset(variables, {"algorithm": list(records)})
    dataset.attrs = {"problem": case.name, "title": case.title, "reference": case.reference}
    dataset = simulated.described(dataset)
    dataset["violation"].attrs |= simulated.VARIABLES["worst_violation"]
    return dataset


def write(comparison: Comparison, directory: Path) -> None:
    """`<problem>.nc` for each problem, `summary.json`, `figure.png` and `figure.pdf`.

    >>> import pathlib, tempfile
    >>> import performative as pf
    >>> comparison = pf.compare("revenue", methods=["rgd", "rrm"], deployments=50, realizations=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pf.comparison.write(comparison, pathlib.Path(folder))
    ...     sorted(path.name for path in pathlib.Path(folder).iterdir())
    ['figure.pdf', 'figure.png', 'revenue.nc', 'summary.json']
    """
    directory.mkdir(parents=True, exist_ok=True)
    for name, dataset in comparison.results.items():
        stem = re.sub(r"[^-.,\w ]", "_", name)  # not every name can be that of a file
        dataset.to_netcdf(directory / f"{stem}.nc", engine="netcdf4")
    (directory / "summary.json").write_text(json.dumps(summary(comparison), indent=2) + "\n")
    figure = comparison_figure(comparison.results)
    for suffix in ("png", "pdf"):
        save(figure, directory / f"figure.{suffix}")


def summary(comparison: Comparison) -> dict[str, Any]:
    """The rankings and the methods that did not run, as plain numbers and strings; None for numbers that are not finite.

    >>> import performative as pf
    >>> comparison = pf.compare("revenue", methods=["rgd", "rrm"], deployments=50, realizations=2)
    >>> summary = pf.comparison.summary(comparison)
    >>> [row["rank"] for row in summary["problems"]["revenue"]][0], summary["skipped"]
    (1, [])
    """
    rows = {
        name: [row._asdict() | {"broke": row.broke} for row in ranking(data)]
        for name, data in comparison.results.items()
    }
    return {"problems": _finite(rows), "skipped": [item._asdict() for item in comparison.skipped]}


def _finite(node: Any) -> Any:
    if isinstance(node, dict):
        return {name: _finite(value) for name, value in node.items()}
    if isinstance(node, list | tuple):
        return [_finite(value) for value in node]
    return None if isinstance(node, float) and not math.isfinite(node) else node
