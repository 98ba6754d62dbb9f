"""What every method offers, and the checks of its arguments."""

from __future__ import annotations

import dataclasses
from typing import Any, Generic, Protocol, TypeGuard, TypeVar

import jax.numpy as jnp
from jax import Array

from performative.numerics.arrays import Floats
from performative.numerics.pytrees import changed, pytree
from performative.numerics.randomness import require_key
from performative.numerics.tracers import is_traced
from performative.problem import Problem
from performative.validation import finite_array, require_samples, shown

B = TypeVar("B")


class MethodState(Protocol):
    """What the state of every method has, besides what is the method's own."""

    @property
    def round(self) -> Array:
        """t, the next round; 0 for a warm-up."""

    @property
    def decision(self) -> Array:
        """θ_t, a decision (d,)."""

    @property
    def multipliers(self) -> Array:
        """λ_t, one multiplier for each constraint (m,)."""


class Method(Protocol):
    """The interface for simulations and live studies: pure functions of an explicit state."""

    @property
    def problem(self) -> Problem:
        """What the decision-maker knows."""

    def init(self, key: Array) -> MethodState:
        """The state before anything is deployed; it has `round`, `decision` and `multipliers`."""

    def ask(self, state: Any, key: Array) -> Array:
        """The decisions (b, d) to deploy this round.

        A method whose randomness is standard normal numbers may also offer `normals`, how many it needs, and
        `decide(state, normals)`, with `ask(state, key) = decide(state, standard_normal(key, normals))`; a simulation then
        draws for many rounds at once and shares the draws between methods.
        """

    def wanted(self, state: Any) -> int:
        """How many samples each decision should bring."""

    def tell(self, state: Any, decisions: Array, samples: Array) -> MethodState:
        """The state after `samples` (b, n, k) were observed at `decisions` (b, d)."""


class NormalMethod(Method, Protocol):
    """A method whose randomness is standard normal numbers."""

    @property
    def normals(self) -> int:
        """How many it needs in a round."""

    def decide(self, state: Any, normals: Array) -> Array:
        """`ask` with these numbers given."""


def takes_normals(method: Method) -> TypeGuard[NormalMethod]:
    """Whether a method offers to be given its standard normal numbers."""
    return hasattr(method, "normals")


class PlanningMethod(Method, Protocol):
    """A method whose decisions take long to compute, so that it does not compute them in every round.

    `tell` is `learn`, followed in the rounds that `plans` names by `plan`. Simulations and studies call these two, so `learn`
    must refuse data that do not fit, and a plan is computed in those rounds alone.
    """

    def learn(self, state: Any, decisions: Array, samples: Array) -> MethodState:
        """The state with the data of a round, and the old plan."""

    def plans(self, round: Any) -> Any:
        """Whether a plan follows the data of this round: a number, or an array of rounds, in NumPy or JAX."""

    def plan(self, state: Any) -> MethodState:
        """The state with a new plan."""


def plans_ahead(method: Method) -> TypeGuard[PlanningMethod]:
    """Whether a method plans apart from learning."""
    return hasattr(method, "plans")


@pytree()
class State(Generic[B]):
    """What a method carries from round to round: t, θ_t, λ_t and the estimator's belief."""

    round: Array
    decision: Array
    multipliers: Array
    belief: B


def first_state(problem: Problem, key: Array, decision: Array, belief: B, round: int = 1) -> State[B]:
    """The state before anything is deployed: all multipliers are 0. The key must be one, whether the belief keeps it or not."""
    require_key(key)
    return State(jnp.asarray(round), decision, jnp.zeros(len(problem.constraint_names)), belief)


M = TypeVar("M", bound=Method)


def of_dimension(method: M, dimension: int) -> M:
    """The same method with its problem's dimension fixed; a method that is not a dataclass must know it from the start."""
    problem = method.problem.of_dimension(dimension)
    if problem is method.problem:
        return method
    if not dataclasses.is_dataclass(method):
        raise ValueError(
            f"the problem of a {type(method).__name__} must know its dimension; pass `dimension={dimension}` to Problem"
        )
    return changed(method, problem=problem)


def checked(
    problem: Problem, decisions: Array | Floats, samples: Array | Floats, slope: str | None = None
) -> tuple[Array, Array]:
    """The arguments of `tell` as arrays (b, d) and (b, n, k), refused if they do not fit the problem.

    `slope` tells of a method that needs the gradient of the loss: "decision", or "data" if it moves with the data too.
    """
    if hasattr(decisions, "round") and hasattr(decisions, "multipliers"):
        raise TypeError("`decisions` must be numbers, but got the state; the order is tell(state, decisions, samples)")
    if not is_traced(decisions, samples):
        decisions, samples = finite_array("decisions", decisions), finite_array("samples", samples)
    scalars = problem.dimension == 1
    if scalars and decisions.ndim < 2:
        decisions = decisions.reshape(-1, 1)
    if decisions.ndim != 2 or decisions.shape[1] != problem.dimension:
        raise ValueError(
            f"`decisions` must have shape (b, {problem.dimension}), but got {decisions.shape}; give those that `ask` returned"
        )
    samples = require_samples(samples, decisions.shape[0], scalars)
    problem.check_samples(samples.shape[2])
    if slope is not None:
        problem.check_slope(samples.shape[2], anticipates=slope == "data")
    return jnp.asarray(decisions), jnp.asarray(samples)


def require_method(argument: str, method: Any) -> None:
    """Refuse an object that lacks the parts of a method; `argument` is what the error calls it."""
    has_calls = all(callable(getattr(method, part, None)) for part in ("init", "ask", "wanted", "tell"))
    if not has_calls or not isinstance(getattr(method, "problem", None), Problem):
        raise TypeError(
            f"`{argument}` must be a method such as performative.apda(problem), with init, ask, wanted, tell and "
            f"problem, but got {shown(method)}; call a method's function on the problem"
        )
