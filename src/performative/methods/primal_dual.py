"""The robust primal-dual framework, for any approximate gradient of the performative risk (Algorithm 1, lines 9–12)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from performative import steps
from performative.estimators.protocol import GradientEstimator, no_prediction, predicts_data
from performative.exploration import Exploration
from performative.methods.protocol import State, checked
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import as_node, changed, pytree
from performative.numerics.randomness import require_key, standard_normal
from performative.problem import Problem, with_dimension
from performative.steps import Step


@pytree("samples")
class PrimalDual:
    """The updates Eq_primal_grad and Eq_dual_grad with parts plugged in.

        θ_{t+1} = Π_Θ(θ_t − η (∇P̂R_t(θ_t) + λ_tᵀ∇g(θ_t)))
        λ_{t+1} = [λ_t + η (g(θ_t) − δ η λ_t)]⁺

    `step` is η and `control` is δ, numbers or functions of the round; `start` is θ_1 (the projection of 0 if None);
    `samples` is how many samples each deployment brings; they are averaged. Where constraints limit what a decision causes, g and
    ∇g are those of the data that the estimator predicts, if it is a `PredictingEstimator`.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> problem = pf.Problem(Revenue(), pf.Box([0.0], [5.0]))
    >>> method = pf.PrimalDual(problem, pf.estimators.FrozenData(), pf.Alone(), step=0.1, control=1.0, start=None, samples=5)
    >>> import jax
    >>> method.ask(method.init(jax.random.key(0)), jax.random.key(1)).tolist()
    [[0.0]]
    """

    problem: Problem
    estimator: GradientEstimator
    exploration: Exploration
    step: Step
    control: Step
    start: Array | None
    samples: int

    def __post_init__(self) -> None:
        for part in (self.estimator, self.exploration):
            as_node(part)
        if self.problem.caused and not predicts_data(self.estimator):
            raise no_prediction(self.problem, type(self.estimator).__name__)

    @in_float64
    def init(self, key: Array) -> State[object]:
        """Line 2: θ_1 in Θ, λ_1 = 0. Round 0 is the warm-up, if the estimator needs one."""
        require_key(key)
        with_dimension(self.problem)
        start = self._origin() if self.start is None else jnp.asarray(self.start)
        belief = self.estimator.init(self.problem, key)
        first = 0 if self.estimator.opening(belief) else 1
        multipliers = jnp.zeros(len(self.problem.constraint_names))
        return State(jnp.asarray(first), start, multipliers, belief)

    @in_float64
    def ask(self, state: State[object], key: Array) -> Array:
        """Line 1 in the warm-up, lines 4 to 6 in every later round."""
        return self.decide(state, standard_normal(key, self.normals))

    @property
    def normals(self) -> int:
        """How many standard normal numbers a round needs."""
        return self.exploration.normals(self.problem.d)

    def decide(self, state: State[object], normals: Array) -> Array:
        """`ask` with the standard normal numbers given."""
        if self.estimator.opening(state.belief):
            return self._origin()[None]
        return self.exploration.decisions(normals, state.decision)

    def wanted(self, state: State[object]) -> int:
        """n in the warm-up, `samples` afterward."""
        return self.estimator.opening(state.belief) or int(self.samples)

    @in_float64
    def tell(self, state: State[object], decisions: Array, samples: Array) -> State[object]:
        """Lines 7 to 12: improve the belief, then one primal and one dual step from θ_t, λ_t."""
        decisions, samples = checked(self.problem, decisions, samples, getattr(self.estimator, "slope", None))
        self.estimator.check(state.belief, decisions, samples)
        return _advance(self, state, decisions, samples)

    def _advance(self, state: State[object], decisions: Array, samples: Array) -> State[object]:
        t, theta, lam = state.round, state.decision, state.multipliers
        belief = self.estimator.update(self.problem, state.belief, decisions, samples, t)  # line 7
        if self.estimator.opening(state.belief):
            return changed(state, round=t + 1, belief=belief)
        eta, delta = steps.at(self.step, t), steps.at(self.control, t)
        problem = self.problem
        if problem.caused and predicts_data(self.estimator):
            problem = problem.resolved(self.estimator.source(belief))
        gradient = self.estimator.gradient(problem, belief, theta)  # line 8
        lagrangian_gradient = gradient + problem.pullback(theta, lam)  # line 9
        next_theta = problem.decisions.project(theta - eta * lagrangian_gradient)  # line 10
        dual_gradient = problem.g(theta) - delta * eta * lam  # line 11
        next_lam = jnp.maximum(lam + eta * dual_gradient, 0.0)  # line 12
        return State(t + 1, next_theta, next_lam, belief)

    def _origin(self) -> Array:
        return self.problem.decisions.project(jnp.zeros(self.problem.d))


_advance = jax.jit(PrimalDual._advance)
