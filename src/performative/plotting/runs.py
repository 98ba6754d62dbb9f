"""The figure of simulated runs: log-log panels, each with the mean over realizations and a 10–90% band."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from performative.plotting.style import COLORS, DASHES, MARKERS

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Panel(NamedTuple):
    """A variable to draw, and its title."""

    variable: str
    title: str


REGRET = Panel("regret", "regret  Reg(t) / t")
RELATIVE_REGRET = Panel("relative_regret", "relative regret  Reg(t) / (t·Reg(1))")
VIOLATION = Panel("violation", "violation  Vio(t) / t, worst constraint")
RELATIVE_VIOLATION = Panel("relative_violation", "relative violation  Vio$_m$(t) / (t·|Vio$_m$(1)|)")
DEVIATION = Panel("deviation", "deviation  $\\|θ_t − θ_{PO}\\|^2$")
ESTIMATION_ERROR = Panel("estimation_error", "estimation error  $\\|Â_t − A\\|_F^2$")
DEPLOYED_REGRET = Panel("deployed_regret", "regret of every deployment, per deployment")


def runs_figure(dataset: xr.Dataset) -> Figure:
    """The paper's four panels for a dataset of `simulate` or `reproduce`, and what all deployments cost.

    Panels are relative where the dataset is. A panel without a finite number is left empty and says so.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> problem = pf.Problem(Revenue(), pf.Box([0.0], [5.0]))
    >>> market = pf.LocationFamily(pf.Gaussian([4.0], [[0.1]]), [[-1.0]])
    >>> runs = pf.simulate({"apda": pf.apda(problem, warmup=10)}, market, rounds=20, realizations=3)
    >>> figure = pf.plotting.runs_figure(runs)
    >>> figure.axes[0].get_title(loc="left")
    '(a) regret  Reg(t) / t'
    """
    from matplotlib.figure import Figure

    panels = [
        RELATIVE_REGRET if "relative_regret" in dataset else REGRET,
        RELATIVE_VIOLATION if "relative_violation" in dataset else VIOLATION,
        DEVIATION,
        ESTIMATION_ERROR,
        DEPLOYED_REGRET,
    ]
    figure = Figure(figsize=(16, 8), layout="constrained")
    title = dataset.attrs.get("title")
    about = f"{dataset.sizes['realization']} realizations, mean and 10–90% band"
    figure.suptitle(about if title is None else f"{title}: {about}")
    curves = _curves(dataset)
    handles: dict[str, Any] = {}
    grid = figure.subplots(2, 3)
    # (a) and (b) above (c) and (d) as in the paper, then (e) and the legend.
    for letter, axes, panel in zip("abcde", [*grid[0, :2], *grid[1, :2], grid[0, 2]], panels, strict=True):
        _draw(axes, curves, panel.variable, handles)
        axes.set_title(f"({letter}) {panel.title}", fontsize=10, loc="left")
        axes.set_xlabel("deployments" if panel is DEPLOYED_REGRET else "round t")
        axes.grid(visible=True, which="major", linewidth=0.4, alpha=0.5)
    grid[1, 2].axis("off")
    grid[1, 2].legend(handles.values(), handles.keys(), loc="center", ncols=2, fontsize=9, frameon=False)
    return figure


class Curve(NamedTuple):
    """One method in one variant: its data, its label, and where it stands among methods and variants."""

    data: xr.Dataset
    label: str
    method: int
    variant: int


def _curves(dataset: xr.Dataset) -> list[Curve]:
    dimension = next((name for name in ("sensitivity", "variant") if name in dataset.dims), None)
    labels = [None] if dimension is None else dataset[dimension].values.tolist()
    curves = []
    for v, label in enumerate(labels):
        part = dataset if dimension is None else dataset.isel({dimension: v})
        for m, method in enumerate(dataset.algorithm.values):
            about = "" if label is None else f", ε = {label:g}" if dimension == "sensitivity" else f", {label}"
            curves.append(Curve(part.isel(algorithm=m), f"{method}{about}", m, v))
    return curves


def _draw(axes: Axes, curves: list[Curve], variable: str, handles: dict[str, Any]) -> None:
    lowest, highest = np.inf, 0.0
    signed = drawn = False
    for curve in curves:
        values = curve.data[variable]
        if "constraint" in values.dims:
            values = values.max("constraint") if values.sizes["constraint"] else values.sum("constraint")
        if not np.any(np.isfinite(values) & (values != 0)):  # the oracle has no estimation error
            continue
        values = values.where(np.isfinite(values)).dropna("t", how="all")
        rounds = curve.data["deployments"].isel(realization=0) if variable == "deployed_regret" else curve.data["t"]
        rounds = rounds.sel(t=values["t"])
        mean = values.mean("realization").values
        low, high = values.quantile([0.1, 0.9], dim="realization").values
        signed |= bool(np.any(mean < 0))
        drawn = True
        sizes = np.abs(mean[np.isfinite(mean) & (mean != 0)])
        lowest, highest = (
            min(lowest, float(np.min(sizes, initial=np.inf))),
            max(highest, float(np.max(sizes, initial=0.0))),
        )
        (line,) = axes.plot(
            rounds.values,
            mean,
            color=COLORS[curve.method % len(COLORS)],
            linestyle=DASHES[curve.variant % len(DASHES)],
            marker=MARKERS[curve.method % len(MARKERS)],
            markevery=(3 * curve.method + curve.variant, 10),
            markersize=4,
            fillstyle="full" if curve.variant == 0 else "none",
            linewidth=1.4,
        )
        axes.fill_between(rounds.values, low, high, color=line.get_color(), alpha=0.12, linewidth=0)
        handles.setdefault(curve.label, line)
    if not drawn:
        axes.text(0.5, 0.5, "nothing to show", ha="center", va="center", transform=axes.transAxes, color="0.4")
        return
    axes.set_xscale("log")
    if signed and highest < 10 * lowest:
        axes.axhline(0.0, color="0.4", linewidth=0.8)  # within a decade of each other: a plain scale
    elif signed:
        threshold = 10.0 ** np.floor(np.log10(max(lowest, 1e-6)))
        axes.set_yscale("symlog", linthresh=max(threshold, 1e-4))
        axes.axhline(0.0, color="0.4", linewidth=0.8)
    else:
        axes.set_yscale("log")
