"""The figure of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from performative.plotting.style import COLORS, DASHES, MARKERS

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


def comparison_figure(results: Mapping[str, xr.Dataset]) -> Figure:
    """For each problem, the regret per deployment of every method as deployments grow: the mean and a 10–90% band.

    >>> import performative as pf
    >>> comparison = pf.compare("revenue", methods=["rgd", "rrm"], deployments=50, realizations=2)
    >>> figure = pf.plotting.comparison_figure(comparison.results)
    >>> [axes.get_title(loc="left") for axes in figure.axes]  # a panel for each problem, and the legend
    ['revenue', '']
    """
    from matplotlib.figure import Figure

    methods = list(dict.fromkeys(str(name) for dataset in results.values() for name in dataset.algorithm.values))
    columns = min(4, len(results) + 1)
    rows = -(-(len(results) + 1) // columns)
    figure = Figure(figsize=(4.6 * columns, 3.6 * rows), layout="constrained")
    figure.suptitle("Regret of every deployment, per deployment: mean over realizations, 10–90% band")
    panels = figure.subplots(rows, columns, squeeze=False).reshape(-1)
    handles: dict[str, Any] = {}
    for axes, (problem, dataset) in zip(panels, results.items(), strict=False):
        for name in dataset.algorithm.values:
            m = methods.index(str(name))
            count = dataset["deployments"].sel({"algorithm": name}).values
            values = dataset["deployed_regret"].sel({"algorithm": name}).values
            shown = np.isfinite(count) & np.all(np.isfinite(values), axis=0) & (np.mean(values, axis=0) > 0)
            low, high = np.quantile(values, [0.1, 0.9], axis=0)
            color = COLORS[m % len(COLORS)]
            (line,) = axes.plot(
                np.where(shown, count, np.nan),
                np.where(shown, np.mean(values, axis=0), np.nan),
                color=color,
                linestyle=DASHES[(m // len(COLORS)) % len(DASHES)],
                marker=MARKERS[m % len(MARKERS)],
                fillstyle="full" if m < len(COLORS) else "none",
                markevery=(m % 5, 6),
                markersize=4,
                linewidth=1.3,
            )
            axes.fill_between(
                np.where(shown, count, np.nan), np.maximum(low, 1e-300), high, color=color, alpha=0.10, linewidth=0
            )
            handles.setdefault(str(name), line)
        drawn = np.concatenate([line.get_ydata() for line in axes.lines])
        axes.set_xscale("log")
        axes.set_yscale("log")
        if np.any(np.isfinite(drawn)):  # bands that reach below 0 have no end on this scale
            axes.set_ylim(0.5 * np.nanmin(drawn), 2.0 * np.nanmax(drawn))
        axes.set_title(problem, fontsize=10, loc="left")
        axes.set_xlabel("deployments")
        axes.grid(visible=True, which="major", linewidth=0.4, alpha=0.5)
    for axes in panels[len(results) :]:
        axes.axis("off")
    panels[len(results)].legend(handles.values(), handles.keys(), loc="center", ncols=2, fontsize=9, frameon=False)
    return figure
