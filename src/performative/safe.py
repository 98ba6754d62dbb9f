"""Safe APDA: one deployment a round, all of them counted, none of them infeasible.

    x_t = safe(θ_t + σ_t w_t),  w_t ∼ N(0, I),  σ_t ∝ t^(−1/4)

The effect and the mean of the data are learnt together by recursive least squares of Z on (1, x) over every deployment, and
θ_t, λ_t follow the primal-dual steps of the framework on the risk this predicts. Nothing has a unit of its own: steps, ridge
and exploration are made of the curvature, the noise and the effect as they have been learnt so far.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from performative.expectations import Moments, Samples, hessian_pattern
from performative.polynomial import is_analytic
from performative.precision import in_float64
from performative.primal_dual import checked
from performative.problem import LossInData
from performative.pytrees import changed, pytree
from performative.randomness import standard_normal
from performative.sets import Box
from performative.validation import Floats

FLOOR = 0.1
"""The share of its exploration that a method which forgets takes for granted in every direction."""
CONJUGATE = 6
"""Steps of conjugate gradients that keep the noise along the constraints that bind."""


@pytree()
class Regression:
    """Least squares of Z on (1, x): the effect Â, the means, the inverse scatter P of x, the residuals' scatter (k, k).

    `kept` is a reservoir of deployments (m, k + d) for losses that are not quadratic in the data. Where the effect cannot
    move some of the data, `lean` regresses the noise of the others on theirs, with `lean_inverse`: what they tell of it is
    no surprise.
    """

    effect: Any
    count: Any
    decision: Any
    data: Any
    inverse: Any
    scatter: Any
    kept: Any
    lean: Any
    lean_inverse: Any
    key: Any


@pytree()
class SafeState:
    """θ_t, λ_t, what is believed, and the scales learnt so far.

    `aim` is θ_t before it was projected on Θ, `values` g(θ_t). `curvature` is the trace of the Hessian of the Lagrangian, `price`
    what a unit of exploration costs, `learning` the square of the gradient's error that a unit of noise in the data leaves.
    """

    round: Any
    decision: Any
    multipliers: Any
    belief: Any
    aim: Any
    values: Any
    curvature: Any
    price: Any
    learning: Any
    scale: Any


class Confidence(NamedTuple):
    """What is believed, with standard errors: the effect, the risk predicted at θ_t, and its gain over the start's."""

    effect: Floats
    effect_error: Floats
    risk: float
    risk_error: float
    gain: float
    gain_error: float


@pytree("structured", "unmoved", "samples", "reservoir")
class SafePrimalDual:
    """See `performative.safe_apda`."""

    problem: Any
    shift: Any
    prior: Any
    safety: Any
    start: Any
    history: Any
    exploration: Any
    widest: Any
    structured: Any
    unmoved: Any
    overlap: Any
    samples: Any
    reservoir: Any
    memory: Any = None

    feasible = True
    """Every deployed decision meets the constraints."""

    def of_dimension(self, dimension: int) -> SafePrimalDual:
        """The same method; its dimension is known."""
        return changed(self, problem=self.problem.of_dimension(dimension))

    @in_float64
    def init(self, key: Array) -> SafeState:
        """Round 0 deploys the start, as far as it is safe; with a `history` it is round 1 that does."""
        state = self._fresh(key)
        if self.history is None:
            return state
        decisions, samples = (jnp.asarray(part) for part in self.history)
        state = self._opened(state, decisions[0], samples[:1])

        def recalled(belief: Regression, row: tuple[Array, Array]) -> tuple[Regression, None]:
            return self._regressed(belief, row[0], row[1][None])[0], None

        belief, _ = lax.scan(recalled, state.belief, (decisions[1:], samples[1:]))
        theta = self.safety(self.problem, jnp.asarray(self.start))
        return changed(state, belief=belief, decision=theta, aim=theta, values=self.problem.g(theta))

    def _fresh(self, key: Array) -> SafeState:
        zero, m = jnp.zeros(()), len(self.problem.constraint_names)
        theta = jnp.asarray(self.start)
        belief = Regression(None, None, None, None, None, None, None, None, None, key)
        values = self.problem.g(theta)
        return SafeState(jnp.asarray(0), theta, jnp.zeros(m), belief, theta, values, zero, zero, zero, zero)

    @property
    def normals(self) -> int:
        """d."""
        return int(self.problem.dimension)

    @in_float64
    def ask(self, state: SafeState, key: Array) -> Array:
        """The one decision (1, d) to deploy."""
        return self.decide(state, standard_normal(key, self.normals))

    def decide(self, state: SafeState, normals: Array) -> Array:
        """`ask` with its random numbers given."""
        return _decided(self, state, normals)

    def _decided(self, state: SafeState, normals: Array) -> Array:
        if state.belief.effect is None:
            return self.safety(self.problem, state.decision)[None]
        noise = self.noise_level(state) * self._where_it_is_cheap(state, normals)
        candidate = self.problem.decisions.project(state.decision + noise)
        return self.safety(self.problem, candidate)[None]

    def wanted(self, state: SafeState) -> int:
        """`samples`."""
        return int(self.samples)

    def noise_level(self, state: SafeState) -> Array:
        """σ_t = σ·t^(−1/4), with σ balancing what exploring costs against what not knowing the effect costs.

        A round of noise σ_t costs ½·price·σ_t². After t rounds the effect is known up to noise/(2σ²√t), which costs
        ½·learning·d/curvature of it. Both fall like 1/√t and are equal at σ⁴ = learning·d/(2·curvature·price).
        """
        t = self._remembered(jnp.maximum(state.round, 1).astype(jnp.float64))
        cost = 2.0 * state.curvature * state.price
        learnt = jnp.where(cost > 0, state.learning * self.normals / jnp.where(cost > 0, cost, 1.0), 0.0) ** 0.25
        sigma = jnp.where(learnt > 0, learnt, state.scale)
        return self.exploration * jnp.minimum(sigma, self.widest) * t**-0.25

    @in_float64
    def tell(self, state: SafeState, decisions: Array, samples: Array) -> SafeState:
        """Improve the regression, then one primal and one dual step from θ_t, λ_t."""
        decisions, samples = checked(self.problem, decisions, samples)
        if decisions.shape[0] != 1:
            raise ValueError(f"`decisions` must have shape (1, {self.normals}), but got {decisions.shape}")
        if self.prior is not None:
            theta = jax.ShapeDtypeStruct((self.normals,), jnp.float64)
            width = jax.eval_shape(self.shift, jnp.asarray(self.prior), theta).shape
            if width != (samples.shape[2],):
                raise ValueError(
                    f"`samples` must hold {width[0]} numbers each, like the effect's rows, but got {samples.shape[2]}"
                )
        return _advance(self, state, decisions[0], samples[0])

    # The risk that is predicted, and what is learnt.

    def predicted_risk(self, belief: Regression, effect: Array, theta: Array, where: Array | None = None) -> Array:
        """The average of ℓ(θ; Z) over the data that `effect` predicts at θ, or at `where`."""
        felt = theta if where is None else where
        if belief.kept is not None:
            weights = (jnp.arange(self.reservoir) < belief.count).astype(jnp.float64)
            seen, z = belief.kept[:, : self.normals], belief.kept[:, self.normals :]
            moved = jax.vmap(lambda x, z: z + self.shift(effect, felt - x))(seen, z)
            return Samples(moved, weights / jnp.sum(weights)).mean(lambda z: self.problem.loss(theta, z))
        center = belief.data + self.shift(effect, felt - belief.decision)
        pattern = self._pattern(belief.data.shape[0])
        covariance = pattern.compress(belief.scatter / belief.count)
        return Moments(center, covariance, pattern).mean(lambda z: self.problem.loss(theta, z))

    @in_float64
    def confidence(self, state: SafeState, draws: int = 4_000) -> Confidence:
        """Standard errors from the regression, and of the risk by the delta method.

        The noise of the data is taken to be of the same covariance at every decision, as in a location family; its
        fluctuation in the average loss comes from `draws` draws of a Gaussian of that covariance, or from the reservoir.
        """
        belief, d = state.belief, self.normals
        if belief.effect is None or belief.count <= d + 2:
            raise ValueError(
                f"more than {d + 2} samples must have been told for standard errors, but there are {belief.count}"
            )
        known = [np.asarray(part) for part in _confident(self, state, draws)]
        return Confidence(known[0], known[1], *(float(part) for part in known[2:]))

    def _confident(self, state: SafeState, draws: int) -> tuple[Array, ...]:
        belief, d = state.belief, self.normals
        effect, inverse = self._without_prior(state)
        covariance = belief.scatter / (belief.count - 1.0 - d)
        left = jnp.eye(covariance.shape[0])
        if self.unmoved:  # what the unmoved data tell of the noise of the others is known
            moved = np.ones(covariance.shape[0])
            moved[list(self.unmoved)] = 0.0
            left = left.at[:, np.asarray(self.unmoved)].add(-moved[:, None] * belief.lean)
        noise = left @ covariance @ left.T

        def spread_out(effect: Array) -> Array:
            """The matrix (k, d) that an effect stands for."""
            return jax.jacfwd(lambda theta: self.shift(effect, theta))(jnp.zeros(d))

        if not self.structured:
            errors = jnp.sqrt(jnp.outer(jnp.diag(noise), jnp.diag(inverse)))
        else:
            parts = jax.jacfwd(spread_out)(effect).reshape(noise.shape[0], d, effect.size)
            if self.overlap is not None:
                parts = parts @ jnp.asarray(self.overlap)
            variances = jnp.einsum("kdp,kl,de,lep->p", parts, noise, inverse, parts)
            errors = jnp.sqrt(variances).reshape(effect.shape)
        reference = self.safety(self.problem, jnp.asarray(self.start))

        def risk(effect: Array) -> Array:
            return self.predicted_risk(belief, effect, state.decision)

        def gain(effect: Array) -> Array:
            return self.predicted_risk(belief, effect, reference) - risk(effect)

        at_decision, at_reference = self._losses(belief, state.decision, draws), self._losses(belief, reference, draws)
        averaged, drawn = belief.count, jnp.ones(at_decision.shape, bool)
        if belief.kept is not None:
            averaged, drawn = jnp.minimum(belief.count, self.reservoir), jnp.arange(self.reservoir) < belief.count
        results: list[Array] = []
        for value, losses in ((risk, at_decision), (gain, at_reference - at_decision)):
            slope = spread_out(jax.grad(value)(effect))
            learnt = jnp.sum(slope * (noise @ slope @ inverse))
            results += [value(effect), jnp.sqrt(jnp.var(losses, where=drawn) / averaged + learnt)]
        return (effect, errors, *results)

    def _without_prior(self, state: SafeState) -> tuple[Array, Array]:
        """Effect and inverse scatter as least squares without the ridge around the prior would have them.

        The ridge keeps the first steps small, but is a bias that no standard error knows of: across a constraint that binds
        little is explored, and it lasts. A structured effect, or one of which the first rounds are forgotten, is left as it is.
        """
        belief, d = state.belief, self.normals
        if self.structured or self.memory is not None:
            return belief.effect, belief.inverse
        unit = state.scale**2
        whole = jnp.linalg.inv(belief.inverse)
        inverse = jnp.linalg.inv(whole - (1.0 - 1e-9) * unit * jnp.eye(d))
        prior = jnp.zeros_like(belief.effect) if self.prior is None else jnp.asarray(self.prior)
        return (belief.effect @ whole - unit * prior) @ inverse, inverse

    def _losses(self, belief: Regression, theta: Array, draws: int) -> Array:
        """ℓ(θ; Z) for data as they are predicted at θ."""
        if belief.kept is not None:
            where, z = belief.kept[:, : self.normals], belief.kept[:, self.normals :]
            data = jax.vmap(lambda x, z: z + self.shift(belief.effect, theta - x))(where, z)
        else:
            values, vectors = jnp.linalg.eigh(belief.scatter / belief.count)
            white = standard_normal(belief.key, draws * values.shape[0]).reshape(draws, -1)
            center = belief.data + self.shift(belief.effect, theta - belief.decision)
            data = center + (white * jnp.sqrt(jnp.maximum(values, 0.0))) @ vectors.T
        return jax.vmap(lambda z: self.problem.loss(theta, z))(data)

    def _advance(self, state: SafeState, decision: Array, samples: Array) -> SafeState:
        if state.belief.effect is None:
            return self._opened(state, decision, samples)
        problem, theta, lam, d = self.problem, state.decision, state.multipliers, self.normals
        belief, surprise = self._regressed(state.belief, decision, samples)
        probe = decision - theta
        size = jnp.sum(probe * probe)
        direction = probe / jnp.sqrt(jnp.maximum(size, 1e-300))

        def slope(theta: Array) -> Array:
            risk = jax.grad(lambda theta: self.predicted_risk(belief, belief.effect, theta))(theta)
            return risk + problem.pullback(theta, lam)

        # A secant: the curvature at the distance explored.
        gradient = slope(theta)
        rise = jnp.sum((slope(decision) - gradient) * direction)
        bend = jnp.abs(rise) / jnp.sqrt(jnp.maximum(size, 1e-300))
        level = self.noise_level(state)
        unit = direction * math.sqrt(d)  # as long as standard normal noise
        error = self._as_effect(belief.effect, unit, surprise)
        unsure = jax.jvp(
            lambda effect: jax.grad(lambda theta: self.predicted_risk(belief, effect, theta))(theta),
            (belief.effect,), (error,),
        )[1]  # fmt: skip
        t = self._remembered(state.round.astype(jnp.float64))
        weight = 2.0 / (t + 3.0)  # of about the latter half of all rounds
        moved = size > 0

        def averaged(old: Array, new: Array) -> Array:
            return jnp.where(moved & jnp.isfinite(new), old + weight * (new - old), old)

        if (
            self.memory is not None
        ):  # what is forgotten must be explored, and across a constraint that binds it hardly is
            belief = _with_floor(belief, state.round % d, FLOOR * level * level * d)
        curvature = averaged(state.curvature, d * bend)
        price = averaged(state.price, bend * size / jnp.maximum(level, 1e-300) ** 2)
        learning = averaged(state.learning, jnp.sum(unsure * unsure))
        learnt = changed(state, belief=belief, curvature=curvature, price=price, learning=learning)
        return self._stepped(learnt, gradient, jnp.maximum(curvature, d * bend))

    def _opened(self, state: SafeState, decision: Array, samples: Array) -> SafeState:
        """The state after the first deployment: its data, and a first idea of the scales from the loss alone."""
        d, (n, width) = self.normals, samples.shape
        effect = jnp.zeros((width, d)) if self.prior is None else jnp.asarray(self.prior)
        mean = jnp.mean(samples, axis=0)
        apart = samples - mean
        kept = None
        if not self.is_quadratic(width):
            if not is_analytic(self.problem.loss, jnp.zeros(d), jnp.zeros(width)):
                raise ValueError(
                    "`loss` must be smooth for safe_apda, which steps by its curvature, but it has kinks; smooth it "
                    "(softplus, a Huber loss) or use apda"
                )
            rows = jnp.concatenate([jnp.broadcast_to(decision, (n, d)), samples], axis=1)
            kept = jnp.resize(jax.random.permutation(state.belief.key, rows), (self.reservoir, d + width))
        belief = Regression(
            effect,
            jnp.full((), n, jnp.float64),
            decision,
            mean,
            jnp.eye(d),
            apart.T @ apart,
            kept,
            jnp.zeros((width, len(self.unmoved))),
            jnp.zeros((len(self.unmoved), len(self.unmoved))),
            state.belief.key,
        )

        def slope(theta: Array) -> Array:
            return jax.grad(lambda theta: self.predicted_risk(belief, effect, theta))(theta)

        gradient = slope(decision)
        length = jnp.linalg.norm(gradient)
        direction = gradient / jnp.maximum(length, 1e-300)
        bend = jnp.abs(jnp.sum(jax.jvp(slope, (decision,), (direction,))[1] * direction))
        newton = jnp.where(bend > 0, length / jnp.where(bend > 0, bend, 1.0), 0.0) / math.sqrt(d)
        widest = jnp.where(jnp.isfinite(self.widest), self.widest, 1.0)
        scale = jnp.where(newton > 0, jnp.minimum(newton, self.widest), widest)
        belief = changed(belief, inverse=jnp.eye(d) / scale**2)
        theta = jnp.asarray(decision)
        return changed(
            state, round=state.round + 1, decision=theta, aim=theta, values=self.problem.g(theta), belief=belief,
            curvature=d * jnp.where(bend > 0, bend, length / scale), scale=scale,
        )  # fmt: skip

    def _stepped(self, state: SafeState, gradient: Array, curvature: Array) -> SafeState:
        """One step of each kind, of lengths that suit the curvature; the dual one looks ahead (Chambolle, Pock 2011)."""
        problem, m = self.problem, len(self.problem.constraint_names)
        curvature = jnp.maximum(curvature, 1e-300)
        aim = state.decision - 0.5 * gradient / curvature
        aim = jnp.where(jnp.all(jnp.isfinite(aim)), aim, state.decision)
        theta = problem.decisions.project(aim)
        values = problem.g(theta)
        lam = state.multipliers
        if m:
            steepness = problem.steepness(theta)
            steep = steepness > 0.0  # where g is flat, θ is at its least value
            dual = jnp.where(steep, 0.5 * curvature / (m * jnp.where(steep, steepness, 1.0)), 0.0)
            lam = jnp.maximum(lam + dual * (2.0 * values - state.values), 0.0)
        return changed(state, round=state.round + 1, decision=theta, aim=aim, values=values, multipliers=lam)

    def _regressed(self, belief: Regression, decision: Array, samples: Array) -> tuple[Regression, Array]:
        """The regression with one more deployment, and by how much its data differ from what was predicted."""
        n = samples.shape[0]
        mean = jnp.mean(samples, axis=0)
        if self.memory is not None:
            belief = _faded(belief, jnp.minimum(1.0, self.memory / belief.count))
        total = belief.count + n
        share = belief.count * n / total
        step, change = decision - belief.decision, mean - belief.data
        stretched = jnp.sum(belief.inverse * step, axis=1)
        weight = share / (1.0 + share * jnp.sum(step * stretched))
        raw = change - self.shift(belief.effect, step)
        surprise, lean, lean_inverse = self._leant(belief, raw, share)
        learnt = self._as_effect(belief.effect, weight * stretched, surprise)
        scatter = belief.scatter + weight * raw[:, None] * raw
        if n > 1:
            scatter = scatter + (samples - mean).T @ (samples - mean)
        return changed(
            belief,
            effect=belief.effect + learnt,
            count=total,
            decision=belief.decision + step * (n / total),
            data=belief.data + change * (n / total),
            inverse=belief.inverse - weight * stretched[:, None] * stretched,
            scatter=scatter,
            lean=lean,
            lean_inverse=lean_inverse,
            kept=None if belief.kept is None else self._kept(belief, decision, samples),
        ), surprise

    def _remembered(self, rounds: Array) -> Array:
        """Of so many rounds, those that are remembered."""
        return rounds if self.memory is None else jnp.minimum(rounds, self.memory / self.samples)

    def _as_effect(self, effect: Array, along: Array, change: Array) -> Array:
        """The effect whose matrix is nearest to change·alongᵀ."""
        nearest = jax.vjp(lambda effect: self.shift(effect, along), effect)[1](change)[0]
        if self.overlap is None:
            return nearest
        return (jnp.asarray(self.overlap) @ nearest.reshape(-1)).reshape(nearest.shape)

    def _leant(self, belief: Regression, raw: Array, share: Array) -> tuple[Array, Array, Array]:
        """What is left of a surprise once that of the unmoved data has been seen, and the regression of one on the other."""
        if not self.unmoved:
            return raw, belief.lean, belief.lean_inverse
        told = raw[np.asarray(self.unmoved)]
        # The first surprise gives the ridge its unit.
        unit = jnp.eye(len(self.unmoved)) * (len(self.unmoved) / jnp.maximum(jnp.sum(told * told), 1e-300))
        inverse = jnp.where(jnp.trace(belief.lean_inverse) > 0, belief.lean_inverse, unit)
        left = raw - jnp.sum(belief.lean * told, axis=1)
        stretched = jnp.sum(inverse * told, axis=1)
        weight = share / (1.0 + share * jnp.sum(told * stretched))
        lean = belief.lean + weight * left[:, None] * stretched
        return left, lean, inverse - weight * stretched[:, None] * stretched

    def _kept(self, belief: Regression, decision: Array, samples: Array) -> Array:
        """The reservoir after new samples: a uniform sample of all deployments."""
        rows = jnp.concatenate([jnp.broadcast_to(decision, (samples.shape[0], self.normals)), samples], axis=1)

        def put(index: Array, kept: Array) -> Array:
            seen = belief.count + index
            draw = jax.random.uniform(jax.random.fold_in(belief.key, seen.astype(jnp.int64)))
            place = jnp.where(seen < self.reservoir, seen, jnp.floor(draw * (seen + 1.0))).astype(jnp.int64)
            return jnp.where((jnp.arange(self.reservoir) == place)[:, None], rows[index], kept)

        if samples.shape[0] == 1:
            return put(jnp.asarray(0), belief.kept)
        return lax.fori_loop(0, samples.shape[0], put, belief.kept)

    def _where_it_is_cheap(self, state: SafeState, noise: Array) -> Array:
        """The noise, less of it where moving costs in first order.

        Leaving a boundary that holds θ against the gradient costs its multiplier times the way, elsewhere only
        curvature·σ_t². So noise is left as it is where the multiplier is small against curvature·σ_t/d, and is of order σ_t²
        where it is large: against the boundary of Θ (`aim` shows what holds; entry by entry for a box), across a constraint by
        solving (I + Σ κ_i ∇g_i ∇g_iᵀ) w = noise, κ_i‖∇g_i‖ = λ_i d/(curvature·σ_t), with conjugate gradients.
        """
        problem, theta = self.problem, state.decision
        level = jnp.maximum(self.noise_level(state), 1e-300)
        held = 2.0 * self.normals * (state.aim - theta)  # the gradient over the mean curvature

        def freed(vector: Array) -> Array:
            if isinstance(problem.decisions, Box):
                return vector / (1.0 + jnp.abs(held) / level)
            length = jnp.sqrt(jnp.sum(held * held))
            normal = held / jnp.maximum(length, 1e-300)
            return vector - jnp.sum(normal * vector) * normal * (length / (length + level))

        if not problem.constraint_names:
            return freed(noise)
        steepness = jnp.sqrt(jnp.maximum(problem.steepness(theta), 1e-300))
        stiffness = state.multipliers * self.normals / (steepness * jnp.maximum(level * state.curvature, 1e-300))

        def stiffened(vector: Array) -> Array:
            across = jax.jvp(problem.g, (theta,), (freed(vector),))[1]
            return vector + freed(problem.pullback(theta, stiffness * across))

        def conjugate(_: Any, carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
            solution, residual, direction, square = carry
            product = stiffened(direction)
            length = square / jnp.maximum(jnp.sum(direction * product), 1e-300)
            residual = residual - length * product
            next_square = jnp.sum(residual * residual)
            next_direction = residual + next_square / jnp.maximum(square, 1e-300) * direction
            return solution + length * direction, residual, next_direction, next_square

        begin = (jnp.zeros_like(noise), noise, noise, jnp.sum(noise * noise))
        cheap = freed(lax.fori_loop(0, CONJUGATE, conjugate, begin)[0])
        return jnp.where(jnp.all(jnp.isfinite(cheap)), cheap, freed(noise))

    def is_quadratic(self, width: int) -> bool:
        """Whether the loss is quadratic in samples of `width` numbers, so that their moments are all there is to know."""
        return self._pattern(width) is not None

    def _pattern(self, width: int) -> Any:
        return hessian_pattern(LossInData(self.problem.loss), width, jnp.zeros(self.normals))


def _with_floor(belief: Regression, index: Array, weight: Array) -> Regression:
    """The same estimates, as if so much had been explored along one axis and found as predicted; the axes take turns.

    Without it the inverse scatter of directions that are not explored grows without bound, and with it what noise does to Â.
    """
    column = jnp.take(belief.inverse, index, axis=1)
    share = weight / (1.0 + weight * jnp.take(column, index))
    return changed(belief, inverse=belief.inverse - share * column[:, None] * column)


def _faded(belief: Regression, kept: Array) -> Regression:
    """The same estimates, resting on a share of the samples.

    Rounding leaves inverses a little asymmetric, and what is asymmetric would grow by 1/kept in every round. The key is a new
    one, since the count, which stops growing, no longer tells the reservoir's draws apart.
    """

    def grown(inverse: Array) -> Array:
        return 0.5 * (inverse + inverse.T) / kept

    return changed(
        belief,
        count=kept * belief.count,
        scatter=kept * belief.scatter,
        inverse=grown(belief.inverse),
        lean_inverse=grown(belief.lean_inverse),
        key=jax.random.fold_in(belief.key, 0),
    )


_advance = jax.jit(SafePrimalDual._advance)
_decided = jax.jit(SafePrimalDual._decided)
_confident = jax.jit(SafePrimalDual._confident, static_argnames="draws")
