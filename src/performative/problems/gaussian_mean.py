"""Estimating a mean that moves with the estimate, under a constraint."""

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
from performative.problems.reference_solvers import active_set
from performative.sets import Ball
from performative.validation import positive

MEAN = np.array([1.5, 1.0])
EFFECT = np.array([[-0.6, 0.4], [-0.4, -0.3]])
ROW, CAP, RADIUS = np.ones(2), 0.9, 5.0


def loss(penalty: Array, theta: Array, z: Array) -> Array:
    """½‖θ − z‖² + ½ρ‖θ‖²."""
    return 0.5 * jnp.sum((theta - z) ** 2) + 0.5 * penalty * jnp.sum(theta * theta)


def make(strength: float = 1.0, penalty: float = 0.5, noise: float = 0.5) -> Case:
    """Z ∼ N(m + Aθ, σ²I) in two dimensions, ℓ = ½‖θ − z‖² + ½ρ‖θ‖², θ₁ + θ₂ ≤ 0.9.

    With B = I − A,

        PR(θ) = ½‖Bθ − m‖² + σ² + ½ρ‖θ‖²,    ∇PR(θ) = (BᵀB + ρI)θ − Bᵀm,

    and on the data that θ' induces the gradient is (1 + ρ)θ − Aθ' − m. The optimum and the stable point are therefore the
    points where (BᵀB + ρI)θ − Bᵀm and ((1 + ρ)I − A)θ − m vanish or, where the constraint binds, are −λ(1, 1). With ρ = 0
    both are B⁻¹m where the constraint is slack, since there the bias is zero; so `penalty` must be positive.

    `strength` scales A, whose symmetric part is negative: both points are unique however strong it is, and lie in Θ, the ball
    of radius 5, since ‖θ‖ ≤ 2‖m‖ follows from PR(θ) ≤ PR(0), and ‖θ‖ ≤ ‖m‖ from θᵀ((1 + ρ)I − A)θ ≤ mᵀθ. Repeated
    minimization, θ ↦ (Aθ + m)/(1 + ρ), diverges from strength 1.71(1 + ρ) on, where the spectral radius of A is 1 + ρ.
    """
    effect = positive("strength", strength) * EFFECT
    rho, variance = positive("penalty", penalty), positive("noise", noise) ** 2
    problem = Problem(Partial(loss, np.float64(rho)), Ball(RADIUS), [Linear(ROW, CAP, name="cap")])
    environment = LocationFamily(Gaussian(MEAN, np.full(2, variance)), effect)
    apart, identity = np.eye(2) - effect, np.eye(2)
    curvature, pull = apart.T @ apart + rho * identity, apart.T @ MEAN

    def risk(theta: Floats) -> float:
        return float(0.5 * np.sum((apart @ theta - MEAN) ** 2) + variance + 0.5 * rho * theta @ theta)

    best, best_multiplier = active_set(curvature, pull, ROW[None], np.array([CAP]))
    stable, stable_multiplier = active_set((1 + rho) * identity - effect, MEAN, ROW[None], np.array([CAP]))
    return Case(
        name="gaussian-mean",
        title="A Gaussian mean that moves with its estimate",
        reference="Miller, Perdomo and Zrnic 2021, Outside the Echo Chamber: location families",
        problem=problem,
        environment=environment,
        risk=risk,
        optimum=kkt_point(problem, risk, lambda theta: curvature @ theta - pull, best, best_multiplier),
        stable=stable_kkt_point(
            problem, risk, lambda theta: (1 + rho) * theta - effect @ stable - MEAN, stable, stable_multiplier
        ),
        family=Normal(np.full(2, variance)),
        density=normal_density(MEAN, effect, np.full(2, variance)),
        known_effect=effect,
    )
