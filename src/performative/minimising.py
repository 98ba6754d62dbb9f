"""Methods that minimise outright instead of stepping: repeated risk minimisation, and explore-then-optimise."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from performative.expectations import from_samples, hessian_pattern
from performative.precision import in_float64
from performative.primal_dual import State, checked
from performative.problem import LossInData
from performative.pytrees import changed, pytree
from performative.randomness import standard_normal
from performative.solver import minimise


@pytree("samples")
class RepeatedMinimisation:
    """θ_{t+1} = argmin_θ E_{Z∼D(θ_t)} ℓ(θ; Z) over θ ∈ Θ, g(θ) ≤ 0; see `performative.repeated_minimisation`."""

    problem: Any
    risk: Any
    start: Any
    width: Any
    samples: Any

    def of_dimension(self, dimension: int) -> RepeatedMinimisation:
        """The same method with the problem's dimension fixed."""
        return changed(self, problem=self.problem.of_dimension(dimension))

    @in_float64
    def init(self, key: Array) -> State:
        """θ_1, and no data."""
        origin = self.problem.decisions.project(jnp.zeros(self.problem.dimension))
        start = origin if self.start is None else jnp.asarray(self.start)
        return State(jnp.asarray(1), start, jnp.zeros(len(self.problem.constraint_names)), None)

    @property
    def normals(self) -> int:
        """None: nothing is tried out."""
        return 0

    def ask(self, state: State, key: Array) -> Array:
        """θ_t alone."""
        return self.decide(state, jnp.zeros(0))

    def decide(self, state: State, normals: Array) -> Array:
        """θ_t alone."""
        return jnp.asarray(state.decision)[None]

    def wanted(self, state: State) -> int:
        """`samples`."""
        return int(self.samples)

    @in_float64
    def tell(self, state: State, decisions: Array, samples: Array) -> State:
        """Minimise on the data of this round, or on all the data there could be."""
        decisions, samples = checked(self.problem, decisions, samples)
        if decisions.shape[0] != 1:
            raise ValueError(f"`decisions` must be the one decision θ_t, but got {decisions.shape[0]} decisions")
        return _repeat(self, state, decisions, samples)

    def _repeat(self, state: State, decisions: Array, samples: Array) -> State:
        loss = self.problem.loss
        if self.risk is None:
            pattern = hessian_pattern(LossInData(loss), samples.shape[2], state.decision)
            data = from_samples(samples[0], pattern)
            found = minimise(
                self.problem,
                lambda theta: data.mean(lambda z: loss(theta, z)),
                state.decision,
                state.multipliers,
                self.width,
            )
        else:
            frozen = lambda theta: self.risk(theta, decisions[0])  # noqa: E731
            found = minimise(self.problem, frozen, state.decision, state.multipliers, self.width)
        return State(state.round + 1, found.decision, found.multipliers, None)


_repeat = jax.jit(RepeatedMinimisation._repeat)


@pytree()
class Survey:
    """What the exploration has seen: Â once it is regressed, the base samples, and the moments of decisions and data."""

    effect: Any
    base: Any
    key: Any
    count: Any
    decision: Any
    data: Any
    scatter: Any
    cross: Any


@pytree("stage", "warmup", "samples", "dense")
class TwoStage:
    """Explore for `stage` rounds, regress the data on the decisions, optimise once, and stay; see `performative.two_stage`."""

    problem: Any
    shift: Any
    prior: Any
    tensor: Any
    base_samples: Any
    exploration: Any
    start: Any
    width: Any
    stage: Any
    warmup: Any
    samples: Any
    dense: Any

    def of_dimension(self, dimension: int) -> TwoStage:
        """The same method with the problem's dimension fixed."""
        return changed(self, problem=self.problem.of_dimension(dimension))

    @in_float64
    def init(self, key: Array) -> State:
        """Round 0 is the warm-up at 0."""
        start = self._origin() if self.start is None else jnp.asarray(self.start)
        survey = Survey(None, None, key, None, None, None, None, None)
        return State(jnp.asarray(0), start, jnp.zeros(len(self.problem.constraint_names)), survey)

    @property
    def normals(self) -> int:
        """One a coordinate."""
        return int(self.problem.dimension)

    @in_float64
    def ask(self, state: State, key: Array) -> Array:
        """0 in the warm-up, then a probe around the start, and the optimum for ever after."""
        return self.decide(state, standard_normal(key, self.normals))

    def decide(self, state: State, normals: Array) -> Array:
        """`ask` with its random numbers given."""
        if state.belief.base is None:
            return self._origin()[None]
        probe = self.exploration.decisions(normals, state.decision)
        return jnp.where(state.round <= self.stage, probe, jnp.asarray(state.decision)[None])

    def wanted(self, state: State) -> int:
        """n in the warm-up, `samples` afterwards."""
        return int(self.warmup if state.belief.base is None else self.samples)

    @in_float64
    def tell(self, state: State, decisions: Array, samples: Array) -> State:
        """Keep what was seen; after the last round of the stage, regress and optimise."""
        decisions, samples = checked(self.problem, decisions, samples)
        if decisions.shape[0] != 1:
            raise ValueError(f"`decisions` must be one decision, but got {decisions.shape[0]} decisions")
        if self.prior is not None and self.tensor.shape[0] != samples.shape[2]:
            raise ValueError(
                f"`samples` must hold {self.tensor.shape[0]} numbers each, like the effect's rows, but got {samples.shape[2]}"
            )
        return _survey(self, state, decisions, samples)

    def _survey(self, state: State, decisions: Array, samples: Array) -> State:
        x, z = decisions[0], samples[0]
        if state.belief.base is None:
            return self._opened(state, x, z)
        survey, t = self._seen(state.belief, x, z), state.round
        base = self.base_samples.add(survey.base, decisions, samples)

        def optimised(turn: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            # 1 + turn is 1, and keeps XLA from computing the regression ahead of the loop, in every round.
            seen = changed(survey, scatter=survey.scatter * (1.0 + turn), cross=survey.cross * (1.0 + turn))
            effect = self._regressed(seen)

            def plugged(theta: Array) -> Array:
                return base.mean_loss(self.problem.loss, theta, lambda where: self.shift(effect, theta - where))

            return effect, *minimise(self.problem, plugged, carry[1], carry[2], self.width)

        # A loop that runs once in the last round of the stage, and never in any other.
        found = (survey.effect, state.decision, state.multipliers)
        effect, theta, lam = lax.fori_loop(0, jnp.where(t == self.stage, 1, 0), optimised, found)
        return State(t + 1, theta, lam, changed(survey, effect=effect, base=base))

    def _opened(self, state: State, x: Array, z: Array) -> State:
        k, d = z.shape[1], x.shape[0]
        effect = jnp.zeros((k, d)) if self.prior is None else jnp.asarray(self.prior)
        base = self.base_samples.start(self.problem.loss, self.shift, effect, x, z, state.belief.key)
        center, zero = jnp.mean(z, axis=0), jnp.zeros(d)
        survey = Survey(
            effect,
            base,
            state.belief.key,
            jnp.asarray(z.shape[0] * 1.0),
            x + zero,
            center,
            jnp.zeros((d, d)),
            jnp.zeros((k, d)),
        )
        return changed(state, round=state.round + 1, belief=survey)

    def _seen(self, survey: Survey, x: Array, z: Array) -> Survey:
        """The moments with n more samples at x."""
        n = z.shape[0]
        total = survey.count + n
        apart, moved = x - survey.decision, jnp.mean(z, axis=0) - survey.data
        weight = survey.count * n / total
        return changed(
            survey,
            count=total,
            decision=survey.decision + apart * (n / total),
            data=survey.data + moved * (n / total),
            scatter=survey.scatter + weight * apart[:, None] * apart[None, :],
            cross=survey.cross + weight * moved[:, None] * apart[None, :],
        )

    def _regressed(self, survey: Survey) -> Array:
        """The effect by least squares, of data on decisions."""
        d = survey.scatter.shape[0]
        scatter = survey.scatter + (1e-12 * jnp.trace(survey.scatter) + 1e-300) * jnp.eye(d)
        if self.dense:
            return jnp.linalg.solve(scatter, survey.cross.T).T
        tensor = jnp.asarray(self.tensor)
        normal = jnp.einsum("kpd,de,kqe->pq", tensor, scatter, tensor)
        known = jnp.einsum("kpd,kd->p", tensor, survey.cross)
        return jnp.linalg.solve(normal, known).reshape(np.shape(self.prior))

    def _origin(self) -> Array:
        return self.problem.decisions.project(jnp.zeros(self.problem.dimension))


_survey = jax.jit(TwoStage._survey)
