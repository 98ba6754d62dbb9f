"""The method that deploys safe decisions only, learns from all of them, and moves no farther than the evidence goes.

The effect and the mean of the data are learned together by recursive least squares of Z on (1, x) over every deployment. A
plan then takes a step of θ_t, λ_t in the risk that this predicts, pessimistic and within a trust region, and a probe if what it
teaches is worth its price (`planning`); a budget limits what may be lost against staying at the start (`budget`). No quantity
has a unit of its own: a prior in units of the data and of each coordinate's range sets all scales.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from performative.budget import SURE, Budget, Ledger
from performative.estimators.prediction import Learned, Prediction
from performative.estimators.protocol import Unobserved
from performative.estimators.recall import recalled
from performative.estimators.regression import LeastSquares, Regression
from performative.estimators.standard_errors import DRAWS, Confidence, confidence
from performative.methods.protocol import checked
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import changed, pytree
from performative.numerics.randomness import require_key, standard_normal
from performative.past import Past
from performative.planning import FLATTEST, Model, Planner, Rows
from performative.problem import Problem
from performative.reasons import Explanation, Plan, explained
from performative.safety import PreparedSafety
from performative.sets import Box
from performative.shifts import tensor_of

OWN, OTHERS, ALIKE = 1.5, 0.3, 1.0
"""By how much the mean of a datum may change across a coordinate's range, in multiples of its size: the coordinate that the loss
weighs it with, the others, and any where the loss weighs it with none in particular. One standard deviation of the prior."""
FIRST_RADIUS, SMALLEST, LARGEST = 0.12, 0.01, 0.3
"""The trust region: how far θ may move in one plan, as shares of the range."""
GROWTH, SHRINKING = 1.3, 0.5
STARTS = 4
"""How many random signs probes are sought from."""
EVERY = 256
"""Every round is planned until this one; afterward, one in t/EVERY."""
WIDTH = 0.05
"""How far apart gradients are compared to get the curvature of a loss that is not quadratic, as a share of the range."""


@pytree()
class Reasons:
    """Why a decision is deployed, in the unit of the loss: see `SafePrimalDual.why`."""

    gain: Array
    gain_error: Array
    price: Array
    worth: Array
    limited: Array
    held: Array
    allowed: Array
    spent: Array


@pytree()
class SafeState:
    """θ_t, λ_t, what is believed, and the plan.

    `probes` (b, d) are deployed for the next `repeats` rounds, and θ_t afterward. `deployed` is what was deployed last, `radius`
    the trust region, `expected` the predicted risk of the next deployment, `error` the standard error of its mean loss, `bound`
    a bound on its loss over the start's. `own`, (k, d), marks the coordinate that the loss weighs each datum with.
    """

    round: Array
    decision: Array
    multipliers: Array
    belief: Unobserved | Regression
    probes: Array
    repeats: Array
    deployed: Array
    radius: Array
    expected: Array
    error: Array
    bound: Array
    ledger: Ledger
    widths: Array
    own: Array
    prior: Array
    bend: Array
    reasons: Reasons


@pytree("samples", "arms")
class SafePrimalDual:
    """A composition of what learns the effect, what plans, what keeps deployments safe and what limits losses: `safe_apda`."""

    problem: Problem
    learner: LeastSquares
    planner: Planner
    safety: PreparedSafety
    budget: Budget
    start: Array
    max_move: Array
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
        zero = jnp.zeros(())
        theta = self.safety(self.problem, jnp.asarray(self.start))
        state = SafeState(
            round=jnp.asarray(0),
            decision=theta,
            multipliers=jnp.zeros(len(self.problem.constraint_names)),
            belief=Unobserved(key),
            probes=jnp.tile(theta, (self.arms, 1)),
            repeats=jnp.asarray(0),
            deployed=jnp.tile(theta, (self.arms, 1)),
            radius=jnp.asarray(FIRST_RADIUS),
            expected=zero,
            error=zero,
            bound=zero,
            ledger=Ledger.empty(self.problem.d),
            widths=jnp.asarray(self.planner.widths),
            own=jnp.zeros((0, self.problem.d)),
            prior=jnp.ones(2),
            bend=zero,
            reasons=Reasons(zero, zero, zero, zero, jnp.asarray(False), jnp.asarray(False), zero, zero),
        )
        if self.history is None:
            return state
        opened = self._opened(state, jnp.asarray(self.history.decisions)[0], jnp.asarray(self.history.means)[:1])
        assert isinstance(opened.belief, Regression)
        belief = recalled(self.learner, opened.belief, self.history)
        ridge = self._ridge(belief, opened)
        for axis in range(self.problem.d):
            belief = self.learner.with_ridge(belief, jnp.asarray(axis), ridge[axis], shrinks=True)
        return changed(opened, belief=belief)

    @in_float64
    def ask(self, state: SafeState, key: Array) -> Array:
        """The decisions (b, d) to deploy: the state knows them, the key is not used."""
        return _decide(self, state)

    def _decide(self, state: SafeState) -> Array:
        planned = jnp.where(state.repeats > 0, state.probes, state.decision)
        apart = jnp.max(jnp.abs(planned - state.deployed) / self.max_move, axis=1, keepdims=True)
        near = state.deployed + (planned - state.deployed) / jnp.maximum(apart, 1.0)
        # Between two feasible decisions there may be none that is, if the constraints are not convex.
        near = jnp.where(self._meets(near) | ~self._meets(state.deployed), near, state.deployed)
        return jnp.where(apart <= 1.0, planned, near)

    def _meets(self, decisions: Array) -> Array:
        """Whether each decision meets the constraints, (b, 1)."""
        return jnp.all(jax.vmap(self.problem.g)(decisions) <= 0.0, axis=1, keepdims=True)

    def wanted(self, state: SafeState) -> int:
        """The same number in every round."""
        return int(self.samples)

    @in_float64
    def tell(self, state: SafeState, decisions: Array, samples: Array) -> SafeState:
        """Improve the regression, then plan the next deployment."""
        decisions, samples = checked(self.problem, decisions, samples, "data")
        if decisions.shape[0] != self.arms:
            raise ValueError(f"`decisions` must have shape ({self.arms}, {self.problem.d}), but got {decisions.shape}")
        if self.learner.prior is not None:
            theta = jax.ShapeDtypeStruct((self.problem.d,), jnp.float64)
            width = jax.eval_shape(self.learner.shift, jnp.asarray(self.learner.prior), theta).shape
            if width != (samples.shape[2],):
                raise ValueError(
                    f"`samples` must hold {width[0]} numbers each, like the effect's rows, but got {samples.shape[2]}"
                )
        return _planned(self, _learned(self, state, decisions, samples), state.round)

    def _planned(self, state: SafeState, told: Array) -> SafeState:
        return lax.cond(self.plans(told), self.plan, lambda state: state, state)

    def plans(self, round: Array) -> Array:
        """Whether the deployments of this round are followed by a plan."""
        return round % jnp.maximum(1, round // EVERY) == 0

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
            raise ValueError(f"standard errors need more than {self.problem.d + 2} samples, but got none")
        start = self.safety(self.problem, jnp.asarray(self.start))
        return confidence(self.learner, self.prediction, state.belief, state.decision, start, draws)

    @in_float64
    def why(self, state: SafeState) -> Explanation:
        """Why the next decisions are what `ask` returns, in words and in numbers, in the unit of the loss."""
        reasons = state.reasons
        plan = Plan(
            started=int(state.round) > 0,
            decision=np.asarray(state.decision),
            planned=np.asarray(state.probes if int(state.repeats) > 0 else jnp.tile(state.decision, (self.arms, 1))),
            decisions=np.asarray(_decide(self, state)),
            deployed=np.asarray(state.deployed),
            repeats=int(state.repeats),
            gain=float(reasons.gain),
            gain_error=float(reasons.gain_error),
            price=float(reasons.price),
            worth=float(reasons.worth),
            radius=float(state.radius),
            limited=bool(reasons.limited),
            held=bool(reasons.held),
            allowed=np.inf if np.isinf(self.budget.multiple) else float(reasons.allowed),
            spent=float(reasons.spent),
            max_move=np.asarray(self.max_move),
            widths=np.asarray(state.widths),
            multipliers=np.asarray(state.multipliers),
        )
        return explained(self.problem, plan)

    def structure(self, state: SafeState) -> Learned | None:
        """What is learned about a structured effect, for whoever sees only the log; None for a dense one, or before any data."""
        if not self.learner.structured or isinstance(state.belief, Unobserved):
            return None
        return Learned(self.learner, self.prediction, state.belief)

    def learn(self, state: SafeState, decisions: Array, samples: Array) -> SafeState:
        """The state with one more round of data; θ_t stays."""
        ledger, radius = state.ledger, state.radius
        start = self.safety(self.problem, jnp.asarray(self.start))
        belief = state.belief
        for decision, rows in zip(decisions, samples, strict=True):
            losses = jax.vmap(lambda z, x=decision: self.problem.loss(x, z))(rows)
            at_start = jnp.all(jnp.abs(decision - start) <= 1e-9 * state.widths)
            ledger = ledger.after(decision, jnp.mean(losses), jnp.mean(jnp.abs(losses)), at_start)
            if isinstance(belief, Unobserved):
                state = self._opened(changed(state, belief=belief), decision, rows)
                belief = state.belief
            else:
                belief, _ = self.learner.update(belief, decision, rows)
        worse = (jnp.mean(jax.vmap(self.problem.loss, (None, 0))(decisions[0], samples[0])) - state.expected) / (
            jnp.maximum(state.error, 1e-300)
        )
        factor = jnp.where(worse < 1.0, GROWTH, jnp.where(worse > 2.0, SHRINKING, 1.0))
        radius = jnp.where(state.error > 0, jnp.clip(radius * factor, SMALLEST, LARGEST), radius)
        assert isinstance(belief, Regression)
        belief = self._reridged(belief, state)
        return changed(
            state,
            round=state.round + 1,
            belief=belief,
            ledger=ledger,
            radius=radius,
            deployed=decisions,
            repeats=jnp.maximum(state.repeats - 1, 0),
        )

    def _reridged(self, belief: Regression, state: SafeState) -> Regression:
        """The regression with the ridge that the noise as known now asks for, on one axis."""
        d = self.problem.d
        index = state.round % d
        ridge = self._ridge(belief, state)
        here = jnp.sum(jnp.where(jnp.arange(d) == index, ridge, 0.0))
        return self.learner.with_ridge(belief, index, here, shrinks=self.learner.memory is None)

    def _ridge(self, belief: Regression, state: SafeState) -> Array:
        """The information (d,) that the prior is worth: noise over its variance, on average over the data."""
        return self._relative(belief) * state.widths**2 / state.prior[1]

    def _relative(self, belief: Regression) -> Array:
        """The variance of the noise over the mean square, on average over the data."""
        size = self._size(belief)
        share = jnp.where(size > 0, self._noise(belief) / jnp.where(size > 0, size, 1.0), 0.0)
        return jnp.maximum(jnp.mean(share), 1e-9)

    def _prior(self, belief: Regression, own: Array, rows: Rows) -> Array:
        """The variance of the prior, of own entries and of the others: as large as the estimates say, at least the first guess.

        Each is the mean of what the entries' squares are expected to be (an EM step of empirical Bayes), and so it grows from
        plan to plan until it fits.
        """
        size = jnp.maximum(self._size(belief), 1e-300)[:, None]
        columns = rows.columns
        variance = jnp.diag(rows.inverse) + rows.stretch[:, None] * columns**2
        squares = (rows.effect**2 + (self._noise(belief) / self.samples)[:, None] * variance) / size
        first, movable = _first_prior(own), jnp.ones_like(own)
        if self.learner.structured:
            tensor = tensor_of(self.learner.shift, belief.effect, own.shape[1])
            movable = (jnp.sum(jnp.abs(tensor), axis=1) > 0).astype(jnp.float64)

        def average(where: Array) -> Array:
            return jnp.sum(where * squares) / jnp.maximum(jnp.sum(where), 1.0)

        return jnp.maximum(first, jnp.stack([average(own), average(movable * (1.0 - own))]))

    def _size(self, belief: Regression) -> Array:
        """The mean square of each datum."""
        return belief.data**2 + jnp.diag(belief.scatter) / belief.count

    def _noise(self, belief: Regression) -> Array:
        """The variance of the noise in each datum (k,); before there are several samples, its mean square."""
        scatter = belief.scatter
        if self.learner.unmoved:  # what the unmoved data explain is not noise
            still = np.asarray(self.learner.unmoved)
            left = jnp.eye(scatter.shape[0]).at[:, still].add(-belief.lean)
            left = left.at[still].set(jnp.eye(scatter.shape[0])[still])
            scatter = left @ scatter @ left.T
        return (jnp.diag(scatter) + 0.5 * self._size(belief)) / (belief.count - 0.5)

    def _misfit(self, belief: Regression) -> Array:
        """By how much deployments' means vary more than the noise within deployments explains, at least 1."""
        within = jnp.diag(belief.scatter) - belief.misfit
        degrees = belief.count - belief.deployments
        known = (within > 0) & (degrees > 0.5)
        ratio = belief.misfit * degrees / (jnp.where(known, within, 1.0) * jnp.maximum(belief.deployments, 1.0))
        return jnp.maximum(jnp.mean(jnp.where(known, ratio, 1.0)), 1.0)

    def _model(self, belief: Regression, state: SafeState, theta: Array) -> tuple[Model, Array, Array]:
        """The predicted risk around θ, the standard error of a deployment's mean loss there, and the effect."""
        widths, n = state.widths, self.samples * 1.0
        prediction, d = self.prediction, theta.shape[0]
        inverse = n * belief.inverse * widths[:, None] * widths
        own = state.own
        if self.learner.structured:
            effect = belief.effect
            spread_out = jax.jacfwd(lambda theta: self.learner.shift(effect, theta))(jnp.zeros(d))
            rows = Rows(spread_out * widths, inverse, own, jnp.zeros(own.shape[0]))
        else:
            prior = jnp.zeros_like(belief.effect) if self.learner.prior is None else jnp.asarray(self.learner.prior)
            looser = jnp.sum(own * belief.ridge / widths**2, axis=1) / n * (1.0 - state.prior[1] / state.prior[0])
            rows = Rows.of(belief.effect * widths, prior * widths, inverse, own, looser)
            effect = rows.effect / widths

        def risk(x: Array) -> Array:
            return prediction.risk(belief, effect, x)

        gradient = jax.grad(risk)
        if belief.reservoir is None:
            hessian = jax.hessian(risk)(theta)
        else:
            steps = jnp.diag(WIDTH * widths)
            hessian = jax.vmap(lambda step: gradient(theta + step) - gradient(theta - step))(steps)
            hessian = hessian / (2.0 * WIDTH * widths[:, None])
        if self.problem.constraint_names:
            hessian = hessian + jax.hessian(lambda x: jnp.sum(state.multipliers * self.problem.g(x)))(theta)
        hessian = 0.5 * (hessian + hessian.T) * widths[:, None] * widths
        slope = prediction.slope_in_data(belief, effect, theta)
        misfit = self._misfit(belief)
        moved = jnp.ones_like(slope).at[np.asarray(self.learner.unmoved, int)].set(0.0)
        weights = moved * slope**2 * self._noise(belief) * misfit / n
        covariance = belief.scatter / jnp.maximum(belief.count - 1.0, 1.0)
        error = jnp.sqrt(jnp.maximum(slope @ covariance @ slope, jnp.sum(weights) * n * 1e-6) * misfit / n)
        model = Model(
            theta=theta,
            gradient=gradient(theta) * widths,
            hessian=jnp.where(jnp.isfinite(hessian), hessian, 0.0),
            floor=FLATTEST * state.bend,
            weights=weights,
            rows=rows,
            center=belief.decision,
        )
        return model, error, effect

    def plan(self, state: SafeState) -> SafeState:
        """The state with a new θ_t, λ_t and probes."""
        belief = state.belief
        assert isinstance(belief, Regression)
        problem, widths = self.problem, state.widths
        planner = changed(self.planner, widths=widths)
        model, error, effect = self._model(belief, state, state.decision)
        theta, lam = planner.step(problem, self.safety, model, state.multipliers, state.radius)
        t = self.learner.remembered(state.round.astype(jnp.float64), self.samples)
        ahead = jnp.maximum(self.deployments - state.round, 0.0)
        horizon = jnp.where(jnp.isfinite(ahead), ahead, jnp.maximum(t, 5.0))
        key = jax.random.fold_in(belief.key, state.round)
        noise = standard_normal(key, self.arms * STARTS * problem.d).reshape(self.arms, STARTS, problem.d)
        start = self.safety(problem, jnp.asarray(self.start))
        unsure = model.rows.total(model.weights)

        def over_start(x: Array) -> tuple[Array, Array]:
            """The predicted loss over the start's, and its standard error."""
            u = (x - start) / widths
            value = self.prediction.risk(belief, effect, x) - self.prediction.risk(belief, effect, start)
            return value, jnp.sqrt(jnp.maximum(u @ unsure @ u, 0.0))

        rounds = state.round.astype(jnp.float64)
        bent = model.hessian / (widths[:, None] * widths)
        spent = state.ledger.spent(error, *over_start(state.ledger.mean), bent)
        allowed = self.budget.allowance(state.ledger, rounds)
        left = allowed - spent

        def affordable(x: Array) -> tuple[Array, Array]:
            """The decision as far from the start as the budget lets it be, and the bound on its loss."""
            shares = jnp.asarray([1.0, 0.7, 0.5, 0.35, 0.25, 0.12, 0.06, 0.0])
            tries = start + shares[:, None] * (x - start)
            values, errors = jax.vmap(over_start)(tries)
            bounds = values + SURE * errors
            fine = ((bounds <= left / self.arms) & self._meets(tries)[:, 0]) | (shares == 0.0)
            chosen = jnp.argmax(fine)
            return jnp.where(shares[chosen] == 1.0, x, tries[chosen]), bounds[chosen]

        theta, bound = affordable(theta)
        probes, prices, worths = [], [], []
        rows = model.rows
        repeats = jnp.maximum(1, state.round // EVERY).astype(jnp.float64)
        relative = self._relative(belief) / (self.samples * state.prior[1])
        for arm in range(self.arms):
            here = model._replace(rows=rows)
            probe, worth, price, most = planner.probe(
                problem, self.safety, here, theta, lam, horizon, rounds, relative, noise[arm]
            )
            probe = jnp.where(jnp.asarray(arm == 0 and self.arms > 1), theta, probe)
            rows = rows.after((probe - belief.decision) / widths)
            probe, one = affordable(probe)
            bound = jnp.maximum(bound, one)
            repeats = jnp.minimum(repeats, jnp.maximum(most, 1.0))
            probes.append(probe)
            prices.append(price)
            worths.append(worth)
        first = probes[0]
        expected = self.prediction.risk(belief, effect, first)
        gain, gain_error = over_start(theta)
        away = jnp.max(jnp.abs(theta - state.decision) / widths)
        return changed(
            state,
            decision=theta,
            multipliers=lam,
            prior=self._prior(belief, state.own, model.rows),
            probes=jnp.stack(probes),
            repeats=jnp.where(jnp.isfinite(repeats), repeats, 1.0).astype(state.repeats.dtype),
            expected=expected,
            error=error,
            bound=bound,
            reasons=Reasons(
                gain=-gain,
                gain_error=gain_error,
                price=jnp.sum(jnp.stack(prices)),
                worth=jnp.sum(jnp.stack(worths)),
                limited=away >= 0.99 * state.radius,
                held=bound > left,
                allowed=jnp.where(jnp.isfinite(allowed), allowed, 0.0),
                spent=spent,
            ),
        )

    def _opened(self, state: SafeState, decision: Array, samples: Array) -> SafeState:
        """The state after the first deployment: its data, and the prior that they and the loss set."""
        assert isinstance(state.belief, Unobserved)
        d, width = self.problem.d, samples.shape[1]
        quadratic = self.prediction.pattern(width, d) is not None
        belief = self.learner.start(state.belief, decision, samples, not quadratic, jnp.ones(d))
        widths = self._own_widths(decision, samples)
        mixed = jax.jacfwd(jax.grad(self.problem.loss, 1))(decision, belief.data) * widths
        mixed = jnp.where(jnp.isfinite(mixed), jnp.abs(mixed), 0.0)
        most = jnp.max(mixed, axis=1, keepdims=True)
        own = ((mixed == most) & (most > 0.5 * jnp.sum(mixed, axis=1, keepdims=True))).astype(jnp.float64)
        if self.learner.structured:
            own = jnp.zeros_like(own)
        bend = jnp.mean(jnp.sum(mixed * jnp.sqrt(self._size(belief))[:, None], axis=0))
        state = changed(state, widths=widths, own=own, prior=_first_prior(own), bend=bend)
        ridge = self._ridge(belief, state)
        return changed(state, belief=changed(belief, ridge=ridge, inverse=jnp.diag(1.0 / ridge)))

    def _own_widths(self, decision: Array, samples: Array) -> Array:
        """The widths of Θ, or those over which the loss's own curvature changes it by as much as it is, if they are smaller.

        Where neither has any, the size of the decision, or 1.
        """
        widths = jnp.asarray(self.planner.widths)
        losses = jax.vmap(self.problem.loss, (None, 0))

        def mean(theta: Array) -> Array:
            return jnp.mean(losses(theta, samples))

        curvature = jnp.diag(jax.hessian(mean)(decision))
        if not isinstance(self.problem.decisions, Box):
            curvature = jnp.full_like(curvature, jnp.mean(curvature))
        size = jnp.mean(jnp.abs(losses(decision, samples)))
        bent = jnp.isfinite(curvature) & (curvature > 0) & (size > 0)
        length = jnp.sqrt(2.0 * size / jnp.where(bent, curvature, 1.0))
        widths = jnp.where(bent, jnp.minimum(widths, 2.0 * length), widths)
        return jnp.where(jnp.isfinite(widths), widths, jnp.where(decision != 0.0, jnp.abs(decision), 1.0))


def _first_prior(own: Array) -> Array:
    """The variances of the prior before anything is known of the effect: of own entries, and of the others."""
    others = jnp.where(jnp.any(own > 0), OTHERS, ALIKE)
    return jnp.stack([jnp.maximum(OWN, others), others]) ** 2


# Apart, so that the plan is compiled once: the first data change the structure of the state, the plan does not see it.
_learned = jax.jit(SafePrimalDual.learn)
_planned = jax.jit(SafePrimalDual._planned)
_decide = jax.jit(SafePrimalDual._decide)
