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
from performative.numerics.arrays import Floats
from performative.numerics.pytrees import changed
from performative.problem import Problem
from performative.problems.case import Case
from performative.problems.instance import WARMUP, Instance, gaussian_base, random_covariance, random_source
from performative.sets import Ball
from performative.truth.optimum import certify
from performative.truth.stable_point import stable_point
from performative.validation import MOST_SEED, positive, whole

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
    """One random instance; the sensitivity scales μ alone, and all else is the same at every sensitivity.

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
    optimum = changed(
        certify(problem, environment, best.reshape(-1), np.zeros(pairs)), local=False, message="global: closed form"
    )
    start = np.zeros(TASKS * FEATURES)
    return Instance(problem, problem, environment, optimum, start, shift, np.zeros_like(mu))


def make(sensitivity: float = 1.0, seed: int = 0, realization: int = 0) -> Case:
    """Ten tasks, y_i = β_iᵀx_i + μ_iᵀθ_i + w_i, ℓ = Σ_i ½(y_i − θ_iᵀx_i)², tasks joined by an edge kept close.

    The base has mean zero, so that with Σ_i = E x_i x_iᵀ and c_i = E x_i y_i = Σ_i β_i before the shift

        PR(θ) = ½ Σ_i [E y_i² − 2 c_iᵀθ_i + θ_iᵀ(Σ_i + μ_i μ_iᵀ)θ_i].

    The bounds leave the unconstrained optimum (Σ_i + μ_i μ_iᵀ)⁻¹ c_i feasible: it is the optimum, with multipliers zero. On
    frozen data the shift is uncorrelated with x_i and so adds a constant: the stable point minimizes
    Σ_i ½(θ_i − β_i)ᵀΣ_i(θ_i − β_i) under the constraints, some of which bind. That has no closed form and is
    `performative.stable_point`'s answer.

    The form of the density is withheld, since the covariance of (x_i, y_i) gives β_i away.
    """
    example = instance(
        whole("seed", seed, 0, MOST_SEED),
        whole("realization", realization, 0),
        positive("sensitivity", sensitivity),
        WARMUP,
    )
    environment, features = example.environment, FEATURES
    blocks, mu = np.asarray(gaussian_base(example).covariance), np.asarray(environment.effect)
    sigma, cross, square = (
        blocks[:, :features, :features],
        blocks[:, :features, features],
        blocks[:, features, features],
    )

    def risk(theta: Floats) -> float:
        rows = np.asarray(theta).reshape(TASKS, features)
        quadratic = np.einsum("ip,ipq,iq->", rows, sigma, rows) + np.sum(np.sum(mu * rows, axis=1) ** 2)
        return float(0.5 * (np.sum(square) - 2 * np.sum(cross * rows) + quadratic))

    return Case(
        name="regression",
        title=TITLE,
        reference="Yan and Cao 2023, Zero-Regret Performative Prediction Under Inequality Constraints, first experiment",
        problem=example.truth,
        environment=environment,
        risk=risk,
        optimum=example.optimum,
        stable=stable_point(example.truth, environment),
        shift=example.shift,
        prior=example.prior,
        known_effect=mu,
    )
