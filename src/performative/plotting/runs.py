"""Figures: log-log panels with a mean and a 10–90 % band, legible in greyscale and to colour-blind readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from performative.plotting.style import COLORS, DASHES, MARKERS

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


PANELS = (
    ("relative_regret", "(a) relative regret  Reg(t) / (t·Reg(1))"),
    ("relative_violation", "(b) relative violation  Vio$_m$(t) / (t·|Vio$_m$(1)|)"),
    ("deviation", "(c) deviation  $\\|θ_t − θ_{PO}\\|^2$"),
    ("estimation_error", "(d) estimation error  $\\|Â_t − A\\|_F^2$"),
    ("deployed_regret", "(e) regret of every deployment, per deployment"),
)


def experiment_figure(dataset: xr.Dataset, title: str) -> Figure:
    """The paper's four panels for a dataset of `performative reproduce`, and what all deployments cost."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(16, 8), layout="constrained")
    figure.suptitle(f"{title}: {dataset.sizes['realization']} realisations, mean and 10–90 % band")
    handles: dict[str, Any] = {}
    grid = figure.subplots(2, 3)
    # (a) and (b) above (c) and (d) as in the paper, then (e) and the legend.
    for axes, (variable, label) in zip([*grid[0, :2], *grid[1, :2], grid[0, 2]], PANELS, strict=True):
        _panel(axes, dataset, variable, handles)
        axes.set_title(label, fontsize=10, loc="left")
        axes.set_xlabel("deployments" if variable == "deployed_regret" else "round t")
        axes.grid(visible=True, which="major", linewidth=0.4, alpha=0.5)
    grid[1, 2].axis("off")
    grid[1, 2].legend(handles.values(), handles.keys(), loc="center", ncols=2, fontsize=9, frameon=False)
    return figure


def _panel(axes: Any, dataset: xr.Dataset, variable: str, handles: dict[str, Any]) -> None:
    rounds = dataset["t"].values
    lowest, highest = np.inf, 0.0
    signed = False
    for s, sensitivity in enumerate(dataset.sensitivity.values):
        for m, method in enumerate(dataset.algorithm.values):
            values = dataset[variable].sel({"sensitivity": sensitivity, "algorithm": method})
            if not values.isel(t=-1).any():  # the oracle has no estimation error
                continue
            if variable == "deployed_regret":
                counted = dataset["deployments"].sel({"sensitivity": sensitivity, "algorithm": method})
                rounds = counted.isel(realization=0).values
            mean = values.mean("realization").values
            low, high = values.quantile([0.1, 0.9], dim="realization").values
            signed |= bool(np.any(mean < 0))
            lowest = min(lowest, float(np.min(np.abs(mean[mean != 0]), initial=np.inf)))
            highest = max(highest, float(np.max(np.abs(mean))))
            (line,) = axes.plot(
                rounds,
                mean,
                color=COLORS[m],
                linestyle=DASHES[s % len(DASHES)],
                marker=MARKERS[m],
                markevery=(3 * m + s, 10),
                markersize=4,
                fillstyle="full" if s == 0 else "none",
                linewidth=1.4,
            )
            axes.fill_between(rounds, low, high, color=COLORS[m], alpha=0.12, linewidth=0)
            handles.setdefault(f"{method}, ε = {sensitivity:g}", line)
    axes.set_xscale("log")
    if signed and highest < 10 * lowest:
        axes.axhline(0.0, color="0.4", linewidth=0.8)  # within a decade of each other: a plain scale
    elif signed:
        threshold = 10.0 ** np.floor(np.log10(max(lowest, 1e-6)))
        axes.set_yscale("symlog", linthresh=max(threshold, 1e-4))
        axes.axhline(0.0, color="0.4", linewidth=0.8)
    else:
        axes.set_yscale("log")
