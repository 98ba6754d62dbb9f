"""Prices of three products whose demands answer all prices, their sum capped."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.tree_util import Partial

from performative.constraints import Linear
from performative.environments import Gaussian, LocationFamily, Normal
from performative.numerics.arrays import Floats
from performative.problem import Problem
from performative.problems.case import Case, kkt_point, normal_density, stable_kkt_point
from performative.problems.reference_solvers import active_set, box_rows
from performative.sets import Box
from performative.validation import positive

DEMAND = np.array([4.0, 5.0, 3.0])
ELASTICITY = np.array([[-1.5, 0.3, 0.1], [0.2, -1.0, 0.2], [0.1, 0.3, -1.2]])
USUAL = np.ones(3)
MOST = 5.0


def loss(adjustment: Array, theta: Array, z: Array) -> Array:
    """−pᵀz + ½c‖p − p₀‖²."""
    return -jnp.sum(theta * z) + 0.5 * adjustment * jnp.sum((theta - USUAL) ** 2)


def make(adjustment: float = 0.5, cap: float = 5.0, noise: float = 0.5) -> Case:
    """Demand Z ∼ N(a + Ep, σ²I), ℓ = −pᵀz + ½c‖p − p₀‖², prices in [0, 5]³ with p₁ + p₂ + p₃ ≤ cap.

        PR(p) = −pᵀ(a + Ep) + ½c‖p − p₀‖²,    ∇PR(p) = (cI − E − Eᵀ)p − a − cp₀,

    and at a stable point the gradient (cI − E)p − a − cp₀ takes its place. −E has a positive definite symmetric part, so both
    are unique; the active set of the cap and the box is found by trying all sets.

    Without the cost c of leaving the usual prices p₀ the risk on frozen data would be linear: its minimizer is a vertex,
    unless demand is a multiple of the cap's normal, where all prices with that sum are equally good. The stable point is then
    such a tie, which repeated minimization jumps over from vertex to vertex; so `adjustment` must be positive.
    """
    cost, variance = positive("adjustment", adjustment), positive("noise", noise) ** 2
    cap = positive("cap", cap)
    lower, upper = np.zeros(3), np.full(3, MOST)
    problem = Problem(Partial(loss, np.float64(cost)), Box(lower, upper), [Linear(np.ones(3), cap, name="cap")])
    environment = LocationFamily(Gaussian(DEMAND, np.full(3, variance)), ELASTICITY)
    curvature, pull = cost * np.eye(3) - ELASTICITY - ELASTICITY.T, DEMAND + cost * USUAL
    box, ends = box_rows(lower, upper)
    rows, bounds = np.vstack([np.ones((1, 3)), box]), np.concatenate([[cap], ends])

    def risk(prices: Floats) -> float:
        revenue = prices @ (DEMAND + ELASTICITY @ prices)
        return float(-revenue + 0.5 * cost * np.sum((prices - USUAL) ** 2))

    best, best_multipliers = active_set(curvature, pull, rows, bounds)
    stable, stable_multipliers = active_set(cost * np.eye(3) - ELASTICITY, pull, rows, bounds)
    return Case(
        name="revenue",
        title="Revenue from three products under a cap on prices",
        reference="Talluri and van Ryzin 2004, The Theory and Practice of Revenue Management: linear demand",
        problem=problem,
        environment=environment,
        risk=risk,
        optimum=kkt_point(problem, risk, lambda prices: curvature @ prices - pull, best, best_multipliers[:1]),
        stable=stable_kkt_point(
            problem, risk, lambda prices: cost * prices - ELASTICITY @ stable - pull, stable, stable_multipliers[:1]
        ),
        family=Normal(np.full(3, variance)),
        density=normal_density(DEMAND, ELASTICITY, np.full(3, variance)),
        known_effect=ELASTICITY,
    )
