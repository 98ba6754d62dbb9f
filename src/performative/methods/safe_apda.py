"""Safe APDA: one deployment a round, all of them counted, none of them infeasible.

    x_t = safe(θ_t + σ_t w_t),  w_t ∼ N(0, I),  σ_t ∝ t^(−1/4)

The effect and the mean of the data are learned together by recursive least squares of Z on (1, x) over every deployment, and
θ_t, λ_t follow the primal-dual steps of the framework on the risk this predicts. Nothing has a unit of its own: steps, ridge
and exploration are made of the curvature, the noise and the effect as they have been learned so far.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from performative.estimators.prediction import Prediction
from performative.estimators.protocol import Unobserved
from performative.estimators.regression import LeastSquares, Regression, with_floor
from performative.estimators.standard_errors import DRAWS, Confidence, confidence
from performative.exploration import Fading, Scales
from performative.methods.options import memory_of, parts_of
from performative.methods.protocol import checked
from performative.numerics.arrays import as_field
from performative.numerics.polynomial import is_analytic
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import as_node, callable_node, changed, pytree
from performative.numerics.randomness import standard_normal
from performative.problem import Problem, with_dimension
from performative.safety import PreparedSafety, Pull, Safety
from performative.shifts import Shift, apply_effect, overlap, require_distinct, shift_tensor
from performative.solvers.feasibility import require_inside, strictly_feasible
from performative.steps import CurvatureSteps
from performative.validation import finite_array, whole

FLOOR = 0.1
"""The share of its exploration that a method which forgets takes for granted in every direction."""


def safe_apda(
    problem: Problem,
    *,
    exploration: float = 1.0,
    start: Any = None,
    anchor: Any = None,
    safety: Safety | None = None,
    samples: int = 1,
    shift: Shift | None = None,
    effect: Any = None,
    history: tuple[Any, Any] | None = None,
    reservoir: int = 500,
    forgetting: float = 1.0,
) -> SafePrimalDual:
    """APDA for those who pay for every deployment: one a round, all feasible, exploration that fades like t^(−1/4).

    It needs no warm-up, no horizon and no step sizes: all scales are learned. A problem without a strictly feasible decision
    is refused. Only where neither Θ nor the loss at the start has a length (an unbounded set and a loss without curvature) the
    first exploration is 1 in the unit of θ.

    Args:
        problem: what the decision-maker knows.
        exploration: a factor on the exploration that balances its price against what it teaches.
        start: the first decision, pulled back if it is not feasible; by default the anchor.
        anchor: a strictly feasible decision to pull towards; by default that of the largest slack.
        safety: `safety.Pull()`, the default, which runs inside the compiled loop, or `safety.Nearest()`, the Euclidean
            projection by cvxpy: closer, for live use.
        samples: how many samples each deployment brings.
        shift: the bilinear shift(effect, θ) of a structured effect; by default effect @ θ.
        effect: Â₀, zero by default; needed with `shift`.
        history: past deployments, decisions (N, d) and the sample (N, k) each brought. Base samples are those at decisions 0.
        reservoir: how many deployments are kept where the loss is not quadratic in the data.
        forgetting: the weight that past data keep from round to round, for a world that drifts: with 0.99 estimates rest
            on about the last hundred rounds, and exploration fades no further than it has after so many.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> problem = pf.Problem(Revenue(), pf.Box([0.0, 0.0], [5.0, 5.0]))
    >>> method = pf.safe_apda(problem, start=[1.0, 1.0], samples=50)
    >>> import jax
    >>> state = method.init(jax.random.key(0))
    >>> method.ask(state, jax.random.key(1)).shape, method.wanted(state)
    ((1, 2), 50)
    """
    problem, start, effect = parts_of(problem, start, shift, effect)
    problem = with_dimension(problem)
    if start is not None:
        start = require_inside("start", problem, start)
    if safety is None:
        safety = Pull()
    elif not callable(getattr(safety, "prepared", None)):
        raise TypeError(f"`safety` must be a part such as performative.safety.Pull(), but got {safety!r}")
    prepared = as_node(safety).prepared(problem, strictly_feasible(problem, anchor))
    unmoved, overlaps = ((), None) if shift is None else _structure(shift, effect, problem.dimension)
    samples, size = whole("samples", samples, 1), whole("reservoir", reservoir, 1)
    memory = memory_of(forgetting, samples)
    if memory is not None:  # a reservoir that holds more would never be full
        size = max(1, min(size, int(memory / 2)))
    learner = LeastSquares(
        shift=callable_node(apply_effect if shift is None else shift),
        prior=effect,
        structured=shift is not None,
        unmoved=unmoved,
        overlap=overlaps,
        reservoir=size,
        memory=memory,
    )
    widest = float(problem.decisions.radius) / (2 * math.sqrt(problem.dimension))
    return SafePrimalDual(
        problem=problem,
        learner=learner,
        exploration=Fading(exploration, widest),
        safety=prepared,
        steps=CurvatureSteps(),
        start=prepared.anchor if start is None else start,
        history=None if history is None else _past(history, problem.dimension),
        samples=samples,
    )


@pytree()
class SafeState:
    """θ_t, λ_t, what is believed, and the scales learned so far; `aim` is θ_t before it was projected on Θ, `values` g(θ_t)."""

    round: Array
    decision: Array
    multipliers: Array
    belief: Unobserved | Regression
    aim: Array
    values: Array
    scales: Scales


@pytree("samples")
class SafePrimalDual:
    """Safe APDA as a composition: what learns the effect, what explores, what keeps deployments safe, and what steps."""

    problem: Problem
    learner: LeastSquares
    exploration: Fading
    safety: PreparedSafety
    steps: CurvatureSteps
    start: Array
    history: tuple[Array, Array] | None
    samples: int

    feasible = True
    """Every deployed decision meets the constraints."""

    def of_dimension(self, dimension: int) -> SafePrimalDual:
        """The same method; an error if its dimension is another."""
        return changed(self, problem=self.problem.of_dimension(dimension))

    @in_float64
    def init(self, key: Array) -> SafeState:
        """Round 0 deploys the start, as far as it is safe; with a `history` it is round 1 that does."""
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
        decisions, samples = (jnp.asarray(part) for part in self.history)
        state = self._opened(state, decisions[0], samples[:1])
        first: Any = state.belief

        def recalled(belief: Regression, row: tuple[Array, Array]) -> tuple[Regression, None]:
            return self.learner.update(belief, row[0], row[1][None])[0], None

        belief, _ = lax.scan(recalled, first, (decisions[1:], samples[1:]))
        theta = self.safety(self.problem, jnp.asarray(self.start))
        return changed(state, belief=belief, decision=theta, aim=theta, values=self.problem.g(theta))

    @property
    def normals(self) -> int:
        """d: one standard normal number for each coordinate."""
        return int(self.problem.dimension)

    @in_float64
    def ask(self, state: SafeState, key: Array) -> Array:
        """The one decision (1, d) to deploy."""
        return self.decide(state, standard_normal(key, self.normals))

    def decide(self, state: SafeState, normals: Array) -> Array:
        """`ask`, made of standard normal numbers."""
        return _decide(self, state, normals)

    def _decide(self, state: SafeState, normals: Array) -> Array:
        if isinstance(state.belief, Unobserved):
            return self.safety(self.problem, state.decision)[None]
        theta, level = state.decision, self.noise_level(state)
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
        decisions, samples = checked(self.problem, decisions, samples)
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
        """What the regression predicts of the loss."""
        return Prediction(self.problem.loss, self.learner.shift)

    def predicted_risk(self, belief: Regression, effect: Array, theta: Array, where: Array | None = None) -> Array:
        """The average of ℓ(θ; Z) over the data that `effect` predicts at θ, or at `where`."""
        return self.prediction.risk(belief, effect, theta, where)

    @in_float64
    def confidence(self, state: SafeState, draws: int = DRAWS) -> Confidence:
        """What is believed at θ_t, with standard errors; the gain is over the start. See `estimators.standard_errors`."""
        if isinstance(state.belief, Unobserved):
            raise ValueError(
                f"more than {self.normals + 2} samples must have been told for standard errors, but none were"
            )
        start = self.safety(self.problem, jnp.asarray(self.start))
        ridge = state.scales.length**2
        return confidence(self.learner, self.prediction, state.belief, state.decision, start, ridge, draws)

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
        weight = 2.0 / (t + 3.0)  # of about the latter half of all rounds
        moved = size > 0

        def averaged(old: Array, new: Array) -> Array:
            return jnp.where(moved & jnp.isfinite(new), old + weight * (new - old), old)

        if self.learner.memory is not None:
            # What is forgotten must be explored, and across a constraint that binds it hardly is.
            belief = with_floor(belief, state.round % d, FLOOR * level * level * d)
        scales = Scales(
            curvature=averaged(state.scales.curvature, d * bend),
            price=averaged(state.scales.price, bend * size / jnp.maximum(level, 1e-300) ** 2),
            learning=averaged(state.scales.learning, jnp.sum(unsure * unsure)),
            length=state.scales.length,
        )
        aim, next_theta, values, next_lam = self.steps(
            problem, theta, lam, state.values, gradient, jnp.maximum(scales.curvature, d * bend)
        )
        return SafeState(state.round + 1, next_theta, next_lam, belief, aim, values, scales)

    def _gradient(self, belief: Regression, effect: Array, theta: Array) -> Array:
        """∇ of the predicted risk."""
        return jax.grad(lambda theta: self.predicted_risk(belief, effect, theta))(theta)

    def _opened(self, state: SafeState, decision: Array, samples: Array) -> SafeState:
        """The state after the first deployment: its data, and a first idea of the scales from the loss alone."""
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

        scales = self._first_scales(slope, decision)
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

    def _first_scales(self, slope: Callable[[Array], Array], decision: Array) -> Scales:
        """As long as a Newton step along the gradient, as far as Θ goes; as Θ is wide, or 1, where there is no curvature."""
        d, zero, widest = self.normals, jnp.zeros(()), self.exploration.widest
        gradient = slope(decision)
        size = jnp.linalg.norm(gradient)
        direction = gradient / jnp.maximum(size, 1e-300)
        bend = jnp.abs(jnp.sum(jax.jvp(slope, (decision,), (direction,))[1] * direction))
        newton = jnp.where(bend > 0, size / jnp.where(bend > 0, bend, 1.0), 0.0) / math.sqrt(d)
        farthest = jnp.where(jnp.isfinite(widest), widest, 1.0)
        length = jnp.where(newton > 0, jnp.minimum(newton, widest), farthest)
        return Scales(d * jnp.where(bend > 0, bend, size / length), zero, zero, length)


_advance = jax.jit(SafePrimalDual._advance)
_decide = jax.jit(SafePrimalDual._decide)


def _structure(shift: Shift, effect: Any, dimension: int) -> tuple[tuple[int, ...], Array | None]:
    """The positions of the data that no effect can move, and the inverse overlap of the effect's numbers.

    None for the overlap where it is the identity, each number being one entry.
    """
    tensor = shift_tensor(shift, effect, dimension)
    unmoved = tuple(int(index) for index in np.flatnonzero(~np.any(tensor, axis=(1, 2))))
    gram = overlap(tensor)
    if np.allclose(gram, np.eye(len(gram)), atol=1e-12):
        return unmoved, None
    require_distinct(tensor)
    return unmoved, as_field(np.linalg.inv(gram))


def _past(history: tuple[Any, Any], dimension: int) -> tuple[Any, Any]:
    """Past decisions (N, d) and samples (N, k) as arrays."""
    decisions, samples = (
        finite_array(name, part, 2) for name, part in zip(("decisions", "samples"), history, strict=True)
    )
    if decisions.shape != (len(samples), dimension) or not len(decisions):
        raise ValueError(
            f"`history` must hold decisions (N, {dimension}) and samples (N, k), but got {decisions.shape} and "
            f"{samples.shape}"
        )
    return decisions, samples
