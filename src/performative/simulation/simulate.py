"""`simulate`: several methods on the same noise, many realizations at once, metrics on the way."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from performative import __version__
from performative.environments.host import HostWorld
from performative.numerics.precision import in_float64
from performative.provenance import describe
from performative.simulation.checkpoints import finished_so_far
from performative.simulation.dataset import recorded_rounds, to_dataset
from performative.simulation.failures import report_failures
from performative.simulation.jobs import Job, batch_size, make_jobs
from performative.simulation.processes import check_cluster
from performative.simulation.runner import run_jobs
from performative.simulation.truths import Measures, samples_per_round
from performative.simulation.worlds import Cast, Given, make_worlds
from performative.solvers.kkt import Solution
from performative.validation import MOST_SEED, shown, whole

if TYPE_CHECKING:
    import xarray as xr

    from performative.environments.protocol import Environment
    from performative.methods.protocol import Method
    from performative.problem import Problem

PARTIAL = "partial.nc"
"""Where, in the directory of its checkpoints, an interrupted run leaves the dataset recorded so far."""
_MOST_NUMBERS = 10**6
"""Attributes hold arrays number by number if there are at most this many numbers in all, and by their digests otherwise."""


def simulate(
    methods: Mapping[str, Given[Method]],
    environment: Given[Environment],
    *,
    rounds: int,
    realizations: int | None = None,
    seed: int = 0,
    record: int | Sequence[int] = 50,
    problem: Given[Problem | None] = None,
    optimum: Given[Solution | None] = None,
    outside: bool = False,
    samples: int | None = None,
    workers: int = 1,
    cluster: str | None = None,
    batch: int | None = None,
    chunk: int | None = None,
    progress: bool | None = None,
    checkpoint: str | Path | None = None,
) -> xr.Dataset:
    """Run methods against an environment and return their metrics as an `xarray.Dataset`.

    All methods meet the same noise: it is a function of the seed, the realization and the round alone.

    A method, `environment`, `problem` and `optimum` may each be a list: one instance per realization. Each may also be a mapping
    from labels: one *variant* per label (a sensitivity, say). Variants share the noise too, and the dataset gets a dimension
    `variant`.

    Args:
        methods: `{"name": method}`. Instances and variants of a method must have one structure and differ in numbers alone.
        environment: the world that answers.
        rounds: T.
        realizations: how many independent runs; by default as many as there are instances. With more realizations than
            instances, realization r runs on instance r modulo their number.
        seed: the seed of all randomness.
        record: how many log-spaced rounds to record, or the rounds themselves; the first and the last always are.
        problem: the problem that metrics are taken on, where it is not the one the methods know.
        optimum: the `Solution` to measure against; computed by default.
        outside: measure the distance from Θ of every deployment, not only of probes that may leave Θ by design.
        samples: where the world only samples, how many samples measure the regret of a decision; by default about 100,000 over
            all rounds, at most 1000 and at least 2 in one round.
        workers: processes that share the batches of realizations. The result does not depend on it.
        cluster: `dask://host:port` or `ray://host:port`, to run the batches there instead of in processes here.
        batch: realizations in one batch; by default half of all, at most 50. Another number changes results by rounding (up to
            1e-10).
        chunk: the most rounds in one compiled call; results do not depend on it.
        progress: show a progress bar; by default if standard error is a terminal.
        checkpoint: a directory to keep the run in on the way. The same call resumes an interrupted run and ends with the
            same bits; what was recorded before the interruption is in `partial.nc` there.

    Returns:
        A dataset with dimensions ([variant,] algorithm, realization, t[, constraint | coordinate]) and the variables `regret`,
        `violation`, `violation_positive`, `deviation`, `estimation_error`, `deployed_regret`, `deployed_violation`, `outside`,
        `deployments`, `decision`, `multipliers` at the recorded rounds; `optimum` with `optimum_risk`, `optimum_residual` and
        `optimum_local`, what regret was measured against; and `failed` ([variant,] algorithm, realization), the first
        recorded round whose iterates were not finite, 0 if none. Where the world only samples, `regret_error` and
        `deployed_regret_error` are the standard errors of sampled regrets, and `loss` with `loss_error` is the mean loss of
        all samples. Where the world moves with the round, `regret` is against the best fixed decision, `dynamic_regret` and
        `deviation` against the optima of the recorded rounds, `optimal_decision`. Each variable describes itself in its
        attributes; those of the dataset hold everything needed to run it again.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> problem = pf.Problem(Revenue(), pf.Box([0.0], [5.0]))
    >>> markets = {
    ...     label: pf.LocationFamily(pf.Gaussian([4.0], [[0.1]]), [[effect]])
    ...     for label, effect in {"loyal": -1.0, "fickle": -2.0}.items()
    ... }
    >>> runs = pf.simulate({"apda": pf.apda(problem, warmup=10)}, markets, rounds=20, realizations=3)
    >>> runs.regret.dims
    ('variant', 'algorithm', 'realization', 't')
    >>> runs.sel(variant="fickle", algorithm="apda").decision.isel(t=-1).shape
    (3, 1)
    """
    _require_solutions(optimum)
    return run(
        Cast(methods, environment, problem, optimum),
        rounds=rounds,
        realizations=realizations,
        seed=seed,
        record=record,
        outside=outside,
        samples=samples,
        workers=workers,
        cluster=cluster,
        batch=batch,
        chunk=chunk,
        progress=progress,
        checkpoint=checkpoint,
    )


@in_float64
def run(
    cast: Cast,
    *,
    rounds: int,
    realizations: int | None = None,
    seed: int = 0,
    record: int | Sequence[int] = 50,
    outside: bool = False,
    samples: int | None = None,
    workers: int = 1,
    cluster: str | None = None,
    batch: int | None = None,
    chunk: int | None = None,
    progress: bool | None = None,
    checkpoint: str | Path | None = None,
    provenance: bool = True,
) -> xr.Dataset:
    """`simulate` for a whole cast; without `provenance`, the attributes do not describe it."""
    rounds, seed = whole("rounds", rounds, 1), whole("seed", seed, 0, MOST_SEED)
    workers = whole("workers", workers, 1)
    if batch is not None:
        batch = whole("batch", batch, 1)
    if chunk is not None:
        chunk = whole("chunk", chunk, 1)
    if cluster is not None:
        check_cluster(cluster)
    recorded = recorded_rounds(rounds, record)
    if realizations is not None:
        realizations = whole("realizations", realizations, 1)
    samples = samples_per_round(rounds) if samples is None else whole("samples", samples, 2)
    worlds = make_worlds(cast, Measures(recorded, samples, outside))
    realizations = realizations or len(worlds)
    batch = batch_size(realizations) if batch is None else batch
    directory = None if checkpoint is None else Path(checkpoint)
    if directory is not None and any(_forgets(world.environment) for row in worlds for world in row):
        raise ValueError("a HostWorld with a memory cannot be resumed; leave out `checkpoint`")
    jobs = make_jobs(worlds, realizations, seed, recorded, batch, chunk, directory)
    attributes = {
        "performative": __version__,
        "jax": jax.__version__,
        "rounds": rounds,
        "realizations": realizations,
        "seed": seed,
        "batch": batch,
        "record": recorded,
        **(_provenance(cast) if provenance else {}),
    }
    try:
        pieces = run_jobs(jobs, workers, progress, cluster)
    except KeyboardInterrupt:
        if directory is not None:
            _keep_partial(jobs, cast, attributes, directory)
        raise
    dataset = to_dataset(cast, jobs, pieces).assign_attrs(attributes)
    report_failures(dataset, worlds)
    if directory is not None:
        (directory / PARTIAL).unlink(missing_ok=True)
    return dataset


def _require_solutions(optimum: Any) -> None:
    """Refuse numbers for an optimum, before a list of them is taken for instances."""
    by_variant = list(optimum.values()) if isinstance(optimum, Mapping) else [optimum]
    for part in by_variant:
        for one in part if isinstance(part, list | tuple) else [part]:
            if one is not None and not isinstance(one, Solution):
                raise TypeError(
                    f"`optimum` must be a performative.Solution, but got {shown(optimum)}; pass what performative_optimum "
                    "returns for the problem and its world"
                )


def _forgets(environment: Any) -> bool:
    return isinstance(environment, HostWorld) and environment.signature.carries_state


def _provenance(cast: Cast) -> dict[str, str]:
    """Every part of the cast, as JSON."""
    numbers = sum(np.size(leaf) for leaf in jax.tree.leaves(cast._asdict()))
    described = describe(cast._asdict(), most=_MOST_NUMBERS if numbers <= _MOST_NUMBERS else 64)
    return {name: json.dumps(part) for name, part in described.items()}


def _keep_partial(jobs: list[Job], cast: Cast, attributes: dict[str, Any], directory: Path) -> None:
    """Write the recorded rounds that every batch begun so far has reached."""
    pieces = [piece or [] for piece in itertools.takewhile(bool, map(finished_so_far, jobs))]
    if pieces:
        reached = min(len(piece) for piece in pieces)
        dataset = to_dataset(cast, jobs, [piece[:reached] for piece in pieces])
        dataset.assign_attrs(attributes).to_netcdf(directory / PARTIAL, engine="netcdf4")
