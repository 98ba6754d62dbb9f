"""A method's `init`, `ask` and `tell` on plain arrays, compiled.

A study makes the same compiled calls whether it was just created, continues, was opened again or is replayed, so the bits agree.
States come and go without random keys, so that they are plain arrays on both sides of the store.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from performative.errors import ChangedFunction
from performative.methods.protocol import Method, MethodState, PlanningMethod, plans_ahead
from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64
from performative.numerics.programs import Program
from performative.numerics.randomness import new_key
from performative.numerics.reads import reads
from performative.reasons import Plan
from performative.study.events import Actual, Limits, Planned
from performative.study.limits import Mover, meet, mover
from performative.study.states import with_keys, without_keys

ROUNDING = 1e-9
"""The distance from Θ, as a share of a decision's length, that counts as inside."""


@runtime_checkable
class Reasons(Protocol):
    """A method that can say in numbers why it decides as it does."""

    def plan_of(self, state: Any) -> Plan:
        """The numbers."""


class Calls:
    """The calls of one method in a study with one seed.

    A method whose Python code branches on its numbers cannot be compiled and is called as it is.
    """

    def __init__(self, method: Method, seed: int) -> None:
        self.method = method
        self._structure: Any = jax.tree.structure(method)
        self._reads = reads(method)
        self._lane_words = np.asarray(_LANE(np.int64(seed)))
        self._bound: dict[Callable[..., Any], Callable[..., Any]] = {}
        self._draws: dict[Any, bool] = {}

    def begin(self) -> MethodState:
        """The state before the first `ask`."""
        return jax.tree.map(np.asarray, self._called(_begin, self._lane_words))

    def first_shape(self) -> MethodState:
        """A state with the structure of the first one; it may hold shapes in place of numbers."""
        try:
            shapes: MethodState = _PROGRAMS[_begin].shapes(self.method, self._lane_words)
        except jax.errors.JAXTypeError:
            return self.begin()
        return shapes

    def ask(self, state: MethodState, attempt: int) -> Planned:
        """What the method asks for in a state."""
        self._require_unchanged()
        return self._planned(state, self._called(_ask, state, self._lane_words, np.int64(attempt)))

    def tell(self, state: MethodState, decisions: Floats, samples: Floats) -> tuple[MethodState, Planned, Floats, bool]:
        """The state after `samples` (b, n, k), what is asked for next, the losses (2, b), and whether the state is finite.

        A plan is compiled apart: it takes long, does not depend on the number of samples, and is not made in every round.
        """
        self._require_unchanged()
        told, words = (state, decisions, samples), self._lane_words
        if plans_ahead(self.method):
            after, finite, losses = self._called(_learn, *told)
            if self.method.plans(int(state.round)):
                after, finite, asked = self._called(_plan, after, words)
            else:
                asked = self._called(_ask, after, words, np.int64(0))
        else:
            after, finite, asked, losses = self._called(_tell, *told, words)
        return after, self._planned(after, asked), np.asarray(losses), bool(finite)

    def within(self, limits: Limits, decisions: Floats) -> tuple[Floats, Floats]:
        """Decisions (b, d), those that break the limits moved to feasible ones that meet them, and their g."""
        moved, values = self._called(_within, limits, mover(self.method.problem, limits), decisions)
        return np.asarray(moved), np.asarray(values)

    def measured(self, decisions: Floats) -> Actual:
        """Decisions (b, d) of any origin, with their g and their distances from Θ; 0 for rounding."""
        values, outside = self._called(_measure, decisions)
        return Actual(decisions, np.asarray(values), np.asarray(outside))

    def shape_after(self, state: MethodState, decisions: Floats, samples: Floats) -> MethodState:
        """A state with the structure that `tell` returns; it may hold shapes in place of numbers."""
        shapes = self._traced(state, decisions, samples)
        return self.tell(state, decisions, samples)[0] if shapes is None else shapes

    @in_float64
    def require_first_tell(self, widths: list[int]) -> None:
        """Refuse a method whose first `tell` fails whatever the samples are; `widths` are some that its loss accepts."""
        state = self.begin()
        planned, failures = self.ask(state, 0), []
        for width in widths:
            samples = jax.ShapeDtypeStruct((len(planned.decisions), planned.samples, width), np.float64)
            try:
                self._traced(state, planned.decisions, samples)
                return
            except ValueError as error:
                failures.append(error)
        if len({str(error) for error in failures}) == 1:  # whatever the width
            raise failures[0]

    def _traced(self, state: MethodState, decisions: Any, samples: Any) -> MethodState | None:
        """The shapes of the state that `tell` returns; None if it cannot be compiled.

        A plan, which takes long to trace, changes none of them.
        """
        try:
            if plans_ahead(self.method):
                return _PROGRAMS[_learn].shapes(self.method, state, decisions, samples)[0]
            return _PROGRAMS[_tell].shapes(self.method, state, decisions, samples, self._lane_words)[0]
        except jax.errors.JAXTypeError:
            return None

    def _planned(self, state: MethodState, asked: tuple[Array, Array, Plan | None]) -> Planned:
        decisions, values, plan = asked
        reasons = None if plan is None else {name: part for name, part in plan._asdict().items() if part is not None}
        return Planned(
            round=int(state.round),
            samples=int(self.method.wanted(state)),
            draws=self._draws_anew(state),
            decisions=np.asarray(decisions),
            constraint_values=np.asarray(values),
            decision=np.asarray(state.decision),
            multipliers=np.asarray(state.multipliers),
            reasons=None if reasons is None else jax.tree.map(np.asarray, reasons),
        )

    def _draws_anew(self, state: MethodState) -> bool:
        """Whether another attempt at a round asks for other decisions; no, if these do not depend on random numbers."""
        structure = jax.tree.structure(state)
        if structure not in self._draws:
            try:
                asked = jax.make_jaxpr(lambda words, attempt: _ask(self.method, state, words, attempt)[0])
                self._draws[structure] = _depends(asked(self._lane_words, np.int64(0)).jaxpr)
            except jax.errors.JAXTypeError:
                self._draws[structure] = True
        return self._draws[structure]

    def _called(self, function: Callable[..., Any], *rest: Any) -> Any:
        if function not in self._bound:
            self._bound[function] = _PROGRAMS[function].of(self.method)
        try:
            return self._bound[function](*rest)
        except jax.errors.JAXTypeError:
            return function(self.method, *jax.tree.map(jnp.asarray, rest))

    def _require_unchanged(self) -> None:
        structure: Any = jax.tree.structure(self.method)
        if structure != self._structure or reads(self.method) != self._reads:
            raise ChangedFunction(
                "a method must stay as it was when its study was opened, but its attributes, or values that its class reads, "
                "changed; open the study again with a method like the stored one"
            )


def _lane(seed: Array) -> Array:
    """The words of the key of realization 0."""
    return jax.random.key_data(jax.random.fold_in(new_key(seed), 0))


def _begin(method: Method, words: Array) -> MethodState:
    key = jax.random.fold_in(jax.random.wrap_key_data(words, impl="threefry2x32"), 0)
    return jax.tree.map(jnp.asarray, without_keys(method.init(key)))


def _ask(method: Method, state: MethodState, words: Array, attempt: Array | int) -> tuple[Array, Array, Plan | None]:
    lane = jax.random.wrap_key_data(words, impl="threefry2x32")
    key = jax.random.fold_in(jax.random.fold_in(lane, state.round + 1), 0)  # as `engine.round_keys` does
    again = jax.random.fold_in(key, attempt)
    data = jnp.where(jnp.asarray(attempt) > 0, jax.random.key_data(again), jax.random.key_data(key))
    state = with_keys(state)
    decisions = jnp.asarray(method.ask(state, jax.random.wrap_key_data(data, impl="threefry2x32")))
    values = jnp.stack([method.problem.g(decision) for decision in decisions])
    return decisions, values, method.plan_of(state) if isinstance(method, Reasons) else None


def _within(method: Method, limits: Limits, moved: Mover, decisions: Array) -> tuple[Array, Array]:
    kept = jnp.stack([jnp.where(meet(limits, decision), decision, moved(decision)) for decision in decisions])
    return kept, jnp.stack([method.problem.g(decision) for decision in kept])


def _measure(method: Method, decisions: Array) -> tuple[Array, Array]:
    values = jnp.stack([method.problem.g(decision) for decision in decisions])
    outside = jnp.stack([method.problem.decisions.distance(decision) for decision in decisions])
    lengths = jnp.sqrt(jnp.sum(decisions * decisions, axis=1))
    return values, jnp.where(outside <= ROUNDING * jnp.maximum(1.0, lengths), 0.0, outside)  # as `contains` allows


def _tell(method: Method, state: MethodState, decisions: Array, samples: Array, words: Array) -> Any:
    after, finite = _checked(method.tell(with_keys(state), decisions, samples))
    return after, finite, _ask(method, after, words, 0), _losses(method, decisions, samples)


def _learn(method: PlanningMethod, state: MethodState, decisions: Array, samples: Array) -> Any:
    after, finite = _checked(method.learn(with_keys(state), decisions, samples))
    return after, finite, _losses(method, decisions, samples)


def _plan(method: PlanningMethod, state: MethodState, words: Array) -> Any:
    after, finite = _checked(method.plan(with_keys(state)))
    return after, finite, _ask(method, after, words, 0)


def _losses(method: Method, decisions: Array, samples: Array) -> Array:
    """The mean losses (b,) of decisions (b, d) over their samples (b, n, k), and the standard errors (b,) of these; (2, b)."""
    one = jax.vmap(method.problem.loss, in_axes=(None, 0))
    losses = jax.vmap(one)(decisions, samples)
    n = losses.shape[1]
    errors = jnp.std(losses, axis=1, ddof=1) / n**0.5 if n > 1 else jnp.full(len(losses), jnp.nan)
    return jnp.stack([jnp.mean(losses, axis=1), errors])


_LANE = Program(_lane)
_PROGRAMS = {function: Program(function) for function in (_begin, _ask, _within, _measure, _tell, _learn, _plan)}


def _checked(state: MethodState) -> tuple[MethodState, Array]:
    """The state as it is stored, and whether all its numbers are finite.

    Its types are those that the store gives back, so that a study that goes on and one that is opened again run one program.
    """
    after = jax.tree.map(lambda leaf: lax.convert_element_type(leaf, jnp.asarray(leaf).dtype), without_keys(state))
    numbers = [leaf for leaf in jax.tree.leaves(after) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    return after, jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in numbers]))


def _depends(jaxpr: Any) -> bool:
    """Whether any result of a program may depend on its arguments."""
    reached = set(jaxpr.invars)
    for equation in jaxpr.eqns:
        if any(isinstance(part, jax.extend.core.Var) and part in reached for part in equation.invars):
            reached |= set(equation.outvars)
    return any(isinstance(part, jax.extend.core.Var) and part in reached for part in jaxpr.outvars)
