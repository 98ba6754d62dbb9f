"""The two-stage plug-in (Miller, Perdomo, Zrnic 2021): explore, regress, optimize once."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import ArrayLike

from performative.estimators.base_samples import Base, BaseSamples
from performative.estimators.moments import JointMoments
from performative.estimators.protocol import Unobserved
from performative.exploration import Around
from performative.methods.options import feasible_parts, parts_of
from performative.methods.protocol import State, checked, first_state
from performative.numerics.arrays import Floats, as_field
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import callable_node, changed, pytree
from performative.numerics.randomness import standard_normal
from performative.problem import Problem
from performative.shifts import Shift, apply_effect, require_distinct, shift_tensor
from performative.solvers.augmented_lagrangian import minimize, width_of
from performative.validation import whole


def two_stage(
    problem: Problem,
    *,
    stage: int = 1000,
    exploration: float = 1.0,
    warmup: int = 100,
    start: ArrayLike | None = None,
    samples: int = 1,
    shift: Shift | None = None,
    effect: ArrayLike | None = None,
) -> TwoStage:
    """The two-stage plug-in for location families (Miller, Perdomo, Zrnic 2021): explore, regress, optimize once.

    For `stage` rounds it deploys decisions N(start, exploration²·I), projected on Θ, which may violate g. Then it regresses Z on
    them and deploys from then on the decision that minimizes the loss on the data this predicts, the shifted samples of all
    rounds. Assumes a location family; nothing is learned after the stage. `warmup` samples at 0 come first, and where the loss
    is not quadratic in the data the minimization is over as many samples.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> problem = pf.Problem(Revenue(), pf.Box([0.0, 0.0], [5.0, 5.0]))
    >>> method = pf.two_stage(problem, stage=50)
    """
    problem, start, effect = parts_of(problem, start, shift, effect)
    problem, start = feasible_parts(problem, start)
    tensor: Floats | None = None
    if shift is not None:
        assert effect is not None  # as `parts_of` has checked
        tensor = shift_tensor(shift, effect, problem.d)
        require_distinct(tensor)
    elif effect is not None:
        tensor = np.zeros((effect.shape[0], 0, problem.d))
    return TwoStage(
        problem=problem,
        shift=callable_node(apply_effect if shift is None else shift),
        prior=as_field(effect),
        tensor=as_field(tensor),
        base_samples=BaseSamples(True),
        exploration=Around(exploration, problem.decisions),
        start=as_field(start),
        width=np.float64(width_of(problem.decisions)),
        stage=whole("stage", stage, problem.d + 1),
        warmup=whole("warmup", warmup, 1),
        samples=whole("samples", samples, 1),
        dense=shift is None,
    )


@pytree()
class Survey:
    """What exploration has taught: Â after the stage, the base samples, and the moments of decisions and data."""

    effect: Array
    base: Base
    key: Array
    moments: JointMoments


SurveyState = State[Unobserved | Survey]


@pytree("stage", "warmup", "samples", "dense")
class TwoStage:
    """Explore for `stage` rounds, regress the data on the decisions, optimize once, and stay; see `performative.two_stage`."""

    problem: Problem
    shift: Shift
    prior: Array | None
    tensor: Array | None
    base_samples: BaseSamples
    exploration: Around
    start: Array | None
    width: np.float64
    stage: int
    warmup: int
    samples: int
    dense: bool

    @in_float64
    def init(self, key: Array) -> SurveyState:
        """The state before the warm-up, which is round 0 and deploys 0."""
        start = self._origin() if self.start is None else jnp.asarray(self.start)
        return first_state(self.problem, key, start, Unobserved(key), round=0)

    @property
    def normals(self) -> int:
        """One for each coordinate of the probe."""
        return int(self.problem.d)

    @in_float64
    def ask(self, state: SurveyState, key: Array) -> Array:
        """0 in the warm-up, a probe around the start during the stage, the estimated optimum afterward."""
        return self.decide(state, standard_normal(key, self.normals))

    def decide(self, state: SurveyState, normals: Array) -> Array:
        """`ask` with the standard normal numbers given."""
        if isinstance(state.belief, Unobserved):
            return self._origin()[None]
        probe = self.exploration.decisions(normals, state.decision)
        return jnp.where(state.round <= self.stage, probe, jnp.asarray(state.decision)[None])

    def wanted(self, state: SurveyState) -> int:
        """n in the warm-up, `samples` afterward."""
        return int(self.warmup if isinstance(state.belief, Unobserved) else self.samples)

    @in_float64
    def tell(self, state: SurveyState, decisions: Array, samples: Array) -> SurveyState:
        """Update the moments; after the last round of the stage, regress and optimize."""
        decisions, samples = checked(self.problem, decisions, samples, "data")
        if decisions.shape[0] != 1:
            raise ValueError(f"`decisions` must be one decision, but got {decisions.shape[0]} decisions")
        if self.tensor is not None and self.tensor.shape[0] != samples.shape[2]:
            raise ValueError(
                f"`samples` must hold {self.tensor.shape[0]} numbers each, like the effect's rows, but got {samples.shape[2]}"
            )
        return _survey(self, state, decisions, samples)

    def _survey(self, state: SurveyState, decisions: Array, samples: Array) -> SurveyState:
        x, z = decisions[0], samples[0]
        if isinstance(state.belief, Unobserved):
            return self._opened(state, x, z)
        survey, t = state.belief, state.round
        moments = survey.moments.with_samples(x, z)
        base = self.base_samples.add(survey.base, decisions, samples)

        def optimized(turn: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            # 1 + turn is 1; it keeps XLA from moving the regression out of the loop, into every round.
            again = changed(moments, scatter=moments.scatter * (1.0 + turn), cross=moments.cross * (1.0 + turn))
            effect = self._regressed(again)

            def plugged(theta: Array) -> Array:
                return base.mean_loss(self.problem.loss, theta, lambda where: self.shift(effect, theta - where))

            return effect, *minimize(self.problem, plugged, carry[1], carry[2], self.width)

        # A loop that runs once in the last round of the stage, and never in any other.
        current = (survey.effect, state.decision, state.multipliers)
        effect, theta, lam = lax.fori_loop(0, jnp.where(t == self.stage, 1, 0), optimized, current)
        return State(t + 1, theta, lam, Survey(effect, base, survey.key, moments))

    def _opened(self, state: SurveyState, x: Array, z: Array) -> SurveyState:
        effect = jnp.zeros((z.shape[1], x.shape[0])) if self.prior is None else jnp.asarray(self.prior)
        base = self.base_samples.start(self.problem, self.shift, effect, x, z, state.belief.key)
        return changed(
            state, round=state.round + 1, belief=Survey(effect, base, state.belief.key, JointMoments.at(x, z))
        )

    def _regressed(self, moments: JointMoments) -> Array:
        """The effect by least squares, of data on decisions."""
        ridge = 1e-12 * jnp.trace(moments.scatter) + 1e-300
        if self.dense:
            return moments.effect(ridge)
        return moments.effect(ridge, jnp.asarray(self.tensor)).reshape(np.shape(as_field(self.prior)))

    def _origin(self) -> Array:
        return self.problem.decisions.project(jnp.zeros(self.problem.d))


_survey = jax.jit(TwoStage._survey)
