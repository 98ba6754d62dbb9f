"""Run an experiment of the paper: random instances, all methods, both sensitivities, on shared noise."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from performative import steps
from performative.experiments.files import require_writable
from performative.experiments.settings import EXPERIMENTS, METHODS, cast_of
from performative.problems.instance import WARMUP, Instance
from performative.simulation.dataset import described
from performative.simulation.processes import check_cluster
from performative.simulation.simulate import PARTIAL, run
from performative.validation import MOST_SEED, like, positive, whole

if TYPE_CHECKING:
    import xarray as xr


def reproduce(
    experiment: str,
    *,
    rounds: int,
    realizations: int,
    sensitivities: Sequence[float] = (1.0, 10.0),
    seed: int = 0,
    workers: int = 1,
    methods: Sequence[str] = METHODS,
    out: Path | None = None,
    progress: bool | None = None,
    cluster: str | None = None,
    chunk: int | None = None,
) -> xr.Dataset:
    """The paper's experiment as a dataset (sensitivity, algorithm, realization, t[, constraint]).

    With `out`, checkpoints are kept there: the same call resumes an interrupted run and ends with the same bits. Relative
    quantities divide by their value in the first round, Reg(t)/(t·Reg(1)) and Vio_m(t)/(t·|Vio_m(1)|), the violation by
    the largest that methods have there, and `worst_violation` is the largest of all constraints' average violations.

    >>> from performative.experiments.reproduce import reproduce
    >>> runs = reproduce("portfolio", rounds=10, realizations=2, sensitivities=[1.0], methods=["oracle"])
    >>> runs.relative_regret.dims
    ('sensitivity', 'algorithm', 'realization', 't')
    """
    begun = time.monotonic()
    rounds, realizations = whole("rounds", rounds, 1), whole("realizations", realizations, 1)
    seed, workers = whole("seed", seed, 0, MOST_SEED), whole("workers", workers, 1)
    if experiment not in EXPERIMENTS:
        near = like(experiment, EXPERIMENTS)
        raise ValueError(f"`experiment` must be one of {sorted(EXPERIMENTS)}, but got {experiment!r}{near}")
    values = [float(positive("sensitivity", value)) for value in sensitivities]
    if not values or len(set(values)) < len(values):
        raise ValueError(f"`sensitivities` must be different numbers, at least one, but got {values}")
    if not methods:
        raise ValueError(f"`methods` must be at least one of {list(METHODS)}, but got none")
    for name in methods:
        if name not in METHODS:
            raise ValueError(f"`methods` must be among {list(METHODS)}, but got {name!r}{like(name, METHODS)}")
    if cluster is not None:
        check_cluster(cluster)
    if out is not None:
        require_writable(out)
    checkpoints = None if out is None else out / "checkpoints"
    draw = EXPERIMENTS[experiment].instance
    instances = {value: [draw(seed, r, value, WARMUP) for r in range(realizations)] for value in values}
    cast = cast_of(instances, methods)
    try:
        runs = run(
            cast,
            rounds=rounds,
            seed=seed,
            record=60,
            workers=workers,
            cluster=cluster,
            chunk=chunk,
            progress=progress,
            checkpoint=checkpoints,
            provenance=False,  # the seed settles the instances
        )
    except KeyboardInterrupt:
        if out is not None and checkpoints is not None and (checkpoints / PARTIAL).exists():
            _finished(_load(checkpoints / PARTIAL), experiment, instances).to_netcdf(
                out / "results.nc", engine="netcdf4"
            )
        raise
    dataset = _finished(runs, experiment, instances)
    dataset.attrs["seconds"] = time.monotonic() - begun
    return dataset


def _load(path: Path) -> xr.Dataset:
    import xarray as xr

    with xr.open_dataset(path, engine="netcdf4") as stored:
        return stored.load()


def _finished(runs: xr.Dataset, experiment: str, instances: dict[float, list[Instance]]) -> xr.Dataset:
    """The runs with what the paper's figures show."""
    dataset = runs.rename(variant="sensitivity")
    reported = dataset.violation.isel(constraint=_reported(dataset, instances))
    dataset["relative_regret"] = dataset.regret / dataset.regret.isel(t=0)
    # The first decision may meet the constraint with equality: what all methods are measured by is the largest of theirs.
    dataset["relative_violation"] = reported / abs(reported.isel(t=0)).max("algorithm")
    dataset["worst_violation"] = dataset.violation.max("constraint")
    dataset.attrs = {name: value for name, value in runs.attrs.items() if name != "record"}
    dataset.attrs |= {
        "experiment": experiment,
        "title": EXPERIMENTS[experiment].TITLE,
        "warmup": WARMUP,
        "step": float(steps.experiment()["step"]),
        "control": float(steps.experiment()["control"]),
    }
    return described(dataset)


def _reported(dataset: xr.Dataset, instances: dict[float, list[Instance]]) -> xr.DataArray:
    """The constraint m of Vio_m for each realization: the last one that is switched on."""
    import xarray as xr

    last = []
    for instance in next(iter(instances.values())):
        active = getattr(instance.truth.constraints[-1], "active", None)
        total = len(instance.truth.constraint_names)
        last.append(total - 1 if active is None or not np.any(active) else int(np.flatnonzero(active)[-1]))
    return xr.DataArray(last[: dataset.sizes["realization"]], dims="realization")
