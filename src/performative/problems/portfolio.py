"""The paper's second experiment: a portfolio that moves the market, its covariance known."""

from __future__ import annotations

import numpy as np

from performative.environments import Normal
from performative.experiments import portfolio
from performative.optimum import stable_point
from performative.problems.case import Case, normal_density
from performative.validation import MOST_SEED, Floats, positive, whole

WARMUP = 1000


def make(sensitivity: float = 1.0, seed: int = 0, realization: int = 0) -> Case:
    """Ten assets, z ∼ N(z̄ + Aθ, Σ), ℓ = −zᵀθ + ξ‖θ‖²; a budget, bounds on the spread and on θᵀΣθ, weights in [0, 0.3].

        PR(θ) = −z̄ᵀθ − θᵀAθ + ξ‖θ‖²,

    a quadratic that is convex since ξ = ‖A‖. The constraints are the true ones, not those estimated from a warm-up. Under a
    quadratic constraint neither point has a closed form: the optimum is the experiment's, by `performative_optimum`, and the
    stable point `stable_point`'s; the tests hold them against scipy.
    """
    instance = portfolio.instance(
        whole("seed", seed, 0, MOST_SEED),
        whole("realization", realization, 0),
        positive("sensitivity", sensitivity),
        WARMUP,
    )
    environment = instance.environment
    mean, covariance = np.asarray(environment.base.mean), np.asarray(environment.base.covariance)
    effect, xi = np.asarray(environment.effect), float(sensitivity)

    def risk(theta: Floats) -> float:
        return float(-(mean + effect @ theta) @ theta + xi * theta @ theta)

    return Case(
        name="portfolio",
        title=portfolio.TITLE,
        reference="Yan and Cao 2023, Zero-Regret Performative Prediction Under Inequality Constraints, second experiment",
        problem=instance.truth,
        environment=environment,
        risk=risk,
        optimum=instance.optimum,
        stable=stable_point(instance.truth, environment),
        family=Normal(covariance),
        density=normal_density(mean, effect, covariance),
        known_effect=effect,
    )
