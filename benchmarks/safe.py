"""Safe APDA against APDA at equal numbers of deployments: `make safe` writes docs/safe/."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

import performative as pf
from performative import steps
from performative.constraints import Linear, Proximity
from performative.experiments.reproduce import reproduce
from performative.experiments.settings import EXPERIMENTS, cast_of
from performative.numerics.pytrees import changed
from performative.problems import portfolio, regression
from performative.problems.instance import random_source
from performative.simulation.processes import in_processes

OUT = Path(__file__).parent.parent / "docs" / "safe"
DEPLOYMENTS, REALIZATIONS = 1_000_000, 20
WARMUP = 1000
FEWER = 100_000
"""Deployments on the other problems."""
TARGETS = {"regression": 100, "portfolio": 1000}
EXPERIMENTS_SHOWN = tuple(TARGETS)


def row(safe: xr.Dataset, apda: xr.Dataset, seconds: float) -> dict[str, Any]:
    """What the table shows, from runs of one method each (realization, round) at one sensitivity."""
    last = safe.isel(t=-1)
    earlier = int(np.argmin(np.abs(np.log(safe["t"].values / (safe["t"].values[-1] / 10)))))
    decade = safe.isel(t=earlier)
    now, before = float(last["deployed_regret"].mean()), float(decade["deployed_regret"].mean())
    exponent = np.log(now / before) / np.log(float(last["deployments"][0]) / float(decade["deployments"][0]))
    final = apda.isel(t=-1)
    count = safe.sizes["realization"]
    return {
        "deployments": int(last["deployments"][0]),
        "realizations": count,
        "safe_apda": now,
        "standard_error": float(last["deployed_regret"].std(ddof=1)) / np.sqrt(count),
        "safe_apda_theta_alone": float(last["regret"].mean()),
        "apda": float(final["deployed_regret"].mean()),
        "apda_theta_alone": float(final["regret"].mean()),
        "apda_deployments": int(final["deployments"][0]),
        "ratio": float(final["deployed_regret"].mean()) / now,
        "exponent": float(exponent),
        "violation": float(last["deployed_violation"].max()),
        "apda_violation": float(final["deployed_violation"].max()),
        "seconds": round(seconds, 1),
    }


def measured(task: tuple[str, float]) -> dict[str, Any]:
    """A line of the main table: one experiment at one sensitivity."""
    name, sensitivity = task
    begun = time.monotonic()
    settings: dict[str, Any] = {"realizations": REALIZATIONS, "sensitivities": (sensitivity,), "seed": 0}
    safe = reproduce(name, rounds=DEPLOYMENTS - 1, methods=("safe-apda",), **settings)
    taken = time.monotonic() - begun
    apda = reproduce(name, rounds=(DEPLOYMENTS - WARMUP) // 2, methods=("apda",), **settings)
    one = {"sensitivity": 0, "algorithm": 0}
    return row(safe.isel(one), apda.isel(one), taken)


def main_table(chosen: Sequence[str] = EXPERIMENTS_SHOWN) -> dict[str, Any]:
    """The chosen experiments, both sensitivities, 10⁶ deployments, defaults only, two lines at a time; other lines stay."""
    tasks = [(name, sensitivity) for name in chosen for sensitivity in (1.0, 10.0)]
    rows = {} if len(chosen) == len(EXPERIMENTS_SHOWN) else written("main")
    for (name, sensitivity), line in zip(tasks, in_processes(measured, tasks, 2), strict=True):
        rows[f"{name}, ε = {sensitivity:g}"] = line
        print(name, sensitivity, json.dumps(line), flush=True)
    return rows


def scaled(method: pf.PrimalDual) -> pf.PrimalDual:
    """APDA with probes scaled to Θ by the rule of `performative compare`, and the theorem's ζ_t for such probes.

    Their standard deviation is half of sup‖θ‖ over √d, at most 1, where the published settings have 1 everywhere.
    """
    reach = min(1.0, method.problem.decisions.radius / (2 * np.sqrt(method.problem.dimension)))
    effects = changed(method.estimator.effects, step=None, probe=float(reach))
    return changed(method, exploration=pf.Pair(reach), estimator=changed(method.estimator, effects=effects))


def probes() -> dict[str, Any]:
    """APDA with scaled probes, at the deployments of the main table and of the other problems."""
    rows = {}
    for name in ("regression", "portfolio"):
        draw = EXPERIMENTS[name].instance
        instances = {value: [draw(0, r, value, WARMUP) for r in range(REALIZATIONS)] for value in (1.0, 10.0)}
        cast = cast_of(instances, ("apda",))
        cast = cast._replace(
            methods={"m": {k: [scaled(one) for one in each] for k, each in cast.methods["apda"].items()}}
        )
        runs = pf.simulate(**cast._asdict(), rounds=(DEPLOYMENTS - WARMUP) // 2, seed=0, workers=2)
        for sensitivity in (1.0, 10.0):
            row = probes_row(cast.methods["m"][sensitivity][0], runs.sel(variant=sensitivity))
            rows[f"{name}, ε = {sensitivity:g}"] = row
            print(name, sensitivity, json.dumps(row), flush=True)
    for name, (problem, environment, structure) in other_problems().items():
        method = scaled(published(problem, structure))
        runs = pf.simulate(
            {"m": method}, environment, rounds=(FEWER - WARMUP) // 2, realizations=REALIZATIONS, seed=0, workers=2
        )
        rows[name] = probes_row(method, runs)
        print(name, json.dumps(rows[name]), flush=True)
    return rows


def probes_row(method: pf.PrimalDual, runs: xr.Dataset) -> dict[str, Any]:
    """What the table shows of APDA with scaled probes."""
    last = runs.isel({"algorithm": 0, "t": -1})
    return {
        "exploration": float(method.exploration.scale),
        "deployments": int(last["deployments"][0]),
        "apda": float(last["deployed_regret"].mean()),
        "apda_theta_alone": float(last["regret"].mean()),
        "apda_violation": float(last["deployed_violation"].max()),
    }


def tight() -> tuple[pf.Problem, pf.LocationFamily, dict[str, Any]]:
    """The regression with bounds at half the optimum's distances: constraints that bind."""
    instance = regression.instance(0, 0, 1.0, WARMUP)
    best = np.asarray(instance.optimum.decision).reshape(regression.TASKS, -1)
    left, right = np.triu_indices(regression.TASKS, 1)
    close = instance.truth.constraints[0]
    bound = 0.25 * np.sum((best[left] - best[right]) ** 2, axis=1)
    constraint = Proximity(regression.TASKS, 30, bound, active=close.active)
    problem = pf.Problem(regression.loss, pf.Ball(regression.RADIUS), [constraint])
    return problem, instance.environment, {"shift": instance.shift, "effect": instance.prior}


def logistic_loss(theta: jax.Array, z: jax.Array) -> jax.Array:
    """A classifier of z = label·features whose subjects move against it."""
    return jnp.logaddexp(0.0, -jnp.sum(theta * z)) + 0.05 * jnp.sum(theta * theta)


def logistic() -> tuple[pf.Problem, pf.LocationFamily, dict[str, Any]]:
    """A loss that is not quadratic, on an empirical base, with a bound on two weights together."""
    random = np.random.default_rng(0)
    base = random.normal(size=(400, 3)) + np.array([1.0, 0.5, -0.5])
    problem = pf.Problem(logistic_loss, pf.Ball(5.0), [Linear([1.0, 1.0, 0.0], 1.0, name="cap")], dimension=3)
    return problem, pf.LocationFamily(pf.Empirical(base), -0.3 * np.eye(3)), {}


def hundred() -> tuple[pf.Problem, pf.LocationFamily, dict[str, Any]]:
    """The portfolio's loss with a hundred assets, a budget and a bound on the spread."""
    random, size = random_source(0, 0), 100
    effect = random.normal(size=(size, size))
    effect *= 1.0 / np.linalg.norm(effect, 2)
    mean = random.uniform(1.0, 2.0, size=size)
    environment = pf.LocationFamily(pf.Gaussian(2 * mean / np.linalg.norm(mean), np.full(size, 0.01)), effect)
    limits = [Linear(np.ones(size), 1.0, name="budget"), Linear(random.uniform(2.0, 4.0, size), 2.0, name="liquidity")]
    loss = jax.tree_util.Partial(portfolio.loss, np.float64(1.0))
    return pf.Problem(loss, pf.Box(np.zeros(size), np.full(size, 0.3)), limits), environment, {}


def other_problems() -> dict[str, tuple[pf.Problem, pf.LocationFamily, dict[str, Any]]]:
    """The other problems by name."""
    return {"tight constraints": tight(), "logistic loss": logistic(), "100 dimensions": hundred()}


def published(problem: pf.Problem, structure: dict[str, Any]) -> pf.PrimalDual:
    """APDA with the settings of the experiments, whose step for the effect overflows in high dimension: the theorem's there."""
    settings = dict(steps.experiment())
    if problem.dimension > 30:
        del settings["estimation_step"]
    return pf.apda(problem, warmup=WARMUP, **settings, **structure)


def others(chosen: Sequence[str]) -> dict[str, Any]:
    """Safe APDA and APDA on the chosen other problems, at 10⁵ deployments; other lines stay."""
    rows = written("others")
    for name, (problem, environment, structure) in other_problems().items():
        if name not in chosen:
            continue
        begun = time.monotonic()
        settings: dict[str, Any] = {"realizations": REALIZATIONS, "seed": 0, "workers": 2}
        safe = pf.simulate({"m": pf.safe_apda(problem, **structure)}, environment, rounds=FEWER - 1, **settings)
        taken = time.monotonic() - begun
        other = pf.simulate({"m": published(problem, structure)}, environment, rounds=(FEWER - WARMUP) // 2, **settings)
        rows[name] = row(safe.isel({"algorithm": 0}), other.isel({"algorithm": 0}), taken)
        print(name, json.dumps(rows[name]), flush=True)
    return rows


def table(rows: dict[str, Any], scaled_probes: dict[str, Any]) -> str:
    """The comparison as Markdown."""
    lines = [
        "| | safe APDA | θ_t alone | APDA | θ_t alone | APDA / safe | APDA, scaled probes | APDA, scaled probes / safe "
        "| exponent | largest violation (APDA; scaled probes) |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, r in rows.items():
        scaled = scaled_probes[name]
        lines.append(
            f"| {name} | {r['safe_apda']:.3g} ± {r['standard_error']:.1g} | {r['safe_apda_theta_alone']:.2g} | {r['apda']:.3g} "
            f"| {r['apda_theta_alone']:.2g} | {r['ratio']:,.0f} | {scaled['apda']:.3g} | {scaled['apda'] / r['safe_apda']:,.0f} "
            f"| {r['exponent']:.2f} | {r['violation']:.1g} ({r['apda_violation']:.3g}; {scaled['apda_violation']:.3g}) |"
        )
    return "\n".join(lines)


def written(name: str) -> dict[str, Any]:
    """The committed results of one part."""
    return json.loads((OUT / f"{name}.json").read_text())


def main(chosen: list[str]) -> None:
    """Run the chosen parts (all by default), write their results and print the tables they enter.

    A part is `probes`, `main` or `others`, or a line of the latter two: an experiment, or another problem. "100 dimensions" runs
    only if it is named: a plan takes a third of a second for each realization, and there are 1,800 of them.
    """
    parts = ("probes", "main", "others", *EXPERIMENTS_SHOWN, *other_problems())
    for name in chosen:
        if name not in parts:
            raise SystemExit(f"a part must be one of {', '.join(map(repr, parts))}, but got {name!r}")
    OUT.mkdir(parents=True, exist_ok=True)
    everything = not chosen
    shown = [name for name in EXPERIMENTS_SHOWN if everything or "main" in chosen or name in chosen]
    usual = [name for name in other_problems() if name != "100 dimensions"]
    other = [
        name for name in other_problems() if name in chosen or (name in usual and (everything or "others" in chosen))
    ]
    results = {}
    if everything or "probes" in chosen:
        results["probes"] = probes()
    if shown:
        results["main"] = main_table(shown)
    if other:
        results["others"] = others(other)
    for name, rows in results.items():
        (OUT / f"{name}.json").write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    for name in ("main", "others"):
        if name in results or "probes" in results:
            print(table(written(name), written("probes")), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
