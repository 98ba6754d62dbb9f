"""Decision sets Θ: closed convex sets with a projection, a test of membership and a radius."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64
from performative.numerics.programs import Program, is_installed_throughout
from performative.numerics.pytrees import assign, pytree
from performative.validation import bounds, finite_array, positive, read_only, vector, whole


class DecisionSet:
    """The base class of every Θ; a set of your own overrides `project`, `radius` and `declare`.

    `dimension` is d, or None for a set described by scalars, which fits any d until `of_dimension` fixes it.

    >>> import numpy as np
    >>> import performative as pf
    >>> class Orthant(pf.sets.DecisionSet):
    ...     def project(self, point):
    ...         return np.maximum(point, 0.0)
    >>> Orthant().contains([1.0, 2.0]), Orthant().contains([1.0, -2.0])
    (True, False)
    """

    dimension: int | None = None

    @property
    def radius(self) -> float:
        """R = sup ‖θ‖₂ over the set; infinite if unbounded."""
        return float("inf")

    def project(self, point: ArrayLike) -> Array:
        """Π_Θ(point), the nearest element."""
        raise TypeError(f"{type(self).__name__} must define project(point)")

    def declare(self, variable: Any) -> list[Any]:
        """The set as cvxpy constraints on `variable`."""
        raise TypeError(f"{type(self).__name__} must define declare(variable) to be used with cvxpy")

    def contains(self, point: ArrayLike, tolerance: float = 1e-9) -> bool:
        """Whether ‖point − Π_Θ(point)‖ ≤ tolerance · max(1, ‖point‖), which allows for rounding."""
        point = vector("point", point)
        if self.dimension not in (None, point.shape[0]):
            raise ValueError(f"`point` must hold {self.dimension} numbers like the set, but got {point.shape[0]}")
        gap = np.linalg.norm(point - np.asarray(self.project(point)))
        return bool(gap <= tolerance * max(1.0, float(np.linalg.norm(point))))

    @in_float64
    def distance(self, point: ArrayLike) -> Array:
        """‖point − Π_Θ(point)‖₂, which is 0 inside."""
        point = _floats(point)
        apart = point - self.project(point)
        return jnp.sqrt(jnp.sum(apart * apart))

    @in_float64
    def spread(self, dimension: int, count: int) -> Floats:
        """Fixed decisions (count, d) all over the set: projections of points up to R from 0 (10 if unbounded)."""
        directions = np.random.default_rng(0).normal(size=(count, dimension))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        reach = self.radius if np.isfinite(self.radius) else 10.0
        points = directions * reach * np.linspace(0.0, 1.0, count)[:, None]
        if is_installed_throughout(self):
            return np.asarray(_all_projected(self, points))
        return np.stack([np.asarray(self.project(jnp.asarray(point))) for point in points])

    def of_dimension(self, dimension: int) -> Self:
        """The same set with its dimension fixed."""
        if self.dimension is None:
            fixed = copy.copy(self)
            assign(fixed, dimension=dimension)
            return fixed
        if self.dimension != dimension:
            raise ValueError(f"the decision set has dimension {self.dimension}, but {dimension} is needed: {self}")
        return self


@Program
def _all_projected(decisions: DecisionSet, points: Array) -> Array:
    return jax.vmap(decisions.project)(points)


@pytree("dimension")
class Box(DecisionSet):
    """{θ : lower ≤ θ ≤ upper}, entry by entry; two scalars fit any dimension, and bounds may be infinite.

    >>> import performative as pf
    >>> prices = pf.Box(lower=[1.0, 2.0], upper=[3.0, 4.0])
    >>> prices.project([0.0, 9.0]).tolist(), prices.contains([2.0, 3.0])
    ([1.0, 4.0], True)
    >>> pf.Box(lower=0.0, upper=float("inf")).project([-1.0, 9.0]).tolist()  # an orthant
    [0.0, 9.0]
    """

    lower: Array
    upper: Array
    dimension: int | None

    def __init__(self, lower: ArrayLike, upper: ArrayLike, dimension: int | None = None) -> None:
        lower, upper = bounds("lower", lower, forbidden=np.inf), bounds("upper", upper, forbidden=-np.inf)
        if lower.ndim and upper.ndim and lower.shape != upper.shape:
            raise ValueError(
                f"`lower` and `upper` must have the same shape, but got {lower.shape} and {upper.shape}; one number fits all"
            )
        lower, upper = (read_only(bound.copy()) for bound in np.broadcast_arrays(lower, upper))
        for index in np.argwhere(~(lower <= upper))[:1]:
            low, high = lower[tuple(index)], upper[tuple(index)]
            where = f" at index {index[0]}" if lower.ndim else ""
            raise ValueError(f"`lower <= upper` must hold, but got (lower={low}, upper={high}){where}; swap them")
        if lower.size == 0:
            raise ValueError("`lower` and `upper` must hold at least one number, but are empty")
        size = lower.shape[0] if lower.ndim else _size(dimension)
        assign(self, lower=lower, upper=upper, dimension=size)

    @property
    def radius(self) -> float:
        """‖max(|lower|, |upper|)‖₂, infinite if a bound is."""
        corner = np.maximum(np.abs(self.lower), np.abs(self.upper))
        if np.any(np.isinf(corner)):
            return float("inf")
        if corner.ndim == 0:
            if self.dimension is None:
                raise ValueError(f"the radius of {self} depends on its dimension; give the bounds as vectors")
            corner = np.full(self.dimension, corner)
        return float(np.linalg.norm(corner))

    @in_float64
    def project(self, point: ArrayLike) -> Array:
        """Each entry clipped to its bounds."""
        return jnp.clip(_floats(point), self.lower, self.upper)

    def declare(self, variable: Any) -> list[Any]:
        """As inequalities, entry by entry, for the bounds that are finite."""
        lower, upper = (np.broadcast_to(bound, variable.shape) for bound in (self.lower, self.upper))
        below, above = np.flatnonzero(np.isfinite(lower)), np.flatnonzero(np.isfinite(upper))
        inequalities = [variable[below] >= lower[below]] if below.size else []
        return inequalities + ([variable[above] <= upper[above]] if above.size else [])


@pytree("dimension")
class Ball(DecisionSet):
    """{θ : ‖θ − center‖₂ ≤ radius}; without a center it is centered at 0 in any dimension.

    >>> import performative as pf
    >>> pf.Ball(radius=5.0).project([6.0, 8.0]).round(6).tolist()
    [3.0, 4.0]
    """

    size: Array
    center: Array | None
    dimension: int | None

    def __init__(self, radius: float, center: ArrayLike | None = None) -> None:
        if np.ndim(radius):
            raise ValueError(f"`radius` must be one number, but got {radius!r}; the order is Ball(radius, center)")
        center = None if center is None else vector("center", center)
        size = None if center is None else center.shape[0]
        assign(self, size=np.float64(positive("radius", radius)), center=center, dimension=size)

    @property
    def radius(self) -> float:
        """‖center‖₂ + radius."""
        return float(self.size) + (0.0 if self.center is None else float(np.linalg.norm(self.center)))

    @in_float64
    def project(self, point: ArrayLike) -> Array:
        """Shrink the distance to the center to at most the radius."""
        center = 0.0 if self.center is None else self.center
        offset = _floats(point) - center
        length, small = jnp.sqrt(jnp.sum(offset * offset)), offset * 2.0**-540
        scaled = jnp.sqrt(jnp.sum(small * small)) * 2.0**540  # for numbers whose squares overflow
        length = jnp.where(jnp.isfinite(length), length, scaled)
        return center + jnp.where(length <= self.size, offset, offset / length * self.size)

    @in_float64
    def distance(self, point: ArrayLike) -> Array:
        """‖point − center‖₂ − radius, or 0 inside."""
        offset = _floats(point) - (0.0 if self.center is None else self.center)
        return jnp.maximum(jnp.sqrt(jnp.sum(offset * offset)) - self.size, 0.0)

    def declare(self, variable: Any) -> list[Any]:
        """As one second-order cone."""
        offset = variable - (0.0 if self.center is None else self.center)
        if hasattr(offset, "within"):  # rows, which state it without cvxpy
            return [offset.within(self.size)]
        import cvxpy as cp

        return [cp.norm(offset, 2) <= self.size]


@pytree("dimension")
class Simplex(DecisionSet):
    """{θ ≥ 0 : Σθ = total} in `dimension` numbers, or in any number of them; the total is said by name.

    >>> import performative as pf
    >>> pf.Simplex(3).project([0.75, 0.75, -2.0]).tolist()
    [0.5, 0.5, 0.0]
    >>> pf.Simplex(total=100.0).contains([30.0, 70.0])
    True
    """

    total: Array
    dimension: int | None

    def __init__(self, dimension: int | None = None, *, total: float = 1.0) -> None:
        if isinstance(dimension, float | np.floating):
            raise ValueError(
                f"`dimension` of a simplex must be a whole number, but got {dimension!r}; give a total by name: "
                f"Simplex(total={dimension!r})"
            )
        assign(self, total=np.float64(positive("total", total)), dimension=_size(dimension))

    @property
    def radius(self) -> float:
        """The total, the norm of a vertex."""
        return float(self.total)

    @in_float64
    def project(self, point: ArrayLike) -> Array:
        """The nearest point of the simplex; see `project_simplex`."""
        return project_simplex(_floats(point), self.total)

    def declare(self, variable: Any) -> list[Any]:
        """As non-negative entries and one equality."""
        import cvxpy as cp

        return [variable >= 0, cp.sum(variable) == self.total]


@pytree("dimension")
class Budget(DecisionSet):
    """{θ ≥ 0 : Σθ ≤ total}: the non-negative orthant capped by a budget.

    >>> import performative as pf
    >>> pf.Budget(total=1.0).project([0.25, -1.0]).tolist()
    [0.25, 0.0]
    """

    total: Array
    dimension: int | None

    def __init__(self, total: float, dimension: int | None = None) -> None:
        assign(self, total=np.float64(positive("total", total)), dimension=_size(dimension))

    @property
    def radius(self) -> float:
        """The total, the norm of a vertex."""
        return float(self.total)

    @in_float64
    def project(self, point: ArrayLike) -> Array:
        """Drop the negative part; where that is over budget, project on the simplex."""
        point = _floats(point)
        positive_part = jnp.maximum(point, 0.0)
        within_budget = jnp.sum(positive_part) <= self.total
        return jnp.where(within_budget, positive_part, project_simplex(point, self.total))

    def declare(self, variable: Any) -> list[Any]:
        """As non-negative entries and one inequality."""
        return [variable >= 0.0, np.ones(variable.shape) @ variable <= self.total]


@pytree("dimension")
class HalfSpace(DecisionSet):
    """{θ : ⟨normal, θ⟩ ≤ offset}.

    >>> import performative as pf
    >>> pf.HalfSpace(normal=[1.0, 1.0], offset=1.0).project([1.0, 1.0]).tolist()
    [0.5, 0.5]
    """

    normal: Array
    offset: Array
    dimension: int | None

    def __init__(self, normal: ArrayLike, offset: float) -> None:
        normal = vector("normal", normal)
        if not np.any(normal):
            raise ValueError(f"`normal` must not be zero, but got {normal}")
        assign(self, normal=normal, offset=finite_array("offset", offset, 0), dimension=normal.shape[0])

    @in_float64
    def project(self, point: ArrayLike) -> Array:
        """Step back along the normal by the excess."""
        point = _floats(point)
        excess = jnp.maximum(jnp.sum(self.normal * point) - self.offset, 0.0)
        return point - self.normal * (excess / jnp.sum(self.normal * self.normal))

    def declare(self, variable: Any) -> list[Any]:
        """As one inequality."""
        return [self.normal @ variable <= self.offset]


@pytree("dimension")
class Reals(DecisionSet):
    """All of R^d: any decision is allowed.

    >>> import performative as pf
    >>> pf.Reals(dimension=2).contains([1e9, -1e9])
    True
    """

    dimension: int | None

    def __init__(self, dimension: int | None = None) -> None:
        assign(self, dimension=_size(dimension))

    @in_float64
    def project(self, point: ArrayLike) -> Array:
        """Every point is its own projection."""
        return _floats(point)

    def declare(self, variable: Any) -> list[Any]:
        """No constraint at all."""
        return []


@pytree("dimension")
class Product(DecisionSet):
    """Θ₁ × … × Θ_r: each set constrains its own stretch of coordinates, in order.

    `sizes` gives the length of each stretch; leave it out if every set has a dimension.

    >>> import performative as pf
    >>> both = pf.Product([pf.Box([0.0], [1.0]), pf.Ball(1.0)], sizes=[1, 2])
    >>> both.dimension, both.project([2.0, 3.0, 4.0]).round(2).tolist()
    (3, [1.0, 0.6, 0.8])
    """

    parts: tuple[DecisionSet, ...]
    dimension: int | None

    def __init__(self, parts: Sequence[DecisionSet], sizes: Sequence[int] | None = None) -> None:
        if not parts:
            raise ValueError("`parts` must hold at least one set, but got none")
        if not all(isinstance(part, DecisionSet) for part in parts):
            raise TypeError(f"`parts` must be decision sets, but got {parts!r}")
        lengths = [part.dimension for part in parts] if sizes is None else list(sizes)
        if len(lengths) != len(parts) or None in lengths:
            raise ValueError(f"`sizes` must give a length for each of the {len(parts)} sets, but got {lengths}")
        sizes = [whole("sizes", length, 1) for length in lengths]
        fixed = tuple(part.of_dimension(size) for part, size in zip(parts, sizes, strict=True))
        assign(self, parts=fixed, dimension=sum(sizes))

    @property
    def radius(self) -> float:
        """√(Σ R_i²)."""
        return float(np.sqrt(sum(part.radius**2 for part in self.parts)))

    @in_float64
    def project(self, point: ArrayLike) -> Array:
        """Each stretch projected on its own set."""
        return jnp.concatenate([part.project(piece) for part, piece in self._pieces(_floats(point))])

    def declare(self, variable: Any) -> list[Any]:
        """The parts' constraints together."""
        return [constraint for part, piece in self._pieces(variable) for constraint in part.declare(piece)]

    def _pieces(self, whole_point: Any) -> Iterator[tuple[DecisionSet, Any]]:
        start = 0
        for part in self.parts:
            stop = start + int(part.dimension or 0)  # every part has one
            yield part, whole_point[start:stop]
            start = stop


def declared_by_rows(decisions: DecisionSet) -> bool:
    """Whether Θ is known to have sides that are flat, or those of balls, which `declare` states by rows, without cvxpy.

    >>> import performative as pf
    >>> pf.sets.declared_by_rows(pf.Box([0.0], [1.0])), pf.sets.declared_by_rows(pf.Simplex(3))
    (True, False)
    """
    if type(decisions) is Product:
        return all(map(declared_by_rows, decisions.parts))
    return type(decisions) in (Ball, Box, Budget, HalfSpace, Reals)


def separable(decisions: object) -> bool:
    """Whether each coordinate has a range of its own, and so a unit: boxes, all of ℝᵈ, and products of them.

    >>> import performative as pf
    >>> separable(pf.Product([pf.Box([0.0], [1.0]), pf.Reals(2)])), separable(pf.Ball(1.0))
    (True, False)
    """
    if isinstance(decisions, Product):
        return all(separable(part) for part in decisions.parts)
    return isinstance(decisions, Box | Reals)


def project_simplex(point: Array, total: Array | float) -> Array:
    """max(point − τ, 0), with τ such that the entries sum to `total`; computed by sorting.

    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> pf.sets.project_simplex(jnp.array([0.75, 0.75, -2.0]), 1.0).tolist()
    [0.5, 0.5, 0.0]
    """
    point = point - jnp.max(point)  # a common shift changes rounding, not the projection
    descending = -jnp.sort(-point)
    count = jnp.arange(1, point.shape[0] + 1)
    excess = (jnp.cumsum(descending) - total) / count
    support = jnp.sum(descending > excess)
    tau = jnp.sum(jnp.where(count == support, excess, 0.0))
    return jnp.maximum(point - tau, 0.0)


def _floats(point: ArrayLike) -> Array:
    """A point as an array of floats, whether it is a list or holds whole numbers."""
    return jnp.asarray(point, dtype=np.float64)


def _size(dimension: int | None) -> int | None:
    return None if dimension is None else whole("dimension", dimension, 1)
