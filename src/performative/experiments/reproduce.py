"""Run an experiment of the paper: random instances, all methods, both sensitivities, on shared noise."""

from __future__ import annotations

import itertools
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from performative import __version__, steps
from performative.methods.paper import apda, oracle, pd_ps
from performative.methods.safe_apda import safe_apda
from performative.numerics.precision import precise
from performative.plotting.runs import experiment_figure
from performative.plotting.style import save
from performative.problems import portfolio, regression
from performative.problems.instance import Instance
from performative.simulation.checkpoints import finished_so_far
from performative.simulation.dataset import recorded_rounds, report_failures, to_dataset
from performative.simulation.engine import World
from performative.simulation.jobs import LANES, Job, Piece, make_jobs
from performative.simulation.processes import check_cluster
from performative.simulation.runner import run_jobs
from performative.truth.metrics import Truth
from performative.validation import MOST_SEED, positive, whole

if TYPE_CHECKING:
    import xarray as xr


EXPERIMENTS: dict[str, ModuleType] = {regression.NAME: regression, portfolio.NAME: portfolio}
METHODS = ("apda", "pd-ps", "oracle", "apda-recycle", "safe-apda")
WARMUP = 1000


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
    """The paper's experiment as a dataset (sensitivity, method, realization, round[, constraint]).

    With `out`, checkpoints are kept there: an interrupted run, started again, goes on and ends with the same bits. Relative
    quantities divide by their value in the first round, Reg(t)/(t·Reg(1)) and Vio_m(t)/(t·|Vio_m(1)|), and `worst_violation`
    is the largest of all constraints' average violations.
    """
    begun = time.monotonic()
    workers = whole("workers", workers, 1)
    if cluster is not None:
        check_cluster(cluster)
    if out is not None:
        _require_writable(out)
    jobs = experiment_jobs(experiment, rounds, realizations, sensitivities, seed, methods, out, chunk)
    try:
        pieces: list[Piece] = run_jobs(jobs, workers, progress, cluster)
    except KeyboardInterrupt:
        if out is not None:
            _keep_partial(jobs, experiment, sensitivities, out)
        raise
    dataset = _finished(jobs, pieces, experiment, sensitivities)
    dataset.attrs["seconds"] = time.monotonic() - begun
    for index in range(len(sensitivities)):
        report_failures(dataset.isel(sensitivity=index), jobs[0].worlds[0][0])
    return dataset


def experiment_jobs(
    experiment: str,
    rounds: int,
    realizations: int,
    sensitivities: Sequence[float],
    seed: int,
    methods: Sequence[str],
    out: Path | None,
    chunk: int | None,
) -> list[Job]:
    """The batches of an experiment."""
    if experiment not in EXPERIMENTS:
        raise ValueError(f"`experiment` must be one of {sorted(EXPERIMENTS)}, but got {experiment!r}")
    unknown = [name for name in methods if name not in METHODS]
    if unknown or not methods:
        raise ValueError(f"`methods` must be among {list(METHODS)}, but got {list(methods)}")
    rounds, realizations = whole("rounds", rounds, 1), whole("realizations", realizations, 1)
    values = [positive("sensitivity", value) for value in sensitivities]
    if not values or len(set(values)) < len(values):
        raise ValueError(f"`sensitivities` must be different numbers, at least one, but got {values}")
    module = EXPERIMENTS[experiment]
    worlds = [
        [make_world(module.instance(whole("seed", seed, 0, MOST_SEED), r, value, WARMUP), methods) for value in values]
        for r in range(realizations)
    ]
    directory = None if out is None else out / "checkpoints"
    return make_jobs(worlds, realizations, seed, recorded_rounds(rounds, 60), LANES, chunk, directory)


def make_world(instance: Instance, methods: Sequence[str]) -> World:
    """The methods of the paper, with the settings of its appendix, on one instance."""
    common: dict[str, Any] = {
        **steps.experiment(),
        "warmup": WARMUP,
        "start": instance.start,
        "shift": instance.shift,
    }
    learning = {**common, "effect": instance.prior}
    known = {**common, "effect": instance.environment.effect}
    del known["estimation_step"]
    made: dict[str, Any] = {}
    for name in sorted(methods):
        if name == "oracle":
            made[name] = oracle(instance.problem, **known)
        elif name == "pd-ps":
            made[name] = pd_ps(instance.problem, **learning)
        elif name == "safe-apda":  # its promise is for constraints that are known, so it is told the true ones
            made[name] = safe_apda(instance.truth, start=instance.start, shift=instance.shift, effect=instance.prior)
        else:
            made[name] = apda(instance.problem, **learning, recycle=name == "apda-recycle")
    with precise():
        return World(made, instance.environment, Truth.of(instance.truth, instance.environment, instance.optimum))


def summary(dataset: xr.Dataset) -> dict[str, Any]:
    """The numbers at the last round: mean, standard deviation and median over realisations."""
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
                        for name in SUMMARISED
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


SUMMARISED = (
    "relative_regret",
    "relative_violation",
    "worst_violation",
    "deviation",
    "estimation_error",
    "deployed_regret",
    "deployed_violation",
)


def write(dataset: xr.Dataset, directory: Path) -> None:
    """`results.nc`, `summary.json`, `figure.png` and `figure.pdf`."""
    directory.mkdir(parents=True, exist_ok=True)
    dataset.to_netcdf(directory / "results.nc", engine="netcdf4")
    (directory / "summary.json").write_text(json.dumps(summary(dataset), indent=2) + "\n")
    figure = experiment_figure(dataset, EXPERIMENTS[dataset.attrs["experiment"]].TITLE)
    save(figure, directory / "figure.png")
    save(figure, directory / "figure.pdf")


def _finished(jobs: list[Job], pieces: Sequence[Piece], experiment: str, sensitivities: Sequence[float]) -> xr.Dataset:
    rounds = jobs[0].rounds[: len(pieces[0])]
    realizations = sum(len(job.realizations) for job, _ in zip(jobs, pieces, strict=False))
    dataset = to_dataset(jobs[0].worlds[0][0], pieces, rounds, realizations).rename(variant="sensitivity")
    dataset = dataset.assign_coords(sensitivity=[float(value) for value in sensitivities])
    order = [name for name in METHODS if name in dataset.algorithm.values]
    dataset = dataset.sel({"algorithm": order}).transpose("sensitivity", "algorithm", "realization", "t", ...)
    reported = dataset.violation.isel(constraint=_reported(jobs, dataset))
    first = dataset.isel(t=0)
    dataset["relative_regret"] = dataset.regret / first.regret
    dataset["relative_violation"] = reported / abs(reported.isel(t=0))
    dataset["worst_violation"] = dataset.violation.max("constraint")
    dataset.attrs |= {
        "performative": __version__,
        "jax": jax.__version__,
        "experiment": experiment,
        "rounds": jobs[0].rounds[-1],
        "realizations": realizations,
        "seed": jobs[0].seed,
        "warmup": WARMUP,
        "step": float(steps.experiment()["step"]),
        "control": float(steps.experiment()["control"]),
        "batch": LANES,
    }
    return dataset


def _reported(jobs: list[Job], dataset: xr.Dataset) -> Any:
    """The constraint m of Vio_m for each realisation: the last one that is switched on."""
    import xarray as xr

    last = []
    for job in jobs:
        for row in job.worlds:
            active = getattr(row[0].truth.problem.constraints[-1], "active", None)
            total = len(row[0].truth.problem.constraint_names)
            last.append(total - 1 if active is None or not np.any(active) else int(np.flatnonzero(active)[-1]))
    return xr.DataArray(last[: dataset.sizes["realization"]], dims="realization")


def _require_writable(out: Path) -> None:
    """Refuse a directory that results could not be written to, before there are any."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise ValueError(
            f"`out` must be a directory that can be written to, but got {out}: {error.strerror}"
        ) from error


def _keep_partial(jobs: list[Job], experiment: str, sensitivities: Sequence[float], out: Path) -> None:
    """What is done when a run is interrupted: the recorded rounds that every batch begun so far has reached."""
    done = [piece or [] for piece in itertools.takewhile(bool, map(finished_so_far, jobs))]
    if not done:
        return
    reached = min(len(piece) for piece in done)
    cut = [piece[:reached] for piece in done]
    _finished(jobs, cut, experiment, sensitivities).to_netcdf(out / "results.nc", engine="netcdf4")
