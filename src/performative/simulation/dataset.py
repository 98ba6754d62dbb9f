"""The dataset of a simulation."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from performative.errors import NonFiniteWarning
from performative.simulation.engine import World
from performative.simulation.jobs import Piece
from performative.validation import whole

if TYPE_CHECKING:
    import xarray as xr


_DIMENSIONS = {"violation": ("constraint",), "decision": ("coordinate",), "multipliers": ("constraint",)}


def recorded_rounds(rounds: int, record: int | Sequence[int]) -> list[int]:
    """The rounds to record: about `record` of them spaced evenly in log t, or those given; always 1 and T."""
    if not isinstance(record, Sequence | np.ndarray):
        spaced = np.unique(np.geomspace(1, rounds, whole("record", record, 2)).round().astype(int)).tolist()
        return sorted({1, rounds, *spaced})
    chosen = {whole("record", t, 1) for t in record}
    if max(chosen, default=1) > rounds:
        raise ValueError(f"`record` must lie within 1..{rounds}, but got {max(chosen)}")
    return sorted({1, rounds, *chosen})


def to_dataset(world: World, pieces: Sequence[Piece], rounds: list[int], realizations: int) -> xr.Dataset:
    """The pieces of all batches as one dataset, with a dimension `variant`."""
    import xarray as xr

    names = list(world.methods)
    variables = {}
    for variable in pieces[0][0][names[0]]:
        extra = _DIMENSIONS.get(variable, ())
        values = np.stack(
            [
                np.concatenate([np.stack([at[name][variable] for at in piece]) for piece in pieces], axis=-1)
                for name in names
            ]
        )  # (method, round, ..., variant, realization)
        variables[variable] = (
            ("variant", "algorithm", "realization", "t", *extra),
            np.moveaxis(values, (-2, -1), (0, 2)),
        )
    finite = np.ones(variables["regret"][1].shape, dtype=bool)
    for variable in ("decision", "multipliers"):
        finite &= np.all(np.isfinite(variables[variable][1]), axis=-1)
    failed = np.where(np.all(finite, axis=-1), 0, np.asarray(rounds)[np.argmin(finite, axis=-1)])
    variables["failed"] = (("variant", "algorithm", "realization"), failed)
    coordinates = {
        "algorithm": names,
        "realization": np.arange(realizations),
        "t": rounds,
        "constraint": list(world.truth.problem.constraint_names),
    }
    return xr.Dataset(variables, coordinates)


def report_failures(dataset: xr.Dataset, world: World) -> None:
    """Warn of every method whose iterates left the finite numbers: when, how often, and the likely cause."""
    for name in dataset.algorithm.values:
        failed = dataset.failed.sel({"algorithm": name}).values
        if np.any(failed > 0):
            step = getattr(world.methods[name], "step", None)
            size = f" (step={float(step):g})" if isinstance(step, float | np.floating) else ""
            warnings.warn(
                f"method {str(name)!r}: iterates became non-finite in {np.sum(failed > 0)} of {len(failed)} realisations, first "
                f"seen in round {failed[failed > 0].min()}; a step that is too large{size}, an estimation step that is, or "
                "samples that are not finite are the likely causes. What was recorded while metrics were finite is kept.",
                NonFiniteWarning,
                stacklevel=4,
            )
