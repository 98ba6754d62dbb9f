"""Averages over a distribution given by samples or, where they suffice, by its moments.

For f of degree at most two,

    E f(W) = f(m) + ½ ⟨∇²f, C⟩,        m = E W,  C = Cov W,

exactly. Only the entries of C where ∇²f can be non-zero matter. Color the columns of that pattern so that columns of
one color never share a row. With s_c the indicator of color c, and C_c holding in row a the entry C_ab of the one
column b of color c that meets it,

    ⟨∇²f, C⟩ = Σ_c D²f[s_c, C_c],

one second directional derivative per color. A sum of regressions with three features each needs four colors, whatever the
number of tasks, and a loss linear in the data none: a thousand base samples at the price of a handful.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from performative.numerics import polynomial
from performative.numerics.precision import precise
from performative.numerics.programs import remembered, spelled_out
from performative.numerics.pytrees import pytree

Function = Callable[[Array], Array]


@pytree()
class Samples:
    """The distribution that puts `weights` (n,) on the rows of `points` (n, k); equal weights by default."""

    points: Array
    weights: Array | None = None

    def mean(self, function: Function) -> Array:
        """Σ weight_i f(w_i)."""
        values = jax.vmap(function)(self.points)
        return jnp.mean(values) if self.weights is None else jnp.sum(self.weights * values)


@pytree("pattern")
class Moments:
    """A distribution given by its mean (k,) and the covariances (colors, k) that matter to a quadratic function."""

    center: Array
    covariance: Array
    pattern: Pattern

    def mean(self, function: Function) -> Array:
        """f(m) + ½ Σ_c D²f[s_c, C_c]."""
        return function(self.center) + self.spread(function)

    def spread(self, function: Function) -> Array:
        """½ Σ_c D²f[s_c, C_c]: the contribution of the spread. For a quadratic f it is the same at any center."""
        if self.pattern.colors == 0:
            return jnp.zeros(())

        def second(seed: Array, along: Array) -> Array:
            slope: Function = lambda w: jax.jvp(function, (w,), (seed,))[1]  # noqa: E731
            return jax.jvp(slope, (self.center,), (along,))[1]

        return 0.5 * jnp.sum(jax.vmap(second)(jnp.asarray(self.pattern.seeds), self.covariance), axis=0)


@pytree("pattern")
class QuadraticForm:
    """f(c) + ⟨∇f(c), e⟩ + ½ eᵀHe with e = w − c: a quadratic function stored as its derivatives at a center c.

    Only the entries of H that `pattern` says can be non-zero are stored. It costs less than the function itself, and close
    to the center the difference f(w) − f(c) loses no digits.
    """

    center: Array
    value: Array
    gradient: Array
    hessian: Array
    pattern: Pattern

    @staticmethod
    def of(function: Function, center: Array) -> QuadraticForm | None:
        """The form of a function that is a pytree, or None if its degree is above two."""
        pattern = hessian_pattern(function, center.shape[0])
        if pattern is None:
            return None
        value, gradient = jax.value_and_grad(function)(center)
        return QuadraticForm(center, value, gradient, pattern.compress(jax.hessian(function)(center)), pattern)

    def __call__(self, w: Array) -> Array:
        """f(w)."""
        return _quadratic_value(w, self)

    def slope(self, w: Array) -> Array:
        """∇f(w)."""
        return self.gradient + self._product(w - self.center)

    def _product(self, e: Array) -> Array:
        return jnp.sum(self.pattern.partners(e) * self.hessian, axis=0)


@jax.custom_jvp
def _quadratic_value(w: Array, form: QuadraticForm) -> Array:
    e = w - form.center
    return form.value + jnp.sum(e * (form.gradient + 0.5 * form._product(e)))


@_quadratic_value.defjvp
def _quadratic_jvp(primals: tuple[Array, QuadraticForm], tangents: tuple[Array, Any]) -> tuple[Array, Array]:
    # Automatic differentiation would take the product twice: with H and with its transpose, which is H.
    (w, form), (direction, _) = primals, tangents
    return _quadratic_value(w, form), jnp.sum(form.slope(w) * direction)


class Pattern:
    """Which covariances matter to a quadratic function: the colored sparsity of its Hessian.

    `seeds` (colors, k) are the indicators s_c, `partner` (colors, k) is the column b that meets row a in color c, and
    `felt` (colors, k) says whether there is one.
    """

    def __init__(self, hessian: np.ndarray[Any, np.dtype[np.bool_]]) -> None:
        color = _color_columns(hessian)
        used = sorted(set(color[hessian.any(axis=0)].tolist()))
        size = hessian.shape[0]
        self.seeds = np.zeros((len(used), size))
        self.partner = np.zeros((len(used), size), dtype=np.int64)
        self.felt = np.zeros((len(used), size), dtype=bool)
        for position, c in enumerate(used):
            columns = np.flatnonzero((color == c) & hessian.any(axis=0))
            self.seeds[position, columns] = 1.0
            for b in columns:
                rows = np.flatnonzero(hessian[:, b])
                self.partner[position, rows] = b
                self.felt[position, rows] = True
        rows = np.arange(size)
        blocks = len(used) > 0 and np.array_equal(self.partner, rows - rows % len(used) + np.arange(len(used))[:, None])
        self._block = len(used) if blocks else None  # dense blocks of that size along the diagonal
        self._identity = (hessian.shape, hessian.tobytes())

    @property
    def colors(self) -> int:
        """The number of second derivatives that one average takes."""
        return len(self.seeds)

    def compress(self, covariance: Array) -> Array:
        """The entries (colors, k) of a full covariance (k, k) that matter."""
        rows = np.arange(self.seeds.shape[1])
        if isinstance(covariance, np.ndarray):
            return np.where(self.felt, covariance[rows, self.partner], 0.0)
        if self.colors == 0:
            return jnp.zeros(self.seeds.shape)
        return jnp.where(self.felt, covariance[rows, self.partner], 0.0)

    def partners(self, vector: Array) -> Array:
        """The entry (colors, k) of a vector (k,) that meets each row in each color."""
        if self._block is None:
            return vector[self.partner]
        size, block = vector.shape[0], self._block
        return jnp.broadcast_to(vector.reshape(-1, 1, block), (size // block, block, block)).reshape(size, block).T

    def compressed_outer(self, left: Array, right: Array) -> Array:
        """The entries of the outer product of two vectors that matter."""
        return jnp.where(self.felt, left * self.partners(right), 0.0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pattern) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __repr__(self) -> str:
        return f"Pattern(dimension={self.seeds.shape[1]}, colors={self.colors})"


def from_samples(points: Array, pattern: Pattern | None, always: bool = False) -> Samples | Moments:
    """The empirical distribution of `points` (n, k), reduced to its moments if `pattern` allows it and it pays.

    With `always`, whenever the pattern allows it.
    """
    if pattern is None or (2 * pattern.colors >= points.shape[0] and not always):
        return Samples(points)
    center = jnp.mean(points, axis=0)
    centered = points - center
    return Moments(center, pattern.compress(centered.T @ centered / points.shape[0]), pattern)


def hessian_pattern(function: Callable[..., Any], size: int, *others: Any) -> Pattern | None:
    """The pattern of ∇²f of `function(w, *others)` in w (size,), or None if the degree of f in w is above two.

    `function` is a pytree. Its degree is read off the program. The zeros of the Hessian are found at random values of
    all arguments and of all numbers in `function`, which is certain if f is analytic in them; if not, every entry counts
    as non-zero. The answer depends on shapes alone, so this also works inside a compiled function.
    """
    leaves, tree = jax.tree.flatten((function, others))
    return _hessian_pattern(tree, tuple((np.shape(leaf), dtype_of(leaf)) for leaf in leaves), size)


def dtype_of(leaf: Any) -> np.dtype[Any]:
    """The type of the numbers in a leaf, which may be a plain number."""
    return leaf.dtype if hasattr(leaf, "dtype") else np.result_type(leaf)


@functools.lru_cache(maxsize=256)
def _hessian_pattern(
    tree: jax.tree_util.PyTreeDef, shapes: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...], size: int
) -> Pattern | None:
    kinds = tuple((shape, str(dtype)) for shape, dtype in shapes)
    felt = remembered("pattern", (spelled_out(tree), kinds, size), lambda: _felt(tree, shapes, size))
    return None if felt is None else Pattern(felt)


def _felt(
    tree: jax.tree_util.PyTreeDef, shapes: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...], size: int
) -> NDArray[np.bool_] | None:
    """Which entries of the Hessian are not zero, (size, size); None if the degree is above two."""

    def evaluate(w: Array, *leaves: Any) -> Array:
        function, others = jax.tree.unflatten(tree, leaves)
        return function(w, *others)

    with precise(), jax.ensure_compile_time_eval():
        ones = [np.ones(shape, dtype) for shape, dtype in shapes]
        if polynomial.degree(evaluate, np.zeros(size), *ones) > 2:
            return None
        floats = all(np.issubdtype(dtype, np.floating) for _, dtype in shapes)
        if not (floats and polynomial.is_analytic(evaluate, np.zeros(size), *ones)):
            return np.ones((size, size), dtype=bool)
    random, felt = np.random.default_rng(0), np.zeros((size, size), dtype=bool)
    sizes = [*(shape for shape, _ in shapes), (size,)]
    points = [[random.normal(size=shape) for shape in sizes] for _ in range(2)]
    with precise():
        compiled = jax.jit(jax.hessian(evaluate)).lower(points[0][-1], *points[0][:-1]).compile()
        for *others, w in points:
            hessian = np.abs(np.asarray(compiled(w, *others)))
            felt |= ~(hessian <= 1e-12 * np.max(hessian, initial=0.0))  # NaN counts as non-zero
    return felt | felt.T


def _color_columns(pattern: np.ndarray[Any, np.dtype[np.bool_]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """A greedy coloring in which columns of one color share no row."""
    conflicts = pattern.T.astype(np.int64) @ pattern.astype(np.int64) > 0
    color = np.full(len(pattern), -1)
    for column in range(len(pattern)):
        taken = set(color[conflicts[column]].tolist())
        color[column] = next(c for c in range(len(pattern) + 1) if c not in taken)
    return color
