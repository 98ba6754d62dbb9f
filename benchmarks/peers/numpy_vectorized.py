"""The regression experiment in NumPy, carefully vectorized over realizations.

Realizations lie on the last axis, where every loop of NumPy is long and contiguous; the base samples are replaced by their
moments, and the noise of many rounds is drawn and colored at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.peers.numpy_plain import (
    CONTROL,
    FEATURES,
    LEFT,
    OFFSET,
    RADIUS,
    RIGHT,
    STEP,
    TASKS,
    WARMUP,
    Numbers,
    numbers,
)

BLOCK = 16
"""Rounds whose noise is drawn together: enough to spread the cost of the calls, few enough to stay in cache."""


def run(instances: Sequence[Any], method: str, rounds: int, seed: int) -> dict[str, Any]:
    """The metrics after the last round, arrays (..., R) over the R instances."""
    each = [numbers(instance) for instance in instances]
    n = Numbers(*[np.ascontiguousarray(np.stack(values, axis=-1)) for values in zip(*each, strict=True)])
    rng = np.random.Generator(np.random.SFC64(seed))
    lanes, pairs = len(each), len(LEFT)
    learns = method != "oracle"
    incidence = np.zeros((TASKS, pairs))
    incidence[LEFT, np.arange(pairs)], incidence[RIGHT, np.arange(pairs)] = 1.0, -1.0

    def excess(theta: Any) -> Any:
        apart = theta - n.best
        return 0.5 * np.einsum("ipr,ipr->r", np.einsum("ipqr,iqr->ipr", n.curvature, apart), apart)

    def differences(theta: Any) -> Any:
        return theta[LEFT] - theta[RIGHT]

    def constraints(apart: Any) -> Any:
        return np.where(n.active, np.einsum("mpr,mpr->mr", apart, apart) - n.bound, -1.0)

    mean, second = _warmup(n, rng)
    mean_x, mean_y = mean[:, :FEATURES], mean[:, FEATURES]
    second_xx, second_xy = np.ascontiguousarray(second[:, :FEATURES, :FEATURES]), second[:, :FEATURES, FEATURES].copy()

    theta = n.start.copy()
    origin = np.zeros_like(theta)
    lam = np.zeros((pairs, lanes))
    mu_hat = np.zeros_like(theta) if learns else n.mu.copy()
    first = excess(theta)
    regret, violation = np.zeros(lanes), np.zeros((pairs, lanes))
    deployed_regret, deployments = WARMUP * excess(origin), WARMUP
    deployed_violation = np.maximum(0.0, constraints(differences(origin)).max(axis=0))
    for begin in range(1, rounds + 1, BLOCK):
        block = min(BLOCK, rounds + 1 - begin)
        probes = rng.standard_normal((block, TASKS, FEATURES, lanes)) if learns else None
        noise = _colored(n.factor, rng.standard_normal((block, 2 if learns else 1, TASKS, FEATURES + 1, lanes)))
        for k in range(block):
            apart = differences(theta)
            g, now = constraints(apart), excess(theta)
            regret += now
            violation += g
            deployed_regret += now
            deployments += 1
            np.maximum(deployed_violation, g.max(axis=0), out=deployed_violation)
            if learns:
                u = probes[k]
                probe = theta + u
                z, z_probe = noise[k]
                z[:, FEATURES] += np.einsum("ipr,ipr->ir", n.mu, theta)
                z_probe[:, FEATURES] += np.einsum("ipr,ipr->ir", n.mu, probe)
                deployed_regret += excess(probe)
                deployments += 1
                worst = constraints(differences(probe)).max(axis=0)
                np.maximum(deployed_violation, worst, out=deployed_violation)
                error = z_probe[:, FEATURES] - z[:, FEATURES] - np.einsum("ipr,ipr->ir", mu_hat, u)
                mu_hat += (error / (begin + k + OFFSET))[:, None] * u

            moved = np.einsum("ipr,ipr->ir", mu_hat, theta)
            gradient = np.einsum("ipqr,iqr->ipr", second_xx, theta) - second_xy - moved[:, None] * mean_x
            if method != "pd-ps":
                gradient += (mean_y + moved - np.einsum("ipr,ipr->ir", mean_x, theta))[:, None] * mu_hat
            pushes = (2 * lam)[:, None] * apart
            gradient += (incidence @ pushes.reshape(pairs, -1)).reshape(theta.shape)
            last = theta
            theta = theta - STEP * gradient
            theta *= np.minimum(1.0, RADIUS / np.sqrt(np.einsum("ipr,ipr->r", theta, theta)))
            lam = np.maximum(lam + STEP * (g - CONTROL * STEP * lam), 0.0)

    return {
        "regret": regret / rounds,
        "relative_regret": regret / rounds / first,
        "violation": violation / rounds,
        "worst_violation": violation.max(axis=0) / rounds,
        "deviation": np.sum((last - n.best) ** 2, axis=(0, 1)),
        "estimation_error": np.sum((mu_hat - n.mu) ** 2, axis=(0, 1)),
        "deployed_regret": deployed_regret / deployments,
        "deployed_violation": deployed_violation,
        "decision": last.reshape(-1, lanes),
        "multipliers": lam,
    }


def _colored(factor: Any, white: Any) -> Any:
    """Lower triangular factors (10, 4, 4, R) times white noise (..., 10, 4, R), in place from the last row up."""
    for p in reversed(range(FEATURES + 1)):
        white[..., p, :] *= factor[:, p, p]
        for q in range(p):
            white[..., p, :] += factor[:, p, q] * white[..., q, :]
    return white


def _warmup(n: Numbers, rng: np.random.Generator) -> tuple[Any, Any]:
    """Mean (10, 4, R) and second moments (10, 4, 4, R) of the base samples."""
    lanes = n.start.shape[-1]
    total, squares = np.zeros((TASKS, FEATURES + 1, lanes)), np.zeros((TASKS, FEATURES + 1, FEATURES + 1, lanes))
    for _ in range(0, WARMUP, 50):
        z = _colored(n.factor, rng.standard_normal((50, TASKS, FEATURES + 1, lanes)))
        total += z.sum(axis=0)
        squares += np.einsum("bipr,biqr->ipqr", z, z)
    return total / WARMUP, squares / WARMUP
