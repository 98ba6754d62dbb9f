"""What is told of a run that became NaN or infinite: which method, from which round, and why."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from performative.errors import NonFiniteWarning
from performative.simulation.engine import World
from performative.validation import caller_level

if TYPE_CHECKING:
    import xarray as xr


def report_failures(dataset: xr.Dataset, worlds: list[list[World]]) -> None:
    """Warn of every method whose iterates stopped being finite: when, how often, and the likely cause.

    The step is that of the run that failed first; `worlds` are those of each instance, one per variant.
    """
    realizations = dataset.sizes["realization"]
    for name in dataset.algorithm.values:
        failed = dataset.failed.sel({"algorithm": name}).values.reshape(-1, realizations)
        if np.any(failed > 0):
            first = failed[failed > 0].min()
            variant, realization = np.argwhere(failed == first)[0]
            step = getattr(worlds[realization % len(worlds)][variant].methods[name], "step", None)
            size = f" (step={float(step):g})" if isinstance(step, float | np.floating) else ""
            outside = dataset.outside.sel({"algorithm": name}).isel(t=-1).values.reshape(failed.shape)[failed > 0].max()
            probes = (
                f"probes that left Θ, by up to {outside:.3g}, where the world may not be defined "
                '(apda(..., probes="inside") keeps them in Θ), '
                if outside > 1e-9
                else ""
            )
            warnings.warn(
                f"method {str(name)!r}: iterates became non-finite in {np.sum(failed > 0)} of {failed.size} runs, first "
                f"seen in round {first}. Likely causes: {probes}a step{size} or an estimation step that is too "
                "large, or samples that are not finite. Metrics recorded before that are kept.",
                NonFiniteWarning,
                stacklevel=caller_level(),
            )
