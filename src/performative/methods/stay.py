"""Doing nothing: the start is deployed for ever, and what others gain over it is what they gain over today."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array
from numpy.typing import ArrayLike

from performative.methods.options import parts_of
from performative.methods.protocol import State, checked, first_state
from performative.numerics.arrays import as_field
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import changed, pytree
from performative.problem import Problem, with_dimension
from performative.solvers.feasibility import require_feasible, require_inside
from performative.validation import whole


def stay(problem: Problem, *, start: ArrayLike | None = None, samples: int = 1) -> Stay:
    """Deploy the `start` for ever and learn nothing: the baseline that every other method should beat.

    By default the start is the point of Θ nearest to 0 or, where that is not feasible, the decision with the largest slack.

    >>> import jax
    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> problem = pf.Problem(Revenue(), pf.Box([0.0, 0.0], [5.0, 5.0]))
    >>> method = pf.stay(problem, start=[1.0, 2.0])
    >>> state = method.tell(method.init(jax.random.key(0)), [[1.0, 2.0]], [[[3.0, 4.0]]])
    >>> method.ask(state, jax.random.key(1)).tolist()
    [[1.0, 2.0]]
    """
    problem, start, _ = parts_of(problem, start)
    problem = with_dimension(problem)
    today = require_feasible(problem) if start is None else require_inside("start", problem, start)
    return Stay(problem, as_field(today), whole("samples", samples, 1))


@pytree("samples")
class Stay:
    """θ_t = θ_1 for all t; see `performative.stay`."""

    problem: Problem
    start: Array
    samples: int

    @in_float64
    def init(self, key: Array) -> State[None]:
        """The state at the start, where it stays."""
        return first_state(self.problem, key, jnp.asarray(self.start), None)

    @property
    def normals(self) -> int:
        """0: it does not explore."""
        return 0

    def ask(self, state: State[None], key: Array) -> Array:
        """The start, as an array (1, d)."""
        return self.decide(state, jnp.zeros(0))

    def decide(self, state: State[None], normals: Array) -> Array:
        """The start, as an array (1, d)."""
        return jnp.asarray(state.decision)[None]

    def wanted(self, state: State[None]) -> int:
        """The same number in every round."""
        return int(self.samples)

    @in_float64
    def tell(self, state: State[None], decisions: Array, samples: Array) -> State[None]:
        """Count the round."""
        checked(self.problem, decisions, samples)
        return changed(state, round=state.round + 1)
