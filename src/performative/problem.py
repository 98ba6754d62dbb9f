"""Problem: what the decision-maker knows, namely the loss, the decision set Θ and the constraints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.caused import Induced, Source
from performative.constraints import Constraint, Function
from performative.expected import KINDS, Caused
from performative.explanations import explained
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import as_node, assign, callable_node, changed, pytree
from performative.numerics.slopes import is_flat
from performative.numerics.tracers import jax_arrays
from performative.sets import DecisionSet
from performative.validation import shown, whole

Loss = Callable[[Array, Array], Array]


@pytree("dimension")
class Problem:
    """min over θ ∈ Θ of PR(θ) = E_{Z∼D(θ)} ℓ(θ; Z) subject to g(θ) ≤ 0, with D unknown  (equation Pro_def).

    `loss(theta, z)` is ℓ for one sample, written in `jax.numpy`, and returns a scalar; `decisions` is Θ; `constraints` is
    one function θ ↦ g(θ) (m,) or a list of `performative.constraints`. Give the `dimension` d where neither the set nor a
    constraint determines it.

    Some of the constraints may limit what a decision causes, such as `constraints.Expected`; those are kept apart, as `caused`,
    and come last, since their values depend on D: see `resolved`.

    Where instances differ in their numbers, the loss is `jax.tree_util.Partial(function, numbers)`.

    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> problem = pf.Problem(
    ...     lambda prices, demand: -jnp.sum(prices * demand),
    ...     pf.Box(lower=[0.0, 0.0], upper=[5.0, 5.0]),
    ...     [pf.constraints.Linear([1.0, 1.0], bound=4.0, name="cap")],
    ... )
    >>> problem.dimension, problem.constraint_names, problem.g([1.0, 2.0]).tolist()
    (2, ('cap',), [-1.0])
    """

    loss: Loss
    decisions: DecisionSet
    constraints: tuple[Constraint, ...]
    caused: tuple[Caused, ...]
    dimension: int | None  # None until it is fixed: see `with_dimension`

    def __init__(
        self,
        loss: Loss,
        decisions: DecisionSet,
        constraints: Callable[[Array], Array] | Sequence[Constraint | Caused] | None = None,
        dimension: int | None = None,
    ) -> None:
        if not callable(loss):
            remedy = (
                "the order is Problem(loss, decisions, constraints)"
                if isinstance(loss, DecisionSet)
                else "give the function itself"
            )
            raise TypeError(f"`loss` must be a function of (theta, z), but got {shown(loss)}; {remedy}")
        if not isinstance(decisions, DecisionSet):
            raise TypeError(
                f"`decisions` must be a decision set such as performative.Box, but got {shown(decisions)}; write "
                "performative.Box(lower, upper)"
            )
        items: tuple[Any, ...]
        if constraints is None:
            items = ()
        elif isinstance(constraints, (Constraint, *KINDS)):
            items = (constraints,)
        elif callable(constraints):
            items = (Function(constraints),)
        elif not isinstance(constraints, Sequence) or isinstance(constraints, str):
            raise TypeError(
                f"`constraints` must be a function or a list of performative.constraints, but got {constraints!r}; write "
                "[constraints.Linear(coefficients, bound)] or lambda theta: g(theta), which must be <= 0"
            )
        else:
            items = tuple(constraints)
            for position, item in enumerate(items):
                if not isinstance(item, (Constraint, *KINDS)):
                    raise TypeError(
                        f"`constraints[{position}]` must be one of performative.constraints, but got {item!r}; "
                        "write constraints.Linear(coefficients, bound), or wrap a function as constraints.Function(function)"
                    )
        caused = tuple(item for item in items if isinstance(item, KINDS))
        items = tuple(item for item in items if isinstance(item, Constraint))
        dimensions = {
            "dimension": None if dimension is None else whole("dimension", dimension, 1),
            "decisions": decisions.dimension,
            **{f"constraints[{i}]": item.dimension for i, item in enumerate(items)},
        }
        lengths = {name: length for name, length in dimensions.items() if length is not None}
        if len(set(lengths.values())) > 1:
            raise ValueError(
                f"all parts of a problem must have the same dimension, but got {lengths}; give bounds, coefficients and the rest "
                "one number for each number of a decision"
            )
        assign(
            self,
            loss=jax_arrays(callable_node(loss)),
            decisions=as_node(decisions),
            constraints=tuple(as_node(item) for item in items),
            caused=caused,
            dimension=None,
        )
        if lengths:
            fixed = self.of_dimension(next(iter(lengths.values())))
            assign(
                self,
                decisions=fixed.decisions,
                constraints=fixed.constraints,
                caused=fixed.caused,
                dimension=fixed.dimension,
            )

    @in_float64
    def of_dimension(self, dimension: int) -> Problem:
        """The same problem with d fixed, its constraints counted and named."""
        if self.dimension is not None:
            if self.dimension != dimension:
                raise ValueError(
                    f"the problem has dimension {self.dimension}, but the `effect`, `start` or other decision given with it "
                    f"has dimension {dimension}"
                )
            return self
        constraints: list[Any] = []
        for item in _numbered((*self.constraints, *self.caused)):
            if isinstance(item, Function):
                item = _named(item, dimension, offset=sum(len(c.names) for c in constraints))
            constraints.append(item)
        names = [name for item in constraints for name in item.names]
        if len(set(names)) < len(names):
            raise ValueError(f"constraints must have different names, but got {names}; choose others with `name=`")
        decisions = self.decisions.of_dimension(dimension)
        known = len(self.constraints)
        return changed(
            self,
            decisions=decisions,
            constraints=tuple(constraints[:known]),
            caused=tuple(constraints[known:]),
            dimension=dimension,
        )

    @property
    def d(self) -> int:
        """The dimension, for whoever needs it known."""
        if self.dimension is None:
            raise ValueError("the problem's dimension is unknown; pass `dimension=d` to Problem")
        return self.dimension

    @property
    def constraint_names(self) -> tuple[str, ...]:
        """The names of g_1, …, g_m, in order: known ones first, then those on what a decision causes."""
        return (*(name for item in self.constraints for name in item.names), *self.caused_names)

    @property
    def caused_names(self) -> tuple[str, ...]:
        """The names of the limits on what a decision causes."""
        return tuple(name for item in self.caused for name in item.names)

    @property
    def known(self) -> Problem:
        """The same problem without the limits on what a decision causes."""
        return changed(self, caused=())

    def resolved(self, source: Source) -> Problem:
        """The same problem, all of whose constraints are known: `source` says what data decisions bring about."""
        induced = tuple(Induced.of(item, source) for item in self.caused)
        return changed(self, constraints=(*self.constraints, *induced), caused=())

    def frozen(self, where: Array) -> Problem:
        """The same problem on the data of one decision, which do not react: of a `resolved` one."""
        if not any(isinstance(item, Induced) for item in self.constraints):
            return self
        items = (item.frozen(where) if isinstance(item, Induced) else item for item in self.constraints)
        return changed(self, constraints=tuple(items))

    @property
    def is_declared_convex(self) -> bool:
        """Whether every constraint has a convex form for cvxpy."""
        return all(item.has_convex_form for item in self.constraints)

    @in_float64
    def g(self, theta: Array) -> Array:
        """g(θ), all constraints as one vector (m,)."""
        theta = jnp.asarray(theta, dtype=np.float64)
        if theta.ndim == 0 and self.dimension == 1:
            theta = theta[None]
        if self.dimension is not None and theta.shape != (self.dimension,):
            raise ValueError(f"`theta` must have shape ({self.dimension},), but got {theta.shape}")
        if self.caused:
            raise TypeError(
                f"constraints must be known to have values at a decision, but {list(self.caused_names)} depend "
                "on what it causes; performative.induced(problem, environment, theta) computes them, and problem.known is "
                "without them"
            )
        if not self.constraints:
            return jnp.zeros((0,))
        return jnp.concatenate([item(theta) for item in self.constraints])

    def pullback(self, theta: Array, multipliers: Array) -> Array:
        """λᵀ∇g(θ), for all constraints together."""
        total, start = jnp.zeros_like(theta), 0
        for item in self.constraints:
            stop = start + len(item.names)
            total = total + item.pullback(theta, multipliers[start:stop])
            start = stop
        return total

    def steepness(self, theta: Array) -> Array:
        """‖∇g_i(θ)‖² for each constraint (m,)."""
        return jnp.concatenate([jnp.zeros(0), *(item.steepness(theta) for item in self.constraints)])

    @in_float64
    def check_samples(self, width: int) -> None:
        """Refuse a loss, or limits on what a decision causes, that do not fit a decision and one sample of `width` numbers."""
        theta, z = (
            jax.ShapeDtypeStruct((self.d,), np.float64),
            jax.ShapeDtypeStruct((width,), np.float64),
        )
        try:
            result = jax.eval_shape(self.loss, theta, z)
        except (TypeError, ValueError, IndexError) as error:
            raise ValueError(
                f"`loss` must take a decision of shape ({self.dimension},) and one sample of shape ({width},), "
                f"but failed{explained(error)}; it is loss(theta, z) of one decision and one sample, and the library averages"
            ) from error
        shape = getattr(result, "shape", None)
        if shape != ():
            remedy = "return the value" if result is None else "add up with jnp.sum"
            raise ValueError(f"`loss` must return a scalar for one sample, but returned {_kind(result)}; {remedy}")
        if not jnp.issubdtype(result.dtype, jnp.floating):
            raise ValueError(f"`loss` must return a real number, but returned {result.dtype}; multiply it by 1.0")
        for item in self.caused:
            item.check(theta, z)
        for induced in self.constraints:
            if isinstance(induced, Induced):
                induced.item.check(theta, z)

    @in_float64
    def check_slope(self, width: int, anticipates: bool) -> None:
        """Refuse a loss whose gradient is zero wherever it is defined; it may move with the data if the method `anticipates`."""
        theta, z = np.zeros(self.d), np.zeros(width)
        if is_flat(self.loss, theta, z, within=(0, 1) if anticipates else (0,)):
            raise ValueError(
                "`loss` must have a gradient for this method, but its gradient in the decision is zero wherever it is defined, "
                "as of a 0–1 loss; use a smooth surrogate (jax.nn.sigmoid for a step, performative.losses.Logistic), or a method "
                "without derivatives: one_point, two_point or confidence_bounds"
            )


def with_dimension(
    problem: Problem, required: bool = True, environment: object = None, **others: int | Problem | None
) -> Problem:
    """The problem with d fixed: by the problem itself, by the world if it has a `dimension`, or by others, by name.

    Others are lengths (of a start, say) and problems (that methods know).
    """
    if not isinstance(problem, Problem):
        raise TypeError(
            f"`problem` must be a performative.Problem, but got {shown(problem)}; it comes first and is made by "
            "Problem(loss, decisions)"
        )
    lengths = {name: other.dimension if isinstance(other, Problem) else other for name, other in others.items()}
    for name, length in {**lengths, "environment": getattr(environment, "dimension", None)}.items():
        if length is not None and problem.dimension not in (None, length):
            raise ValueError(
                f"the problem has dimension {problem.dimension}, but `{name}` is for decisions of {length} numbers"
            )
        if length is not None:
            problem = problem.of_dimension(length)
    return problem.of_dimension(problem.d) if required else problem


@pytree()
class LossInData:
    """The loss with the data as its first argument, for averages over the data."""

    loss: Loss

    def __call__(self, z: Array, theta: Array) -> Array:
        """ℓ(θ; z)."""
        return self.loss(theta, z)


def _numbered(items: Sequence[Any]) -> list[Any]:
    """The constraints, those that share the name of their kind (linear, linear) numbered (linear1, linear2)."""
    kinds = [type(item).__name__.lower() for item in items]
    unnamed = [
        bool(item.names) and all(name.partition("[")[0] == kind for name in item.names)
        for item, kind in zip(items, kinds, strict=True)
    ]
    shared = {kind for kind in kinds if sum(one == kind and is_ for one, is_ in zip(kinds, unnamed, strict=True)) > 1}
    counts = dict.fromkeys(shared, 0)
    numbered = []
    for item, kind, is_unnamed in zip(items, kinds, unnamed, strict=True):
        if is_unnamed and kind in shared:
            counts[kind] += 1
            item = changed(item, names=tuple(f"{kind}{counts[kind]}{name[len(kind) :]}" for name in item.names))
        numbered.append(item)
    return numbered


def _named(item: Function, dimension: int, offset: int) -> Function:
    theta = jax.ShapeDtypeStruct((dimension,), np.float64)
    try:
        result = jax.eval_shape(item.function, theta)
    except (TypeError, ValueError, IndexError) as error:
        raise ValueError(
            f"`constraints` must take a decision of shape ({dimension},), but failed{explained(error)}"
        ) from error
    shape = getattr(result, "shape", None)
    if shape is None or len(shape) > 1 or shape == (0,):
        raise ValueError(
            f"`constraints` must return a scalar or a vector (m,), but returned {_kind(result)}; jnp.stack joins values"
        )
    if not jnp.issubdtype(result.dtype, jnp.floating):
        raise ValueError(
            f"`constraints` must return a scalar or a vector (m,) of real numbers, but returned {result.dtype}; return g of "
            "g(theta) <= 0, such as theta[0] - 1.0, and not the comparison"
        )
    count = shape[0] if shape else 1
    names = tuple(f"g{offset + i + 1}" for i in range(count)) if not item.names else item.names
    if len(names) != count:
        raise ValueError(f"`names` must name each of the {count} constraints, but got {list(names)}")
    return changed(item, names=names)


def _kind(result: Any) -> str:
    shape = getattr(result, "shape", None)
    return f"{type(result).__name__}" if shape is None else f"shape {shape}"
