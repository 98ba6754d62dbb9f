"""The one loop: several methods on the same noise, many realisations at once, metrics on the way."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax

from performative import __version__
from performative.numerics.precision import in_float64
from performative.provenance import describe
from performative.simulation.dataset import recorded_rounds, report_failures, to_dataset
from performative.simulation.jobs import LANES, make_jobs
from performative.simulation.runner import run_jobs
from performative.simulation.worlds import make_worlds
from performative.validation import MOST_SEED, whole

if TYPE_CHECKING:
    import xarray as xr


@in_float64
def simulate(
    methods: Mapping[str, Any],
    environment: Any,
    *,
    rounds: int,
    realizations: int | None = None,
    seed: int = 0,
    record: int | Sequence[int] = 50,
    problem: Any = None,
    optimum: Any = None,
    outside: bool = False,
    workers: int = 1,
    batch: int = LANES,
    chunk: int | None = None,
    progress: bool | None = None,
    checkpoint: str | Path | None = None,
) -> xr.Dataset:
    """Run methods against an environment and return their metrics as an `xarray.Dataset`.

    All methods meet the same noise: it is a function of the seed, the realisation and the round alone.

    Args:
        methods: `{"name": method}`. A list of methods of one structure is one instance per realisation.
        environment: the world, or a list of worlds, one per realisation.
        rounds: T.
        realizations: how many independent runs; by default as many as there are instances. With more realisations than
            instances, realisation r runs on instance r modulo their number.
        seed: the seed of all randomness.
        record: how many log-spaced rounds to record, or the rounds themselves; the first and the last always are.
        problem: the problem (or list) that metrics are taken on, where it is not the one the methods know.
        optimum: the `Solution` (or list) to measure against; by default it is computed.
        outside: record also how far from Θ the farthest deployment was; it takes a projection for each.
        workers: processes that share the batches of realisations. The result does not depend on it.
        batch: realisations in one batch. Another number changes results by rounding (up to 1e-10).
        chunk: the most rounds in one compiled call; results do not depend on it.
        progress: show a progress bar; by default if standard error is a terminal.
        checkpoint: a directory to keep the run in on the way; called again with it, an interrupted run goes on and ends
            with the same bits.

    Returns:
        A dataset with dimensions (method, realization, round[, constraint | coordinate]) and the variables `regret`,
        `violation`, `deviation`, `estimation_error`, `deployed_regret`, `deployed_violation`, `deployments`, `decision`,
        `multipliers` at the recorded rounds, and `failed` (method, realization), the first recorded round whose iterates
        were not finite, 0 if none. Its attributes hold everything needed to run it again.
    """
    rounds, seed = whole("rounds", rounds, 1), whole("seed", seed, 0, MOST_SEED)
    batch, workers = whole("batch", batch, 1), whole("workers", workers, 1)
    if chunk is not None:
        chunk = whole("chunk", chunk, 1)
    recorded = recorded_rounds(rounds, record)
    if realizations is not None:
        realizations = whole("realizations", realizations, 1)
    worlds = make_worlds(methods, environment, problem, optimum, outside)
    realizations = realizations or len(worlds)
    directory = None if checkpoint is None else Path(checkpoint)
    jobs = make_jobs([[world] for world in worlds], realizations, seed, recorded, batch, chunk, directory)
    pieces = run_jobs(jobs, workers, progress)
    dataset = to_dataset(worlds[0], pieces, recorded, realizations).isel(variant=0)
    dataset.attrs = {
        "performative": __version__,
        "jax": jax.__version__,
        "rounds": rounds,
        "realizations": realizations,
        "seed": seed,
        "batch": batch,
        "record": recorded,
        "methods": json.dumps({name: _described(methods[name]) for name in methods}),
        "environment": json.dumps(_described(environment)),
        "problem": json.dumps(_described(problem)),
        "optimum": json.dumps(_described(optimum)),
    }
    dataset = dataset.sel({"algorithm": list(methods)})
    report_failures(dataset, worlds[0])
    return dataset


def _described(given: Any) -> Any:
    """In full: arrays with all their numbers, up to a million of them each."""
    if isinstance(given, list | tuple):
        return [describe(item, most=10**6) for item in given]
    return describe(given, most=10**6)
