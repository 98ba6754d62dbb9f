"""`compare`: methods side by side, with equal budgets of deployments and paired noise."""

from __future__ import annotations

import itertools
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from performative import __version__, problems
from performative.comparison.contenders import CONTENDERS, Maker, Scale, as_given, maker, on_problem, scale_of, start_of
from performative.comparison.kept import Kept
from performative.comparison.own_case import own_case, warn_of_local_optimum
from performative.comparison.results import Comparison, Record, Skipped, dataset
from performative.environments.answers import signature_of
from performative.environments.protocol import Environment, knows_risk
from performative.errors import LocalOptimumWarning, NonFiniteWarning
from performative.methods.protocol import require_method
from performative.numerics.precision import precise
from performative.numerics.pytrees import as_node
from performative.problem import Problem
from performative.problems import Case
from performative.simulation.engine import FIRST_ROUND
from performative.simulation.processes import in_processes
from performative.simulation.progress import ignore, progress_bar
from performative.simulation.simulate import simulate
from performative.simulation.worlds import rehearse
from performative.validation import MOST_SEED, shown, whole

if TYPE_CHECKING:
    import xarray as xr


POINTS = 30
"""How many numbers of deployments are recorded, log-spaced."""


QUICK = 100_000
"""How many deployments of all realizations are so few that starting processes for them takes longer."""


def compare(
    problem: str | Case | Problem | Sequence[str | Case] = (),
    world: Environment | None = None,
    methods: Sequence[Any] | Mapping[str, Any] = (),
    *,
    deployments: int = 10_000,
    rounds: int | None = None,
    samples: int | None = None,
    start: ArrayLike | str | None = None,
    realizations: int = 20,
    seed: int = 0,
    workers: int = 1,
    progress: bool | None = None,
    checkpoint: str | Path | None = None,
    record: Sequence[int] = (),
) -> Comparison:
    """Run methods on problems with the same number of deployments each, on the same noise, and measure all of them.

    Args:
        problem: your own problem, or names of `performative.problems` or `Case`s; all standard problems by default.
        world: the world of your own problem.
        methods: names of built-in methods, `module:function` for your own, or such functions themselves, each a function of
            the problem that returns a method; or a mapping from names to any of these or to methods, as for `simulate`. All
            built-in methods by default. A function that takes `start` or `samples` is given them, too.
        deployments: how many deployments each method may make, warm-up and probes included. Without `samples`, every sample
            that a method asks for counts as one.
        rounds: run this many rounds instead, however many deployments they take; needed where the world takes the round.
        samples: how many samples every deployment of every method brings. A method that needs another number is left out; a
            warm-up is one deployment, and a pair of decisions is two. By default each method decides.
        start: where all methods begin: a decision, or "stable" for the stable point; by default the point of Θ nearest to 0
            or, where that is not feasible, the decision with the largest slack. A method that is given as such, and not as a
            function of the problem, keeps its own. Warm-ups are at 0 all the same.
        realizations: independent runs; all methods meet the same noise in each.
        seed: the seed of all randomness.
        workers: processes that share the runs, unless these are few and short. The results do not depend on it, the seconds do.
        progress: show a progress bar; by default if standard error is a terminal.
        checkpoint: a directory to keep finished and begun runs in. The same call resumes an interrupted comparison.
        record: numbers of deployments after which to measure, besides thirty that are spaced evenly in their logarithm.

    Returns:
        For each problem a dataset with dimensions (algorithm, realization, point): `regret`, `violation` (the largest of the
        constraints' averages), `deployed_regret`, `deployed_violation`, `outside` (how far from Θ the farthest deployment
        was), `distance` to the optimum, `stable_distance` to the stable point, `deployments` (algorithm, point), `seconds`
        (algorithm) and `optimum`, with its risk, residual and whether it is local; and which methods could not serve it, and
        why.

    >>> import performative as pf
    >>> comparison = pf.compare("revenue", methods=["rgd"], deployments=50, realizations=2)
    >>> comparison.results["revenue"].deployed_regret.dims
    ('algorithm', 'realization', 'point')
    """
    entrants = _entrants(methods)
    deployments, realizations = whole("deployments", deployments, 1), whole("realizations", realizations, 2)
    seed, workers = whole("seed", seed, 0, MOST_SEED), whole("workers", workers, 1)
    if rounds is not None:
        rounds = whole("rounds", rounds, 1)
    if samples is not None:
        samples = whole("samples", samples, 1)
    record = tuple(whole("record", count, 1) for count in record)
    show = sys.stderr.isatty() if progress is None else progress
    cases = _cases(problem, world, show)
    if rounds is None and any(signature_of(case.environment).takes_round for case in cases):
        raise ValueError(
            "a world that changes from round to round must be compared over equal rounds, since methods that deploy more "
            "often in a round would see less of the change; pass `rounds=`"
        )
    tasks = []
    starts = {case.name: start_of(case, start) for case in cases}
    for case in cases:
        begin = tuple(starts[case.name].tolist())
        tasks += [
            Task(case, name, own, deployments, rounds, realizations, seed, samples, begin, record)
            for name, own in entrants.items()
        ]
    outcomes = _run_all(tasks, workers, show, None if checkpoint is None else Path(checkpoint))
    results = {}
    for case in cases:
        records = {
            task.name: outcome
            for task, outcome in zip(tasks, outcomes, strict=True)
            if task.case is case and not isinstance(outcome, Skipped)
        }
        if records:
            results[case.name] = dataset(case, records)
            results[case.name].attrs |= {"performative": __version__, "seed": seed, "realizations": realizations}
            results[case.name].attrs |= {"deployments": deployments} if rounds is None else {"rounds": rounds}
            results[case.name].attrs |= {"start": starts[case.name]} | ({} if samples is None else {"samples": samples})
            if case.optimum is None and np.any(results[case.name].get("optimum_local", 0)):
                warn_of_local_optimum("it is the best on average over rounds that were looked at")
    return Comparison(results, [outcome for outcome in outcomes if isinstance(outcome, Skipped)])


def _cases(problem: Any, world: Any, show: bool) -> list[Case]:
    if isinstance(problem, Problem):
        if world is None:
            raise TypeError("`world` must be given with a problem of your own: compare(problem, world, methods)")
        with progress_bar(show, 1, "problems solved"):
            return [own_case(problem, world)]
    if world is not None:
        raise TypeError(
            f"`world` goes with a performative.Problem, but `problem` is {problem!r}; pass the methods as `methods=`"
        )
    items: list[Any] = [problem] if isinstance(problem, str | Case) else [*problem] or list(problems.names())
    for item in items:
        if not isinstance(item, str | Case):
            raise TypeError(f"`problem` must be names or Cases of performative.problems, but got {item!r}")
    cases = []
    with progress_bar(show, len(items), "problems solved") as advance:
        for item in items:
            cases.append(problems.get(item) if isinstance(item, str) else item)
            advance(1)
    _require_distinct("problems", [case.name for case in cases])
    for case in cases:
        if not knows_risk(case.environment):
            raise TypeError(
                f"the environment of {case.name!r} must know its risk, as performative.LocationFamily does, "
                f"but got {case.environment!r}; for others call compare(problem, world, methods)"
            )
    return cases


class Task(NamedTuple):
    """One method on one problem: a built-in contender by its name, or `own`, your function of the problem."""

    case: Case
    name: str
    own: Maker | None
    deployments: int
    rounds: int | None
    realizations: int
    seed: int
    samples: int | None
    start: tuple[float, ...]
    record: tuple[int, ...] = ()


def _entrants(methods: Sequence[Any] | Mapping[str, Any]) -> dict[str, Maker | None]:
    if isinstance(methods, Mapping):
        named = [(str(name), method) for name, method in methods.items()]
    else:
        listed = [methods] if isinstance(methods, str) or callable(methods) else list(methods) or list(CONTENDERS)
        named = [
            (method if isinstance(method, str) else getattr(method, "__name__", repr(method)), method)
            for method in listed
        ]
    _require_distinct("methods", [name for name, _ in named])
    entrants: dict[str, Maker | None] = {}
    for name, method in named:
        if isinstance(method, str):
            make = maker(method)
            entrants[name] = None if name == method else make
        elif callable(method):
            entrants[name] = on_problem(method)
        elif isinstance(methods, Mapping) and callable(getattr(method, "tell", None)):
            entrants[name] = as_given(method)
        else:
            raise TypeError(
                f"`methods` must be names or functions of the problem, but got {shown(method)}; "
                'write {"name": method}'
            )
    return entrants


def _require_distinct(what: str, names: list[str]) -> None:
    if len(set(names)) < len(names):
        raise ValueError(f"`{what}` must have different names, but got {names}")


def _recorded_rounds(method: Any, task: Task) -> tuple[list[int], list[int]]:
    """The rounds to record, as far as the budget goes, and the deployments made by then."""
    opening, each = _cost(method, task)
    budget = task.deployments
    most = (budget - opening) // each if task.rounds is None else task.rounds
    if most < 1:
        raise ValueError(f"`deployments` must cover a warm-up of {opening} and a round of {each}, but got {budget}")
    counts = [*np.geomspace(opening + each, opening + most * each, POINTS).round().astype(int), *task.record]
    rounds = sorted({max(1, min(most, int(count - opening) // each)) for count in counts} | {1, most})
    return rounds, [opening + t * each for t in rounds]


def _cost(method: Any, task: Task) -> tuple[int, int]:
    """How many deployments the warm-up takes, and each later round."""
    with precise():
        asked = rehearse(method, task.case.environment)
        opens = int(FIRST_ROUND(as_node(method))) == 0
    size = 1 if task.samples is None else task.samples
    for _, wanted in asked:
        if wanted % size:
            raise ValueError(
                f"every deployment must bring {size} samples, but it asks for {wanted}; give its function an argument `samples`"
            )
    first, second = (decisions * wanted // size for decisions, wanted in asked)
    return (first, second) if opens else (0, first)


def _run_all(tasks: list[Task], workers: int, show: bool, directory: Path | None) -> list[Record | Skipped]:
    """All tasks, in order. The methods of one problem share what is compiled, so that many problems are shared out whole."""
    with progress_bar(show, len(tasks), "methods compared") as advance:
        if workers == 1 or len(tasks) < 2 or (len(tasks) <= workers and _are_quick(tasks)):
            return _run_group((tasks, directory), advance)
        groups = [list(group) for _, group in itertools.groupby(tasks, key=lambda task: task.case.name)]
        if len(groups) < 2 * workers:
            groups = [[task] for task in tasks]
        largest_first = sorted(range(len(groups)), key=lambda index: -groups[index][0].case.problem.d)
        outcomes = []
        with warnings.catch_warnings():
            # Compiled programs add up; a process that holds many of them is replaced.
            warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given to the executor")
            packed = [(groups[index], directory) for index in largest_first]
            for outcome in in_processes(_run_group, packed, workers):
                outcomes.append(outcome)
                advance(len(outcome))
        by_group = dict(zip(largest_first, outcomes, strict=True))
        return [outcome for index in range(len(groups)) for outcome in by_group[index]]


def _are_quick(tasks: list[Task]) -> bool:
    each = (task.realizations * (task.deployments if task.rounds is None else task.rounds) for task in tasks)
    return sum(each) <= QUICK


def _run_group(
    group: tuple[list[Task], Path | None], advance: Callable[[int], None] = ignore
) -> list[Record | Skipped]:
    """Tasks one after the other; the unit of a problem is measured once."""
    tasks, directory = group
    scales: dict[str, Scale] = {}
    outcomes = []
    for task in tasks:
        kept = None if directory is None else Kept(directory, task)
        outcome = None if kept is None else kept.finished()
        if outcome is None:
            if task.case.name not in scales:
                horizon = task.deployments if task.rounds is None else task.rounds
                scales[task.case.name] = scale_of(task.case, horizon, task.samples, np.asarray(task.start))
            outcome = _run(task, scales[task.case.name], None if kept is None else kept.checkpoint)
            if kept is not None:
                kept.finish(outcome)
        outcomes.append(outcome)
        advance(1)
    return outcomes


def _run(task: Task, scale: Scale, checkpoint: Path | None) -> Record | Skipped:
    begun = time.monotonic()
    try:
        method = (task.own or maker(task.name))(task.case, scale)
        require_method(f"methods[{task.name!r}]", method)
        rounds, deployments = _recorded_rounds(method, task)
        runs = _simulated(method, task, rounds, checkpoint)
    except (ValueError, TypeError) as error:
        return Skipped(task.case.name, task.name, str(error))
    except Exception as error:  # a mistake in one method must not cost the results of the others
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        return Skipped(task.case.name, task.name, f"it failed with {type(error).__name__} at {place}: {error}")
    runs = runs.sel({"t": rounds})
    decision = runs["decision"].values
    stable = task.case.stable
    nowhere = np.full(decision.shape[:2], np.nan)
    variables = {
        "regret": runs["regret"].values,
        "deployed_regret": runs["deployed_regret"].values,
        "violation": np.max(runs["violation"].values, axis=-1, initial=-np.inf),
        "deployed_violation": runs["deployed_violation"].values,
        "outside": runs["outside"].values,
        "distance": np.sqrt(runs["deviation"].values),
        "stable_distance": nowhere if stable is None else np.linalg.norm(decision - stable.decision, axis=-1),
    }
    one = runs.isel(realization=0)  # all have the same optimum
    measured = {str(name): one[name].values for name in one if str(name).startswith("optimum")}
    return Record(variables, deployments, time.monotonic() - begun, measured)


def _simulated(method: Any, task: Task, rounds: list[int], checkpoint: Path | None) -> xr.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NonFiniteWarning)  # the table shows what failed
        warnings.simplefilter("ignore", LocalOptimumWarning)  # said once for the problem
        return simulate(
            {task.name: method},
            task.case.environment,
            rounds=rounds[-1],
            realizations=task.realizations,
            seed=task.seed,
            record=rounds,
            problem=task.case.problem,
            optimum=task.case.optimum,
            outside=True,
            progress=False,
            checkpoint=checkpoint,
        ).isel(algorithm=0)
