"""The one loop: several methods on the same noise, many realisations at once, metrics on the way."""

from __future__ import annotations

import functools
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from performative import __version__
from performative.engine import Batch, World
from performative.metrics import Truth
from performative.optimum import Solution, performative_optimum, require_feasible
from performative.precision import in_float64, precise
from performative.pytrees import describe
from performative.risk import knows_risk
from performative.validation import whole

if TYPE_CHECKING:
    import xarray as xr

LANES = 50
"""Realisations in one batch. Fixed, so that results do not depend on how many workers share the batches."""

_DIMENSIONS = {"violation": ("constraint",), "decision": ("coordinate",), "multipliers": ("constraint",)}


class NonFiniteWarning(RuntimeWarning):
    """A method's iterates left the finite numbers."""


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
    workers: int = 1,
    batch: int = LANES,
    chunk: int | None = None,
    progress: bool | None = None,
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
        workers: processes that share the batches of realisations. The result does not depend on it.
        batch: realisations in one batch. Another number changes results by rounding (up to 1e-10).
        chunk: the most rounds in one compiled call; results do not depend on it.
        progress: show a progress bar; by default if standard error is a terminal.

    Returns:
        A dataset with dimensions (method, realization, round[, constraint | coordinate]) and the variables `regret`,
        `violation`, `deviation`, `estimation_error`, `deployed_regret`, `deployed_violation`, `deployments`, `decision`,
        `multipliers` at the recorded rounds, and `failed` (method, realization), the first round whose iterates were not
        finite, 0 if none. Its attributes hold everything needed to run it again.
    """
    rounds, seed = whole("rounds", rounds, 1), whole("seed", seed, 0)
    batch, workers = whole("batch", batch, 1), whole("workers", workers, 1)
    if chunk is not None:
        chunk = whole("chunk", chunk, 1)
    worlds = make_worlds(methods, environment, problem, optimum)
    realizations = len(worlds) if realizations is None else whole("realizations", realizations, 1)
    recorded = recorded_rounds(rounds, record)
    batches = [range(first, min(first + batch, realizations)) for first in range(0, realizations, batch)]
    show = sys.stderr.isatty() if progress is None else progress
    with _progress(show, rounds * len(batches)) as advance:
        jobs = [functools.partial(_run_batch, worlds, lanes, recorded, seed, chunk) for lanes in batches]
        if workers == 1 or len(jobs) == 1:
            pieces = [job(advance) for job in jobs]
        else:
            pieces = _in_processes(jobs, workers, lambda: advance(rounds))
    dataset = _dataset(worlds[0], pieces, recorded, realizations)
    dataset.attrs = {
        "performative": __version__,
        "jax": jax.__version__,
        "rounds": rounds,
        "realizations": realizations,
        "seed": seed,
        "batch": batch,
        "methods": json.dumps({name: _described(methods[name]) for name in methods}),
        "environment": json.dumps(_described(environment)),
        "problem": json.dumps(_described(problem)),
    }
    dataset = dataset.sel(method=list(methods))
    _report_failures(dataset, worlds[0])
    return dataset


def make_worlds(methods: Mapping[str, Any], environment: Any, problem: Any, optimum: Any) -> list[World]:
    """One `World` per instance, everything checked against everything else."""
    if not isinstance(methods, Mapping) or not methods:
        raise ValueError(f"`methods` must be a mapping from names to methods, with at least one, but got {methods!r}")
    lists = {f"methods[{name!r}]": given for name, given in methods.items()}
    lists |= {"environment": environment, "problem": problem, "optimum": optimum}
    lengths = {name: len(given) for name, given in lists.items() if isinstance(given, list | tuple)}
    if len(set(lengths.values())) > 1 or 0 in lengths.values():
        raise ValueError(f"lists of instances must have one length, at least 1, but got {lengths}")
    count = next(iter(lengths.values()), 1)

    def instance(given: Any, index: int) -> Any:
        return given[index] if isinstance(given, list | tuple) else given

    worlds = []
    solved: dict[tuple[int, int], Solution] = {}
    for index in range(count):
        place = instance(environment, index)
        if not callable(getattr(place, "sample", None)):
            raise TypeError(f"`environment` must have sample(key, theta, n), but got {place!r}")
        chosen = {name: instance(methods[name], index) for name in sorted(methods)}
        for name, method in chosen.items():
            if not all(callable(getattr(method, part, None)) for part in ("init", "ask", "wanted", "tell")):
                raise TypeError(
                    f"`methods[{name!r}]` must be a method such as performative.apda(problem), but got {method!r}"
                )
        known = instance(problem, index)
        known = next(iter(chosen.values())).problem if known is None else known
        dimension = known.dimension or getattr(place, "dimension", None)
        if dimension is not None:
            known = known.of_dimension(dimension)
            chosen = {
                name: method if method.problem.dimension == dimension else method.of_dimension(dimension)
                for name, method in chosen.items()
            }
        best = instance(optimum, index)
        if knows_risk(place):
            place.check(known)
            for name, method in chosen.items():
                _check_names(name, method, known)
            if best is None:
                same = (id(instance(problem, index) or id(known)), id(place))
                best = solved[same] if same in solved else performative_optimum(known, place)
                solved[same] = best
        else:
            require_feasible(known)
        worlds.append(World(chosen, place, Truth.of(known, place, best)))
    return worlds


def recorded_rounds(rounds: int, record: int | Sequence[int]) -> list[int]:
    """The rounds to record: about `record` of them spaced evenly in log t, or those given; always 1 and T."""
    if isinstance(record, int):
        spaced = np.unique(np.geomspace(1, rounds, whole("record", record, 2)).round().astype(int)).tolist()
        return sorted({1, rounds, *spaced})
    chosen = {whole("record", t, 1) for t in record}
    if max(chosen, default=1) > rounds:
        raise ValueError(f"`record` must lie within 1..{rounds}, but got {max(chosen)}")
    return sorted({1, rounds, *chosen})


def _check_names(name: str, method: Any, known: Any) -> None:
    names = method.problem.constraint_names
    if names != known.constraint_names:
        raise ValueError(
            f"`methods[{name!r}]` must have the constraints {known.constraint_names} that are measured, but has {names}"
        )


def _run_batch(
    worlds: list[World], lanes: range, rounds: list[int], seed: int, chunk: int | None, advance: Callable[[int], None]
) -> dict[str, Any]:
    """The recorded variables of the realisations `lanes`: for each recorded round and method, arrays (..., 1, lane)."""
    with precise():
        batch = Batch([[worlds[lane % len(worlds)]] for lane in lanes], lanes, seed)
        recorded = []
        for target in rounds:
            for stop in _stops(batch.round, target + 1, chunk):
                ran = stop - batch.round
                batch.advance(stop)
                advance(ran)
            recorded.append(batch.snapshot())
        return {"recorded": recorded, "failed": batch.failed()}


def _stops(start: int, end: int, chunk: int | None) -> Iterator[int]:
    """Where compiled calls end on the way from `start` to `end`: every `chunk` rounds, or about every half second."""
    size, t = chunk or 256, start
    while t < end:
        clock = time.perf_counter()
        t = min(t + size, end)
        yield t
        if chunk is None and time.perf_counter() - clock < 0.25:
            size *= 2


def _in_processes(jobs: Sequence[Callable[..., Any]], workers: int, done: Callable[[], None]) -> list[Any]:
    import joblib

    pieces = []
    calls = (joblib.delayed(job)(_ignore) for job in jobs)
    for piece in joblib.Parallel(n_jobs=workers, return_as="generator")(calls):
        pieces.append(piece)
        done()
    return pieces


def _ignore(rounds: int) -> None:
    """Workers do not report within a batch."""


class _progress:
    """A progress bar over rounds, or nothing; a context that gives the function to advance it."""

    def __init__(self, show: bool, total: int) -> None:
        self.bar: Any = None
        self.total = total
        if show:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
            self.bar = Progress(*columns, console=Console(stderr=True), transient=True)

    def __enter__(self) -> Callable[[int], None]:
        if self.bar is None:
            return _ignore
        self.bar.start()
        task = self.bar.add_task("rounds", total=self.total)
        return lambda rounds: self.bar.advance(task, rounds)

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()


def _dataset(world: World, pieces: list[dict[str, Any]], rounds: list[int], realizations: int) -> xr.Dataset:
    import xarray as xr

    names = list(world.methods)
    variables = {}
    for variable in pieces[0]["recorded"][0][names[0]]:
        extra = _DIMENSIONS.get(variable, ())
        values = np.stack(
            [
                np.concatenate(
                    [np.stack([at[name][variable] for at in piece["recorded"]]) for piece in pieces], axis=-1
                )
                for name in names
            ]
        )  # (method, round, ..., variant, realization)
        variables[variable] = (("variant", "method", "realization", "round", *extra), np.moveaxis(values, (-2, -1), (0, 2)))
    failed = np.stack([np.concatenate([piece["failed"][name] for piece in pieces], axis=-1) for name in names], axis=1)
    variables["failed"] = (("variant", "method", "realization"), failed)
    coordinates = {
        "method": names,
        "realization": np.arange(realizations),
        "round": rounds,
        "constraint": list(world.truth.problem.constraint_names),
    }
    return xr.Dataset(variables, coordinates).isel(variant=0)


def _report_failures(dataset: xr.Dataset, world: World) -> None:
    for name in dataset.method.values:
        failed = dataset.failed.sel(method=name).values
        if np.any(failed > 0):
            step = getattr(world.methods[name], "step", None)
            size = f" (step={float(step):g})" if isinstance(step, float | np.floating) else ""
            warnings.warn(
                f"method {name!r}: iterates became non-finite in {np.sum(failed > 0)} of {len(failed)} realisations, first "
                f"in round {failed[failed > 0].min()}; the likely cause is a step that is too large{size}. Metrics recorded "
                "before that round are kept, later ones are not numbers.",
                NonFiniteWarning,
                stacklevel=4,
            )


def _described(given: Any) -> Any:
    if isinstance(given, list | tuple):
        return [describe(item) for item in given]
    return describe(given)
