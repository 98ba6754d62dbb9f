"""`plot`: the figure of any dataset that the library makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from performative.plotting.comparison import comparison_figure
from performative.plotting.runs import runs_figure
from performative.plotting.study import figure as study_figure

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

_FORMER_NAMES = {"method": "algorithm", "round": "t"}


def plot(dataset: xr.Dataset) -> Figure:
    """The figure of a dataset of `simulate`, `reproduce`, `compare` or `Study.history`.

    Runs are drawn in the paper's four panels, regret, violation, deviation and estimation error, with a fifth for the regret of
    every deployment. The figure is matplotlib's: `pf.plot(runs).savefig("figure.png")`.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> problem = pf.Problem(Revenue(), pf.Box([0.0], [5.0]))
    >>> market = pf.LocationFamily(pf.Gaussian([4.0], [[0.1]]), [[-1.0]])
    >>> runs = pf.simulate({"apda": pf.apda(problem, warmup=10)}, market, rounds=20, realizations=3)
    >>> len(pf.plot(runs).axes)
    6
    """
    sizes = dict(getattr(dataset, "sizes", {}))
    if "deployment" in sizes:
        return study_figure(dataset)
    former = {old: new for old, new in _FORMER_NAMES.items() if old in sizes}
    if former:  # a file that an earlier version wrote
        return plot(dataset.rename(former))
    if "point" in sizes:
        return comparison_figure({dataset.attrs["problem"]: dataset})
    if {"algorithm", "realization", "t"} <= set(sizes):
        return runs_figure(dataset)
    raise ValueError(
        "`dataset` must be one of `simulate`, `reproduce`, `compare` or `Study.history`, but got "
        f"{type(dataset).__name__} with dimensions {tuple(sizes)}"
    )
