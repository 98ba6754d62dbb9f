"""`plot`: the figure of any dataset that the library makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

from performative.plotting.comparison import comparison_figure
from performative.plotting.runs import runs_figure
from performative.plotting.study import figure as study_figure

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

_FORMER_NAMES = {"method": "algorithm", "round": "t"}


def plot(dataset: Any) -> Figure:
    """The figure of a dataset of `simulate`, `reproduce` or `Study.history`, or of what `compare` returns.

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
    import xarray as xr

    if isinstance(getattr(dataset, "results", None), Mapping):  # what `compare` returns: a dataset for each problem
        return comparison_figure(dataset.results)
    if not isinstance(dataset, xr.Dataset):
        got, remedy = type(dataset).__name__, ""
        if isinstance(dataset, str | PathLike):
            got, remedy = repr(str(dataset)), "; open it with xarray.open_dataset"
        raise ValueError(f"`dataset` must be {_ANY}, but got {got}{remedy}")
    former = {old: new for old, new in _FORMER_NAMES.items() if old in dataset.dims or old in dataset.variables}
    if former:  # a file that an earlier version wrote
        return plot(dataset.rename(former))
    if "algorithm" in dataset.coords and not dataset["algorithm"].dims:  # one method, selected
        dataset = dataset.expand_dims("algorithm")
    for figure, dimensions, variables in _FIGURES:
        if dimensions <= set(dataset.dims) and variables <= set(dataset.data_vars):
            return figure(dataset)
    raise ValueError(
        f"`dataset` must be {_ANY}, but got dimensions {tuple(dataset.dims)} and variables {tuple(dataset.data_vars)}"
    )


_ANY = "a dataset of `simulate`, `reproduce`, `compare` or `Study.history`"
_FIGURES: tuple[tuple[Callable[[xr.Dataset], Figure], set[str], set[str]], ...] = (
    (
        study_figure,
        {"deployment"},
        {"decision", "proposed", "deployed", "slack", "loss", "loss_error", "samples", "basis", "loss_since"},
    ),
    (
        lambda dataset: comparison_figure({str(dataset.attrs.get("problem", "")): dataset}),
        {"algorithm", "realization", "point"},
        {"deployments", "deployed_regret"},
    ),
    (
        runs_figure,
        {"algorithm", "realization", "t"},
        {"regret", "violation", "deviation", "estimation_error", "deployed_regret", "deployments"},
    ),
)
"""Each figure with the dimensions and variables it needs."""
