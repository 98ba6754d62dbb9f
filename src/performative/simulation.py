"""The one loop: several methods on the same noise, many realisations at once, metrics on the way."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from performative import __version__
from performative.batches import LANES, Piece, make_jobs, run_jobs
from performative.convex import SolverFailed
from performative.descriptions import describe
from performative.engine import World
from performative.metrics import Truth
from performative.optimum import Solution, performative_optimum, require_feasible
from performative.precision import in_float64
from performative.problem import Problem
from performative.pytrees import as_node
from performative.randomness import new_key
from performative.risk import knows_risk
from performative.validation import MOST_SEED, whole

if TYPE_CHECKING:
    import xarray as xr

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
    dataset = dataset.sel({"method": list(methods)})
    report_failures(dataset, worlds[0])
    return dataset


def make_worlds(
    methods: Mapping[str, Any], environment: Any, problem: Any, optimum: Any, outside: bool = False
) -> list[World]:
    """One `World` per instance, everything checked against everything else."""
    if not isinstance(methods, Mapping) or not methods or not all(isinstance(name, str) for name in methods):
        raise ValueError(
            f"`methods` must be a mapping from names (strings) to methods, with at least one, but got {methods!r}"
        )
    lists = {f"methods[{name!r}]": given for name, given in methods.items()}
    lists |= {"environment": environment, "problem": problem, "optimum": optimum}
    lengths = {name: len(given) for name, given in lists.items() if isinstance(given, list | tuple)}
    if len(set(lengths.values())) > 1 or 0 in lengths.values():
        raise ValueError(f"lists of instances must have one length, at least 1, but got {lengths}")
    count = next(iter(lengths.values()), 1)

    def instance(given: Any, index: int) -> Any:
        return given[index] if isinstance(given, list | tuple) else given

    parts: list[Any] = []
    solved: dict[tuple[int, int], Solution | None] = {}
    for index in range(count):
        place = instance(environment, index)
        if not callable(getattr(place, "sample", None)):
            raise TypeError(f"`environment` must have sample(key, theta, n), but got {place!r}")
        chosen = {name: instance(methods[name], index) for name in sorted(methods, key=str)}
        for name, method in chosen.items():
            require_method(f"methods[{name!r}]", method)
        known = instance(problem, index)
        if known is not None and not isinstance(known, Problem):
            raise TypeError(f"`problem` must be a performative.Problem, but got {known!r}")
        if known is None:
            known = _only_problem(chosen)
        dimension = known.dimension or getattr(place, "dimension", None)
        if dimension is not None:
            known = known.of_dimension(dimension)
            chosen = {
                name: method if method.problem.dimension == dimension else method.of_dimension(dimension)
                for name, method in chosen.items()
            }
        best = instance(optimum, index)
        if best is not None and not isinstance(best, Solution):
            raise TypeError(f"`optimum` must be a performative.Solution, but got {best!r}")
        if best is not None and (np.shape(best.decision), np.shape(best.multipliers)) != (
            (known.dimension,),
            (len(known.constraint_names),),
        ):
            raise ValueError(
                f"`optimum` must have a decision of length {known.dimension} and {len(known.constraint_names)} multipliers, "
                f"but got {np.shape(best.decision)} and {np.shape(best.multipliers)}"
            )
        if knows_risk(place):
            place.check(known)
        for name, method in chosen.items():
            _check_names(name, method, known)
        if index == 0:
            for method in chosen.values():
                rehearse(method, place)
        if knows_risk(place):
            if best is None:
                same = (id(instance(problem, index) or known), id(place))
                if same not in solved:
                    solved[same] = _optimum_or_none(known, place)
                best = solved[same]
        else:
            require_feasible(known)
        nodes = {name: as_node(method) for name, method in chosen.items()}
        parts.append((nodes, as_node(place), known, best))
    grids = {place.coarse_enough(known) if hasattr(place, "coarse_enough") else None for _, place, known, _ in parts}
    steps = None if None in grids else max(grid for grid in grids if grid)  # one grid, which will do for all instances
    return [World(nodes, place, Truth.of(known, place, best, steps, outside)) for nodes, place, known, best in parts]


def require_method(argument: str, method: Any) -> None:
    """Refuse what does not have the parts of a method; `argument` is where it was given."""
    methodic = all(callable(getattr(method, part, None)) for part in ("init", "ask", "wanted", "tell"))
    if not methodic or not isinstance(getattr(method, "problem", None), Problem):
        raise TypeError(
            f"`{argument}` must be a method such as performative.apda(problem), with init, ask, wanted, tell and "
            f"problem, but got {method!r}"
        )


def recorded_rounds(rounds: int, record: int | Sequence[int]) -> list[int]:
    """The rounds to record: about `record` of them spaced evenly in log t, or those given; always 1 and T."""
    if not isinstance(record, Sequence | np.ndarray):
        spaced = np.unique(np.geomspace(1, rounds, whole("record", record, 2)).round().astype(int)).tolist()
        return sorted({1, rounds, *spaced})
    chosen = {whole("record", t, 1) for t in record}
    if max(chosen, default=1) > rounds:
        raise ValueError(f"`record` must lie within 1..{rounds}, but got {max(chosen)}")
    return sorted({1, rounds, *chosen})


def rehearse(method: Any, environment: Any) -> list[int]:
    """How many deployments the first two rounds take: traced without computing anything, parts that do not fit are refused."""
    costs = []

    def two_rounds(key: Any) -> Any:
        state = method.init(key)
        for _ in range(2):  # a warm-up and a round
            decisions, wanted = method.ask(state, key), method.wanted(state)
            if decisions.ndim != 2 or decisions.shape[1] != method.problem.dimension:
                raise ValueError(
                    f"`ask` must return decisions (b, {method.problem.dimension}), but returned {decisions.shape}"
                )
            costs.append(int(decisions.shape[0]) * int(wanted))
            samples = jnp.stack([environment.sample(key, decision, wanted) for decision in decisions])
            if samples.ndim != 3 or samples.shape[1] != wanted:
                raise ValueError(
                    "`environment.sample(key, theta, n)` must return samples (n, k), "
                    f"but returned {samples.shape[1:]} for n={wanted}"
                )
            state = method.tell(state, decisions, samples)
        return state

    jax.eval_shape(two_rounds, new_key(0))
    return costs


def _only_problem(methods: Mapping[str, Any]) -> Problem:
    """The problem that all methods know."""
    first, *others = methods
    sizes = [method.problem.dimension for method in methods.values() if method.problem.dimension is not None]

    def known(method: Any) -> Any:
        return describe(method.problem.of_dimension(sizes[0]) if sizes else method.problem)

    for name in others:
        if methods[name].problem is not methods[first].problem and known(methods[name]) != known(methods[first]):
            raise ValueError(
                f"methods must know the same problem, but {first!r} and {name!r} differ; say which by `problem=`"
            )
    return methods[first].problem.of_dimension(sizes[0]) if sizes else methods[first].problem


def _optimum_or_none(problem: Problem, environment: Any) -> Solution | None:
    try:
        return performative_optimum(problem, environment)
    except SolverFailed as error:
        warnings.warn(f"regret is not measured: the optimum was not found ({error}); give `optimum=`", stacklevel=5)
        return None


def _check_names(name: str, method: Any, known: Any) -> None:
    names = method.problem.constraint_names
    if names != known.constraint_names:
        raise ValueError(
            f"`methods[{name!r}]` must have the constraints {known.constraint_names} that are measured, but has {names}"
        )


def to_dataset(world: World, pieces: Sequence[Piece], rounds: list[int], realizations: int) -> xr.Dataset:
    """The pieces of all batches as one dataset, with a dimension `variant`."""
    import xarray as xr

    names = list(world.methods)
    variables = {}
    for variable in pieces[0][0][names[0]]:
        extra = _DIMENSIONS.get(variable, ())
        values = np.stack(
            [
                np.concatenate([np.stack([at[name][variable] for at in piece]) for piece in pieces], axis=-1)
                for name in names
            ]
        )  # (method, round, ..., variant, realization)
        variables[variable] = (
            ("variant", "method", "realization", "round", *extra),
            np.moveaxis(values, (-2, -1), (0, 2)),
        )
    finite = np.ones(variables["regret"][1].shape, dtype=bool)
    for variable in ("decision", "multipliers"):
        finite &= np.all(np.isfinite(variables[variable][1]), axis=-1)
    failed = np.where(np.all(finite, axis=-1), 0, np.asarray(rounds)[np.argmin(finite, axis=-1)])
    variables["failed"] = (("variant", "method", "realization"), failed)
    coordinates = {
        "method": names,
        "realization": np.arange(realizations),
        "round": rounds,
        "constraint": list(world.truth.problem.constraint_names),
    }
    return xr.Dataset(variables, coordinates)


def report_failures(dataset: xr.Dataset, world: World) -> None:
    """Warn of every method whose iterates left the finite numbers: when, how often, and the likely cause."""
    for name in dataset.method.values:
        failed = dataset.failed.sel({"method": name}).values
        if np.any(failed > 0):
            step = getattr(world.methods[name], "step", None)
            size = f" (step={float(step):g})" if isinstance(step, float | np.floating) else ""
            warnings.warn(
                f"method {str(name)!r}: iterates became non-finite in {np.sum(failed > 0)} of {len(failed)} realisations, first "
                f"seen in round {failed[failed > 0].min()}; a step that is too large{size}, an estimation step that is, or "
                "samples that are not finite are the likely causes. What was recorded while metrics were finite is kept.",
                NonFiniteWarning,
                stacklevel=4,
            )


def _described(given: Any) -> Any:
    """In full: arrays with all their numbers, up to a million of them each."""
    if isinstance(given, list | tuple):
        return [describe(item, most=10**6) for item in given]
    return describe(given, most=10**6)
