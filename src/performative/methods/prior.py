"""What a careful decision-maker expects of an effect before the data say more: in units of the data, and of the range.

The mean of a datum is expected to change by a multiple of its size across a coordinate's range: by more for the coordinate that
the loss weighs it with (its own price) than for the others.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from performative.estimators.fitting import Rivals
from performative.estimators.known import Numbers, Rows
from performative.estimators.regression import LeastSquares, Regression
from performative.methods.pace import EVERY
from performative.numerics.pytrees import changed, pytree
from performative.problem import Problem
from performative.sets import separable

OWN, OTHERS = 1.0, 0.6
"""By how much the mean of a datum may change across a coordinate's range, in multiples of its size: the coordinate that the loss
weighs it with (any, where it weighs it with none in particular), and the others. One standard deviation of the prior."""
CURVED = 0.7
"""By how much the mean of a datum may be off a line, in multiples of its size, times the square of the distance in widths."""
STRAIGHTEST = 0.1
"""The same for the least curvature that is reckoned with, however well a line fits."""
ALIKE = 0.7
"""The share of their variance that cross effects, such as of one price on the sales of others, have in common, at first."""
WEAK = 0.1
"""By how much a datum changes across a coordinate's range, in multiples of its size, where all effects are weak."""
BELIEVED = 1.0
"""How many entries the first guess of their squares is worth: what noise alone makes of them fades."""
RIGHT = 1.0
"""The same for the effects that would make the start right, in multiples of them."""
FARTHEST = 4.5
"""How wide the first range may be, in multiples of the length over which an effect that makes the start right changes a datum by
its size."""
LEAST, GREATEST = 0.05, 10.0
"""The least and the most that the data may make of that guess, as multiples of it: a few deployments of a curved world fit any
line if its entries may be of any size."""
MOST = 1e6
"""The largest variance that a user may give an entry of the effect, in multiples of the largest of the prior."""


@pytree()
class Prior:
    """The prior of an effect (k, d).

    `widths` (d,) are those of the range, from the `first` to the `widest`. `own` (k, d) marks the coordinate that the loss weighs
    each datum with. `squares` are the variances of own entries and of the others, as shares of a datum's mean square, across a
    width, or of that which `today` (k, d) needs to be right, if that is more. `mixed` (k, d) are the sizes of ∂²ℓ/∂θ∂z across a
    width, and `bend` the curvature of the risk that the first data that are not 0 lead to expect.
    """

    widths: Array
    first: Array
    widest: Array
    own: Array
    today: Array
    squares: Array
    mixed: Array
    bend: Array

    @staticmethod
    def unknown(widths: Array) -> Prior:
        """Before there are data."""
        nothing, widths = jnp.zeros((0, jnp.size(widths))), jnp.asarray(widths)
        return Prior(widths, widths, widths, nothing, nothing, jnp.ones(2), nothing, jnp.zeros(()))

    @staticmethod
    def of(
        problem: Problem,
        learner: LeastSquares,
        widths: tuple[Array, Array],
        belief: Regression,
        decision: Array,
        samples: Array,
    ) -> Prior:
        """What the loss and the first samples (n, k), at a decision, lead to expect; `widths` are the first and the widest."""
        first, widest = (own_widths(problem, each, decision, samples) for each in widths)
        mixed, own = weighed(problem, first, decision, belief.typical)
        today = RIGHT * _right_today(problem, widest, own, decision, samples)
        if learner.structured:
            own, today = jnp.zeros_like(own), jnp.zeros_like(own)
        lengths = jnp.sqrt(jnp.mean(samples**2, axis=0))[:, None] / jnp.where(today > 0, today, 1.0)
        first = jnp.minimum(first, FARTHEST * jnp.min(jnp.where(today > 0, lengths, jnp.inf), axis=0))
        mixed = mixed * first
        if belief.groups is not None:
            nothing = jnp.zeros_like(own)
            own, today, mixed = jnp.tile(own, (2, 1)), *(jnp.concatenate([part, nothing]) for part in (today, mixed))
        return Prior(first, first, widest, own, today, _first_squares(own), mixed, _bend(mixed, belief))

    def widened(self, rounds: Array, belief: Regression) -> Prior:
        """The prior after so many rounds: from round EVERY on, the range is t/EVERY times the first, up to the widest.

        A start that is small says that first steps should be, and not where the optimum is.
        """
        widths = jnp.minimum(self.widest, self.first * jnp.maximum(rounds / EVERY, 1.0))
        mixed = self.mixed * (widths / self.widths)
        before = _bend(self.mixed, belief)
        wider = jnp.where(before > 0, _bend(mixed, belief) / jnp.where(before > 0, before, 1.0), 1.0)
        return changed(self, widths=widths, mixed=mixed, bend=self.bend * wider)

    def variances(self, learner: LeastSquares, belief: Regression) -> Array:
        """Of the entries (k, d) of the effect, or of the numbers (p,) of a structured one; what the user knows goes first."""
        share = self.own * self.squares[0] + (1.0 - self.own) * self.squares[1]
        variances = share * self._unit(belief)
        if learner.tensor is not None:
            variances = learner.of_numbers(variances)
        if learner.error is not None:
            error = learner.given(learner.error, belief, variances.shape)
            most = MOST * jnp.max(
                variances * jnp.max(self.widths / self.first) ** 2
            )  # more says no more, and may overflow
            variances = jnp.where(jnp.isnan(error), variances, jnp.minimum(jnp.minimum(error, 1e150) ** 2, most))
        return variances

    def rivals(self, learner: LeastSquares, belief: Regression, rounds: Array) -> Rivals | None:
        """The priors that compete with this one, less and less until round EVERY, when there are data for each entry.

        Cross effects may be alike, those of one datum's own coordinate on other data that have one: whoever raises a price sends
        buyers to all the others, so that what a few deployments teach of one such effect, they teach of all. And all effects may
        be WEAK and of one size, own ones and others, but for those that the user says something of.
        """
        if learner.structured:
            return None
        free, credit = self._free(learner, belief), jnp.maximum(1.0 - rounds / EVERY, 0.0)
        weak = jnp.where(free > 0, WEAK**2 * belief.size[:, None] / self.widths**2, jnp.inf)
        if self.own.shape[1] == 1:
            return Rivals(None, weak, credit)
        others = jnp.any(self.own > 0, axis=1, keepdims=True) * jnp.any(self.own > 0, axis=0) * (1.0 - self.own) * free
        if belief.groups is not None:
            others = others * (jnp.arange(len(others)) < len(others) // 2)[:, None]  # contrasts have nothing in common
        return Rivals(ALIKE * credit * others, weak, credit)

    def _free(self, learner: LeastSquares, belief: Regression) -> Array:
        """1 for the entries (k, d) that the user says nothing of, and else 0."""
        free = jnp.ones_like(self.own)
        if learner.error is not None:
            free = free * jnp.isnan(learner.given(learner.error, belief, free.shape))
        if learner.signs is not None:
            free = free * (learner.given(learner.signs, belief, free.shape) != 0)
        return free

    def _unit(self, belief: Regression) -> Array:
        """The square (k, d) of an effect that changes a datum by its size across a width, or makes today's decision right."""
        return jnp.maximum(belief.size[:, None] / self.widths**2, self.today**2)

    def bent(self, belief: Regression, samples: int) -> Array:
        """The variance (k,) that curvature may add to the noise of one of so many samples of a deployment.

        The mean of a datum may be off a line by STRAIGHTEST times its size and the mean square of the distance of decisions from
        their mean, in widths.
        """
        squares = jnp.sum(jnp.diag(belief.moments.scatter) / self.widths**2) / belief.count
        return samples * belief.size * (STRAIGHTEST * squares) ** 2

    def grown(self, learner: LeastSquares, belief: Regression, known: Rows | Numbers) -> Prior:
        """The prior with squares as large as the estimates say.

        Each is the mean of what the entries' squares are expected to be (an EM step of empirical Bayes), and so it changes from
        plan to plan until it fits. Entries that the user knows something of are left out.
        """
        expected = jnp.zeros_like(known.effect)
        if learner.tensor is not None:
            free = jnp.any(jnp.asarray(learner.tensor) != 0, axis=1).astype(jnp.float64)
            expected = jnp.tensordot(jnp.asarray(learner.tensor), jnp.ravel(jnp.asarray(learner.prior)), ((1,), (0,)))
        else:
            free = self._free(learner, belief)
            if learner.prior is not None:
                expected = jnp.nan_to_num(learner.given(learner.prior, belief, free.shape))
        free = free * (belief.size > 0)[:, None]
        unit = jnp.maximum(self._unit(belief), 1e-300)
        squares = ((known.effect - expected) ** 2 + known.variances(jnp.ones_like(self.widths))) / unit
        first = _first_squares(self.own)

        def average(where: Array, guess: Array) -> Array:
            return (BELIEVED * guess + jnp.sum(where * squares)) / (BELIEVED + jnp.sum(where))

        seen = jnp.stack([average(free * self.own, first[0]), average(free * (1.0 - self.own), first[1])])
        bend = jnp.where(self.bend > 0, self.bend, _bend(self.mixed, belief))
        return changed(self, squares=jnp.clip(seen, LEAST * first, GREATEST * first), bend=bend)

    def outgrown(self, belief: Regression, known: Rows | Numbers, theta: Array) -> Array:
        """Whether curvature leaves more open about the slope at θ than what is known of the effect, as deployments were far away.

        If the mean of a datum is off a line by cu², u in widths, the slope of the least-squares line is off that at θ by
        c(Σ(x − x̄)³/Σ(x − x̄)² + 2(x̄ − θ)), where coordinates vary independently: a chord has the slope of its middle.
        Coordinates that never varied do not count.
        """
        squares = jnp.diag(belief.moments.scatter) / self.widths**2
        seen = squares > 0.0
        skew = belief.skew / (self.widths**3 * jnp.where(seen, squares, 1.0))
        off = CURVED * (skew + 2.0 * (belief.decision - theta) / self.widths)
        size = belief.size
        shares = known.variances(self.widths) / jnp.where(size > 0, size, 1.0)[:, None]
        unknown = jnp.sum(jnp.where((size > 0)[:, None], shares, 0.0), axis=0) / jnp.maximum(jnp.sum(size > 0), 1)
        return jnp.sum(jnp.where(seen, off**2, 0.0)) > jnp.sum(jnp.where(seen, unknown, 0.0))

    def relative(self, belief: Regression, samples: int) -> Array:
        """The noise of a deployment over the weakest effects that are expected across the range, both squared, on average."""
        size = belief.size
        share = jnp.where(size > 0, belief.noise / jnp.where(size > 0, size, 1.0), 0.0)
        noise = jnp.maximum(jnp.sum(share) / jnp.maximum(jnp.sum(size > 0), 1), 1e-9)
        return noise / (samples * self.squares[1])


def weighed(problem: Problem, widths: Array, decision: Array, typical: Array) -> tuple[Array, Array]:
    """The sizes (k, d) of ∂²ℓ/∂θ∂z at a typical sample, and which coordinate the loss weighs each datum with: 1 there, else 0.

    It is the one that has most of them across a width; a datum that is weighed with none in particular has none.
    """
    mixed = jax.jacfwd(jax.grad(problem.loss, 1))(decision, typical)
    mixed = jnp.where(jnp.isfinite(mixed), jnp.abs(mixed), 0.0)
    across = mixed * widths
    most = jnp.max(across, axis=1, keepdims=True)
    own = ((across == most) & (most > 0.5 * jnp.sum(across, axis=1, keepdims=True))).astype(jnp.float64)
    return mixed, own


def _right_today(problem: Problem, widths: Array, own: Array, decision: Array, samples: Array) -> Array:
    """The size (k, d) of effects that would make a decision right: D_j + Σ_k A_kj c_k = 0, where D = E ∂ℓ/∂θ and c = E ∂ℓ/∂z.

    Of D counts what it keeps across the range on the same data: a price that gains by whatever it is raised would have been
    raised if buyers stayed, while an order that the same buyers show to be too small says nothing about how they react. The
    effects are sought among the data that the loss weighs with a coordinate, if any, in proportion to their sizes, so that units
    do not matter. Where the data do not matter to the decision, such as an order of 0, no effect makes it right.
    """

    def mean_slope(argument: int, theta: Array) -> Array:
        return jnp.mean(jax.vmap(jax.grad(problem.loss, argument), (None, 0))(theta, samples), axis=0)

    direct, slopes = mean_slope(0, decision), mean_slope(1, decision)
    ends = jax.vmap(problem.decisions.project)(decision - jnp.diag(jnp.sign(direct) * widths))
    far = jnp.diag(jax.vmap(lambda end: mean_slope(0, end))(ends))
    kept = jnp.where(direct * far > 0, jnp.minimum(jnp.abs(direct), jnp.abs(far)), 0.0)
    sizes = jnp.mean(samples**2, axis=0)
    among = jnp.where(jnp.any(own > 0, axis=0), own, 1.0)
    total = jnp.sum(among * (slopes**2 * sizes)[:, None], axis=0)
    right = kept * among * (jnp.abs(slopes) * sizes)[:, None] / jnp.where(total > 0, total, 1.0)
    return jnp.where((total > 0) & jnp.isfinite(right), right, 0.0)


def _bend(mixed: Array, belief: Regression) -> Array:
    """The curvature that data of this size lead to expect, across a width."""
    return jnp.mean(jnp.sum(mixed * jnp.sqrt(belief.size)[:, None], axis=0))


def _first_squares(own: Array) -> Array:
    """The variances before anything is known of the effect: of own entries, and of the others."""
    others = jnp.where(jnp.any(own > 0), OTHERS / max(1, own.shape[1] - 1) ** 0.5, OWN)
    return jnp.stack([jnp.maximum(OWN, others), others]) ** 2


def own_widths(problem: Problem, widths: Array, decision: Array, samples: Array) -> Array:
    """The widths of Θ, or twice the length over which the loss's own curvature changes it by as much as it or its slope does, if
    that is smaller.

    Where neither has any, the size of the decision, or 1.
    """
    losses = jax.vmap(problem.loss, (None, 0))

    def mean(theta: Array) -> Array:
        return jnp.mean(losses(theta, samples))

    curvature, slope = jnp.diag(jax.hessian(mean)(decision)), jnp.abs(jax.grad(mean)(decision))
    if not separable(problem.decisions):
        curvature, slope = (jnp.full_like(part, jnp.mean(part)) for part in (curvature, slope))
    size = jnp.mean(jnp.abs(losses(decision, samples)))
    bent = jnp.isfinite(curvature) & (curvature > 0) & (size > 0)
    bend = jnp.where(bent, curvature, 1.0)
    length = jnp.maximum(jnp.sqrt(2.0 * size / bend), slope / bend)  # the loss itself may be next to nothing
    widths = jnp.where(bent, jnp.minimum(widths, 2.0 * length), widths)
    return jnp.where(jnp.isfinite(widths), widths, jnp.where(decision != 0.0, jnp.abs(decision), 1.0))
