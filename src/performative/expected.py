"""Limits on the data that a decision brings about: averages, probabilities, the worst cases and gaps between groups.

Whether they hold at a decision depends on Z ∼ D(θ), which nobody knows beforehand. Each says which functions of a decision and a
sample it averages, or whose distribution it needs, and turns those into its values, at most 0 where it holds. A world, or what a
method believes of it, supplies averages and distributions: see `caused`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from performative.explanations import explained
from performative.numerics.arrays import as_field
from performative.numerics.outcomes import Outcome
from performative.numerics.pytrees import assign, callable_node, pytree
from performative.numerics.tracers import jax_arrays
from performative.validation import finite_array, read_only, shown

Score = Callable[[Array, Array], Array]
"""A function of one decision and one sample."""


class Caused(Protocol):
    """A limit on what a decision causes: `values` (m,), named by `names`, which must be at most 0."""

    names: tuple[str, ...]

    @property
    def averaged(self) -> tuple[Score, ...]:
        """The functions whose averages over the data it needs."""

    @property
    def scored(self) -> tuple[Score, ...]:
        """The functions whose distributions it needs."""

    def values(self, means: Array, outcomes: Sequence[Outcome]) -> Array:
        """Its values, from those averages (p,) and distributions."""

    def check(self, theta: Any, z: Any) -> None:
        """Refuse functions that do not fit decisions and samples of these shapes."""


@pytree("index")
class _Component:
    """One of the numbers of a function of a decision and a sample."""

    function: Score
    index: int

    def __call__(self, theta: Array, z: Array) -> Array:
        return jnp.ravel(self.function(theta, z))[self.index]


@pytree("names")
class Expected:
    """E_{Z∼D(θ)} h(θ, Z) ≤ `bound`, on the data that the decision brings about.

    `h(theta, z)` is written for one sample in `jax.numpy` and returns a number, or a vector of as many numbers as there are
    names. A floor is a ceiling with the sign turned: sell at least 10 is E[−sold] ≤ −10.

    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> volume = pf.constraints.Expected(lambda prices, sold: -jnp.sum(sold), bound=-3.0, name="volume")
    >>> problem = pf.Problem(lambda prices, sold: -jnp.sum(prices * sold), pf.Box([0.0], [5.0]), [volume])
    >>> market = pf.LocationFamily(pf.Gaussian([4.0], [0.25]), effect=[[-1.0]])
    >>> best = pf.performative_optimum(problem, market)
    >>> best.decision.round(6).tolist(), best.multipliers.round(6).tolist()  # the floor costs 2 for a unit
    ([1.0], [2.0])
    """

    function: Score
    bound: Array
    names: tuple[str, ...]

    def __init__(self, h: Score, bound: ArrayLike = 0.0, name: str | Sequence[str] = "expected") -> None:
        names = (name,) if isinstance(name, str) else tuple(name)
        if not names:
            raise ValueError("`name` must hold a name for each number that h returns, but is empty")
        limits = finite_array("bound", bound, (0, 1))
        if limits.ndim and limits.shape != (len(names),):
            raise ValueError(
                f"`bound` must be one number, or one for each of {len(names)} names, but got {limits.shape}"
            )
        limits = read_only(np.broadcast_to(limits, len(names)).copy())
        assign(self, function=_function("h", h), bound=limits, names=names)

    @property
    def averaged(self) -> tuple[Score, ...]:
        """h, number by number."""
        return tuple(_Component(self.function, index) for index in range(len(self.names)))

    @property
    def scored(self) -> tuple[Score, ...]:
        """None."""
        return ()

    def values(self, means: Array, outcomes: Sequence[Outcome]) -> Array:
        """E h − bound."""
        return means - self.bound

    def check(self, theta: Any, z: Any) -> None:
        """Refuse h unless it returns as many numbers as there are names."""
        shape = _shape("h", self.function, theta, z)
        if (shape != () and shape != (len(self.names),)) or (shape == () and len(self.names) > 1):
            raise ValueError(
                f"`h` must return one number for each of the names {list(self.names)}, but returned shape {shape}; give a vector "
                "of m numbers a list of m names: Expected(h, name=[...])"
            )


@pytree("names")
class Chance:
    """P(event(θ, Z) > 0) ≤ `at_most`: how often a score may pass 0 on the data that the decision brings about.

    `event(theta, z)` returns a number for one sample, such as z[0] − 5.0 for "more than five". Its probability is known exactly
    on a Gaussian location family if the score is affine in z.

    >>> import performative as pf
    >>> rush = pf.constraints.Chance(lambda price, visitors: visitors[0] - 5.0, at_most=0.1, name="rush")
    >>> problem = pf.Problem(lambda price, visitors: price[0], pf.Box([0.0], [9.0]), [rush])
    >>> world = pf.LocationFamily(pf.Gaussian([6.0], [1.0]), effect=[[-1.0]])
    >>> pf.performative_optimum(problem, world).decision.round(4).tolist()  # 1 + Φ⁻¹(0.9)
    [2.2816]
    """

    event: Score
    at_most: Array
    names: tuple[str, ...]

    def __init__(self, event: Score, at_most: float, name: str = "chance") -> None:
        share = _between("at_most", at_most)
        assign(self, event=_function("event", event), at_most=share, names=(_name(name),))

    @property
    def averaged(self) -> tuple[Score, ...]:
        """None."""
        return ()

    @property
    def scored(self) -> tuple[Score, ...]:
        """The score of the event."""
        return (self.event,)

    def values(self, means: Array, outcomes: Sequence[Outcome]) -> Array:
        """P(event) − at_most."""
        return (outcomes[0].positive() - self.at_most)[None]

    def check(self, theta: Any, z: Any) -> None:
        """Refuse an event that is no number for one sample."""
        _require_number("event", self.event, theta, z)


@pytree("names")
class CVaR:
    """CVaR_level(h(θ, Z)) ≤ `bound`: the mean of the worst 1 − `level` of h, on the data that the decision brings about.

    `h(theta, z)` returns a number for one sample, larger where things are worse, such as a loss. `level` lies between 0 and 1.

    >>> import performative as pf
    >>> tail = pf.constraints.CVaR(lambda share, returns: -share[0] * returns[0], level=0.95, bound=0.5, name="tail loss")
    >>> problem = pf.Problem(lambda share, returns: -share[0] * returns[0], pf.Box([0.0], [1.0]), [tail])
    >>> market = pf.LocationFamily(pf.Gaussian([1.0], [1.0]), effect=[[-0.2]])
    >>> pf.performative_optimum(problem, market).decision.round(6).tolist()
    [0.434899]
    """

    function: Score
    level: Array
    bound: Array
    names: tuple[str, ...]

    def __init__(self, h: Score, level: float, bound: float, name: str = "CVaR") -> None:
        share, limit = _between("level", level), finite_array("bound", bound, 0)
        assign(self, function=_function("h", h), level=share, bound=limit, names=(_name(name),))

    @property
    def averaged(self) -> tuple[Score, ...]:
        """None."""
        return ()

    @property
    def scored(self) -> tuple[Score, ...]:
        """h."""
        return (self.function,)

    def values(self, means: Array, outcomes: Sequence[Outcome]) -> Array:
        """CVaR(h) − bound."""
        return (outcomes[0].upper_mean(self.level) - self.bound)[None]

    def check(self, theta: Any, z: Any) -> None:
        """Refuse a function that returns no number for one sample."""
        _require_number("h", self.function, theta, z)


@pytree()
class _Marked:
    """Whether a sample belongs to the group: 1 or 0."""

    group: Callable[[Array], Array]

    def __call__(self, theta: Array, z: Array) -> Array:
        return jnp.where(self.group(z) > 0.5, 1.0, 0.0)


@pytree("inside")
class _OfGroup:
    """A function where a sample belongs to the group, or where it does not, and 0 elsewhere."""

    function: Score
    marked: _Marked
    inside: bool

    def __call__(self, theta: Array, z: Array) -> Array:
        mark = self.marked(theta, z)
        return (mark if self.inside else 1.0 - mark) * self.function(theta, z)


@pytree("index")
class _Column:
    """One column of the data."""

    index: int

    def __call__(self, z: Array) -> Array:
        return z[self.index]


@pytree("names")
class Gap:
    """|E[h | group] − E[h | no group]| ≤ `at_most`: the average of h in two groups of the samples may differ by no more.

    `h(theta, z)` returns a number for one sample. `group` is a function of a sample that returns 1 for those of the group and 0
    for the others, or the index of the column that holds this mark.

    >>> import performative as pf
    >>> pf.constraints.Gap(lambda rule, z: z[0], group=1, at_most=0.1).names
    ('gap[more]', 'gap[less]')
    """

    function: Score
    marked: _Marked
    at_most: Array
    names: tuple[str, ...]

    def __init__(self, h: Score, group: Callable[[Array], Array] | int, at_most: float, name: str = "gap") -> None:
        if isinstance(group, bool) or not (callable(group) or isinstance(group, int | np.integer)):
            raise TypeError(
                f"`group` must be a function of a sample, or the index of the column that marks the group, but got {shown(group)}"
            )
        mark = _function("group", group) if callable(group) else _Column(int(group))
        limit = finite_array("at_most", at_most, 0)
        if not limit >= 0.0:
            raise ValueError(f"`at_most >= 0` must hold, but got {at_most=}")
        name = _name(name)
        assign(self, function=_function("h", h), marked=_Marked(mark), at_most=limit)
        assign(self, names=(f"{name}[more]", f"{name}[less]"))

    @property
    def averaged(self) -> tuple[Score, ...]:
        """h in either group, and the share of the group."""
        return _OfGroup(self.function, self.marked, True), _OfGroup(self.function, self.marked, False), self.marked

    @property
    def scored(self) -> tuple[Score, ...]:
        """None."""
        return ()

    def values(self, means: Array, outcomes: Sequence[Outcome]) -> Array:
        """±(E[h | group] − E[h | no group]) − at_most; NaN where there are no samples of a group."""
        inside, outside, share = means
        apart = inside / share - outside / (1.0 - share)
        return jnp.stack([apart, -apart]) - self.at_most

    def check(self, theta: Any, z: Any) -> None:
        """Refuse a function or a mark that is no number for one sample."""
        width = z.shape[0]
        mark = self.marked.group
        if isinstance(mark, _Column) and not -width <= mark.index < width:
            raise ValueError(f"`group` must be a column of samples of {width} numbers, but got {mark.index}")
        _require_number("group", lambda theta, z: mark(z), theta, z)
        _require_number("h", self.function, theta, z)


KINDS = (Expected, Chance, CVaR, Gap)
"""What may stand in the `constraints` of a problem besides known ones."""


def _function(name: str, function: Any) -> Any:
    if not callable(function):
        raise TypeError(f"`{name}` must be a function of one decision and one sample, but got {shown(function)}")
    return jax_arrays(callable_node(function))


def _name(name: str) -> str:
    if not isinstance(name, str) or not name:
        raise TypeError(f"`name` must be a text, but got {name!r}")
    return name


def _between(name: str, value: Any) -> Array:
    number = finite_array(name, value, 0)
    if not 0.0 < number < 1.0:
        raise ValueError(f"`0 < {name} < 1` must hold, but got {name}={value!r}")
    return as_field(number)


def _shape(name: str, function: Score, theta: Any, z: Any) -> tuple[int, ...]:
    """The shape of what a function returns for one decision and one sample."""
    try:
        result = jax.eval_shape(function, theta, z)
    except (TypeError, ValueError, IndexError) as error:
        raise ValueError(
            f"`{name}` must take a decision of shape {theta.shape} and one sample of shape {z.shape}, but "
            f"failed{explained(error)}"
        ) from error
    shape = getattr(result, "shape", None)
    if shape is None:
        raise ValueError(f"`{name}` must return numbers for one sample, but returned {type(result).__name__}")
    return tuple(shape)


def _require_number(name: str, function: Score, theta: Any, z: Any) -> None:
    shape = _shape(name, function, theta, z)
    if shape != ():
        raise ValueError(f"`{name}` must return one number for one sample, but returned shape {shape}")
