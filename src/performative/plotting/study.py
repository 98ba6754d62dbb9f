"""The figure of a study: what was deployed, what it brought, the room left in limits, and how the data react."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from performative.plotting import panels
from performative.plotting.panels import DEPLOYED, GUESS, OFF, START, Course
from performative.wording import counted

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

MOST_PRODUCTS = 20
"""How many numbers of a decision are drawn, the first ones."""
ANNOTATED = 8
"""The most rows and columns of an effect whose cells hold numbers; a larger one has a second map for its standard errors."""


def figure(past: xr.Dataset) -> Figure:
    """The history of a study, as `Study.history` returns it, and what is believed, if it is there, as in `Study.plot`."""
    from matplotlib.figure import Figure

    course = Course.of(past)
    shown = min(course.decision.shape[1], MOST_PRODUCTS)
    across = shown if shown <= 4 else 4 if shown <= 12 else 5
    down = math.ceil(shown / across)
    large = course.effect is not None and max(course.effect.shape) > ANNOTATED
    heights = [2.1 if down == 1 else 1.5 * down, 2.6, *([2.6, 5.2] if large else [3.1])]
    drawing = Figure(figsize=(11.0, 0.8 + sum(heights)), layout="constrained")
    drawing.suptitle(
        f"{past.attrs['study']}: {counted(len(course.when), course.outcome.period)} reported", x=0.01, ha="left"
    )
    blocks = drawing.add_gridspec(len(heights), 1, height_ratios=heights)
    products = blocks[0].subgridspec(down, across)
    for place in range(shown):
        panels.product(drawing.add_subplot(products[place // across, place % across]), course, place)
    pair = blocks[1].subgridspec(1, 2)
    panels.outcome(drawing.add_subplot(pair[0]), course)
    panels.gain(drawing.add_subplot(pair[1]), course)
    if large:
        panels.rooms(drawing.add_subplot(blocks[2]), course)
        pair = blocks[3].subgridspec(1, 2)
        panels.effect(drawing.add_subplot(pair[0]), course, annotated=False)
        panels.effect_errors(drawing.add_subplot(pair[1]), course)
    else:
        pair = blocks[2].subgridspec(1, 2)
        panels.rooms(drawing.add_subplot(pair[0]), course)
        panels.effect(drawing.add_subplot(pair[1]), course, annotated=True)
    drawing.legend(handles=_legend(), loc="outside upper right", ncols=4, fontsize=8, frameon=False)
    return drawing


def _legend() -> list[object]:
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], color=DEPLOYED, marker="o", markersize=4, linewidth=0.8, label="deployed"),
        Line2D(
            [],
            [],
            color=OFF,
            marker="D",
            markersize=4,
            linewidth=0,
            label="off the best guess: tried out, or held by a limit",
        ),
        Line2D([], [], color=GUESS, linewidth=0.9, label="best guess"),
        Line2D([], [], color=START, linewidth=1.0, linestyle=(0, (4, 2)), label="start"),
    ]
