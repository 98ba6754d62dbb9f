"""The first deployments: 30, 100, 300 and 1,000 of them, of 20 and of 500 samples, of every method on every problem.

`python -m benchmarks.first_hundred` runs it from two starts, writes docs/compare/first_hundred.json, prints the tables of
docs/first_hundred.md and says how long it took. `make compare` runs it, too.
"""

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from benchmarks.peers import bayesian

PATH = Path(__file__).parent.parent / "docs" / "compare" / "first_hundred.json"
SAMPLES = (20, 500)
HORIZONS = (30, 100, 300, 1_000)
STARTS = ("nearest to 0", "stable")
REALIZATIONS = 20
TOLD = ("oracle", "perfgd", "score")
"""Methods that are told the effect, the form of the density or the density; the others must learn."""
MARGINAL = ("apda-recycle", "pd-ps", "two-stage")
"""Methods left out, to keep this short: `apda`, `rgd` and `least-squares` stand for them."""
FROM_STABLE = ("stay", "safe-apda", "least-squares", "thompson", "rgd", "rrm")
"""Methods that are run from the stable point, too."""
BAYESIAN = {"problems": ("revenue", "spam", "newsvendor"), "horizons": (30, 100), "realizations": 5}
"""Where Bayesian optimization is run: it fits a Gaussian process at every deployment, on the host."""


def methods(dimension):
    """The methods that are run; `confidence` in one dimension alone: it computes the losses of all arms on all samples."""
    from performative.comparison.contenders import CONTENDERS

    return [name for name in CONTENDERS if name not in MARGINAL and (name != "confidence" or dimension == 1)]


def measured(task):
    """All methods on one problem with one number of samples: the cells of the table, by start, horizon and method.

    The horizons share what is compiled, since steps and probes are numbers of the programs.
    """
    from performative import comparison, problems

    name, samples = task
    case = problems.get(name)
    cells = {start: {} for start in STARTS}
    for start in STARTS:
        for horizon in HORIZONS:
            found = comparison.compare(
                case,
                methods=FROM_STABLE if start == "stable" else methods(case.problem.d),
                deployments=horizon,
                samples=samples,
                start="stable" if start == "stable" else None,
                realizations=REALIZATIONS,
                progress=False,
            )
            cells[start][str(horizon)] = cells_of(found.results[name])
    return {"problem": name, "samples": samples, "starts": cells}


def cells_of(dataset):
    """By method: regret per deployment, whether it broke constraints, its ranks, and what it lost against staying.

    `rank` is among all methods that must learn, `fair_rank` among those of them that broke nothing. `against_staying` is the
    sum over all deployments of PR − PR(start), and `furthest_behind` the most that this ever was, both over PR(start) − PR(θ_PO),
    what one deployment loses at the start.
    """
    from performative.comparison import ranking

    rows = {row.method: row for row in ranking(dataset)}
    learning = [name for name in dataset.algorithm.values.tolist() if name not in TOLD]
    fair = [name for name in learning if not rows[name].broke]
    ranks = {row.method: row.rank for row in ranking(dataset.sel(algorithm=learning))}
    fair_ranks = {row.method: row.rank for row in ranking(dataset.sel(algorithm=fair))}
    stays = rows["stay"].deployed_regret[0]
    mean = dataset["deployed_regret"].mean("realization")
    behind = dataset["deployments"] * (mean - stays) / stays
    cells = {}
    for name, row in rows.items():
        path = behind.sel(algorithm=name).values
        path = path[np.isfinite(path)]
        cells[name] = {
            "regret": finite(row.deployed_regret[0]),
            "half": finite(row.deployed_regret[1]),
            "broke": row.broke,
            "rank": ranks.get(name),
            "fair_rank": fair_ranks.get(name),
            "against_staying": finite(path[-1]) if len(path) else None,
            "furthest_behind": finite(max(0.0, path.max())) if len(path) else None,
        }
    return cells


def finite(number):
    """The number, or None if it is not finite."""
    return float(number) if np.isfinite(number) else None


def searched(task):
    """Bayesian optimization on one problem with one number of samples: mean regret per deployment, by horizon."""
    from performative import problems
    from performative.comparison.contenders import start_of

    name, samples = task
    case = problems.get(name)
    start = start_of(case, None)
    last, runs = max(BAYESIAN["horizons"]), range(BAYESIAN["realizations"])
    paths = [bayesian.deployed(case, start, last, samples, run) for run in runs]
    regrets = np.array([[case.risk(point) - case.optimum.risk for point in path] for path in paths])
    means = {horizon: regrets[:, :horizon].mean(axis=1) for horizon in BAYESIAN["horizons"]}
    spread = {horizon: 2.776 * np.std(values, ddof=1) / np.sqrt(len(values)) for horizon, values in means.items()}
    return {
        "problem": name,
        "samples": samples,
        "cells": {str(h): {"regret": float(v.mean()), "half": float(spread[h])} for h, v in means.items()},
    }


def run(task):
    """One task of either kind."""
    kind, *rest = task
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kind, (measured if kind == "measured" else searched)(tuple(rest))


def columns(results, start):
    """The methods that ran from a start, those that must learn first."""
    from performative.comparison.contenders import CONTENDERS

    ran = {name for part in results["parts"] for cells in part["starts"][start].values() for name in cells}
    learning = [name for name in CONTENDERS if name in ran and name not in TOLD]
    return learning + [name for name in CONTENDERS if name in ran and name in TOLD]


def shown(cell):
    """A cell of the table of regrets."""
    if cell is None:
        return "–"
    text = "not finite" if cell["regret"] is None else f"{cell['regret']:.2g}"
    return (f"**{text}**" if cell["fair_rank"] == 1 else text) + ("†" if cell["broke"] else "")


def gained(cell):
    """A cell of the table of losses against staying."""
    if cell is None or cell["against_staying"] is None:
        return "–"
    furthest = cell["furthest_behind"]
    return f"{cell['against_staying']:+.3g}" + (
        f" ({furthest:.2g})" if furthest is not None and furthest >= 0.05 else ""
    )


def table(results, start, cell_of=shown):
    """A line for each problem, number of samples and number of deployments; a column for each method."""
    names = columns(results, start)
    heads = [f"{name} (told)" if name in TOLD else name for name in names]
    lines = [f"| problem | samples | deployments | {' | '.join(heads)} |", "|---" * (len(names) + 3) + "|"]
    for part in results["parts"]:
        for horizon, cells in part["starts"][start].items():
            line = [part["problem"], str(part["samples"]), horizon, *(cell_of(cells.get(name)) for name in names)]
            lines.append(f"| {' | '.join(line)} |")
    return "\n".join(lines)


def search_table(results):
    """Bayesian optimization beside two methods, from the start nearest to 0."""
    lines = ["| problem | samples | deployments | bayesian | safe-apda | thompson |", "|---|---|---|---|---|---|"]
    parts = {(part["problem"], part["samples"]): part["starts"][STARTS[0]] for part in results["parts"]}
    for item in results["bayesian"]:
        for horizon, cell in item["cells"].items():
            others = parts[item["problem"], item["samples"]][horizon]
            rest = [
                f"{others[name]['regret']:.2g} ± {others[name]['half']:.1g}" if name in others else "–"
                for name in ("safe-apda", "thompson")
            ]
            line = [item["problem"], str(item["samples"]), horizon, f"{cell['regret']:.2g} ± {cell['half']:.1g}", *rest]
            lines.append(f"| {' | '.join(line)} |")
    return "\n".join(lines)


def unbeaten(results, start):
    """In how many lines each method is not beaten by any that must learn and broke nothing, and by any that must learn."""
    cells = [cells for part in results["parts"] for cells in part["starts"][start].values()]
    counts = []
    for name in columns(results, start):
        fair, all_ = (sum(c.get(name, {}).get(rank) == 1 for c in cells) for rank in ("fair_rank", "rank"))
        if name not in TOLD:
            counts.append(f"{name} {fair} ({all_})")
    return f"{start}, unbeaten of {len(cells)} lines (with those that broke constraints): {', '.join(counts)}"


def main(workers=2):
    from performative import problems
    from performative.simulation.processes import in_processes

    begun = time.monotonic()
    order = list(problems.names())
    smallest = sorted(order, key=lambda name: problems.get(name).problem.d)
    tasks = [("measured", name, samples) for name in smallest for samples in SAMPLES]
    if bayesian.installed():
        tasks += [("searched", name, samples) for name in BAYESIAN["problems"] for samples in SAMPLES]
    else:
        print("BoTorch is not installed: Bayesian optimization is left out (performative[botorch])", file=sys.stderr)
    results = {"parts": [], "bayesian": []}
    for done, (kind, part) in enumerate(in_processes(run, tasks, workers), 1):
        results["parts" if kind == "measured" else "bayesian"].append(part)
        results["parts"].sort(key=lambda part: (order.index(part["problem"]), part["samples"]))
        PATH.write_text(json.dumps(results, indent=1) + "\n")
        print(f"{done} of {len(tasks)} parts, {time.monotonic() - begun:.0f} s", file=sys.stderr)
    for start in STARTS:
        print(table(results, start), table(results, start, gained), unbeaten(results, start), sep="\n\n", end="\n\n")
    if results["bayesian"]:
        print(search_table(results), end="\n\n")
    print(f"{time.monotonic() - begun:.0f} s on {workers} processes")


if __name__ == "__main__":
    main()
