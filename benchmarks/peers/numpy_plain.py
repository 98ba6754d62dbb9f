"""The regression experiment in plain NumPy, as a typical research repository writes it.

One realization and one method at a time, a Python loop over rounds, tasks and edges, and the n base samples averaged in
every round as the formula says.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

TASKS, FEATURES, WARMUP = 10, 3, 1000
STEP, CONTROL, OFFSET, RADIUS = 5e-3, 1.0, 10.0, 1e3
METHODS = ("apda", "pd-ps", "oracle")
LEFT, RIGHT = np.triu_indices(TASKS, 1)


class Numbers(NamedTuple):
    """The numbers of an instance, task by task: rows (10, 3), matrices (10, 4, 4), pairs (45,)."""

    factor: Any
    mu: Any
    curvature: Any
    best: Any
    bound: Any
    active: Any
    start: Any


def numbers(instance: Any) -> Numbers:
    """What the simulation needs of an instance; PR(θ) − PR* = ½ Σ_i (θ_i − θ*_i)ᵀ(Σ_i + μ_i μ_iᵀ)(θ_i − θ*_i)."""
    base, mu = instance.environment.base, np.asarray(instance.environment.effect)
    sigma = np.asarray(base.covariance)[:, :FEATURES, :FEATURES]
    close = instance.truth.constraints[0]
    return Numbers(
        factor=np.linalg.cholesky(np.asarray(base.covariance)),
        mu=mu,
        curvature=sigma + mu[:, :, None] * mu[:, None, :],
        best=np.asarray(instance.optimum.decision).reshape(TASKS, FEATURES),
        bound=np.asarray(close.bound),
        active=np.asarray(close.active),
        start=np.asarray(instance.start).reshape(TASKS, FEATURES),
    )


def run(instance: Any, method: str, rounds: int, seed: int) -> dict[str, Any]:
    """The metrics after the last round."""
    n = numbers(instance)
    rng = np.random.default_rng(seed)
    edges = [(m, LEFT[m], RIGHT[m]) for m in range(len(LEFT)) if n.active[m]]

    def sample(theta: Any) -> Any:
        z = np.zeros((TASKS, FEATURES + 1))
        for i in range(TASKS):
            z[i] = n.factor[i] @ rng.standard_normal(FEATURES + 1)
            z[i, FEATURES] += n.mu[i] @ theta[i]
        return z

    def excess(theta: Any) -> float:
        return sum(0.5 * (theta[i] - n.best[i]) @ n.curvature[i] @ (theta[i] - n.best[i]) for i in range(TASKS))

    def constraints(theta: Any) -> Any:
        g = np.full(len(LEFT), -1.0)
        for m, i, j in edges:
            g[m] = np.sum((theta[i] - theta[j]) ** 2) - n.bound[m]
        return g

    base = np.stack([sample(np.zeros((TASKS, FEATURES))) for _ in range(WARMUP)])
    theta = n.start.copy()
    lam = np.zeros(len(LEFT))
    mu_hat = n.mu.copy() if method == "oracle" else np.zeros((TASKS, FEATURES))
    origin = np.zeros((TASKS, FEATURES))
    first = excess(theta)
    regret, violation = 0.0, np.zeros(len(LEFT))
    deployed_regret, deployments = WARMUP * excess(origin), WARMUP
    deployed_violation = max(0.0, constraints(origin).max())
    for t in range(1, rounds + 1):
        z = sample(theta)
        g = constraints(theta)
        now = excess(theta)
        regret += now
        violation += g
        deployed_regret += now
        deployments += 1
        deployed_violation = max(deployed_violation, g.max())
        if method != "oracle":
            u = rng.standard_normal((TASKS, FEATURES))
            probe = theta + u
            z_probe = sample(probe)
            deployed_regret += excess(probe)
            deployments += 1
            deployed_violation = max(deployed_violation, constraints(probe).max())
            for i in range(TASKS):
                error = z_probe[i, FEATURES] - z[i, FEATURES] - mu_hat[i] @ u[i]
                mu_hat[i] += error * u[i] / (t + OFFSET)

        gradient = np.zeros((TASKS, FEATURES))
        for i in range(TASKS):
            x, y = base[:, i, :FEATURES], base[:, i, FEATURES]
            residual = y + mu_hat[i] @ theta[i] - x @ theta[i]
            direction = -x if method == "pd-ps" else mu_hat[i] - x
            gradient[i] = np.mean(residual[:, None] * direction, axis=0)
        for m, i, j in edges:
            push = 2 * lam[m] * (theta[i] - theta[j])
            gradient[i] += push
            gradient[j] -= push
        last = theta
        theta = theta - STEP * gradient
        theta = theta * min(1.0, RADIUS / np.linalg.norm(theta))
        lam = np.maximum(lam + STEP * (g - CONTROL * STEP * lam), 0.0)

    return {
        "regret": regret / rounds,
        "relative_regret": regret / rounds / first,
        "violation": violation / rounds,
        "worst_violation": violation.max() / rounds,
        "deviation": np.sum((last - n.best) ** 2),
        "estimation_error": np.sum((mu_hat - n.mu) ** 2),
        "deployed_regret": deployed_regret / deployments,
        "deployed_violation": deployed_violation,
        "decision": last.reshape(-1),
        "multipliers": lam,
    }
