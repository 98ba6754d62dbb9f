"""Performative confidence bounds (Jagadeesan, Zrnic, Mendler-Dünner 2022): search for the optimum in low dimension.

Samples at θ give the loss of *every* decision θ' on the data of θ; the data of θ' differ from them by no more than the
sensitivity allows. So one deployment bounds the risk of all decisions:

    PR(θ') ≥ mean loss of θ' on the data of θ − its confidence radius − L·‖θ − θ'‖,

and the decision with the smallest of these lower bounds is deployed next. No gradient, no convexity, no family.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from performative.methods.options import feasible_parts
from performative.methods.protocol import State, checked, first_state
from performative.numerics.arrays import Floats, as_field
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import pytree
from performative.problem import Problem
from performative.validation import positive, whole

MOST_DIMENSION = 3


@pytree()
class ArmLosses:
    """For each arm how many samples it brought, and the sums of all arms' losses on them, less a `level`, and of the squares."""

    level: Array
    count: Array
    losses: Array
    squares: Array


@pytree("samples")
class ConfidenceBounds:
    """Performative confidence bounds over the `arms` (G, d), all feasible; see `performative.confidence_bounds`."""

    problem: Problem
    arms: Array
    sensitivity: Array
    confidence: Array
    first: Array
    samples: int

    feasible = True
    """Every deployed decision meets the constraints."""

    @in_float64
    def init(self, key: Array) -> State[ArmLosses]:
        """Nothing deployed. The multipliers stay 0, since every arm is feasible."""
        count = self.arms.shape[0]
        belief = ArmLosses(jnp.zeros(()), jnp.zeros(count), jnp.zeros((count, count)), jnp.zeros((count, count)))
        start = jnp.asarray(self.arms)[self.first]
        return first_state(self.problem, key, start, belief)

    @property
    def normals(self) -> int:
        """0: it explores by optimism, not by noise."""
        return 0

    def ask(self, state: State[ArmLosses], key: Array) -> Array:
        """The arm with the smallest lower bound."""
        return self.decide(state, jnp.zeros(0))

    def decide(self, state: State[ArmLosses], normals: Array) -> Array:
        """The arm with the smallest lower bound."""
        return jnp.asarray(state.decision)[None]

    def wanted(self, state: State[ArmLosses]) -> int:
        """The same number in every round."""
        return int(self.samples)

    @in_float64
    def tell(self, state: State[ArmLosses], decisions: Array, samples: Array) -> State[ArmLosses]:
        """Add the losses of all arms on the new data and choose the next arm."""
        decisions, samples = checked(self.problem, decisions, samples)
        if decisions.shape[0] != 1:
            raise ValueError(f"`decisions` must be one arm, but got {decisions.shape[0]} decisions")
        return _search(self, state, decisions[0], samples[0])

    def _search(self, state: State[ArmLosses], decision: Array, z: Array) -> State[ArmLosses]:
        arms = jnp.asarray(self.arms)
        at = jnp.argmin(jnp.sum((arms - decision) ** 2, axis=1))
        own = (jnp.arange(arms.shape[0]) == at).astype(jnp.float64)
        losses = jax.vmap(lambda arm: jax.vmap(lambda z: self.problem.loss(arm, z))(z))(arms)  # (arms, n)
        old = state.belief
        # The first mean is subtracted before squaring, so that a common level of the losses costs no digits.
        level = jnp.where(jnp.sum(old.count) > 0, old.level, jnp.mean(losses))
        losses = losses - level
        belief = ArmLosses(
            level,
            old.count + own * z.shape[0],
            old.losses + own[:, None] * jnp.sum(losses, axis=1)[None, :],
            old.squares + own[:, None] * jnp.sum(losses * losses, axis=1)[None, :],
        )
        best = jnp.argmin(self.lower_bounds(belief, state.round))
        return State(state.round + 1, arms[best], state.multipliers, belief)

    def lower_bounds(self, belief: ArmLosses, t: Array) -> Array:
        """The largest lower bound on PR of each arm (G,) that the deployed arms give."""
        arms = jnp.asarray(self.arms)
        count = jnp.maximum(belief.count, 1.0)
        means = belief.losses / count[:, None]
        # The spread of each arm's loss around its mean on the data of one arm, pooled over the arms that brought data.
        within = jnp.sum(jnp.maximum(belief.squares - belief.count[:, None] * means**2, 0.0), axis=0)
        free = jnp.maximum(jnp.sum(jnp.maximum(belief.count - 1.0, 0.0)), 1.0)
        deviation = jnp.sqrt(within / free * (1.0 + 10.0 / free))  # wider while it rests on few samples
        level = 2.0 * jnp.log(arms.shape[0] * (t + 1.0) ** 2)
        radius = self.confidence * deviation[None, :] * jnp.sqrt(level / count)[:, None]
        apart = jnp.sqrt(jnp.sum((arms[:, None] - arms[None, :]) ** 2, axis=-1))
        bounds = belief.level + means - radius - self.sensitivity * apart
        return jnp.max(jnp.where(belief.count[:, None] > 0, bounds, -jnp.inf), axis=0)


_search = jax.jit(ConfidenceBounds._search)


@in_float64
def feasible_grid(problem: Problem, count: int) -> Floats:
    """The decisions (G, d) of a regular grid over Θ, `count` along each axis, that meet the constraints.

    Grid points outside Θ are projected on it.
    """
    d = problem.d
    if d > MOST_DIMENSION:
        raise ValueError(
            f"confidence bounds search a grid, so the dimension must be at most {MOST_DIMENSION}, but got dimension={d}"
        )
    if not np.isfinite(problem.decisions.radius):
        raise ValueError(
            f"confidence bounds search a grid, so the decision set must be bounded, but got {problem.decisions}"
        )
    project = jax.jit(jax.vmap(problem.decisions.project))
    far = 1e3 * (problem.decisions.radius + 1.0) * np.eye(d)
    lower, upper = (np.diagonal(project(sign * far)) for sign in (-1.0, 1.0))  # where Θ ends along each axis
    axes = np.meshgrid(*(np.linspace(low, high, count) for low, high in zip(lower, upper, strict=True)), indexing="ij")
    points = np.asarray(project(np.stack(axes, axis=-1).reshape(-1, d)))
    points = np.unique(points.round(12), axis=0)  # points outside Θ end up on its boundary
    feasible = np.max(np.asarray(jax.vmap(problem.g)(jnp.asarray(points))), axis=1, initial=-np.inf) <= 0
    if not np.any(feasible):
        raise ValueError(
            f"a grid of {count} points along each axis must hold a feasible decision, but none of its points is feasible"
        )
    return points[feasible]


ARMS = {1: 50, 2: 15, 3: 7}
"""Points along each axis of the default grid, by dimension."""


def confidence_bounds(
    problem: Problem,
    *,
    sensitivity: float,
    arms: int | None = None,
    confidence: float = 1.0,
    start: ArrayLike | None = None,
    samples: int = 10,
) -> ConfidenceBounds:
    """Performative confidence bounds (Jagadeesan, Zrnic, Mendler-Dünner 2022), for any world in at most three dimensions.

    Args:
        problem: what the decision-maker knows.
        sensitivity: L, the most by which the mean loss of a decision changes per unit that the deployed decision moves; in
            theory L_Z·ε. If L is too small, the optimum may be ruled out.
        arms: points along each axis of the grid over Θ; by default 50, 15 or 7 in one, two or three dimensions. Only
            those that meet the constraints are ever deployed.
        confidence: a factor on the confidence radii, 1 for those of Gaussian losses.
        start: the first decision is the arm nearest to it; by default the arm nearest to 0.
        samples: how many samples each deployment brings, at least 2, since the confidence radius needs their spread.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> problem = pf.Problem(Revenue(), pf.Box([0.0, 0.0], [5.0, 5.0]))
    >>> method = pf.confidence_bounds(problem, sensitivity=10.0, arms=5)
    """
    problem, start = feasible_parts(problem, start)
    near = np.zeros(problem.d) if start is None else start
    points = feasible_grid(problem, whole("arms", ARMS.get(problem.d, 2) if arms is None else arms, 2))
    return ConfidenceBounds(
        problem=problem,
        arms=as_field(points),
        sensitivity=as_field(np.float64(positive("sensitivity", sensitivity))),
        confidence=as_field(np.float64(positive("confidence", confidence))),
        first=as_field(np.int64(np.argmin(np.sum((points - near) ** 2, axis=1)))),
        samples=whole("samples", samples, 2),
    )
