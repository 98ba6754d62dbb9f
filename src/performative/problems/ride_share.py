"""Ride-share prices in three areas against a competitor, with similar prices in neighboring areas."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.tree_util import Partial

from performative.constraints import Linear
from performative.environments import Gaussian, LocationGame, Normal
from performative.numerics.arrays import Floats
from performative.problem import Problem
from performative.problems.case import Case, kkt_point, normal_density, stable_kkt_point
from performative.problems.reference_solvers import active_set, box_rows
from performative.sets import Box
from performative.validation import finite_array, positive

DEMAND = np.array([1.5, 0.6, 1.2])
OWN = np.array([[-1.2, 0.2, 0.0], [0.2, -0.8, 0.2], [0.0, 0.2, -1.0]])
OTHER = np.array([[0.5, 0.0, 0.0], [0.0, 0.4, 0.1], [0.0, 0.1, 0.4]])
NEIGHBORS = np.array([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0], [0.0, 1.0, -1.0], [0.0, -1.0, 1.0]])
NAMES = ("1 over 2", "2 over 1", "2 over 3", "3 over 2")
MOST = 2.0


def loss(cost: Array, theta: Array, z: Array) -> Array:
    """−pᵀz + ½λ‖p‖²."""
    return -jnp.sum(theta * z) + 0.5 * cost * jnp.sum(theta * theta)


def make(
    competitor: Sequence[float] = (0.5, -0.5, 0.2), gap: float = 0.2, cost: float = 0.5, noise: float = 0.4
) -> Case:
    """Price changes p in three areas move demand, Z ∼ N(a + A₁p + A₂q, σ²I), where the competitor's q is fixed.

    ℓ = −pᵀz + ½λ‖p‖² (λ is `cost`), p in [−2, 2]³, and prices in neighboring areas differ by at most `gap`:
    |p₁ − p₂| ≤ gap and |p₂ − p₃| ≤ gap. With m = a + A₂q,

        PR(p) = −pᵀ(m + A₁p) + ½λ‖p‖²,    ∇PR(p) = (λI − A₁ − A₁ᵀ)p − m,

    and at a stable point the gradient (λI − A₁)p − m takes its place. −A₁ is positive definite, so both are unique; the
    active set of the four constraints and the box is found by trying all sets.
    """
    others = finite_array("competitor", competitor, 1)
    if others.shape != (3,):
        raise ValueError(f"`competitor` must hold one price for each of 3 areas, but got shape {others.shape}")
    gap, cost, variance = positive("gap", gap), positive("cost", cost), positive("noise", noise) ** 2
    lower, upper = np.full(3, -MOST), np.full(3, MOST)
    problem = Problem(
        Partial(loss, np.float64(cost)), Box(lower, upper), [Linear(NEIGHBORS, np.full(4, gap), name=NAMES)]
    )
    game = LocationGame(Gaussian(DEMAND, np.full(3, variance)), [OWN, OTHER])
    mean = DEMAND + OTHER @ others
    curvature = cost * np.eye(3) - OWN - OWN.T
    box, ends = box_rows(lower, upper)
    rows, bounds = np.vstack([NEIGHBORS, box]), np.concatenate([np.full(4, gap), ends])

    def risk(prices: Floats) -> float:
        return float(-prices @ (mean + OWN @ prices) + 0.5 * cost * prices @ prices)

    best, best_multipliers = active_set(curvature, mean, rows, bounds)
    stable, stable_multipliers = active_set(cost * np.eye(3) - OWN, mean, rows, bounds)
    return Case(
        name="ride-share",
        title="Ride-share prices against a fixed competitor",
        reference="Narang, Faulkner, Drusvyatskiy, Fazel and Ratliff 2023, Multiplayer Performative Prediction",
        problem=problem,
        environment=game.view(0, [None, others]),
        risk=risk,
        optimum=kkt_point(problem, risk, lambda prices: curvature @ prices - mean, best, best_multipliers[:4]),
        stable=stable_kkt_point(
            problem, risk, lambda prices: cost * prices - OWN @ stable - mean, stable, stable_multipliers[:4]
        ),
        family=Normal(np.full(3, variance)),
        density=normal_density(mean, OWN, np.full(3, variance)),
        known_effect=OWN,
    )
