"""The paper's first experiment: multi-task regression on a random graph."""

from __future__ import annotations

import numpy as np

from performative.experiments import regression
from performative.optimum import stable_point
from performative.problems.case import Case
from performative.validation import MOST_SEED, Floats, positive, whole

WARMUP = 1000


def make(sensitivity: float = 1.0, seed: int = 0, realization: int = 0) -> Case:
    """Ten tasks, y_i = β_iᵀx_i + μ_iᵀθ_i + w_i, ℓ = Σ_i ½(y_i − θ_iᵀx_i)², tasks joined by an edge kept close.

    The base has mean zero, so that with Σ_i = E x_i x_iᵀ and c_i = E x_i y_i = Σ_i β_i before the shift

        PR(θ) = ½ Σ_i [E y_i² − 2 c_iᵀθ_i + θ_iᵀ(Σ_i + μ_i μ_iᵀ)θ_i].

    The bounds leave the unconstrained optimum (Σ_i + μ_i μ_iᵀ)⁻¹ c_i feasible: it is the optimum, with multipliers zero. On
    frozen data the shift is uncorrelated with x_i and so adds a constant: the stable point minimises
    Σ_i ½(θ_i − β_i)ᵀΣ_i(θ_i − β_i) under the constraints, some of which bind. That has no closed form and is
    `performative.stable_point`'s answer.

    The form of the density is not told, since the covariance of (x_i, y_i) gives β_i away.
    """
    instance = regression.instance(
        whole("seed", seed, 0, MOST_SEED),
        whole("realization", realization, 0),
        positive("sensitivity", sensitivity),
        WARMUP,
    )
    environment, features = instance.environment, regression.FEATURES
    blocks, mu = np.asarray(environment.base.covariance), np.asarray(environment.effect)
    sigma, cross, square = (
        blocks[:, :features, :features],
        blocks[:, :features, features],
        blocks[:, features, features],
    )

    def risk(theta: Floats) -> float:
        rows = np.asarray(theta).reshape(regression.TASKS, features)
        quadratic = np.einsum("ip,ipq,iq->", rows, sigma, rows) + np.sum(np.sum(mu * rows, axis=1) ** 2)
        return float(0.5 * (np.sum(square) - 2 * np.sum(cross * rows) + quadratic))

    return Case(
        name="regression",
        title=regression.TITLE,
        reference="Yan and Cao 2023, Zero-Regret Performative Prediction Under Inequality Constraints, first experiment",
        problem=instance.truth,
        environment=environment,
        risk=risk,
        optimum=instance.optimum,
        stable=stable_point(instance.truth, environment),
        shift=instance.shift,
        prior=instance.prior,
        known_effect=mu,
    )
