"""Multi-task linear regression on a random graph (the paper's first experiment).

Ten tasks of three features each. Task i predicts y_i from x_i with θ_i, and y_i = β_iᵀx_i + μ_iᵀθ_i + w_i moves with the
prediction rule. Tasks joined by an edge of an Erdős–Rényi graph must stay close: ‖θ_i − θ_j‖² ≤ b_ij.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.constraints import Proximity
from performative.environments import Gaussian, LocationFamily
from performative.experiments.instance import Instance, random_covariance, random_source
from performative.optimum import certify
from performative.problem import Problem
from performative.sets import Ball

NAME = "regression"
TITLE = "Multi-task linear regression"
TASKS, FEATURES = 10, 3
EDGE_PROBABILITY = 0.5
SLACK = 0.02
RADIUS = 1e3
"""Θ is a ball that never binds."""


def loss(theta: Array, z: Array) -> Array:
    """Σ_i ½(y_i − θ_iᵀx_i)², with z holding (x_i, y_i) task by task."""
    rows = z.reshape(TASKS, FEATURES + 1)
    x, y = rows[:, :FEATURES], rows[:, FEATURES]
    residual = y - jnp.sum(theta.reshape(TASKS, FEATURES) * x, axis=1)
    return 0.5 * jnp.sum(residual * residual)


def shift(mu: Array, theta: Array) -> Array:
    """μ_iᵀθ_i is added to y_i; the features do not move."""
    moved = jnp.sum(mu * theta.reshape(TASKS, FEATURES), axis=1)
    return jnp.pad(moved[:, None], ((0, 0), (FEATURES, 0))).reshape(-1)


def instance(seed: int, realization: int, sensitivity: float, warmup: int) -> Instance:
    """One random instance; the sensitivity scales μ alone, everything else is the same for all of them.

    The concatenation of the μ_i lies on the sphere of radius ε (the generation rule), and the bounds are
    ‖θ_i,PO − θ_j,PO‖² + b'², with b' uniform on [0, 0.02]: the optimum is the unconstrained one of every task.
    """
    random = random_source(seed, realization)
    sigma = np.stack([random_covariance(random, FEATURES, FEATURES) for _ in range(TASKS)])
    beta = random.normal(size=(TASKS, FEATURES))
    direction = random.normal(size=(TASKS, FEATURES))
    pairs = TASKS * (TASKS - 1) // 2
    edges = random.uniform(size=pairs) < EDGE_PROBABILITY
    slack = random.uniform(0.0, SLACK, size=pairs)
    mu = sensitivity * direction / np.linalg.norm(direction)

    cross = np.einsum("ipq,iq->ip", sigma, beta)
    covariance = np.zeros((TASKS, FEATURES + 1, FEATURES + 1))
    covariance[:, :FEATURES, :FEATURES] = sigma
    covariance[:, :FEATURES, FEATURES] = covariance[:, FEATURES, :FEATURES] = cross
    covariance[:, FEATURES, FEATURES] = np.einsum("ip,ip->i", beta, cross) + 1.0
    environment = LocationFamily(Gaussian(np.zeros(TASKS * (FEATURES + 1)), covariance), mu, shift)

    curvature = sigma + mu[:, :, None] * mu[:, None, :]
    best = np.linalg.solve(curvature, cross[:, :, None])[:, :, 0]
    left, right = np.triu_indices(TASKS, 1)
    bound = np.sum((best[left] - best[right]) ** 2, axis=1) + slack**2
    close = Proximity(TASKS, TASKS * FEATURES, bound, active=edges)
    problem = Problem(loss, Ball(RADIUS), [close])
    optimum = certify(problem, environment, best.reshape(-1), np.zeros(pairs))
    start = np.zeros(TASKS * FEATURES)
    return Instance(problem, problem, environment, optimum, start, shift, np.zeros_like(mu))
