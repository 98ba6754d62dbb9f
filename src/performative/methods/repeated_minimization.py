"""Repeated risk minimization (Perdomo et al. 2020)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from performative.environments.protocol import Environment, decoupled_risk, require_known
from performative.methods.options import feasible_parts
from performative.methods.protocol import State, checked, first_state
from performative.numerics.arrays import as_field
from performative.numerics.expectations import from_samples, hessian_pattern
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import pytree
from performative.problem import LossInData, Problem
from performative.solvers.augmented_lagrangian import minimize, width_of
from performative.solvers.derivatives import DecoupledRisk
from performative.validation import whole


def repeated_minimization(
    problem: Problem, *, start: ArrayLike | None = None, samples: int = 100, environment: Environment | None = None
) -> RepeatedMinimization:
    """Repeated risk minimization: deploy, minimize the loss on the data that answered, deploy that (Perdomo et al. 2020).

    It converges to the stable point if the loss is γ-strongly convex and β-smooth and the sensitivity ε is below γ/β, and
    may circle or diverge otherwise. Each minimization is over the `samples` of one round, subject to the constraints; with the
    `environment` it is the exact method, on infinitely many samples.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> problem = pf.Problem(Revenue(), pf.Box([0.0, 0.0], [5.0, 5.0]))
    >>> method = pf.repeated_minimization(problem, samples=50)
    """
    if environment is not None:
        require_known(environment)
    problem, start = feasible_parts(problem, start, environment)
    return RepeatedMinimization(
        problem=problem,
        risk=None if environment is None else decoupled_risk(problem, environment),
        start=as_field(start),
        width=np.float64(width_of(problem.decisions)),
        samples=whole("samples", samples, 1),
    )


@pytree("samples")
class RepeatedMinimization:
    """θ_{t+1} = argmin_θ E_{Z∼D(θ_t)} ℓ(θ; Z) over θ ∈ Θ, g(θ) ≤ 0; see `performative.repeated_minimization`."""

    problem: Problem
    risk: DecoupledRisk | None
    start: Array | None
    width: np.float64
    samples: int

    @in_float64
    def init(self, key: Array) -> State[None]:
        """The state before any data, at θ_1."""
        origin = self.problem.decisions.project(jnp.zeros(self.problem.d))
        start = origin if self.start is None else jnp.asarray(self.start)
        return first_state(self.problem, key, start, None)

    @property
    def normals(self) -> int:
        """0: it does not explore."""
        return 0

    def ask(self, state: State[None], key: Array) -> Array:
        """The one decision θ_t, as an array (1, d)."""
        return self.decide(state, jnp.zeros(0))

    def decide(self, state: State[None], normals: Array) -> Array:
        """The one decision θ_t, as an array (1, d)."""
        return jnp.asarray(state.decision)[None]

    def wanted(self, state: State[None]) -> int:
        """The same number in every round."""
        return int(self.samples)

    @in_float64
    def tell(self, state: State[None], decisions: Array, samples: Array) -> State[None]:
        """Minimize on the data of this round, or on infinitely many of them."""
        decisions, samples = checked(self.problem, decisions, samples, "decision")
        if decisions.shape[0] != 1:
            raise ValueError(f"`decisions` must be the one decision θ_t, but got {decisions.shape[0]} decisions")
        return _repeat(self, state, decisions, samples)

    def _repeat(self, state: State[None], decisions: Array, samples: Array) -> State[None]:
        problem = self.problem
        if self.risk is None:
            pattern = hessian_pattern(LossInData(problem.loss), samples.shape[2], state.decision)
            data = from_samples(samples[0], pattern)

        def frozen(theta: Array) -> Array:
            if self.risk is None:
                return data.mean(lambda z: problem.loss(theta, z))
            return self.risk(theta, decisions[0])

        theta, lam = minimize(problem, frozen, state.decision, state.multipliers, self.width)
        return State(state.round + 1, theta, lam, None)


_repeat = jax.jit(RepeatedMinimization._repeat)
