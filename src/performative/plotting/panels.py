"""The panels of the figure of a study."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from performative.numerics.arrays import Floats
from performative.plotting.style import COLORS, DASHES
from performative.wording import Outcome, alike, number, plural, room

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

DEPLOYED, OFF, GUESS, START = "#0072B2", "#D55E00", "0.55", "0.25"
NORMAL = 1.959963984540054
"""Standard errors on each side of a 95% interval."""
MOST_POINTS = 2000
"""How many deployments are drawn, spread evenly."""
MOST_LIMITS = 6
"""How many limits are drawn, those with the least room."""
AWAY = 0.01
"""A number that was to be farther from the best guess than this share of its range is drawn as off it."""


class Course(NamedTuple):
    """What a history shows, as it is drawn: what was wanted more of is turned up.

    `value` (n, b) are the outcomes of what was `deployed` (n, b, d), with standard `error`, and `gained` (n,) is their gain over
    the `level` (n,) of the start, added up, with half its 95 % interval. `changes` are where the method was amended.
    """

    when: NDArray[np.int64]
    decision: Floats
    deployed: Floats
    off: NDArray[np.bool_]
    value: Floats
    error: Floats
    level: Floats
    level_error: Floats
    gained: Floats
    gained_half: Floats
    gained_in: str
    changes: NDArray[np.int64]
    left: Floats
    limits: list[str]
    effect: Floats | None
    effect_error: Floats | None
    known: NDArray[np.bool_] | None
    names: list[str]
    units: list[str]
    data: list[str]
    data_units: list[str]
    outcome: Outcome

    @staticmethod
    def of(past: xr.Dataset) -> Course:
        """The course of a history."""
        n, b, d = past["deployed"].shape
        samples = past["samples"].values
        outcome = _outcome_of(past.attrs)
        decision, deployed, proposed = (past[name].values for name in ("decision", "deployed", "proposed"))
        away = np.abs(proposed - decision[:, None])
        reach = np.ptp(np.concatenate([decision, proposed.reshape(-1, d)]), axis=0) if n else np.zeros(d)
        off = np.nan_to_num(away) > AWAY * np.maximum(np.nan_to_num(reach), 1e-12)
        off = np.concatenate([off, np.zeros((n, max(0, b - off.shape[1]), d), bool)], axis=1)[:, :b]
        value, error = outcome.sign * past["loss"].values, past["loss_error"].values
        level, level_error = _levels(past, outcome.sign)
        there = np.isfinite(value)
        by_rows = outcome.per != outcome.period
        weights = there * (samples[:, None] if by_rows else 1.0 / np.maximum(there.sum(axis=1, keepdims=True), 1))
        added = np.cumsum(np.nansum(weights * -outcome.sign * (value - level[:, None]), axis=1) + 0.0 * level)
        noise = np.cumsum(np.nansum((weights * np.nan_to_num(error)) ** 2, axis=1))
        total = np.cumsum(np.sum(weights, axis=1) * level_error)
        unit = f", {outcome.unit}" if outcome.unit else ""
        slack = past["slack"].values
        lowest = np.min(np.where(np.isnan(slack), np.inf, slack), axis=1, initial=np.inf)
        effect = past["effect"].values if "effect" in past else None
        basis = past["basis"].values
        names = [str(name) for name in past["dimension"].values] if "dimension" in past.coords else None
        data = [str(name) for name in past["number"].values] if "number" in past.coords else None
        k = 0 if effect is None else len(effect)
        return Course(
            when=np.arange(1, n + 1),
            decision=decision,
            deployed=deployed,
            off=off,
            value=value,
            error=error,
            level=level,
            level_error=level_error,
            gained=added,
            gained_half=NORMAL * np.sqrt(noise + total**2),
            gained_in=f"{unit} over all {plural(outcome.per)} reported" if by_rows else unit,
            changes=np.flatnonzero(np.diff(basis)) + 1,
            left=np.where(np.isfinite(lowest), lowest, np.nan),
            limits=[str(name) for name in past["constraint"].values],
            effect=effect,
            effect_error=past["effect_error"].values if effect is not None else None,
            known=past["effect_known"].values if effect is not None else None,
            names=names or [f"number {i}" for i in range(d)],
            units=_units(past, "dimension", d),
            data=data if data is not None and len(data) == k else [f"data {i}" for i in range(k)],
            data_units=_units(past, "number", k),
            outcome=outcome,
        )


def _outcome_of(attributes: dict[Any, Any]) -> Outcome:
    show, unit, per, period = (attributes.get(key) for key in ("show", "unit", "per", "period"))
    return Outcome.of(show, unit, per, period)


def _units(past: xr.Dataset, dimension: str, count: int) -> list[str]:
    found = past[dimension].attrs.get("units") if dimension in past.coords else None
    units = [found] if isinstance(found, str) else [str(unit) for unit in found] if found is not None else []
    return units if len(units) == count else [""] * count


def _levels(past: xr.Dataset, sign: int) -> tuple[Floats, Floats]:
    """What the start would have brought (n,) by the loss of the time, and its standard errors (n,).

    It is what is believed of it now or, if nothing is and for losses of an earlier time, the mean of what it brought.
    """
    loss, error = past["loss"].values, past["loss_error"].values
    n = len(loss)
    level, level_error = np.full(n, np.nan), np.zeros(n)
    if not n:
        return level, level_error
    start = past["decision"].values[0]
    at_start = np.all(past["deployed"].values == start, axis=2) & np.isfinite(loss)
    since = past["loss_since"].values
    for one in np.unique(since):
        then = since == one
        known = past.attrs.get("start_risk") if one == since[-1] else None
        if known is not None:
            level[then] = known
            level_error[then] = (past.attrs["start_high"] - past.attrs["start_low"]) / (2.0 * NORMAL)
        elif np.any(at_start[then]):
            level[then] = np.mean(loss[then][at_start[then]])
            squares = np.nan_to_num(error[then][at_start[then]]) ** 2
            level_error[then] = np.sqrt(np.sum(squares)) / len(squares)
    return sign * level, level_error


def product(axes: Axes, course: Course, place: int) -> None:
    """One number of the decisions: what was deployed, the best guess and the start."""
    some = _some(course)
    x, size = course.when[some], _size(len(some), len(course.names))
    axes.plot(x, course.decision[some, place], color=GUESS, linewidth=0.9, zorder=1)
    for arm in range(course.deployed.shape[1]):
        values, off = course.deployed[some, arm, place], course.off[some, arm, place]
        if course.deployed.shape[1] == 1:
            axes.plot(x, values, color=DEPLOYED, linewidth=0.6, alpha=0.5, drawstyle="steps-mid", zorder=2)
        axes.plot(x[~off], values[~off], "o", color=DEPLOYED, markersize=size, markeredgewidth=0, zorder=3)
        axes.plot(x[off], values[off], "D", color=OFF, markersize=size, markeredgewidth=0, zorder=4)
    if len(some):
        axes.axhline(course.decision[0, place], color=START, linewidth=1.0, linestyle=(0, (4, 2)), zorder=0)
    unit = course.units[place]
    _finish(axes, course, course.names[place] + (f", {unit}" if unit else ""))


def outcome(axes: Axes, course: Course) -> None:
    """What every deployment brought, and what the start does."""
    some = _some(course)
    x, size = course.when[some], _size(len(some))
    axes.plot(x, course.level[some], color=START, linewidth=1.0, linestyle=(0, (4, 2)), drawstyle="steps-mid", zorder=2)
    half = NORMAL * course.level_error[some]
    axes.fill_between(
        x,
        course.level[some] - half,
        course.level[some] + half,
        step="mid",
        color=START,
        alpha=0.12,
        linewidth=0,
        zorder=1,
    )
    for arm in range(course.value.shape[1]):
        values, error = course.value[some, arm], NORMAL * np.nan_to_num(course.error[some, arm])
        axes.errorbar(
            x,
            values,
            error,
            fmt="o",
            color=DEPLOYED,
            markersize=size,
            elinewidth=0.6,
            alpha=0.9,
            markeredgewidth=0,
            zorder=3,
        )
    unit = f", {course.outcome.unit}" if course.outcome.unit else ""
    _finish(axes, course, f"{course.outcome.each}{unit} (95 % intervals; dashed: the start)")


def gain(axes: Axes, course: Course) -> None:
    """The gain over the start so far."""
    some = _some(course)
    x, total, half = course.when[some], course.gained[some], course.gained_half[some]
    axes.axhline(0.0, color=START, linewidth=1.0, linestyle=(0, (4, 2)), zorder=0)
    axes.fill_between(x, total - half, total + half, color=DEPLOYED, alpha=0.15, linewidth=0, zorder=1)
    axes.plot(x, total, color=DEPLOYED, linewidth=1.4, marker="o" if len(x) < 3 else None, markersize=4, zorder=2)
    if len(x) and not np.isfinite(total).any():
        _say(axes, "not known yet: what the start brings was not seen")
    _finish(axes, course, f"gain over the start so far{course.gained_in}")


def rooms(axes: Axes, course: Course) -> None:
    """The room that what was deployed left in each limit, those with the least of their range if there are many."""
    some = _some(course)
    left = course.left[some]
    if not course.limits:
        _say(axes, "no limits were set")
        axes.set_axis_off()
    elif len(some):
        most = np.nanmax(np.abs(left), axis=0, initial=1e-300)
        last = np.array([_last(column) for column in left.T]) / most
        size = float(np.nanmax(np.abs(course.deployed), initial=1.0))
        chosen = sorted(np.argsort(last, kind="stable")[:MOST_LIMITS])
        for curve, place in enumerate(chosen):
            color, dash = COLORS[curve % len(COLORS)], DASHES[(curve // len(COLORS)) % len(DASHES)]
            label = f"{course.limits[place]}: {room(_last(left[:, place]), size)} left"
            marker = "o" if len(some) < 3 else None
            axes.plot(
                course.when[some],
                left[:, place],
                color=color,
                linestyle=dash,
                linewidth=1.2,
                marker=marker,
                label=label,
            )
        axes.axhline(0.0, color="0.4", linewidth=0.8)
        low, high = axes.get_ylim()
        axes.set_ylim(low, high + 0.28 * (high - low))
        axes.legend(fontsize=7, frameon=False, loc="upper center", ncols=2)
        if np.max(most[chosen]) > 30 * np.min(most[chosen]):
            axes.set_yscale("symlog", linthresh=float(np.min(most[chosen])))
    more = len(course.limits) - MOST_LIMITS
    _finish(axes, course, "room left in limits" + (f" ({more} with more room are not shown)" if more > 0 else ""))


def effect(axes: Axes, course: Course, annotated: bool) -> None:
    """How the data react to one unit more of each number of a decision."""
    _title(axes, "how the data react to one more of each" + (" (± standard error)" if annotated else ""))
    if course.effect is None or course.effect_error is None or course.known is None or not course.known.any():
        _say(axes, "not known yet")
        axes.set_axis_off()
        return
    values = np.where(course.known, course.effect, np.nan)
    most = float(np.nanmax(np.abs(values)))
    _map(axes, course, values, "RdBu", -most, most)
    for (i, j), value in np.ndenumerate(values):
        if not np.isfinite(value):
            axes.text(j, i, "?", ha="center", va="center", fontsize=8, color="0.4")
        elif annotated:
            wide = float(course.effect_error[i, j])
            shown, error = alike([float(value), wide], wide)
            color = "white" if abs(value) > 0.65 * most else "black"
            size = 8 if max(values.shape) <= 5 else 6
            axes.text(j, i, f"{shown}\n± {error}", ha="center", va="center", fontsize=size, color=color)


def effect_errors(axes: Axes, course: Course) -> None:
    """The standard errors of the effect."""
    _title(axes, "standard errors of that (?: not known yet)")
    if course.effect_error is None or course.known is None or not course.known.any():
        axes.set_axis_off()
        return
    values = np.where(course.known, course.effect_error, np.nan)
    _map(axes, course, values, "Greys", 0.0, float(np.nanmax(values)))


def _map(axes: Axes, course: Course, values: Floats, colors: str, low: float, high: float) -> None:
    """A heat map with a label for each row and column."""
    axes.set_facecolor("0.93")
    image = axes.imshow(values, cmap=colors, vmin=low, vmax=high, aspect="auto")
    k, d = values.shape
    columns, rows = (_with_units(*part) for part in ((course.names, course.units), (course.data, course.data_units)))
    columns = columns if len(columns) == d else [""] * d
    size = 8 if max(k, d) <= 12 else 7
    axes.set_xticks(range(d), columns, rotation=0 if d <= 4 else 45, ha="center" if d <= 4 else "right", fontsize=size)
    axes.set_yticks(range(k), rows, fontsize=size)
    axes.set_xlabel("one more of", fontsize=8)
    axes.set_ylabel("changes", fontsize=8)
    assert axes.figure is not None
    axes.figure.colorbar(image, ax=axes, shrink=0.9).ax.tick_params(labelsize=7)


def _with_units(names: list[str], units: list[str]) -> list[str]:
    return [f"{name}, {unit}" if unit else name for name, unit in zip(names, units, strict=True)]


def _some(course: Course) -> NDArray[np.int64]:
    """The deployments that are drawn, the last one among them."""
    n = len(course.when)
    return np.unique(np.linspace(0, n - 1, min(MOST_POINTS, n)).astype(np.int64)) if n else np.zeros(0, np.int64)


def _size(points: int, panels: int = 1) -> float:
    """The size of markers in one of so many panels side by side."""
    return float(np.clip(40.0 / np.sqrt(max(points, 1)), 1.5, 4.5)) * (0.6 if panels > 4 else 1.0)


def _last(column: Floats) -> float:
    """The last number there is."""
    there = column[np.isfinite(column)]
    return float(there[-1]) if len(there) else 0.0


def _say(axes: Axes, text: str) -> None:
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", fontsize=9, color="0.4")


def _title(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize=9, loc="left")


def _finish(axes: Axes, course: Course, title: str) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    _title(axes, title)
    axes.grid(visible=True, linewidth=0.4, alpha=0.5)
    axes.tick_params(labelsize=7)
    for place in course.changes.tolist():
        axes.axvline(place + 0.5, color="0.5", linewidth=0.8, linestyle=":", zorder=0)
    n: Any = len(course.when)
    if n:
        axes.set_xlim(0.5 - 0.01 * n, n + 0.5 + 0.01 * n)
    else:
        _say(axes, "nothing was reported yet")
        axes.set_axis_off()
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1))
    if axes.get_yscale() == "linear" and max(map(abs, axes.get_ylim())) >= 1e4:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    axes.set_xlabel(course.outcome.period, fontsize=8)
