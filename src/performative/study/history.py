"""The history of a study, everything observed in it, as a dataset or a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64
from performative.study.events import Asked, Event, Observed

if TYPE_CHECKING:
    import pandas
    import xarray as xr

    from performative.problem import Problem


class Round(NamedTuple):
    """A deployment whose samples were reported: its two events."""

    asked: Asked
    observed: Observed


def rounds(events: Iterable[Event]) -> Iterator[Round]:
    """The deployments of a log whose samples were reported."""
    asked: Asked | None = None
    for event in events:
        if isinstance(event, Asked):  # one is open at a time
            asked = event
        elif isinstance(event, Observed):
            assert asked is not None
            yield Round(asked, event)


MEANINGS = {
    "deployment": ("deployment", "The number of the event that asked for it."),
    "t": ("round t", "The round of the method."),
    "asked": ("asked", "When its decisions were asked for, in UTC."),
    "told": ("reported", "When its samples were reported, in UTC."),
    "samples": ("samples", "How many samples each of its decisions brought."),
    "decision": ("decision θ_t", "The method's decision, before exploration."),
    "multipliers": ("multipliers λ_t", "The multipliers of the constraints at the time."),
    "deployed": ("deployed decisions", "The decisions that were deployed; NaN beyond their number."),
    "slack": (
        "slack −g(θ)",
        "The room that each deployed decision leaves in each constraint; negative if it violates it.",
    ),
    "data": ("mean of the samples", "The mean of the samples that each deployed decision brought."),
    "loss": ("mean loss", "The mean loss of each deployed decision over its samples."),
}
"""What each variable of a history is."""


@in_float64
def history(problem: Problem, reported_rounds: Iterable[Round], name: str, seed: int) -> xr.Dataset:
    """A dataset over `deployment`, the ids of the deployments that were reported.

    It holds θ_t, λ_t, and for each of the b decisions what was deployed, its slack −g in each constraint, the means of the data
    it brought and their average loss. Where rounds deploy different numbers of decisions, missing ones are NaN.
    """
    import xarray as xr

    rows = [
        {
            "deployment": asked.number,
            "t": asked.round,
            "asked": asked.at,
            "told": observed.at,
            "count": observed.samples.shape[1],
            "decision": asked.decision.copy(),  # copies, since a view would keep the whole record in memory
            "multipliers": asked.multipliers.copy(),
            "deployed": asked.decisions.copy(),
            "slack": -asked.constraint_values,
            "data": observed.samples.mean(axis=1),
            "loss": _mean_losses(problem, asked.decisions, observed.samples),
        }
        for asked, observed in reported_rounds
    ]
    d, m, n = problem.d, len(problem.constraint_names), len(rows)
    most = max((len(row["deployed"]) for row in rows), default=1)
    width = rows[0]["data"].shape[1] if rows else 0

    def column(name: str, *shape: int) -> NDArray[Any]:
        table = np.full((n, *shape), np.nan)
        for place, row in zip(table, rows, strict=True):
            place[: len(row[name])] = row[name]
        return table

    def plain(name: str, dtype: Any) -> NDArray[Any]:
        return np.array([row[name] for row in rows], dtype=dtype)

    def moment(name: str) -> NDArray[Any]:
        return (plain(name, np.float64) * 1e6).astype("datetime64[us]")

    past = xr.Dataset(
        {
            "decision": (("deployment", "dimension"), column("decision", d)),
            "multipliers": (("deployment", "constraint"), column("multipliers", m)),
            "deployed": (("deployment", "probe", "dimension"), column("deployed", most, d)),
            "slack": (("deployment", "probe", "constraint"), column("slack", most, m)),
            "data": (("deployment", "probe", "number"), column("data", most, width)),
            "loss": (("deployment", "probe"), column("loss", most)),
            "samples": (("deployment",), plain("count", np.int64)),
        },
        coords={
            "deployment": plain("deployment", np.int64),
            "t": ("deployment", plain("t", np.int64)),
            "asked": ("deployment", moment("asked")),
            "told": ("deployment", moment("told")),
            "constraint": list(problem.constraint_names),
        },
        attrs={"study": name, "seed": seed},
    )
    for variable, (long_name, description) in MEANINGS.items():
        past[variable].attrs |= {"long_name": long_name, "description": description}
    return past


def to_frame(past: xr.Dataset) -> pandas.DataFrame:
    """The history as a data frame with a row for each decision that was deployed."""
    import pandas

    names = [str(name) for name in past["constraint"].values]
    rows = []
    for place in range(past.sizes["deployment"]):
        one = past.isel({"deployment": place})
        times = {name: one[name].values[()] for name in ("deployment", "t", "asked", "told", "samples")}
        for probe in range(past.sizes["probe"]):
            if np.isnan(one["loss"].values[probe]):
                continue
            row = {**times, "decision": probe, "loss": float(one["loss"].values[probe])}
            for label, values in (("theta", one["deployed"].values[probe]), ("mean", one["data"].values[probe])):
                row |= {f"{label}_{index}": value for index, value in enumerate(values.tolist())}
            row |= {
                f"slack {name}": value for name, value in zip(names, one["slack"].values[probe].tolist(), strict=True)
            }
            rows.append(row)
    return pandas.DataFrame(rows)


def _mean_losses(problem: Problem, decisions: Floats, samples: Floats) -> Floats:
    """The mean loss of each decision (b, d) over its samples (b, n, k), padded to a power of two so that few sizes compile."""
    n = samples.shape[1]
    rows = np.minimum(np.arange(1 << (n - 1).bit_length()), n - 1)
    return np.asarray(_losses(problem, decisions, samples[:, rows]))[:, :n].mean(axis=1)


@jax.jit
def _losses(problem: Problem, decisions: Array, samples: Array) -> Array:
    one = jax.vmap(problem.loss, in_axes=(None, 0))
    return jax.vmap(one)(decisions, samples)
