"""The primal-dual method that deploys one safe decision per round and learns from all of them.

    x_t = safe(θ_t + σ_t w_t),  w_t ∼ N(0, I),  σ_t ∝ t^(−1/4)

The effect and the mean of the data are learned together by recursive least squares of Z on (1, x) over every deployment, and
θ_t, λ_t follow the primal-dual steps of the framework on the risk that this predicts. No quantity has a unit of its own: steps,
ridge and exploration are made from the curvature, the noise and the effect as learned so far.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import Array

from performative.estimators.prediction import Learned, Prediction
from performative.estimators.protocol import Unobserved
from performative.estimators.recall import recalled
from performative.estimators.regression import LeastSquares, Regression, with_floor
from performative.estimators.standard_errors import DRAWS, Confidence, confidence
from performative.fading import Fading, Scales
from performative.methods.protocol import checked
from performative.numerics.polynomial import is_analytic
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import changed, pytree
from performative.numerics.randomness import require_key, standard_normal
from performative.past import Past
from performative.problem import Problem
from performative.safety import PreparedSafety
from performative.steps import CurvatureSteps

FLOOR = 0.1
"""The share of its exploration that a method which forgets takes for granted in every direction."""


@pytree()
class SafeState:
    """θ_t, λ_t, what is believed, and the scales learned so far; `aim` is θ_t before its projection on Θ, `values` is g(θ_t)."""

    round: Array
    decision: Array
    multipliers: Array
    belief: Unobserved | Regression
    aim: Array
    values: Array
    scales: Scales


@pytree("samples")
class SafePrimalDual:
    """A composition of what learns the effect, what explores, what keeps deployments safe, and what steps; see `safe_apda`."""

    problem: Problem
    learner: LeastSquares
    exploration: Fading
    safety: PreparedSafety
    steps: CurvatureSteps
    start: Array
    history: Past | None
    samples: int

    feasible = True
    """Every deployed decision meets the constraints."""

    @in_float64
    def init(self, key: Array) -> SafeState:
        """Round 0 deploys the start, pulled to safety."""
        require_key(key)
        zero, theta = jnp.zeros(()), jnp.asarray(self.start)
        state = SafeState(
            round=jnp.asarray(0),
            decision=theta,
            multipliers=jnp.zeros(len(self.problem.constraint_names)),
            belief=Unobserved(key),
            aim=theta,
            values=self.problem.g(theta),
            scales=Scales(zero, zero, zero, zero),
        )
        if self.history is None:
            return state
        opened = self._opened(state, jnp.asarray(self.history.decisions)[0], jnp.asarray(self.history.means)[:1])
        assert isinstance(opened.belief, Regression)
        belief = recalled(self.learner, opened.belief, self.history)
        theta = self.safety(self.problem, jnp.asarray(self.start))
        return changed(
            state, belief=belief, decision=theta, aim=theta, values=self.problem.g(theta), scales=opened.scales
        )

    @property
    def normals(self) -> int:
        """d: one standard normal number for each coordinate."""
        return self.problem.d

    @in_float64
    def ask(self, state: SafeState, key: Array) -> Array:
        """The one decision (1, d) to deploy."""
        return self.decide(state, standard_normal(key, self.normals))

    def decide(self, state: SafeState, normals: Array) -> Array:
        """`ask` with the standard normal numbers given."""
        return _decide(self, state, normals)

    def _decide(self, state: SafeState, normals: Array) -> Array:
        if isinstance(state.belief, Unobserved):
            return self.safety(self.problem, state.decision)[None]
        theta, level = state.decision, jnp.where(state.round > 0, self.noise_level(state), 0.0)
        cheap = self.exploration.cheap_noise(
            self.problem, theta, state.aim - theta, state.multipliers, state.scales.curvature, level, normals
        )
        candidate = self.problem.decisions.project(theta + level * cheap)
        return self.safety(self.problem, candidate)[None]

    def wanted(self, state: SafeState) -> int:
        """The same number in every round."""
        return int(self.samples)

    def noise_level(self, state: SafeState) -> Array:
        """σ_t, the standard deviation of this round's exploration; see `Fading`."""
        rounds = self.learner.remembered(jnp.maximum(state.round, 1).astype(jnp.float64), self.samples)
        return self.exploration.level(state.scales, rounds, self.normals)

    @in_float64
    def tell(self, state: SafeState, decisions: Array, samples: Array) -> SafeState:
        """Improve the regression, then one primal and one dual step from θ_t, λ_t."""
        decisions, samples = checked(self.problem, decisions, samples, "data")
        if decisions.shape[0] != 1:
            raise ValueError(f"`decisions` must have shape (1, {self.normals}), but got {decisions.shape}")
        if self.learner.prior is not None:
            theta = jax.ShapeDtypeStruct((self.normals,), jnp.float64)
            width = jax.eval_shape(self.learner.shift, jnp.asarray(self.learner.prior), theta).shape
            if width != (samples.shape[2],):
                raise ValueError(
                    f"`samples` must hold {width[0]} numbers each, like the effect's rows, but got {samples.shape[2]}"
                )
        return _advance(self, state, decisions[0], samples[0])

    @property
    def prediction(self) -> Prediction:
        """What the regression predicts for the loss."""
        return Prediction(self.problem.loss, self.learner.shift)

    def predicted_risk(self, belief: Regression, effect: Array, theta: Array, where: Array | None = None) -> Array:
        """The average of ℓ(θ; Z) over the data that `effect` predicts at θ, or at `where`."""
        return self.prediction.risk(belief, effect, theta, where)

    @in_float64
    def confidence(self, state: SafeState, draws: int = DRAWS) -> Confidence:
        """Estimates at θ_t with standard errors; the gain is over the start. See `estimators.standard_errors`."""
        if isinstance(state.belief, Unobserved):
            raise ValueError(f"standard errors need more than {self.normals + 2} samples, but got none")
        start = self.safety(self.problem, jnp.asarray(self.start))
        ridge = state.scales.length**2
        return confidence(self.learner, self.prediction, state.belief, state.decision, start, ridge, draws)

    def structure(self, state: SafeState) -> Learned | None:
        """What is learned about a structured effect, for whoever sees only the log; None for a dense one, or before any data."""
        if not self.learner.structured or isinstance(state.belief, Unobserved):
            return None
        return Learned(self.learner, self.prediction, state.belief, state.scales.length**2)

    def _advance(self, state: SafeState, decision: Array, samples: Array) -> SafeState:
        if isinstance(state.belief, Unobserved):
            return self._opened(state, decision, samples)
        problem, theta, lam, d = self.problem, state.decision, state.multipliers, self.normals
        belief, surprise = self.learner.update(state.belief, decision, samples)
        probe = decision - theta
        size = jnp.sum(probe * probe)
        direction = probe / jnp.sqrt(jnp.maximum(size, 1e-300))

        def slope(theta: Array) -> Array:
            return self._gradient(belief, belief.effect, theta) + problem.pullback(theta, lam)

        # A secant: the curvature at the distance explored.
        gradient = slope(theta)
        rise = jnp.sum((slope(decision) - gradient) * direction)
        bend = jnp.abs(rise) / jnp.sqrt(jnp.maximum(size, 1e-300))
        level = self.noise_level(state)
        unit = direction * math.sqrt(d)  # as long as standard normal noise
        error = self.learner.nearest_effect(belief.effect, unit, surprise)
        unsure = jax.jvp(lambda effect: self._gradient(belief, effect, theta), (belief.effect,), (error,))[1]
        t = self.learner.remembered(state.round.astype(jnp.float64), self.samples)
        if self.learner.memory is not None:
            # What is forgotten must be explored again, but an active constraint hardly lets it.
            belief = with_floor(belief, state.round % d, FLOOR * level * level * d)
        scales = state.scales.averaged(
            weight=2.0 / (t + 3.0),  # of about the latter half of all rounds
            moved=size > 0,
            curvature=d * bend,
            price=bend * size / jnp.maximum(level, 1e-300) ** 2,
            learning=jnp.sum(unsure * unsure),
        )
        aim, next_theta, values, next_lam = self.steps(
            problem, theta, lam, state.values, gradient, jnp.maximum(scales.curvature, d * bend)
        )
        return SafeState(state.round + 1, next_theta, next_lam, belief, aim, values, scales)

    def _gradient(self, belief: Regression, effect: Array, theta: Array) -> Array:
        """∇_θ of the predicted risk."""
        return jax.grad(lambda theta: self.predicted_risk(belief, effect, theta))(theta)

    def _opened(self, state: SafeState, decision: Array, samples: Array) -> SafeState:
        """The state after the first deployment: its data, and a first guess of the scales from the loss alone."""
        assert isinstance(state.belief, Unobserved)
        d, width = self.normals, samples.shape[1]
        quadratic = self.prediction.pattern(width, d) is not None
        if not quadratic and not is_analytic(self.problem.loss, jnp.zeros(d), jnp.zeros(width)):
            raise ValueError(
                "`loss` must be smooth for safe_apda, which steps by its curvature, but it has kinks; smooth it "
                "(softplus, a Huber loss) or use apda"
            )
        belief = self.learner.start(state.belief, decision, samples, with_reservoir=not quadratic)

        def slope(theta: Array) -> Array:
            return self._gradient(belief, belief.effect, theta)

        scales = self.exploration.first_scales(slope, decision)
        belief = changed(belief, inverse=jnp.eye(d) / scales.length**2)
        theta = jnp.asarray(decision)
        return changed(
            state,
            round=state.round + 1,
            decision=theta,
            aim=theta,
            values=self.problem.g(theta),
            belief=belief,
            scales=scales,
        )


_advance = jax.jit(SafePrimalDual._advance)
_decide = jax.jit(SafePrimalDual._decide)
