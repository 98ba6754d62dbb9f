"""The robust primal-dual framework: any approximate gradient of the performative risk, under constraints."""

from __future__ import annotations

from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from performative import steps
from performative.precision import in_float64
from performative.problem import Problem
from performative.pytrees import as_node, changed, pytree
from performative.randomness import standard_normal
from performative.validation import finite_array, is_traced


class Method(Protocol):
    """One spine for simulations and live studies: pure functions of an explicit state."""

    problem: Problem

    def init(self, key: Array) -> Any:
        """The state before anything is deployed; it has `round`, `decision` and `multipliers`."""

    def ask(self, state: Any, key: Array) -> Array:
        """The decisions (b, d) to deploy this round.

        A method whose randomness is a number of standard normals may offer `normals`, that number, and
        `decide(state, normals)` as well, with `ask(state, key) = decide(state, standard_normal(key, normals))`; a simulation
        then draws for many rounds at once and shares the draws between methods.
        """

    def wanted(self, state: Any) -> int:
        """How many samples each of them should bring."""

    def tell(self, state: Any, decisions: Array, samples: Array) -> Any:
        """The state after `samples` (b, n, k) were observed at `decisions` (b, d)."""


@pytree()
class State:
    """What a method carries from round to round: t, θ_t, λ_t and what the estimator believes."""

    round: Any
    decision: Any
    multipliers: Any
    belief: Any


@pytree("samples")
class PrimalDual:
    """The updates Eq_primal_grad and Eq_dual_grad with parts plugged in.

        θ_{t+1} = Π_Θ(θ_t − η (∇P̂R_t(θ_t) + λ_tᵀ∇g(θ_t)))
        λ_{t+1} = [λ_t + η (g(θ_t) − δ η λ_t)]⁺

    `step` is η and `control` is δ, numbers or functions of the round; `start` is θ_1 (the projection of 0 if None);
    `samples` is how many samples each deployment brings, which are averaged.
    """

    problem: Any
    estimator: Any
    exploration: Any
    step: Any
    control: Any
    start: Any
    samples: Any

    def __post_init__(self) -> None:
        for part in (self.estimator, self.exploration):
            as_node(part)

    def of_dimension(self, dimension: int) -> PrimalDual:
        """The same method with the problem's dimension fixed."""
        return changed(self, problem=self.problem.of_dimension(dimension))

    @in_float64
    def init(self, key: Array) -> State:
        """Line 2: θ_1 in Θ, λ_1 = 0. Round 0 is the warm-up, where the estimator wants one."""
        if self.problem.dimension is None:
            raise ValueError(
                "the problem's dimension must be known, but neither its set nor a constraint tells it; "
                "give Problem(..., dimension=d)"
            )
        start = self._origin() if self.start is None else jnp.asarray(self.start)
        belief = self.estimator.init(self.problem, key)
        first = 0 if self.estimator.opening(belief) else 1
        multipliers = jnp.zeros(len(self.problem.constraint_names))
        return State(jnp.asarray(first), start, multipliers, belief)

    @in_float64
    def ask(self, state: State, key: Array) -> Array:
        """Line 1 in the warm-up, lines 4 to 6 in every later round."""
        return self.decide(state, standard_normal(key, self.normals))

    @property
    def normals(self) -> int:
        """How many standard normal numbers a round needs."""
        return self.exploration.normals(self.problem.dimension)

    def decide(self, state: State, normals: Array) -> Array:
        """`ask` with its random numbers given."""
        if self.estimator.opening(state.belief):
            return self._origin()[None]
        return self.exploration.decisions(normals, state.decision)

    def wanted(self, state: State) -> int:
        """n in the warm-up, `samples` afterwards."""
        return self.estimator.opening(state.belief) or int(self.samples)

    @in_float64
    def tell(self, state: State, decisions: Array, samples: Array) -> State:
        """Lines 7 to 11: improve the belief, then one primal and one dual step from θ_t, λ_t."""
        decisions, samples = checked(self.problem, decisions, samples)
        self.estimator.check(state.belief, decisions, samples)
        return _advance(self, state, decisions, samples)

    def _advance(self, state: State, decisions: Array, samples: Array) -> State:
        t, theta, lam = state.round, state.decision, state.multipliers
        belief = self.estimator.update(self.problem, state.belief, decisions, samples, t)  # line 7
        if self.estimator.opening(state.belief):
            return changed(state, round=t + 1, belief=belief)
        eta, delta = steps.at(self.step, t), steps.at(self.control, t)
        gradient = self.estimator.gradient(self.problem, belief, theta)  # line 8
        lagrangian_gradient = gradient + self.problem.pullback(theta, lam)  # line 9
        next_theta = self.problem.decisions.project(theta - eta * lagrangian_gradient)  # line 10
        next_lam = jnp.maximum(lam + eta * (self.problem.g(theta) - delta * eta * lam), 0.0)  # line 11
        return State(t + 1, next_theta, next_lam, belief)

    def _origin(self) -> Array:
        return self.problem.decisions.project(jnp.zeros(self.problem.dimension))


def checked(problem: Problem, decisions: Any, samples: Any) -> tuple[Array, Array]:
    """What `tell` was given, as arrays (b, d) and (b, n, k), or an error that names what is wrong with them."""
    if not is_traced(decisions, samples):
        decisions, samples = finite_array("decisions", decisions), finite_array("samples", samples)
    if decisions.ndim != 2 or decisions.shape[1] != problem.dimension:
        raise ValueError(f"`decisions` must have shape (b, {problem.dimension}), but got {decisions.shape}")
    if samples.ndim != 3 or samples.shape[0] != decisions.shape[0] or 0 in samples.shape:
        raise ValueError(f"`samples` must have shape ({decisions.shape[0]}, n, k), but got {samples.shape}")
    problem.check_samples(samples.shape[2])
    return jnp.asarray(decisions), jnp.asarray(samples)


_advance = jax.jit(PrimalDual._advance)
