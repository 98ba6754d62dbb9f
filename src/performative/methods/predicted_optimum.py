"""A linear model of the data, refitted at every deployment, and the optimum it predicts, which is deployed next.

    Z ≈ z̄ + Â(x − x̄),    θ_{t+1} = argmin of the average of ℓ(θ; z̄ + Â(θ − x̄) + noise) over θ ∈ Θ, g(θ) ≤ 0

`least_squares` takes Â and z̄ as they are, after some random deployments; `thompson` draws them from their posterior.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import ndtr
from numpy.typing import ArrayLike

from performative.estimators.posterior import drawn
from performative.estimators.prediction import Prediction
from performative.estimators.protocol import Unobserved
from performative.estimators.regression import LeastSquares, Regression
from performative.methods.options import parts_of, regression_of
from performative.methods.protocol import State, checked
from performative.numerics.arrays import as_field
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import pytree
from performative.numerics.randomness import require_key, standard_normal
from performative.problem import Problem, with_dimension
from performative.safety import PreparedSafety, Pull
from performative.shifts import Shift
from performative.solvers.augmented_lagrangian import minimize, width_of
from performative.solvers.feasibility import require_inside, strictly_feasible
from performative.validation import whole

TOLERANCE = 1e-4
"""How far from its optimum a predicted problem is solved, as a share of the width of Θ: less than noise makes of it."""
ModelState = State[Unobserved | Regression]


@pytree()
class Design:
    """Random decisions around the start in rounds 1 to `count`: each coordinate uniform within ±`reach` of it."""

    count: Array
    reach: Array

    def decision(self, start: Array, normals: Array) -> Array:
        """The decision that standard normal numbers stand for."""
        return start + self.reach * (2.0 * ndtr(normals) - 1.0)


@pytree("samples", "draws")
class PredictedOptimum:
    """Deploy the optimum that a linear model predicts; see `performative.least_squares` and `performative.thompson`.

    `ridge` is what the prior adds to the scatter of the decisions. With `draws` the model is drawn from its posterior.
    """

    problem: Problem
    learner: LeastSquares
    safety: PreparedSafety
    design: Design
    start: Array
    ridge: Array
    width: np.float64
    samples: int
    draws: bool

    feasible = True
    """Every deployed decision meets the constraints."""

    @in_float64
    def init(self, key: Array) -> ModelState:
        """Round 0 deploys the start, pulled to safety."""
        require_key(key)
        multipliers = jnp.zeros(len(self.problem.constraint_names))
        return State(jnp.asarray(0), jnp.asarray(self.start), multipliers, Unobserved(key))

    @property
    def normals(self) -> int:
        """One for each coordinate of the random design."""
        return self.problem.d

    @in_float64
    def ask(self, state: ModelState, key: Array) -> Array:
        """The one decision (1, d) to deploy."""
        return self.decide(state, standard_normal(key, self.normals))

    def decide(self, state: ModelState, normals: Array) -> Array:
        """`ask` with the standard normal numbers given."""
        return _decide(self, state, normals)

    def _decide(self, state: ModelState, normals: Array) -> Array:
        if isinstance(state.belief, Unobserved):
            return self.safety(self.problem, state.decision)[None]
        probe = self.problem.decisions.project(self.design.decision(jnp.asarray(self.start), normals))
        candidate = jnp.where(state.round <= self.design.count, probe, state.decision)
        return self.safety(self.problem, candidate)[None]

    def wanted(self, state: ModelState) -> int:
        """The same number in every round."""
        return int(self.samples)

    @in_float64
    def tell(self, state: ModelState, decisions: Array, samples: Array) -> ModelState:
        """Refit the model and minimize what it predicts."""
        decisions, samples = checked(self.problem, decisions, samples, "data")
        if decisions.shape[0] != 1:
            raise ValueError(f"`decisions` must be one decision, but got {decisions.shape[0]} decisions")
        return _advance(self, state, decisions[0], samples[0])

    def _advance(self, state: ModelState, decision: Array, samples: Array) -> ModelState:
        prediction = Prediction(self.problem.loss, self.learner.shift)
        if isinstance(state.belief, Unobserved):
            quadratic = prediction.pattern(samples.shape[1], self.normals) is not None
            belief = self.learner.start(state.belief, decision, samples, not quadratic)
        else:
            belief = self.learner.update(state.belief, decision, samples)
        fit = self.learner.fit(belief, self.learner.variances(belief, self.ridge))
        model, effect = fit.regression, fit.regression.effect
        if self.draws:
            model, effect = drawn(fit, jax.random.fold_in(belief.key, state.round))

        def risk(theta: Array) -> Array:
            return prediction.risk(model, effect, theta)

        today = self.safety(self.problem, jnp.asarray(self.start))
        theta, lam = minimize(self.problem, risk, state.decision, state.multipliers, self.width, TOLERANCE)
        # A predicted problem may be no problem at all, where hardly anything is known.
        solved = jnp.all(jnp.isfinite(theta)) & jnp.all(jnp.isfinite(lam)) & (state.round >= self.design.count)
        theta, lam = jnp.where(solved, self.safety(self.problem, theta), today), jnp.where(solved, lam, 0.0)
        return State(state.round + 1, theta, lam, fit.regression)


_advance = jax.jit(PredictedOptimum._advance)
_decide = jax.jit(PredictedOptimum._decide)


RIDGE = 1e-3
"""The ridge of plain least squares, as a share of the square of how far the random design reaches."""


def predicted_optimum(
    problem: Problem,
    *,
    start: ArrayLike | None,
    anchor: ArrayLike | None,
    samples: int,
    shift: Shift | None,
    effect: ArrayLike | None,
    reservoir: int,
    design: int | None = None,
    exploration: float = 0.0,
    prior: float | None = None,
) -> PredictedOptimum:
    """The method with its options checked: with a random `design`, or with draws from the posterior of a `prior`.

    Lengths are shares of sup‖θ‖/√d over Θ.
    """
    problem, given, known = parts_of(problem, start, shift, effect)
    problem = with_dimension(problem)
    if not np.isfinite(problem.decisions.radius):
        raise ValueError(
            "`decisions` must be bounded, since a predicted optimum may lie anywhere in them, "
            f"but got {problem.decisions}; use a Box or a Ball"
        )
    begin = None if given is None else require_inside("start", problem, given)
    safety = Pull().prepared(problem, strictly_feasible(problem, anchor))
    unit = float(problem.decisions.radius) / float(np.sqrt(problem.d))
    reach = exploration * unit
    count = 0
    if prior is None:
        count = 2 * problem.d if design is None else whole("design", design, problem.d)
    return PredictedOptimum(
        problem=problem,
        learner=regression_of(shift, known, problem.d, whole("reservoir", reservoir, 1)),
        safety=safety,
        design=Design(as_field(np.int64(count)), as_field(np.float64(reach))),
        start=safety.anchor if begin is None else as_field(begin),
        ridge=as_field(np.float64(RIDGE * reach**2 if prior is None else (unit / prior) ** 2)),
        width=np.float64(width_of(problem.decisions)),
        samples=whole("samples", samples, 1),
        draws=prior is not None,
    )
