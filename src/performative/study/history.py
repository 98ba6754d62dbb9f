"""The history of a study, everything observed in it, as a dataset or a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from performative.study.events import Asked, Event, Observed

if TYPE_CHECKING:
    import xarray as xr


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


def history(
    reported_rounds: Iterable[Round], dimension: int, constraint_names: list[str], name: str, seed: int
) -> xr.Dataset:
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
            "loss": observed.losses.copy(),
        }
        for asked, observed in reported_rounds
    ]
    d, m, n = dimension, len(constraint_names), len(rows)
    most = max((len(row["deployed"]) for row in rows), default=1)
    width = rows[0]["data"].shape[1] if rows else 0

    def column(name: str, *shape: int) -> NDArray[Any]:
        table = np.full((n, *shape), np.nan)
        for place, row in zip(table, rows, strict=True):
            place[: len(row[name])] = row[name]
        return table

    def plain(name: str, dtype: Any) -> NDArray[Any]:
        return np.array([row[name] for row in rows], dtype=dtype)

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
            "asked": ("deployment", moment(plain("asked", np.float64))),
            "told": ("deployment", moment(plain("told", np.float64))),
            "constraint": constraint_names,
        },
        attrs={"study": name, "seed": seed},
    )
    for variable, (long_name, description) in MEANINGS.items():
        past[variable].attrs |= {"long_name": long_name, "description": description}
    return past


def moment(seconds: Any) -> Any:
    """Times in seconds since 1970, as NumPy has them, in UTC."""
    return (np.asarray(seconds, np.float64) * 1e6).astype("datetime64[us]")


def records(reported_rounds: Iterable[Round], constraint_names: list[str]) -> Iterator[dict[str, Any]]:
    """The history as a row for each decision that was deployed."""
    for asked, observed in reported_rounds:
        for place, decision in enumerate(asked.decisions):
            row: dict[str, Any] = {
                "deployment": asked.number,
                "t": asked.round,
                "asked": moment(asked.at),
                "told": moment(observed.at),
                "samples": observed.samples.shape[1],
                "decision": place,
                "loss": float(observed.losses[place]),
            }
            for label, values in (("theta", decision), ("mean", observed.samples[place].mean(axis=0))):
                row |= {f"{label}_{index}": value for index, value in enumerate(values.tolist())}
            slack = (-asked.constraint_values[place]).tolist()
            yield row | {f"slack {name}": value for name, value in zip(constraint_names, slack, strict=True)}
