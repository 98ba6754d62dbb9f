"""The first deployments: 30, 100, 300 and 1,000 of them, of 20 and of 500 samples, of every method on every problem.

`python -m benchmarks.first_hundred` runs it from two starts, writes docs/compare/first_hundred.json, prints the tables of
docs/first_hundred.md and says how long it took. Names of problems, or `--deployments`, run those alone and keep the other cells.
`make compare` runs it, too.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.peers import bayesian

PATH = Path(__file__).parent.parent / "docs" / "compare" / "first_hundred.json"
SAMPLES = (20, 500)
HORIZONS = (30, 100, 300, 1_000)
STARTS = ("nearest to 0", "stable")
REALIZATIONS = 20
TOLD = ("oracle", "perfgd", "score")
"""Methods that are told the effect, the form of the density or the density."""
STAYS = "stay"
"""The method that learns nothing; all that are neither told nor this one must learn."""
MARGINAL = ("apda-recycle", "pd-ps", "two-stage")
"""Methods left out, to keep this short: `apda`, `rgd` and `least-squares` stand for them."""
SAME = ("stay", "safe-apda", "least-squares", "thompson", "rrm", "confidence")
"""Methods that do the same however many deployments there will be: one run shows what all numbers of them would."""
FROM_STABLE = ("stay", "safe-apda", "least-squares", "thompson", "rgd", "rrm")
"""Methods that are run from the stable point, too."""
BAYESIAN = {"problems": ("revenue", "spam", "newsvendor"), "horizons": (30, 100), "realizations": 5}
"""Where Bayesian optimization is run: it fits a Gaussian process at every deployment, on the host."""


class Cell(NamedTuple):
    """One method in one line of the tables, as it is stored; a number that is not finite is None.

    `mean` is the regret per deployment and `error` half the width of its 95% interval; `broke` says whether a deployed decision
    violates a constraint or leaves Θ, `unbeaten` whether no method that must learn has less regret by a paired test, and `bold`
    the same among those of them that broke nothing. `against_staying` is the sum over all deployments of PR − PR(start), and
    `furthest_behind` the most that this ever was, both over PR(start) − PR(θ_PO), what one deployment loses at the start.
    """

    problem: str
    samples: int
    start: str
    deployments: int
    method: str
    mean: float | None
    error: float | None
    broke: bool = False
    unbeaten: bool = False
    bold: bool = False
    against_staying: float | None = None
    furthest_behind: float | None = None

    @property
    def line(self):
        """The line of the table, without its start."""
        return self.problem, self.samples, self.deployments


def methods(dimension):
    """The methods that are run; `confidence` in one dimension alone: it computes the losses of all arms on all samples."""
    from performative.comparison.contenders import CONTENDERS

    return [name for name in CONTENDERS if name not in MARGINAL and (name != "confidence" or dimension == 1)]


def measured(task):
    """All methods on one problem with one number of samples.

    The horizons share what is compiled, since steps and probes are numbers of the programs.
    """
    from performative import comparison, problems

    name, samples, horizons = task
    case = problems.get(name)
    cells = []
    for start in STARTS:
        names = FROM_STABLE if start == "stable" else methods(case.problem.d)

        def compared(among, horizon, start=start):
            found = comparison.compare(
                case,
                methods=among,
                deployments=horizon,
                samples=samples,
                start="stable" if start == "stable" else None,
                realizations=REALIZATIONS,
                progress=False,
                record=horizons,
            )
            return found.results.get(name)

        longest = compared([each for each in names if each in SAME], max(horizons))
        for horizon in horizons:
            others = compared([each for each in names if each not in SAME], horizon)
            cells += cells_of(joined(longest, others, horizon, names), name, samples, start, horizon)
    return cells


def joined(longest, others, horizon, names):
    """One dataset, in the order of the names: methods of a longer run until this number of deployments, and the others."""
    import xarray as xr

    parts = []
    for name in names:
        data = longest if name in longest.algorithm else others
        if data is not None and name in data.algorithm:
            one = data.sel(algorithm=[name])
            one = one.isel(point=np.flatnonzero(one["deployments"].values[0] <= horizon))
            parts.append(one.drop_vars([each for each in one if "algorithm" not in one[each].dims]))
    points = max(part.sizes["point"] for part in parts)
    return xr.concat([part.pad(point=(points - part.sizes["point"], 0)) for part in parts], "algorithm")


def cells_of(dataset, *line):
    """The cells of one line of the tables: its problem, samples, start and deployments, and what each method did."""
    from performative.comparison import ranking

    rows = {row.method: row for row in ranking(dataset)}
    learning = [name for name in dataset.algorithm.values.tolist() if name not in (*TOLD, STAYS)]
    fair = [name for name in learning if not rows[name].broke]
    unbeaten, bold = (
        {row.method for row in ranking(dataset.sel(algorithm=among)) if row.rank == 1} for among in (learning, fair)
    )
    stays = rows[STAYS].deployed_regret[0]
    mean = dataset["deployed_regret"].mean("realization")
    behind = dataset["deployments"] * (mean - stays) / stays
    cells = []
    for name, row in rows.items():
        path = behind.sel(algorithm=name).values
        path = path[np.isfinite(path)]
        numbers = (*row.deployed_regret, *((path[-1], max(0.0, path.max())) if len(path) else (np.nan, np.nan)))
        regret, half, against, furthest = map(stored, numbers)
        flags = row.broke, name in unbeaten, name in bold
        cells.append(Cell(*line, name, regret, half, *map(bool, flags), against, furthest))
    return cells


def stored(number):
    """The number with eight digits, or None if it is not finite."""
    return float(f"{number:.8g}") if np.isfinite(number) else None


def searched(task):
    """Bayesian optimization on one problem with one number of samples, from the first of the starts."""
    from performative import problems
    from performative.comparison.contenders import start_of

    name, samples = task
    case = problems.get(name)
    start = start_of(case, None)
    last, runs = max(BAYESIAN["horizons"]), range(BAYESIAN["realizations"])
    paths = [bayesian.deployed(case, start, last, samples, run) for run in runs]
    regrets = np.array([[case.risk(point) - case.optimum.risk for point in path] for path in paths])
    cells = []
    for horizon in BAYESIAN["horizons"]:
        means = regrets[:, :horizon].mean(axis=1)
        half = 2.776 * np.std(means, ddof=1) / np.sqrt(len(means))
        cells.append(Cell(name, samples, STARTS[0], horizon, "bayesian", stored(means.mean()), stored(half)))
    return cells


def run(task):
    """One task of either kind."""
    from performative.numerics import programs

    kind, *rest = task
    programs.let_go()  # programs of other problems are of no use, and there is a limit to how many a process can hold
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return (measured if kind == "measured" else searched)(tuple(rest))


def write(cells):
    """One line of the file for each cell, in the order of the tables."""
    from performative import problems

    order = list(problems.names())
    cells = sorted(
        cells, key=lambda cell: (order.index(cell.problem), cell.samples, STARTS.index(cell.start), *cell[3:5])
    )
    lines = ",\n".join(json.dumps(cell) for cell in cells)
    PATH.write_text(f'{{"columns": {json.dumps(Cell._fields)},\n"cells": [\n{lines}\n]}}\n')


def read():
    """What `write` wrote."""
    content = json.loads(PATH.read_text())
    return [Cell(**dict(zip(content["columns"], row, strict=True))) for row in content["cells"]]


def lines_of(cells, start):
    """By line of the table, the cells by method."""
    lines = {}
    for cell in cells:
        if cell.start == start:
            lines.setdefault(cell.line, {})[cell.method] = cell
    return lines


def columns(cells, start):
    """The methods that ran from a start, those that must learn first."""
    from performative.comparison.contenders import CONTENDERS

    ran = {cell.method for cell in cells if cell.start == start}
    learning = [name for name in CONTENDERS if name in ran and name not in TOLD]
    return learning + [name for name in CONTENDERS if name in ran and name in TOLD]


def shown(cell):
    """A cell of the table of regrets."""
    if cell is None:
        return "–"
    text = "not finite" if cell.mean is None else f"{cell.mean:.2g}"
    return (f"**{text}**" if cell.bold else text) + ("†" if cell.broke else "")


def gained(cell):
    """A cell of the table of losses against staying."""
    if cell is None or cell.against_staying is None:
        return "–"
    furthest = cell.furthest_behind
    return f"{cell.against_staying:+.3g}" + (f" ({furthest:.2g})" if furthest is not None and furthest >= 0.05 else "")


def table(cells, start, cell_of=shown):
    """A line for each problem, number of samples and number of deployments; a column for each method."""
    names = columns(cells, start)
    heads = [f"{name} (told)" if name in TOLD else name for name in names]
    lines = [f"| problem | samples | deployments | {' | '.join(heads)} |", "|---" * (len(names) + 3) + "|"]
    for line, by_method in lines_of(cells, start).items():
        lines.append(f"| {' | '.join([*map(str, line), *(cell_of(by_method.get(name)) for name in names)])} |")
    return "\n".join(lines)


def search_table(cells):
    """Bayesian optimization beside two methods, from the start nearest to 0."""
    names = ("bayesian", "safe-apda", "thompson")
    lines = [f"| problem | samples | deployments | {' | '.join(names)} |", "|---|---|---|---|---|---|"]
    for line, by_method in lines_of(cells, STARTS[0]).items():
        if "bayesian" in by_method:
            ran = [by_method.get(name) for name in names]
            texts = ["–" if cell is None else f"{cell.mean:.2g} ± {cell.error:.1g}" for cell in ran]
            lines.append(f"| {' | '.join([*map(str, line), *texts])} |")
    return "\n".join(lines)


def unbeaten(cells, start):
    """In how many lines each method is not beaten by any that must learn and broke nothing, and by any that must learn."""
    counts = []
    for name in columns(cells, start):
        if name not in (*TOLD, STAYS):
            mine = [cell for cell in cells if (cell.start, cell.method) == (start, name)]
            counts.append(f"{name} {sum(cell.bold for cell in mine)} ({sum(cell.unbeaten for cell in mine)})")
    number = len(lines_of(cells, start))
    return f"{start}, unbeaten of {number} lines (with those that broke constraints): {', '.join(counts)}"


def most_lost(cells, method="safe-apda"):
    """The most that a method was ever behind staying, on average over realizations, in deployments' losses at the start.

    That is the unit of its budget: |PR(start)|, where regrets are relative to what the start loses to the optimum.
    """
    from performative import problems
    from performative.comparison.contenders import start_of

    cases = {name: problems.get(name) for name in {cell.problem for cell in cells}}

    def lost(cell, stays):
        if cell.furthest_behind == 0.0:  # a start of 0 may have no loss at all
            return 0.0
        case = cases[cell.problem]
        start = start_of(case, "stable" if cell.start == "stable" else None)
        return cell.furthest_behind * stays.mean / abs(float(case.risk(np.asarray(start))))

    behind = {
        (line, start): lost(by_method[method], by_method[STAYS])
        for start in STARTS
        for line, by_method in lines_of(cells, start).items()
        if method in by_method
    }
    ((problem, samples, deployments), start), most = max(behind.items(), key=lambda item: item[1])
    where = f"{problem}, {samples} samples, {deployments} deployments, {start}"
    return f"{method} was never further behind staying than {most:.2g} deployments' losses at the start ({where})"


def main(chosen, horizons=HORIZONS, workers=2):
    """Run the chosen problems, all by default; what the file has of others, and of other numbers of deployments, stays."""
    from performative import problems
    from performative.simulation.processes import in_processes

    begun = time.monotonic()
    smallest = sorted(problems.names(), key=lambda name: problems.get(name).problem.d)
    chosen = chosen or smallest
    tasks = [("measured", name, samples, horizons) for name in smallest if name in chosen for samples in SAMPLES]
    if bayesian.installed():
        tasks += [("searched", name, samples) for name in BAYESIAN["problems"] if name in chosen for samples in SAMPLES]
    else:
        print("BoTorch is not installed: Bayesian optimization stays as it is (performative[botorch])", file=sys.stderr)
    cells = read()
    for done, (task, part) in enumerate(zip(tasks, in_processes(run, tasks, workers), strict=True), 1):
        measured_again = {cell[:5] for cell in part}
        cells = [cell for cell in cells if cell[:5] not in measured_again] + part
        write(cells)
        print(f"{done} of {len(tasks)} parts, {time.monotonic() - begun:.0f} s: {task}", file=sys.stderr)
    for start in STARTS:
        print(table(cells, start), table(cells, start, gained), unbeaten(cells, start), sep="\n\n", end="\n\n")
    print(most_lost(cells), end="\n\n")
    if any(cell.method == "bayesian" for cell in cells):
        print(search_table(cells), end="\n\n")
    print(f"{time.monotonic() - begun:.0f} s on {workers} processes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_hundred", description=__doc__)
    parser.add_argument("problems", nargs="*", help="names of problems; all by default")
    parser.add_argument("--workers", type=int, default=2, help="processes that share the parts")
    parser.add_argument("--deployments", nargs="+", type=int, default=list(HORIZONS), choices=HORIZONS)
    asked = parser.parse_args()
    main(asked.problems, tuple(asked.deployments), asked.workers)
