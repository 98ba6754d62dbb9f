"""Constraints g(θ) ≤ 0 that the decision-maker knows: linear, quadratic, pairwise proximity, or any function.

Each turns a decision (d,) into its values (m,), names them, and declares itself to cvxpy where it has a convex form. Those on
what a decision causes, `Expected`, `Chance`, `CVaR` and `Gap`, are at hand here, too: see `expected`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from performative.expected import Chance as Chance
from performative.expected import CVaR as CVaR
from performative.expected import Expected as Expected
from performative.expected import Gap as Gap
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import assign, callable_node, pytree
from performative.numerics.tracers import jax_arrays
from performative.validation import finite_array, read_only, symmetric, vector, whole
from performative.validation import matrix as square


class Constraint:
    """The base class of all constraints; `dimension` is d where the constraint fixes it.

    A constraint of your own defines `__call__` and gives `names`, one for each of its values.

    >>> import performative as pf
    >>> isinstance(pf.constraints.Linear([1.0, 1.0], bound=4.0), pf.constraints.Constraint)
    True
    """

    names: tuple[str, ...] = ()
    dimension: int | None = None

    def __call__(self, theta: Array) -> Array:
        """g(θ), the values (m,), which must be at most 0."""
        raise TypeError(f"{type(self).__name__} must define __call__(theta)")

    def pullback(self, theta: Array, multipliers: Array) -> Array:
        """λᵀ∇g(θ), by automatic differentiation unless a constraint has a faster way."""
        return jax.vjp(self, theta)[1](multipliers)[0]

    def steepness(self, theta: Array) -> Array:
        """‖∇g_i(θ)‖² for each value (m,)."""
        return jnp.sum(jax.jacrev(self)(theta) ** 2, axis=-1)

    @property
    def has_convex_form(self) -> bool:
        """Whether `declare` returns an expression; it says so without cvxpy, which takes long to load."""
        return type(self).declare is not Constraint.declare

    def declare(self, variable: Any) -> Any:
        """The values (m,) as one convex cvxpy expression, or None if there is none."""
        return None


@pytree("names", "dimension")
class Linear(Constraint):
    """⟨a_i, θ⟩ ≤ b_i: `coefficients` is a (d,) or the rows (m, d), `bound` is b.

    >>> import performative as pf
    >>> cap = pf.constraints.Linear([1.0, 1.0], bound=4.0, name="cap")
    >>> cap([1.0, 2.0]).tolist()  # at most 0, so it holds
    [-1.0]
    """

    coefficients: Array
    bound: Array
    names: tuple[str, ...]
    dimension: int

    def __init__(self, coefficients: ArrayLike, bound: ArrayLike, name: str | Sequence[str] = "linear") -> None:
        rows = np.atleast_2d(finite_array("coefficients", coefficients, (0, 1, 2)))
        if rows.size == 0:
            raise ValueError(f"`coefficients` must hold at least one number, but got shape {rows.shape}")
        bounds = finite_array("bound", bound, (0, 1))
        if bounds.ndim and bounds.shape != rows.shape[:1]:
            raise ValueError(
                f"`bound` must be one number for each of {len(rows)} rows, but got shape {bounds.shape}; m constraints are "
                "m rows of coefficients with m bounds"
            )
        bounds = read_only(np.broadcast_to(bounds, rows.shape[:1]).copy())
        assign(self, coefficients=rows, bound=bounds, names=_names(name, len(rows)), dimension=rows.shape[1])

    @in_float64
    def __call__(self, theta: Array) -> Array:
        """A θ − b."""
        return jnp.sum(self.coefficients * jnp.asarray(theta), axis=-1) - self.bound

    def steepness(self, theta: Array) -> Array:
        """‖a_i‖², the same everywhere."""
        return jnp.sum(self.coefficients * jnp.asarray(self.coefficients), axis=-1)

    def declare(self, variable: Any) -> Any:
        """A θ − b, which is affine."""
        return self.coefficients @ variable - self.bound


@pytree("names", "dimension")
class Quadratic(Constraint):
    """θᵀQθ + ⟨c, θ⟩ ≤ b: `matrix` is Q (symmetric), `linear` is c, `bound` is b.

    >>> import performative as pf
    >>> risk = pf.constraints.Quadratic([[1.0, 0.0], [0.0, 2.0]], bound=1.0, name="risk")
    >>> risk([1.0, 1.0]).tolist()
    [2.0]
    """

    matrix: Array
    bound: Array
    linear: Array
    names: tuple[str, ...]
    dimension: int

    def __init__(
        self, matrix: ArrayLike, bound: float, linear: ArrayLike | None = None, name: str = "quadratic"
    ) -> None:
        matrix = symmetric("matrix", square("matrix", matrix))
        size = matrix.shape[0]
        linear = read_only(np.zeros(size)) if linear is None else vector("linear", linear)
        if linear.shape != (size,):
            raise ValueError(f"`linear` must have shape {(size,)} like the matrix, but got {linear.shape}")
        bound_ = finite_array("bound", bound, 0)
        assign(self, matrix=matrix, bound=bound_, linear=linear, names=_names(name, 1), dimension=size)

    @in_float64
    def __call__(self, theta: Array) -> Array:
        """θᵀQθ + ⟨c, θ⟩ − b."""
        theta = jnp.asarray(theta)
        product = jnp.sum(self.matrix * theta, axis=-1)
        return (jnp.sum((product + self.linear) * theta) - self.bound)[None]

    @property
    def has_convex_form(self) -> bool:
        """Whether Q is positive semidefinite, up to rounding."""
        values = np.linalg.eigvalsh(self.matrix)
        return bool(values[0] >= -1e-12 * max(abs(values[-1]), 1e-300))

    def declare(self, variable: Any) -> Any:
        """As a sum of squares, if Q is positive semidefinite."""
        import cvxpy as cp

        if not self.has_convex_form:
            return None
        values, vectors = np.linalg.eigh(self.matrix)
        root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
        return cp.reshape(cp.sum_squares(root @ variable) + self.linear @ variable - self.bound, (1,), order="C")


@pytree("blocks", "pairs", "names", "dimension")
class Proximity(Constraint):
    """‖θ_i − θ_j‖₂² ≤ b_ij for pairs (i, j) of the `blocks` equal stretches of θ (the tasks of a graph).

    Without `pairs` all pairs count, in lexicographic order; `bound` is one number or one per pair. `active` switches
    pairs off, so that graphs with different edges run as one batch: the value of a pair that is off is −1, never violated.

    >>> import performative as pf
    >>> pf.constraints.Proximity(blocks=2, dimension=4, bound=1.0)([0.0, 0.0, 1.0, 1.0]).tolist()
    [1.0]
    """

    bound: Array
    active: Array
    blocks: int
    pairs: tuple[tuple[int, int], ...]
    names: tuple[str, ...]
    dimension: int

    def __init__(
        self,
        blocks: int,
        dimension: int,
        bound: ArrayLike,
        pairs: Sequence[tuple[int, int]] | None = None,
        active: ArrayLike | None = None,
        name: str = "proximity",
    ) -> None:
        blocks, dimension = whole("blocks", blocks, 2), whole("dimension", dimension, 2)
        if dimension % blocks:
            raise ValueError(f"`dimension` must be a multiple of `blocks`, but got {dimension=}, {blocks=}")
        edges = [(i, j) for i in range(blocks) for j in range(i + 1, blocks)] if pairs is None else list(pairs)
        if not edges:
            raise ValueError("`pairs` must hold at least one pair, but is empty; leave it out to use all pairs")
        for i, j in edges:
            if not (0 <= i < blocks and 0 <= j < blocks and i != j):
                raise ValueError(f"`pairs` must join two different blocks of 0..{blocks - 1}, but got {(i, j)}")
        bounds = finite_array("bound", bound, (0, 1))
        if bounds.ndim and bounds.shape != (len(edges),):
            raise ValueError(f"`bound` must be one number or {len(edges)}, but got shape {bounds.shape}")
        on = np.ones(len(edges), dtype=bool) if active is None else np.array(active)
        if on.shape != (len(edges),) or on.dtype != bool:
            raise ValueError(f"`active` must be {len(edges)} booleans, but got {on.dtype} of shape {on.shape}")
        assign(
            self,
            bound=read_only(np.broadcast_to(bounds, len(edges)).copy()),
            active=read_only(on),
            blocks=blocks,
            pairs=tuple((int(i), int(j)) for i, j in edges),
            names=tuple(f"{name}[{i},{j}]" for i, j in edges),
            dimension=dimension,
        )

    @in_float64
    def __call__(self, theta: Array) -> Array:
        """‖θ_i − θ_j‖² − b_ij, or −1 where the pair is off."""
        rows = jnp.asarray(theta).reshape(self.blocks, -1)
        left, right = np.asarray(self.pairs).T
        apart = rows[left] - rows[right]
        return jnp.where(self.active, jnp.sum(apart * apart, axis=-1) - self.bound, -1.0)

    def pullback(self, theta: Array, multipliers: Array) -> Array:
        """2 Σ_j w_ij (θ_i − θ_j) for each block i, w the multipliers as a symmetric matrix: the Laplacian of the graph."""
        position = np.zeros((self.blocks, self.blocks), dtype=np.int64)
        joined = np.zeros((self.blocks, self.blocks, len(self.pairs)))
        for index, (i, j) in enumerate(self.pairs):
            position[i, j] = position[j, i] = index
            joined[i, j, index] = joined[j, i, index] = 1.0
        if joined.sum(axis=-1).max() > 1:  # some pair is listed twice
            return super().pullback(theta, multipliers)
        rows = theta.reshape(self.blocks, -1)
        weight = jnp.where(joined.any(axis=-1), jnp.where(self.active, multipliers, 0.0)[position], 0.0)
        return 2.0 * jnp.sum(weight[:, :, None] * (rows[:, None] - rows[None]), axis=1).reshape(-1)

    def steepness(self, theta: Array) -> Array:
        """8‖θ_i − θ_j‖², or 0 where the pair is off."""
        rows = theta.reshape(self.blocks, -1)
        left, right = np.asarray(self.pairs).T
        apart = rows[left] - rows[right]
        return jnp.where(self.active, 8.0 * jnp.sum(apart * apart, axis=-1), 0.0)

    def declare(self, variable: Any) -> Any:
        """As one sum of squares for each pair."""
        import cvxpy as cp

        incidence = np.zeros((len(self.pairs), self.blocks))
        for row, ((i, j), on) in enumerate(zip(self.pairs, self.active, strict=True)):
            incidence[row, [i, j]] = (1.0, -1.0) if on else 0.0
        apart = incidence @ cp.reshape(variable, (self.blocks, self.dimension // self.blocks), order="C")
        return cp.sum(cp.square(apart), axis=1) - np.where(self.active, self.bound, 1.0)


@pytree("names")
class Function(Constraint):
    """Any function of the decision (d,) that returns its values (m,) or a scalar, in `jax.numpy`.

    `names` names each value; if you leave it out, the problem numbers them.

    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> pf.constraints.Function(lambda theta: jnp.sum(theta**2) - 1.0, names="size")([1.0, 1.0]).tolist()
    [1.0]
    """

    function: Callable[[Array], Array]
    names: tuple[str, ...]

    def __init__(self, function: Callable[[Array], Array], names: str | Sequence[str] | None = None) -> None:
        if not callable(function):
            raise TypeError(f"`function` must be callable, but got {function!r}")
        labels = (names,) if isinstance(names, str) else tuple(names or ())  # none until the problem numbers them
        if names is not None and not labels:
            raise ValueError(f"`names` must hold at least one name, but got {names!r}")
        assign(self, function=jax_arrays(callable_node(function)), names=labels)

    @in_float64
    def __call__(self, theta: Array) -> Array:
        """The function's values; a scalar counts as one."""
        return jnp.atleast_1d(self.function(jnp.asarray(theta, dtype=np.float64)))


def _names(name: str | Sequence[str], count: int) -> tuple[str, ...]:
    if isinstance(name, str):
        return (name,) if count == 1 else tuple(f"{name}[{row}]" for row in range(count))
    if len(name) != count:
        raise ValueError(f"`name` must give {count} names, but got {list(name)}")
    return tuple(name)
