"""Nodes and weights for averages over a Gaussian."""

from __future__ import annotations

import functools

import numpy as np

from performative.numerics.arrays import Floats

_GRIDS = {1: (10.0, (128, 512, 4096)), 2: (9.0, (32, 64, 128)), 3: (8.0, (16, 32))}
"""For each width the radius of the grid, in standard deviations, and its steps from end to end, coarse to fine."""


def _on_grid(width: int, smooth: bool) -> bool:
    return width == 1 or (smooth and width in _GRIDS)


def promised_accuracy(width: int, smooth: bool) -> float:
    """How far the averages of `standard_normal_nodes` and of its twin may differ, in standard deviations of the function."""
    return 1e-5 if _on_grid(width, smooth) else 1e-2


def coarser_grids(width: int) -> tuple[int, ...]:
    """The steps of the grids coarser than the usual one, coarsest first."""
    return _GRIDS[width][1][:-1] if width in _GRIDS else ()


@functools.cache
def standard_normal_nodes(
    width: int, smooth: bool, displaced: bool = False, steps: int | None = None
) -> tuple[Floats, Floats]:
    """Nodes (n, width) and weights (n,) for averages over N(0, I).

    For functions of one variable, and smooth ones of two or three: the trapezoidal rule on all grid points within 10, 9 or 8
    standard deviations. On an analytic function its error falls like exp(−2πr/h), where r is the distance of the nearest
    pole from the real axis and h the step, 0.0049, 0.14 or 0.5 standard deviations: a sigmoid of slope s per standard
    deviation has r = π/s and is averaged to 10⁻⁶ of its spread up to s = 290, 10 or 2.8. In one variable a kink costs up
    to 10⁻⁶ of its size, and a jump up to 10⁻³.
    For all other functions: 4096 scrambled Sobol points, with an error of order 10⁻³ of the function's spread.

    The `displaced` twin is the same grid moved by part of a step, or another scrambling: equally accurate with independent
    errors, so that the difference of the two averages estimates the error of either. `steps` is one of `coarser_grids`.
    """
    from scipy import stats

    if _on_grid(width, smooth):
        radius, usual = _GRIDS[width]
        steps = steps or usual[-1]
        along = np.arange(-steps / 2, steps / 2 + 1)
        # Irrational parts of a step, which no symmetry of a function hides.
        parts = np.sqrt([2.0, 3.0, 5.0])[:width] % 1.0 if displaced else np.zeros(width)
        axes = np.meshgrid(*(2 * radius / steps * (along + part) for part in parts), indexing="ij")
        nodes = np.stack(axes, axis=-1).reshape(-1, width)
        nodes = nodes[np.sum(nodes**2, axis=1) <= radius**2]
        weights = np.exp(-0.5 * np.sum(nodes**2, axis=1))
        return nodes, weights / weights.sum()
    points = stats.norm.ppf(stats.qmc.Sobol(width, rng=np.random.default_rng(int(displaced))).random(4096))
    return (points - points.mean(axis=0)) / points.std(axis=0), np.full(4096, 1 / 4096)
