"""The metrics of a run, summed round by round: regret, violation, deviation and estimation error, also over every deployment."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.environments.protocol import KnownWorld, risk_of
from performative.methods.protocol import MethodState
from performative.numerics.expectations import QuadraticForm
from performative.numerics.programs import Program
from performative.numerics.pytrees import changed, pytree
from performative.problem import Problem
from performative.solvers.kkt import Solution
from performative.truth.sampled import MovingExcess, SampledExcess

EVERY = slice(None)


@pytree()
class Excess:
    """PR(θ) − PR(θ_PO) for any risk."""

    risk: Callable[[Array], Array]
    least: Array

    def __call__(self, theta: Array) -> Array:
        """The excess risk."""
        return self.risk(theta) - self.least


@pytree()
class Track:
    """The optima (R, d) of the recorded rounds (R,) of a world that moves."""

    rounds: Array
    decisions: Array

    def at(self, t: Array) -> Array:
        """The optimum of the first recorded round that is not before t."""
        later = jnp.sum(jnp.asarray(self.rounds) < t)
        return jnp.asarray(self.decisions)[jnp.minimum(later, self.decisions.shape[0] - 1)]


def bare(optimum: Solution) -> Solution:
    """The numbers of an optimum: instances may differ in what is said about theirs, but not in their structure."""
    return changed(optimum, local=True, message="", others=())


@pytree("outside", "observed")
class Truth:
    """What the world knows and methods do not: the problem to measure on, the excess risk over the optimum, the optimum.

    `excess` and `optimum` are None where nobody knows or samples them; then only the constraints are measured. In a world
    that moves, `optimum` is the best fixed decision and `track` holds the optima of the recorded rounds. `outside` is whether
    the distance from Θ is measured for methods that stay in it too, which takes a projection for each deployment. `local` is
    1 if the optimum is not proved to be the best, and 0 if it is. `observed` says that the losses of the samples are
    averaged.
    """

    problem: Problem
    excess: Excess | QuadraticForm | SampledExcess | MovingExcess | None
    optimum: Solution | None
    outside: bool = False
    track: Track | None = None
    local: Array | None = None
    observed: bool = False

    @staticmethod
    def known(problem: Problem, environment: KnownWorld, optimum: Solution, steps: int | None = None) -> Truth:
        """The truth about a problem in a world that knows it; `steps` is the size of its quadrature grid, if not the default."""
        form = _excess_form(problem, environment, bare(optimum), steps=steps)
        return Truth(problem, form or _excess(problem, environment, bare(optimum), steps), optimum)

    def excess_at(self, theta: Array, t: Array, key: Array, index: int = 0) -> tuple[Array, Array | None]:
        """The excess risk of θ in round t and, where it is sampled, the square of its standard error.

        `key` is that of the round, and `index` tells apart what is sampled in one round.
        """
        if self.excess is None or self.optimum is None:
            return jnp.full((), jnp.nan), None
        if isinstance(self.excess, SampledExcess):
            return self.excess(theta, self.optimum.decision, t, _measuring(key, index))
        if isinstance(self.excess, MovingExcess):
            return self.excess(theta, self.optimum.decision, t), None
        return self.excess(theta), None

    def behind_at(self, theta: Array, t: Array, key: Array) -> Array:
        """The excess risk of θ over the optimum of the recorded round that t leads up to."""
        assert self.track is not None
        if isinstance(self.excess, SampledExcess):
            return self.excess(theta, self.track.at(t), t, _measuring(key, 0))[0]
        assert isinstance(self.excess, MovingExcess)
        return self.excess(theta, self.track.at(t), t)


@Program
def _excess_form(
    problem: Problem, environment: KnownWorld, optimum: Solution, steps: int | None
) -> QuadraticForm | None:
    """The excess risk as a quadratic form, if it is one."""
    form = QuadraticForm.of(risk_of(problem, environment, steps), optimum.decision)
    return None if form is None else changed(form, value=jnp.zeros(()))


@functools.partial(jax.jit, static_argnames="steps")
def _excess(problem: Problem, environment: KnownWorld, optimum: Solution, steps: int | None) -> Excess:
    risk = risk_of(problem, environment, steps)
    return Excess(risk, risk(optimum.decision))


@pytree()
class Tally:
    """Running sums over the rounds of one method; their size does not depend on the number of rounds.

    `violation` sums g(θ_t) and `violation_positive` g(θ_t)⁺; `deployed_violation` holds the largest violation of each constraint
    so far, `outside` the largest distance of a deployment from Θ, `decision` the last θ_t. `extra` holds the sums that only some
    worlds need: squared standard errors of sampled regrets, regret against optima that move, and observed losses.
    """

    regret: Array
    violation: Array
    violation_positive: Array
    deployed_regret: Array
    deployed_violation: Array
    outside: Array
    deployments: Array
    decision: Array
    extra: dict[str, Array]

    @staticmethod
    def empty(truth: Truth, decision: Array) -> Tally:
        """Before anything is deployed."""
        zero = jnp.zeros(())
        nothing = jnp.zeros(len(truth.problem.constraint_names))
        extra: dict[str, Array] = {}
        if isinstance(truth.excess, SampledExcess):
            extra |= {"regret_variance": zero, "deployed_variance": zero}
        if truth.track is not None:
            extra["dynamic_regret"] = zero
        if truth.observed:
            extra |= {"loss": zero, "squared_loss": zero}
        return Tally(zero, nothing, nothing, zero, nothing, zero, zero, decision, extra)

    def after_round(
        self,
        truth: Truth,
        theta: Array,
        decisions: Array,
        samples: Array,
        t: Array,
        key: Array,
        strays: slice = EVERY,
    ) -> Tally:
        """The tally after round t, which was at θ_t and deployed `decisions` (b, d) for `samples` (b, n, k).

        The warm-up, round 0, counts as deployments, but not for the regret of θ_t. What is sampled is sampled with `key`.
        `strays` are those of the decisions that may leave Θ; only for them is it measured how far, unless the truth asks for all.
        """
        weight, wanted = jnp.minimum(t, 1), samples.shape[1]
        excess, variance = truth.excess_at(theta, t, key)
        deployed, extra = jnp.zeros(()), dict(self.extra)
        for index, decision in enumerate(decisions):
            value, uncertain = truth.excess_at(decision, t, key, index + 1)
            deployed = deployed + wanted * value
            if "deployed_variance" in extra and uncertain is not None:
                extra["deployed_variance"] = extra["deployed_variance"] + wanted**2 * uncertain
        if "regret_variance" in extra and variance is not None:
            extra["regret_variance"] = extra["regret_variance"] + weight * variance
        if truth.track is not None:
            extra["dynamic_regret"] = extra["dynamic_regret"] + weight * truth.behind_at(theta, t, key)
        if truth.observed:
            losses = _losses(truth.problem, decisions, samples)
            extra["loss"] = extra["loss"] + jnp.sum(losses)
            extra["squared_loss"] = extra["squared_loss"] + jnp.sum(losses**2)
        worst, outside = self.deployed_violation, self.outside
        for decision in decisions:
            worst = jnp.maximum(worst, truth.problem.g(decision))
        for decision in decisions[EVERY if truth.outside else strays]:
            apart = truth.problem.decisions.distance(decision)
            outside = jnp.where(apart > outside, apart, outside)  # what was measured before a run failed is kept
        g = truth.problem.g(theta)
        return Tally(
            regret=self.regret + weight * excess,
            violation=self.violation + weight * g,
            violation_positive=self.violation_positive + weight * jnp.maximum(g, 0.0),
            deployed_regret=self.deployed_regret + deployed,
            deployed_violation=worst,
            outside=outside,
            deployments=self.deployments + wanted * decisions.shape[0],
            decision=theta,
            extra=extra,
        )


def _measuring(key: Array, index: int) -> Array:
    """The key for what is sampled to measure, apart from those that the round itself uses."""
    return jax.random.fold_in(key, np.uint32(2**32 - 1 - index))


def _losses(problem: Problem, decisions: Array, samples: Array) -> Array:
    """The losses (b, n) of all samples at the decisions that brought them."""
    return jax.vmap(lambda theta, z: jax.vmap(functools.partial(problem.loss, theta))(z))(decisions, samples)


def record(truth: Truth, tally: Tally, state: MethodState, effect: Array | None, t: Array) -> dict[str, Array]:
    """The recorded variables after round t; `effect` is the true A, or None.

    `decision` is θ_t, which round t deployed; `multipliers` are λ_{t+1} and the estimate is Â_t, both updated by round t.
    """
    recorded = {
        "regret": tally.regret / t,
        "violation": tally.violation / t,
        "violation_positive": tally.violation_positive / t,
        "deviation": jnp.full((), jnp.nan),
        "estimation_error": jnp.full((), jnp.nan),
        "deployed_regret": tally.deployed_regret / tally.deployments,
        "deployed_violation": jnp.max(tally.deployed_violation, initial=0.0),
        "outside": tally.outside,
        "deployments": tally.deployments,
        "decision": tally.decision,
        "multipliers": state.multipliers,
    }
    best = None if truth.optimum is None else truth.optimum.decision
    if truth.track is not None:
        best = truth.track.at(t)
        recorded["dynamic_regret"] = tally.extra["dynamic_regret"] / t
    if best is not None:
        recorded["deviation"] = jnp.sum((tally.decision - best) ** 2)
    if "regret_variance" in tally.extra:
        recorded["regret_error"] = jnp.sqrt(tally.extra["regret_variance"]) / t
        recorded["deployed_regret_error"] = jnp.sqrt(tally.extra["deployed_variance"]) / tally.deployments
    if truth.observed:
        mean = tally.extra["loss"] / tally.deployments
        spread = jnp.maximum(tally.extra["squared_loss"] / tally.deployments - mean**2, 0.0)
        recorded["loss"], recorded["loss_error"] = mean, jnp.sqrt(spread / tally.deployments)
    belief = getattr(state, "belief", None)
    estimate = getattr(belief, "mean_effect", getattr(belief, "effect", None))
    if effect is not None and estimate is not None and np.shape(estimate) == np.shape(effect):
        recorded["estimation_error"] = jnp.sum((estimate - effect) ** 2)
    return recorded
