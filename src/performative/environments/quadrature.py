"""Averages over a Gaussian, and the nodes and weights for them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.numerics.arrays import Floats
from performative.numerics.expectations import Samples
from performative.numerics.kinks import RULE, TWIN, Rule, mean_by_scores
from performative.numerics.pytrees import changed, pytree

T = TypeVar("T")
_GRIDS = {1: (10.0, (128, 512, 4096)), 2: (9.0, (32, 64, 128)), 3: (8.0, (16, 32))}
"""For each width the radius of the grid, in standard deviations, and its steps from end to end, coarse to fine."""


def _on_grid(width: int, smooth: bool) -> bool:
    return width == 1 or (smooth and width in _GRIDS)


class Colored(Protocol):
    """A Gaussian that turns standard normal numbers into a sample."""

    @property
    def width(self) -> int:
        """k, the length of one sample."""

    def color(self, white: Array) -> Array:
        """The sample (k,) made from standard normal numbers (k,)."""


@pytree("smooth")
class Quadrature:
    """Averages over a Gaussian `base`: on a grid if functions are `smooth` and have at most three variables.

    Other functions are averaged score by score, split at their kinks, if `mean_by_scores` can read them, and over
    the nodes of `standard_normal_nodes` if not. If it is `displaced`, it has other nodes throughout, so that the difference
    of the two averages estimates the error of either. As a number, not known when a program is compiled, it lets one
    program compute both.
    """

    base: Colored
    smooth: bool
    displaced: Array | None = None

    def mean(self, function: Callable[[Array], Array]) -> Array:
        """E f(Z₀)."""
        width = self.base.width
        if not (self.smooth and width in _GRIDS):
            rule = Rule(*self._chosen(RULE, TWIN))
            average = mean_by_scores(lambda white: function(self.base.color(white)), width, rule)
            if average is not None:
                return average
        nodes, weights = self._chosen(*(standard_normal_nodes(width, self.smooth, other) for other in (False, True)))
        return Samples(jax.vmap(self.base.color)(nodes), weights).mean(function)

    def promised(self, function: Callable[[Array], Array]) -> float:
        """How far this average and its twin's may differ, in standard deviations of the function."""
        width = self.base.width
        readable = jax.eval_shape(lambda: mean_by_scores(lambda white: function(self.base.color(white)), width))
        return 1e-5 if _on_grid(width, self.smooth) or readable is not None else 1e-2

    def _chosen(self, usual: Sequence[Floats | Array], other: Sequence[Floats | Array]) -> list[Array]:
        """The arrays of one rule or of its twin."""
        if self.displaced is None:
            return [jnp.asarray(array) for array in usual]
        pairs = zip(usual, other, strict=True)
        return [jnp.where(self.displaced, there, here) for here, there in pairs]


def is_exact(risk: Any) -> bool:
    """Whether a risk involves no quadrature."""
    leaves = jax.tree.leaves(risk, is_leaf=lambda node: isinstance(node, Quadrature))
    return not any(isinstance(leaf, Quadrature) for leaf in leaves)


def displaced(risk: T, by: Array) -> T:
    """The same risk, its quadratures displaced if `by` is true."""

    def moved(node: Any) -> Any:
        return changed(node, displaced=by) if isinstance(node, Quadrature) else node

    return cast(T, jax.tree.map(moved, risk, is_leaf=lambda node: isinstance(node, Quadrature)))


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
    deviation has r = π/s and is averaged to 10⁻⁶ of its spread up to s = 290, 10 or 2.8.
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
        inside = np.sum(nodes**2, axis=1) <= radius**2
        if displaced:  # as many nodes as its twin, if some of them without weight
            count = len(standard_normal_nodes(width, smooth, False, steps)[0])
            nodes = nodes[np.argsort(~inside, kind="stable")][:count]
            inside = np.sum(nodes**2, axis=1) <= radius**2
        weights = np.exp(-0.5 * np.sum(nodes**2, axis=1)) * inside
        nodes, weights = (nodes, weights) if displaced else (nodes[inside], weights[inside])
        return nodes, weights / weights.sum()
    points = stats.norm.ppf(stats.qmc.Sobol(width, rng=np.random.default_rng(int(displaced))).random(4096))
    return (points - points.mean(axis=0)) / points.std(axis=0), np.full(4096, 1 / 4096)
