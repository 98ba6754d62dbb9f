"""Runs of both experiments with the theorem's settings, against its bounds: `make theory` writes docs/theory/."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

import performative as pf
from performative import theory
from performative.numerics.pytrees import changed
from performative.problems import portfolio, regression
from performative.problems.instance import Instance

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import NullFormatter

OUT = Path(__file__).parent.parent / "docs" / "theory"
REALIZATIONS = 20
HORIZONS = {"regression": (300_000, 500_000, 1_000_000), "portfolio": (4_000, 20_000, 100_000, 1_000_000)}
TITLES = {
    "regret": "average regret",
    "violation": "largest average violation",
    "parameter_error": r"$\|\hat{A}_T - A\|_F^2$",
}


def instances() -> dict[str, Instance]:
    """One instance of each experiment, ε = 1; the regression's ball, which never binds, is narrowed to R = 2‖θ_PO‖."""
    one = regression.instance(0, 0, 1.0, 1000)
    radius = 2 * float(np.linalg.norm(one.optimum.decision))
    return {
        "regression": one._replace(truth=changed(one.truth, decisions=pf.Ball(radius).of_dimension(30))),
        "portfolio": portfolio.instance(0, 0, 1.0, 1000),
    }


def compare(instance: Instance, horizons: tuple[int, ...]) -> list[dict[str, Any]]:
    """Means over realizations and bounds, at each horizon."""
    problem, environment = instance.truth, instance.environment
    constants = theory.constants(problem, environment)
    rows = []
    for rounds in horizons:
        structure = {} if instance.shift is None else {"shift": instance.shift, "effect": instance.prior}
        method = pf.apda(problem, **constants.settings(rounds), start=instance.start, **structure)
        started = time.monotonic()
        runs = pf.simulate({"apda": method}, environment, rounds=rounds, realizations=REALIZATIONS, seed=0)
        last = runs.isel(algorithm=0, t=-1).mean("realization")
        limits = constants.theorem(rounds)
        moved = float(np.trace(constants.moved_covariance))
        rows.append(
            {
                "rounds": rounds,
                "label": "proved" if limits.proved else "estimated",
                "seconds": round(time.monotonic() - started, 1),
                "measured": {
                    "regret": float(last["regret"]),
                    "violation": float(last["violation"].max()),
                    "parameter_error": float(last["estimation_error"]),
                },
                "bound": {
                    "regret": limits.regret / rounds,
                    "violation": limits.violation / rounds,
                    "parameter_error": theory.parameter_error_at(
                        rounds, constants.effect_error, constants.noise, moved
                    ),
                },
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    return rows


def draw(results: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """Bounds and measurements against T; a hollow mark shows the size of a negative number."""
    figure, axes = plt.subplots(len(results), 3, figsize=(10, 3 * len(results)), layout="constrained", squeeze=False)
    for row, (name, rows) in zip(axes, results.items(), strict=True):
        horizons = [item["rounds"] for item in rows]
        for axis, (key, title) in zip(row, TITLES.items(), strict=True):
            values = np.array([item["measured"][key] for item in rows])
            # E‖Â_T − A‖² has a bound of its own, made of constants that are known exactly.
            label = "proved" if key == "parameter_error" else rows[0]["label"]
            axis.loglog(horizons, [item["bound"][key] for item in rows], "k--", label=f"bound, {label}")
            axis.loglog(horizons, np.abs(values), color="#0072B2", lw=1)
            for sign, face in ((values > 0, "#0072B2"), (values <= 0, "white")):
                label = "measured" if face != "white" else "measured, negative"
                if sign.any():
                    axis.loglog(
                        np.array(horizons)[sign], np.abs(values[sign]), "o", color="#0072B2", mfc=face, label=label
                    )
            low, high = axis.get_ylim()
            axis.set(title=f"{name}: {title}", xlabel="horizon T", ylim=(low / (high / low) ** 0.4, high))
            axis.set_xticks(horizons, [rf"${horizon:.0e}}}$".replace("e+0", r"\cdot 10^{") for horizon in horizons])
            axis.xaxis.set_minor_formatter(NullFormatter())
            axis.legend(frameon=False, loc="lower left")
    figure.savefig(path, dpi=150, metadata={"Software": None})


def main() -> None:
    """Run both experiments; write results.json and figure.png."""
    OUT.mkdir(parents=True, exist_ok=True)
    results = {name: compare(instance, HORIZONS[name]) for name, instance in instances().items()}
    (OUT / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    draw(results, OUT / "figure.png")


if __name__ == "__main__":
    main()
