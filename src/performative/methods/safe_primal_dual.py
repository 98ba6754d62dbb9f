"""The method that deploys safe decisions only, learns from all of them, and moves no farther than the evidence goes.

The effect and the mean of the data are learned together by least squares of Z on (1, x) over every deployment. A
plan then takes a step of θ_t, λ_t in the risk that this predicts, pessimistic and within a trust region, and a probe if what it
teaches is worth its price (`planning`); a budget limits what may be lost against staying at the start (`budget`). No quantity
has a unit of its own: a prior in units of the data and of each coordinate's range sets all scales.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from performative.budget import Budget, Ledger
from performative.estimators.prediction import Learned, Prediction
from performative.estimators.protocol import Unobserved
from performative.estimators.recall import recalled
from performative.estimators.regression import LeastSquares, Regression, faded
from performative.methods.pace import EVERY, apart
from performative.methods.planning import FIRST_RADIUS, Model, Planner, mean_loss_error, pessimism
from performative.methods.prior import Prior
from performative.methods.probes import STARTS, Around, SoFar, probes_around
from performative.methods.protocol import checked
from performative.methods.stakes import Limits, Stakes
from performative.moves import Moves
from performative.numerics.precision import in_float64
from performative.numerics.programs import Program
from performative.numerics.pytrees import changed, pytree
from performative.numerics.randomness import require_key, standard_normal
from performative.past import Past
from performative.problem import Problem
from performative.reasons import Explanation, Plan, explained
from performative.safety import PreparedSafety
from performative.sets import Box, separable

SMALLEST, LARGEST = 0.01, 0.2
"""The limits of the trust region, which begins as `planning.FIRST_RADIUS`, as shares of the range."""
GROWTH, SHRINKING = 2.0, 0.5
KEPT, BROKEN = 0.25, 0.75
"""A promise is kept if no more than this share of the promised gain is missing, and broken if more than that is."""
FADES = 0.65
"""How much of one deployment's worth each new one takes off the old ones, where these are outgrown."""
SOON, AGAIN, LATE = 0.5, 2.0, 8.0 * EVERY
"""Over how many rounds to come a probe pays, as a multiple of those behind: SOON at first (1 in one dimension with a loss that is
quadratic in the data, where that costs little and shows a reaction that bends), and t/LATE later, up to AGAIN. Where what is
known grows like √t, 2 loses least if worths are exact, and 1 and 4 lose 6 % more."""
ENOUGH = 5.0
"""From how many samples on the start is left: fewer do not say how large data are, which the prior and the budget rest on."""
INSIDE = 1e-9
"""How far outside of Θ rounding may leave a decision, as a share of its size."""
CLOSE = 1e-4
"""The share of the range within which a decision is said to lie at a bound."""
REMEMBERED = 4.0
"""Where data fade, plans are as far apart as after this multiple of the rounds that are remembered."""


@pytree()
class Reasons:
    """Why a decision is deployed, in the unit of the loss: see `SafePrimalDual.why`."""

    gain: Array
    price: Array
    worth: Array
    limited: Array
    held: Array
    spent: Array
    due: Array


@pytree()
class SafeState:
    """θ_t, λ_t, what is believed, and the plan.

    `probes` (b, d) are deployed for the next `repeats` rounds, and θ_t afterward. `deployed` is what was deployed last, `radius`
    the trust region, `expected` the predicted risk of the next deployment, `promised` by how much that is lower than the last
    one's, and `error` the standard error of its mean loss. `explored` is what probes since round EVERY were charged
    (`pace.Allowance`).
    """

    round: Array
    decision: Array
    multipliers: Array
    belief: Unobserved | Regression
    prior: Prior
    probes: Array
    repeats: Array
    deployed: Array
    radius: Array
    expected: Array
    promised: Array
    error: Array
    explored: Array
    ledger: Ledger
    reasons: Reasons


@pytree("samples", "arms")
class SafePrimalDual:
    """A composition of what learns the effect, what plans, what keeps deployments safe and what limits losses: `safe_apda`.

    The widths of the planner are those of the range at first, and `widest` (d,) what they grow to.
    """

    problem: Problem
    learner: LeastSquares
    planner: Planner
    widest: Array
    safety: PreparedSafety
    budget: Budget
    start: Array
    max_move: Moves | None
    deployments: Array
    history: Past | None
    samples: int
    arms: int

    feasible = True
    """Every deployed decision meets the constraints."""

    @in_float64
    def init(self, key: Array) -> SafeState:
        """Round 0 deploys the start, pulled to safety."""
        require_key(key)
        zero, no = jnp.zeros(()), jnp.asarray(False)
        theta = jnp.asarray(self.start)
        state = SafeState(
            round=jnp.asarray(0),
            decision=theta,
            multipliers=jnp.zeros(len(self.problem.constraint_names)),
            belief=Unobserved(key),
            prior=Prior.unknown(self.planner.widths),
            probes=jnp.tile(theta, (self.arms, 1)),
            repeats=jnp.asarray(0),
            deployed=jnp.tile(theta, (self.arms, 1)),
            radius=jnp.asarray(FIRST_RADIUS),
            expected=zero,
            promised=zero,
            error=zero,
            explored=zero,
            ledger=Ledger.empty(self.problem.d),
            reasons=Reasons(gain=zero, price=zero, worth=zero, limited=no, held=no, spent=zero, due=no),
        )
        if self.history is None:
            return state
        past = self.history
        rows = past.means if past.rows is None else past.rows[1]
        first, mean = jnp.asarray(past.decisions)[0], jnp.asarray(past.means)[:1]
        opened = self._opened(state, first, mean, jnp.asarray(rows))
        assert isinstance(opened.belief, Regression)
        belief = recalled(self.learner, opened.belief, past)
        for _ in range(2):  # the first fit shows the noise, which the second rests on
            belief = self.learner.fit(belief, opened.prior.variances(self.learner, belief)).regression
        return changed(opened, belief=belief)

    @in_float64
    def ask(self, state: SafeState, key: Array) -> Array:
        """The decisions (b, d) to deploy: the state knows them, the key is not used."""
        return _decide(self, state)

    def _decide(self, state: SafeState) -> Array:
        planned = jnp.where(state.repeats > 0, state.probes, state.decision)
        if self.max_move is None:
            return planned
        limits = self.max_move.limits(state.deployed)
        apart = jnp.max(jnp.abs(planned - state.deployed) / limits, axis=1, keepdims=True)
        near = state.deployed + (planned - state.deployed) / jnp.maximum(apart * (1.0 + 1e-12), 1.0)
        # Between two feasible decisions there may be none that is, if the constraints are not convex. What was told may not be
        # feasible at all: then the plan is deployed, however far it is.
        near = jnp.where(self._meets(near), near, jnp.where(self._meets(state.deployed), state.deployed, planned))
        if separable(self.problem.decisions):  # each coordinate as far as it may go, if that is feasible
            limits = limits / (1.0 + 1e-12)
            each = jnp.clip(planned, state.deployed - limits, state.deployed + limits)
            near = jnp.where(self._meets(each) & self._meets(state.deployed), each, near)
        return jnp.where(apart <= 1.0, planned, near)

    def _meets(self, decisions: Array) -> Array:
        """Whether each decision meets the constraints and lies in Θ, up to rounding, (b, 1)."""
        within = jnp.all(jax.vmap(self.problem.g)(decisions) <= 0.0, axis=1, keepdims=True)
        apart = jax.vmap(lambda x: x - self.problem.decisions.project(x))(decisions)
        size = jnp.maximum(jnp.max(jnp.abs(decisions), axis=1, keepdims=True), 1e-300)
        return within & (jnp.max(jnp.abs(apart), axis=1, keepdims=True) <= INSIDE * size)

    def wanted(self, state: SafeState) -> int:
        """The same number in every round."""
        return int(self.samples)

    @in_float64
    def tell(self, state: SafeState, decisions: Array, samples: Array) -> SafeState:
        """Improve the regression, then plan the next deployment."""
        decisions, samples = self._fitting(decisions, samples)
        return _planned(self, _learned(self, state, decisions, samples), state.round)

    def _fitting(self, decisions: Array, samples: Array) -> tuple[Array, Array]:
        """What was told as arrays, refused if it does not fit the problem, the arms or the effect."""
        decisions, samples = checked(self.problem, decisions, samples, "data")
        if decisions.shape[0] != self.arms:
            raise ValueError(f"`decisions` must have shape ({self.arms}, {self.problem.d}), but got {decisions.shape}")
        if self.learner.width not in (None, samples.shape[2]):
            raise ValueError(
                f"`samples` must hold {self.learner.width} numbers each, like the effect's rows, but got {samples.shape[2]}"
            )
        return decisions, samples

    def _planned(self, state: SafeState, told: Array) -> SafeState:
        return lax.cond(self.plans(told), self.plan, lambda state: state, state)

    def plans(self, round: Any) -> Any:
        """Whether the deployments of this round are followed by a plan."""
        return (round < EVERY) | (round % self.apart(round) == 0)

    def apart(self, round: Any) -> Any:
        """How many rounds apart plans are from round EVERY on."""
        if self.learner.memory is None:
            return apart(round)
        xp = jnp if isinstance(round, Array) else np
        return apart(xp.minimum(round, REMEMBERED * xp.asarray(self.learner.memory) / self.samples))

    @property
    def prediction(self) -> Prediction:
        """What the regression predicts for the loss."""
        return Prediction(self.problem.loss, self.learner.shift)

    def predicted_risk(self, belief: Regression, effect: Array, theta: Array, where: Array | None = None) -> Array:
        """The average of ℓ(θ; Z) over the data that `effect` predicts at θ, or at `where`."""
        return self.prediction.risk(belief, effect, theta, where)

    @in_float64
    def why(self, state: SafeState) -> Explanation:
        """Why the next decisions are what `ask` returns, in words and in numbers, in the unit of the loss."""
        return explained(_reasons(self, state), self.problem.constraint_names)

    def plan_of(self, state: SafeState) -> Plan:
        """What is planned, in numbers: what `why` says in words."""
        reasons, widths, problem = state.reasons, state.prior.widths, self.problem
        theta = state.decision
        slack, steep = -problem.g(theta), jnp.sqrt(problem.steepness(theta))
        at_lower = at_upper = jnp.zeros_like(widths, bool)
        if isinstance(problem.decisions, Box):
            at_lower = jnp.abs(theta - jnp.asarray(problem.decisions.lower)) <= CLOSE * widths
            at_upper = jnp.abs(theta - jnp.asarray(problem.decisions.upper)) <= CLOSE * widths
        return Plan(
            round=state.round,
            decision=theta,
            planned=jnp.where(state.repeats > 0, state.probes, theta),
            decisions=self._decide(state),
            deployed=state.deployed,
            repeats=state.repeats,
            gain=reasons.gain,
            price=reasons.price,
            worth=reasons.worth,
            wide=reasons.due & ~reasons.held,
            radius=state.radius,
            limited=reasons.limited,
            held=reasons.held,
            allowed=self.budget.allowance(state.ledger, self._deployed(state)),
            spent=reasons.spent,
            max_move=None if self.max_move is None else self.max_move.limits(state.deployed[0]),
            widths=widths,
            multipliers=state.multipliers,
            tight=slack / jnp.maximum(steep, 1e-300) <= CLOSE * jnp.max(widths),
            at_lower=at_lower,
            at_upper=at_upper,
        )

    def structure(self, state: SafeState) -> Learned | None:
        """What is learned about a structured effect, for whoever sees only the log; None for a dense one, or before any data."""
        if not self.learner.structured or isinstance(state.belief, Unobserved):
            return None
        return Learned(self.learner, self.prediction, state.belief)

    def learn(self, state: SafeState, decisions: Array, samples: Array) -> SafeState:
        """The state with one more round of data; θ_t stays."""
        decisions, samples = self._fitting(decisions, samples)
        ledger, explored, radius = state.ledger, state.explored, state.radius
        start, belief = jnp.asarray(self.start), state.belief
        for decision, rows in zip(decisions, samples, strict=True):
            losses = jax.vmap(lambda z, x=decision: self.problem.loss(x, z))(rows)
            at_start = jnp.all(jnp.abs(decision - start) <= 1e-9 * state.prior.widths)
            if not isinstance(belief, Unobserved):
                share = self.learner.fading(belief)
                ledger, explored = ledger.faded(share), share * explored
            ledger = ledger.after(decision, jnp.mean(losses), jnp.mean(jnp.abs(losses)), at_start)
            if isinstance(belief, Unobserved):
                state = self._opened(changed(state, belief=belief), decision, rows, rows)
                belief = state.belief
            else:
                belief = self.learner.update(belief, decision, rows)
        losses = jax.vmap(self.problem.loss, (None, 0))(decisions[0], samples[0])
        error = jnp.maximum(state.error, jnp.sqrt(jnp.var(losses) / samples.shape[1]))
        missing = jnp.mean(losses) - state.expected
        moved = jnp.any(jnp.abs(decisions[0] - start) > 1e-9 * state.prior.widths)  # or else nothing was promised
        kept = moved & (missing < jnp.maximum(error, KEPT * state.promised))
        broken = missing > jnp.maximum(2.0 * error, BROKEN * state.promised)
        factor = jnp.where(kept, GROWTH, jnp.where(broken, SHRINKING, 1.0))
        radius = jnp.where(state.error > 0, jnp.clip(radius * factor, SMALLEST, LARGEST), radius)
        return changed(
            state,
            round=state.round + 1,
            belief=belief,
            ledger=ledger,
            explored=explored,
            radius=radius,
            deployed=decisions,
            repeats=jnp.maximum(state.repeats - 1, 0),
        )

    def plan(self, state: SafeState) -> SafeState:
        """The state with a new θ_t, λ_t and probes."""
        belief = state.belief
        assert isinstance(belief, Regression)
        state = changed(state, prior=state.prior.widened(state.round, belief))
        problem, widths = self.problem, state.prior.widths
        planner = changed(self.planner, widths=widths)
        prior = state.prior
        variances, bent = prior.variances(self.learner, belief), prior.bent(belief, self.samples)
        fit = self.learner.fit(belief, variances, bent, prior.rivals(self.learner, belief, state.round))
        belief = fit.regression
        model = Model.of(problem, self.prediction, fit, state.prior, state.decision, state.multipliers, self.samples)
        now = Stakes(self.prediction, fit, state.decision, model.here, jnp.zeros(()))
        stakes = Stakes.of(self.prediction, fit, jnp.asarray(self.start))
        theta, lam, limited = planner.step(problem, self.safety, model, now, state.multipliers, state.radius)
        mean = stakes.curved(state.ledger.mean)(state.ledger.mean)
        bent, sure = model.hessian / (widths[:, None] * widths), self.budget.sure(belief.freedom, problem.d)
        ledger = state.ledger.promised(-stakes.over_start(theta).value)
        spent, refuted = ledger.spent(model.error, mean.value, mean.largest, bent, sure)
        # What is surely better than the start is affordable even where the budget is spent: it earns some of it back. Once losses
        # say that the model is wrong, what it is sure of must make up for all that is overspent.
        left = self.budget.allowance(ledger, self._deployed(state)) - spent
        left = jnp.where(refuted, left, jnp.maximum(left, 0.0)) / self.arms
        rounds = jnp.where(state.round < EVERY, 1, self.apart(state.round)).astype(jnp.float64)  # until the next plan
        limits = Limits(left / rounds, sure, lambda x: jnp.all(problem.g(x) <= 0.0))
        reach = limits.reach(stakes.start, theta, stakes.curved(theta))
        enough = belief.count >= ENOUGH
        wanted = enough & (reach.whole.value + pessimism(problem.d) * reach.whole.error < 0.0)  # or else the start
        theta = jnp.where(wanted, reach.decision, stakes.start)
        bound = jnp.where(wanted, jnp.maximum(reach.bound, 0.0), 0.0)
        around = Around(planner, model, stakes, limits._replace(left=left), theta, lam, bound, rounds)
        probing = probes_around(problem, self.safety, around, self._so_far(state, belief), self.samples)
        after = changed(
            state,
            decision=theta,
            multipliers=lam,
            belief=belief,
            ledger=ledger,
            prior=state.prior.grown(self.learner, belief, fit.known),
            probes=jnp.where(enough, probing.decisions, stakes.start),
            repeats=probing.repeats.astype(state.repeats.dtype),
            explored=probing.explored,
            reasons=Reasons(
                gain=jnp.where(wanted, -reach.over.value, 0.0),
                price=probing.price,
                worth=probing.worth,
                limited=limited & wanted & (reach.place == 0),
                held=(wanted & (reach.place > 0)) | probing.held,
                spent=spent,
                due=probing.due,
            ),
        )
        ahead = self._decide(after)[0]
        there = self.prediction.at(belief, belief.effect, ahead)
        error = mean_loss_error(self.prediction, fit, ahead, there, self.samples)
        promised = self.predicted_risk(belief, belief.effect, state.deployed[0]) - there.risk
        outgrown = (state.round < EVERY) & state.prior.outgrown(belief, fit.known, theta)
        less = (1.0 - FADES / jnp.maximum(belief.deployments, 1.0)) ** self.arms  # forgetting may leave less than one
        belief = faded(belief, jnp.where(outgrown, less, 1.0))
        return changed(after, belief=belief, expected=there.risk, promised=promised, error=error)

    def horizon(self, rounds: Array, quadratic: bool) -> Array:
        """Over how many rounds to come a probe pays: those that the user says are left, or in proportion to those remembered.

        `quadratic` says whether the loss is quadratic in the data.
        """
        ahead = jnp.maximum(self.deployments / self.arms - rounds, 0.0)
        behind = self.learner.remembered(rounds, self.samples)
        multiple = jnp.clip(behind / LATE, 1.0 if self.problem.d == 1 and quadratic else SOON, AGAIN)
        return jnp.where(jnp.isfinite(ahead), ahead, jnp.maximum(multiple * behind, 5.0))

    def _so_far(self, state: SafeState, belief: Regression) -> SoFar:
        rounds = state.round.astype(jnp.float64)
        key = jax.random.fold_in(belief.key, state.round)
        shape = self.arms, STARTS, self.problem.d
        return SoFar(
            rounds=rounds,
            remembered=self.learner.remembered(rounds, self.samples),
            horizon=self.horizon(rounds, belief.reservoir is None),
            explored=state.explored,
            unit=state.prior.bend + state.ledger.unit,
            relative=state.prior.relative(belief, self.samples),
            noise=standard_normal(key, math.prod(shape)).reshape(shape),
        )

    def _deployed(self, state: SafeState) -> Array:
        """How many decisions have been deployed, of those that are remembered."""
        return self.learner.remembered(self.arms * state.round.astype(jnp.float64), self.samples)

    def _opened(self, state: SafeState, decision: Array, samples: Array, all_samples: Array) -> SafeState:
        """The state after the first deployment: its data, and the prior that all samples so far and the loss set."""
        assert isinstance(state.belief, Unobserved)
        quadratic = self.prediction.pattern(all_samples.shape[1], self.problem.d) is not None
        belief = self.learner.start(state.belief, decision, samples, not quadratic)
        start = jnp.asarray(self.start)
        widths = jnp.asarray(self.planner.widths), jnp.asarray(self.widest)
        prior = Prior.of(self.problem, self.learner, widths, belief, start, all_samples)
        return changed(state, belief=belief, prior=prior)


# Apart, so that the plan is compiled once: the first data change the structure of the state, the plan does not see it.
_learned, _planned = Program(SafePrimalDual.learn), Program(SafePrimalDual._planned)
_decide, _reasons = Program(SafePrimalDual._decide), Program(SafePrimalDual.plan_of)
