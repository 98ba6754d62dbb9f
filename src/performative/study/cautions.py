"""What a practitioner should know of a study, in plain words: each test looks at the history and says something or nothing."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax import Array

from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64
from performative.study.belief import Believed

SURE = 1e-4
"""How unlikely, were all well, the data must be before they are said to look wrong."""
RECENT = 1000
"""How many deployments are looked at, the last ones."""


def constraints(names: Any, values: Floats, multipliers: Floats, decision: Floats, safe: bool) -> Iterator[str]:
    """Constraints that hold the current decision back, or that it breaks; a `safe` method never deploys it as it is then."""
    for name, value, multiplier in zip(names, values, multipliers, strict=True):
        if value > 1e-9:
            pulled = "; what is deployed is pulled inside" if safe else ""
            yield f"constraint {name} is broken by {value:.4g} at the current decision{pulled}"
        elif multiplier > 0 and value > -1e-3 * max(1.0, float(np.max(np.abs(decision), initial=0.0))):
            yield f"constraint {name} is active: it holds the decision back, a unit more of it is worth {multiplier:.4g}"


def deployments(names: Any, slack: Floats, numbers: Any) -> Iterator[str]:
    """Constraints that deployed decisions (n, b, m) broke."""
    lowest = np.nanmin(slack, axis=1) if slack.size else np.zeros((0, len(names)))
    for place, name in enumerate(names):
        broken = np.flatnonzero(lowest[:, place] < -1e-9)
        if len(broken):
            worst = broken[np.argmin(lowest[broken, place])]
            yield (
                f"constraint {name} was broken by {len(broken)} of {len(lowest)} deployments, most by deployment "
                f"{int(numbers[worst])}: {-lowest[worst, place]:.4g}"
            )


@in_float64
def step(method: Any, world: Believed | None, decisions: Floats) -> Iterator[str]:
    """A step size above 2/L, L being the largest curvature of the risk that the method descends; or decisions to and fro."""
    size = getattr(method, "step", None)
    if world is not None and world.sure and size is not None and not callable(size):
        anticipates = bool(getattr(getattr(method, "estimator", None), "anticipate", False))
        curvature = float(np.max(np.abs(np.linalg.eigvals(np.asarray(_slopes(world, decisions[-1], anticipates))))))
        if float(size) * curvature > 2.0:
            yield f"the step {float(size):.4g} is too large: above {2.0 / curvature:.4g} decisions overshoot"
            return
    moves = np.diff(decisions[-21:], axis=0)
    lengths = np.linalg.norm(moves, axis=1)
    if len(moves) >= 20 and np.all(lengths > 0):
        turns = np.sum(moves[1:] * moves[:-1], axis=1) / (lengths[1:] * lengths[:-1])
        if np.mean(turns) < -0.8 and np.mean(lengths[10:]) > 0.9 * np.mean(lengths[:10]):
            yield "the step is too large: decisions go back and forth without coming closer"


def data(deployed: Floats, means: Floats, counts: Floats, forgets: bool) -> Iterator[str]:
    """Means (n, k) of so many samples, unlike a location family at decisions (n, d), or that drift.

    F-tests of what squares of the decisions, and time, explain of what a straight line leaves of the data; and of whether the
    size of what is left follows the decisions. Fewer than 30 deployments tell nothing.
    """
    n = len(deployed)
    if n < 30:
        return
    spread = np.ptp(deployed, axis=0)
    moved = deployed[:, spread > 1e-9 * (1.0 + np.max(np.abs(deployed), initial=0.0))]
    if n < 30 + 3 * moved.shape[1]:
        return
    weights = np.sqrt(counts / np.mean(counts))[:, None]  # so that all rows have noise of one size
    scaled = (moved - moved.mean(axis=0)) / np.maximum(moved.std(axis=0), 1e-300)
    line, means = weights * np.column_stack([np.ones(n), scaled]), weights * means
    left = means - line @ np.linalg.lstsq(line, means, rcond=None)[0]
    time = np.linspace(-1.0, 1.0, n)[:, None]
    later, squares = weights * time, weights * scaled**2
    drift = min((_explained(line, column, later) for column in left.T), default=1.0) * max(left.shape[1], 1)
    if drift < SURE and not forgets:
        yield (
            f"the data drift: with decisions accounted for they still move with time (p = {drift:.1g}), and the method "
            "forgets nothing"
        )
    if not moved.shape[1]:
        return
    bent = min(_explained(np.column_stack([line, later]), column, squares) for column in means.T) * means.shape[1]
    size = np.log(np.maximum(np.sum((left / np.maximum(left.std(axis=0), 1e-300)) ** 2, axis=1), 1e-12))
    wider = _explained(np.column_stack([np.ones(n), time]), size, scaled)
    if bent < SURE:
        yield f"the data look unlike a location family: they do not follow decisions in a straight line (p = {bent:.1g})"
    if wider < SURE:
        yield f"the data look unlike a location family: their spread changes with the decision (p = {wider:.1g})"


def _explained(base: Floats, values: Floats, more: Floats) -> float:
    """The p-value of the F-test that `more` columns explain nothing of `values` beyond those of `base`."""
    from scipy import stats

    whole = np.column_stack([base, more])
    before, after = (
        float(np.sum((values - x @ np.linalg.lstsq(x, values, rcond=None)[0]) ** 2)) for x in (base, whole)
    )
    extra, free = more.shape[1], len(values) - int(np.linalg.matrix_rank(whole))
    scale = float(np.sum(values**2))
    if free < 1 or before <= 1e-20 * max(scale, 1e-300):
        return 1.0
    if after <= 1e-20 * scale:
        return 0.0
    return float(stats.f.sf((before - after) / extra / (after / free), extra, free))


@functools.partial(jax.jit, static_argnames="anticipates")
def _slopes(world: Believed, theta: Array, anticipates: bool) -> Array:
    """The Jacobian of the gradient of the risk, with the reaction in that gradient or on data as they are."""

    def gradient(theta: Array) -> Array:
        return jax.grad(world)(theta) if anticipates else jax.grad(world)(theta, theta)

    return jax.jacfwd(gradient)(theta)
