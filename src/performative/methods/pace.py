"""Exploration at a pace of √t: a wide probe wherever less than that is known, and a limit on what all other probes cost.

These are what the proof of a regret of order √T rests on (`docs/theory/safe.md`, Theorem 3). In the ordinary course neither acts:
probes that are worth their price bring more than `PACE`·√t of information, and cost less than `ALLOWED`·√t.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from performative.estimators.moments import JointMoments
from performative.numerics import cholesky
from performative.problem import Problem
from performative.safety import MARGIN, PreparedSafety
from performative.sets import Box

EVERY = 256
"""Every round is planned until this one."""
OFTEN, APART = 48, 4096
"""Afterward plans are a power of two of rounds apart, the largest that is at most t/OFTEN and APART."""
PACE = 0.001
"""A wide probe is due where the share of the expected variance of the effect that is left exceeds 1/(PACE·√t)."""
ALLOWED = 10.0
"""What probes may cost, as a multiple of √t and of the unit: see `Allowance`."""
LONGEST, HALVINGS = 0.5, 12
"""How far from the middle wide probes go, as a share of the range, and how often that is halved until it is feasible."""
TURNS = 8
"""Steps of power iteration toward the direction that is known least."""


def apart(rounds: Any) -> Any:
    """How many rounds apart plans are after so many."""
    xp = jnp if isinstance(rounds, Array) else np
    doubled = OFTEN * 2 ** np.arange(1, APART.bit_length())
    return 2 ** xp.sum(xp.asarray(rounds)[..., None] >= doubled, axis=-1)


class Wide(NamedTuple):
    """A wide probe: the decision, whether it is `due`, and in how many rounds it doubles what is known along it."""

    decision: Array
    due: Array
    rounds: Array


def middle(problem: Problem, safety: PreparedSafety, widths: Array) -> Array:
    """A decision inside the feasible set: the middle of Θ or, with constraints, of what is safe there and the anchor."""
    anchor = jnp.asarray(safety.anchor)
    box = problem.decisions
    if isinstance(box, Box):
        low, high = (jnp.broadcast_to(jnp.asarray(end), anchor.shape) for end in (box.lower, box.upper))
        inside = jnp.where(jnp.isfinite(high - low), 0.5 * (low + high), anchor)
    else:
        steps = jnp.concatenate([jnp.diag(widths), -jnp.diag(widths)])
        inside = jnp.mean(jax.vmap(problem.decisions.project)(anchor + steps), axis=0)
    if not problem.constraint_names:
        return inside
    pull = getattr(safety, "pull", safety)
    return 0.5 * (anchor + pull(problem, inside))


def wide(
    problem: Problem,
    middle: Array,
    widths: Array,
    moments: JointMoments,
    samples: int,
    rounds: Array,
    relative: Array,
) -> Wide:
    """The wide probe after so many rounds: one end of a feasible chord through the middle, along what is known least.

    With S the scatter of the deployed decisions in widths, r the noise of a deployment over the weakest effects that the prior
    expects, both squared (`relative`), and G = S + rI, it is due if r tr G⁻¹/d > 1/(PACE·√t). The chord has the direction v, with
    vᵀG⁻¹v ≥ tr G⁻¹/d. Of its two ends it takes the one where h = ξᵀG⁻¹ξ is larger, ξ being the distance from the mean of the
    deployed decisions. After 2/h rounds what is known along ξ has about doubled; if t rounds would not do, it is not due.
    """
    d = widths.shape[0]
    scatter = moments.scatter / (samples * widths[:, None] * widths)
    inverse = cholesky.eliminated(scatter + relative * jnp.eye(d))
    v = inverse[:, jnp.argmax(jnp.diag(inverse))]
    # From the coordinate that is known least: vᵀG⁻¹v only grows.
    v = lax.fori_loop(0, TURNS, lambda _, v: inverse @ (v / jnp.sqrt(jnp.sum(v * v))), v)
    v = v / jnp.sqrt(jnp.sum(v * v))
    least = MARGIN * jnp.minimum(problem.g(middle), 0.0)

    def safe(x: Array) -> Array:
        inside = problem.decisions.project(x)
        return jnp.all(jnp.abs(inside - x) <= 1e-12 * widths) & jnp.all(problem.g(inside) <= least)

    lengths = LONGEST * 0.5 ** jnp.arange(HALVINGS)
    tries = middle + jnp.stack([lengths, -lengths])[:, :, None] * widths * v
    good = jax.vmap(jax.vmap(safe))(tries)
    ends = jax.vmap(lambda x, good: problem.decisions.project(x[jnp.argmax(good)]))(tries, good)
    steps = (ends - moments.decision) / widths
    unknown = jnp.where(jnp.any(good, axis=1), jnp.sum((steps @ inverse) * steps, axis=1), 0.0)
    end, most = ends[jnp.argmax(unknown)], jnp.max(unknown)
    due = (relative * jnp.trace(inverse) / d * PACE * jnp.sqrt(rounds) > 1.0) & (most * rounds >= 2.0)
    return Wide(end, due, jnp.ceil(2.0 / jnp.maximum(most, 1e-12)))


class Allowance(NamedTuple):
    """What probes may still cost, in all, and the `unit` of loss it is measured in."""

    left: Array
    unit: Array

    @staticmethod
    def of(unit: Array, rounds: Array, explored: Array) -> Allowance:
        """After so many rounds, ALLOWED·unit·√t less what was `explored`; no limit without a unit."""
        most = jnp.where(unit > 0, ALLOWED * unit * jnp.sqrt(rounds), jnp.inf)
        return Allowance(most - explored, unit)

    def charge(self, price: Array, step: Array) -> Array:
        """What one round of a probe counts for: its `price`, and unit·‖step‖²/2 for a step in widths.

        PR(x) − PR(θ) ≤ charge + ē²/(2·unit), where ē is the largest error of the predicted gradient.
        """
        return jnp.maximum(price, 0.0) + 0.5 * self.unit * jnp.sum(step * step)

    def rounds(self, charge: Array) -> Array:
        """How many rounds of it are left."""
        return jnp.floor(self.left / jnp.maximum(charge, 1e-300))
