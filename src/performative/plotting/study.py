"""The figure of a study."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from performative.plotting.style import COLORS, DASHES

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


MOST_CURVES = 12
"""How many curves a panel shows at most, the first ones."""


def figure(past: xr.Dataset) -> Figure:
    """Decisions, loss, slack and multipliers over the rounds of a history, as `Study.history` returns it."""
    from matplotlib.figure import Figure

    rounds = past["t"].values
    drawing = Figure(figsize=(12, 7), layout="constrained")
    drawing.suptitle(f"study {past.attrs['study']}: {past.sizes['deployment']} deployments reported")
    panels: Any = drawing.subplots(2, 2, sharex=True).reshape(-1)
    names = [str(name) for name in past["constraint"].values]
    loss, slack = past["loss"].values, past["slack"].values
    there = ~np.isnan(slack)
    least = np.min(np.where(there, slack, np.inf), axis=1) if slack.size else np.zeros((len(rounds), len(names)))
    least = np.where(np.isfinite(least), least, np.nan)  # where there was no such constraint yet
    running = np.nancumsum(np.nansum(loss, axis=1)) / np.maximum(np.cumsum(np.sum(~np.isnan(loss), axis=1)), 1)
    content = (
        ("(a) decision $θ_t$", past["decision"].values, [f"$θ_{{{i + 1}}}$" for i in range(past.sizes["dimension"])]),
        ("(b) observed loss: mean so far", running[:, None], ["mean"]),
        ("(c) least slack of the deployed decisions", least, names),
        ("(d) multipliers $λ_t$", past["multipliers"].values, names),
    )
    for axes, (title, curves, labels) in zip(panels, content, strict=True):
        for place, label in enumerate(labels[:MOST_CURVES]):
            color, dash = COLORS[place % len(COLORS)], DASHES[(place // len(COLORS)) % len(DASHES)]
            axes.plot(rounds, curves[:, place], color=color, linestyle=dash, linewidth=1.3, label=label)
        axes.set_title(title, fontsize=10, loc="left")
        axes.grid(visible=True, linewidth=0.4, alpha=0.5)
        if labels and len(rounds):
            axes.legend(fontsize=8, frameon=False)
    panels[2].axhline(0.0, color="0.4", linewidth=0.8)
    for axes in panels[2:]:
        axes.set_xlabel("round t")
    return drawing
