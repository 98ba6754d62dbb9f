"""The metrics of a run, summed round by round: regret, violation, deviation and estimation error, also over every deployment."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.environments.protocol import Environment, KnownWorld, knows_risk
from performative.numerics.expectations import QuadraticForm
from performative.numerics.pytrees import changed, pytree
from performative.problem import Problem
from performative.solvers.kkt import Solution

EVERY = slice(None)


@pytree()
class Excess:
    """PR(θ) − PR(θ_PO) for any risk."""

    risk: Callable[[Array], Array]
    least: Array

    def __call__(self, theta: Array) -> Array:
        """The excess risk."""
        return self.risk(theta) - self.least


@pytree("outside")
class Truth:
    """What the world knows and methods do not: the problem to measure on, the excess risk over the optimum, the optimum.

    `excess` and `optimum` are None for an environment that only samples; then only the constraints are measured. `outside` is
    whether the distance from Θ is measured for methods that stay in it too; it takes a projection for each deployment.
    """

    problem: Problem
    excess: Excess | QuadraticForm | None
    optimum: Solution | None
    outside: bool = False

    @staticmethod
    def of(
        problem: Problem,
        environment: Environment,
        optimum: Solution | None,
        steps: int | None = None,
        outside: bool = False,
    ) -> Truth:
        """The truth about a problem in an environment; `steps` is the size of its quadrature grid, if not the default."""
        if optimum is None or not knows_risk(environment):
            return Truth(problem, None, None, outside)
        return Truth(problem, _excess(problem, environment, optimum, steps), optimum, outside)


@functools.partial(jax.jit, static_argnames="steps")
def _excess(problem: Problem, environment: KnownWorld, optimum: Solution, steps: int | None) -> Excess | QuadraticForm:
    risk = environment.risk(problem, steps) if steps else environment.risk(problem)
    form = QuadraticForm.of(risk, optimum.decision)
    return Excess(risk, risk(optimum.decision)) if form is None else changed(form, value=jnp.zeros(()))


@pytree()
class Tally:
    """Running sums over the rounds of one method; their size does not depend on the number of rounds.

    `deployed_violation` holds the largest violation of each constraint so far, `outside` the largest distance of a deployment
    from Θ, `decision` the last θ_t.
    """

    regret: Array
    violation: Array
    deployed_regret: Array
    deployed_violation: Array
    outside: Array
    deployments: Array
    decision: Array

    @staticmethod
    def empty(truth: Truth, decision: Array) -> Tally:
        """Before anything is deployed."""
        zero = jnp.zeros(())
        nothing = jnp.zeros(len(truth.problem.constraint_names))
        return Tally(zero, nothing, zero, nothing, zero, zero, decision)

    def after_round(
        self, truth: Truth, theta: Array, decisions: Array, wanted: int, t: Array, strays: slice = EVERY
    ) -> Tally:
        """The tally after round t, which was at θ_t and deployed `decisions` (b, d) for `wanted` samples each.

        `strays` are those of the decisions that may leave Θ; only for them is it measured how far, unless the truth asks for all.
        The warm-up, round 0, counts as deployments, but not for the regret of θ_t.
        """
        weight = jnp.minimum(t, 1)
        excess = truth.excess or (lambda theta: jnp.full((), jnp.nan))
        deployed = sum((wanted * excess(decision) for decision in decisions), start=jnp.zeros(()))
        worst, outside = self.deployed_violation, self.outside
        for decision in decisions:
            worst = jnp.maximum(worst, truth.problem.g(decision))
        for decision in decisions[EVERY if truth.outside else strays]:
            apart = truth.problem.decisions.distance(decision)
            outside = jnp.where(apart > outside, apart, outside)  # what was measured before a run failed is kept
        return Tally(
            regret=self.regret + weight * excess(theta),
            violation=self.violation + weight * truth.problem.g(theta),
            deployed_regret=self.deployed_regret + deployed,
            deployed_violation=worst,
            outside=outside,
            deployments=self.deployments + wanted * decisions.shape[0],
            decision=theta,
        )


def record(truth: Truth, tally: Tally, state: Any, effect: Array | None, t: Array) -> dict[str, Array]:
    """The recorded variables after round t; `effect` is the true A, or None.

    `decision` is θ_t, which round t deployed; `multipliers` are λ_{t+1} and the estimate is Â_t, both updated by round t.
    """
    recorded = {
        "regret": tally.regret / t,
        "violation": tally.violation / t,
        "deviation": jnp.full((), jnp.nan),
        "estimation_error": jnp.full((), jnp.nan),
        "deployed_regret": tally.deployed_regret / tally.deployments,
        "deployed_violation": jnp.max(tally.deployed_violation, initial=0.0),
        "outside": tally.outside,
        "deployments": tally.deployments,
        "decision": tally.decision,
        "multipliers": state.multipliers,
    }
    if truth.optimum is not None:
        recorded["deviation"] = jnp.sum((tally.decision - truth.optimum.decision) ** 2)
    estimate = getattr(getattr(state, "belief", None), "effect", None)
    if effect is not None and estimate is not None and np.shape(estimate) == np.shape(effect):
        recorded["estimation_error"] = jnp.sum((estimate - effect) ** 2)
    return recorded
