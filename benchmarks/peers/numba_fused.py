"""The regression experiment as a hand-fused Numba loop: one realization and one method at a time, no temporaries.

Rows are features and columns tasks, so that the compiler's vectors run over the tasks. The base samples are reduced to
their moments once, and only the edges that are on are visited.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from benchmarks.peers.numpy_plain import (
    CONTROL,
    FEATURES,
    LEFT,
    METHODS,
    OFFSET,
    RADIUS,
    RIGHT,
    STEP,
    TASKS,
    WARMUP,
    numbers,
)

WIDTH = FEATURES + 1


def run(instance: Any, method: str, rounds: int, seed: int) -> dict[str, Any]:
    """The metrics after the last round."""
    n = numbers(instance)
    rng = np.random.Generator(np.random.SFC64(seed))
    base = np.einsum("ipq,biq->bip", n.factor, rng.standard_normal((WARMUP, TASKS, WIDTH)))
    second = np.einsum("bip,biq->pqi", base, base) / WARMUP
    edges = np.flatnonzero(n.active)
    theta, best = n.start.T.copy(), n.best.T.copy()
    curvature = np.ascontiguousarray(np.moveaxis(n.curvature, 0, -1))
    origin_excess = 0.5 * np.einsum("pi,pqi,qi->", best, curvature, best)
    first = 0.5 * np.einsum("pi,pqi,qi->", theta - best, curvature, theta - best)
    mu = n.mu.T.copy()
    mu_hat = mu.copy() if method == "oracle" else np.zeros_like(mu)
    lam, violation = np.zeros(len(edges)), np.zeros(len(edges))
    last = theta.copy()
    regret, deployed_regret, deployed_violation = _rounds(
        rng,
        rounds,
        METHODS.index(method),
        np.ascontiguousarray(np.moveaxis(n.factor, 0, -1)),
        np.ascontiguousarray(second),
        base.mean(axis=0).T.copy(),
        curvature,
        best,
        mu,
        LEFT[edges].astype(np.uint64),
        RIGHT[edges].astype(np.uint64),
        n.bound[edges],
        mu_hat,
        theta,
        last,
        lam,
        violation,
    )
    deployments = WARMUP + rounds * (1 if method == "oracle" else 2)
    all_violations, multipliers = np.full(len(LEFT), -1.0), np.zeros(len(LEFT))
    all_violations[edges], multipliers[edges] = violation / rounds, lam
    return {
        "regret": regret / rounds,
        "relative_regret": regret / rounds / first,
        "violation": all_violations,
        "worst_violation": all_violations.max(),
        "deviation": np.sum((last - best) ** 2),
        "estimation_error": np.sum((mu_hat - mu) ** 2),
        "deployed_regret": (WARMUP * origin_excess + deployed_regret) / deployments,
        "deployed_violation": max(deployed_violation, 0.0, float(np.max(-n.bound[edges], initial=-1.0))),
        "decision": last.T.reshape(-1),
        "multipliers": multipliers,
    }


@njit(fastmath=False, error_model="numpy", inline="always")
def _color(factor, white, z):
    for i in range(TASKS):
        z[0, i] = factor[0, 0, i] * white[0, i]
        z[1, i] = factor[1, 0, i] * white[0, i] + factor[1, 1, i] * white[1, i]
        z[2, i] = factor[2, 0, i] * white[0, i] + factor[2, 1, i] * white[1, i] + factor[2, 2, i] * white[2, i]
        z[3, i] = (
            factor[3, 0, i] * white[0, i]
            + factor[3, 1, i] * white[1, i]
            + factor[3, 2, i] * white[2, i]
            + factor[3, 3, i] * white[3, i]
        )


@njit(fastmath=False, error_model="numpy", inline="always")
def _excess(curvature, best, theta, scratch):
    for i in range(TASKS):
        a, b, c = theta[0, i] - best[0, i], theta[1, i] - best[1, i], theta[2, i] - best[2, i]
        scratch[i] = a * (0.5 * curvature[0, 0, i] * a + curvature[0, 1, i] * b + curvature[0, 2, i] * c) + (
            b * (0.5 * curvature[1, 1, i] * b + curvature[1, 2, i] * c) + 0.5 * curvature[2, 2, i] * c * c
        )
    total = 0.0
    for i in range(TASKS):
        total += scratch[i]
    return total


@njit(fastmath=False, error_model="numpy")
def _rounds(
    rng,
    rounds,
    method,
    factor,
    second,
    mean,
    curvature,
    best,
    mu,
    left,
    right,
    bound,
    mu_hat,
    theta,
    last,
    lam,
    violation,
):
    learns, anticipates = method != 2, method != 1
    edges = left.shape[0]
    white, z, z_probe = np.empty((WIDTH, TASKS)), np.empty((WIDTH, TASKS)), np.empty((WIDTH, TASKS))
    u, probe, gradient = np.empty((FEATURES, TASKS)), np.empty((FEATURES, TASKS)), np.empty((FEATURES, TASKS))
    scratch = np.empty(TASKS)
    regret, deployed_regret, deployed_violation = 0.0, 0.0, 0.0
    for t in range(1, rounds + 1):
        for p in range(WIDTH):
            for i in range(TASKS):
                white[p, i] = rng.standard_normal()
        _color(factor, white, z)
        now = _excess(curvature, best, theta, scratch)
        regret += now
        deployed_regret += now
        if learns:
            for p in range(FEATURES):
                for i in range(TASKS):
                    u[p, i] = rng.standard_normal()
            for p in range(WIDTH):
                for i in range(TASKS):
                    white[p, i] = rng.standard_normal()
            _color(factor, white, z_probe)
            zeta = 1.0 / (t + OFFSET)
            for i in range(TASKS):
                a, b, c = u[0, i], u[1, i], u[2, i]
                p0, p1, p2 = theta[0, i] + a, theta[1, i] + b, theta[2, i] + c
                probe[0, i], probe[1, i], probe[2, i] = p0, p1, p2
                z[3, i] += mu[0, i] * theta[0, i] + mu[1, i] * theta[1, i] + mu[2, i] * theta[2, i]
                z_probe[3, i] += mu[0, i] * p0 + mu[1, i] * p1 + mu[2, i] * p2
                error = z_probe[3, i] - z[3, i] - (mu_hat[0, i] * a + mu_hat[1, i] * b + mu_hat[2, i] * c)
                error *= zeta
                mu_hat[0, i] += error * a
                mu_hat[1, i] += error * b
                mu_hat[2, i] += error * c
            deployed_regret += _excess(curvature, best, probe, scratch)

        for i in range(TASKS):
            a, b, c = theta[0, i], theta[1, i], theta[2, i]
            moved = mu_hat[0, i] * a + mu_hat[1, i] * b + mu_hat[2, i] * c
            felt = mean[3, i] + moved - (mean[0, i] * a + mean[1, i] * b + mean[2, i] * c)
            felt = felt if anticipates else 0.0
            for p in range(FEATURES):
                gradient[p, i] = (
                    (second[p, 0, i] * a + second[p, 1, i] * b + second[p, 2, i] * c)
                    - (second[p, 3, i] + moved * mean[p, i])
                    + felt * mu_hat[p, i]
                )
        for m in range(edges):
            i, j = left[m], right[m]
            a, b, c = theta[0, i] - theta[0, j], theta[1, i] - theta[1, j], theta[2, i] - theta[2, j]
            g = a * a + b * b + c * c - bound[m]
            violation[m] += g
            deployed_violation = max(deployed_violation, g)
            if learns:
                d, e, f = probe[0, i] - probe[0, j], probe[1, i] - probe[1, j], probe[2, i] - probe[2, j]
                deployed_violation = max(deployed_violation, d * d + e * e + f * f - bound[m])
            weight = lam[m]
            if weight > 0.0:
                push = 2.0 * weight
                gradient[0, i] += push * a
                gradient[1, i] += push * b
                gradient[2, i] += push * c
                gradient[0, j] -= push * a
                gradient[1, j] -= push * b
                gradient[2, j] -= push * c
            lam[m] = max(weight + STEP * (g - CONTROL * STEP * weight), 0.0)

        square = 0.0
        for p in range(FEATURES):
            for i in range(TASKS):
                last[p, i] = theta[p, i]
                theta[p, i] -= STEP * gradient[p, i]
                square += theta[p, i] * theta[p, i]
        if square > RADIUS * RADIUS:
            shrink = RADIUS / np.sqrt(square)
            for p in range(FEATURES):
                for i in range(TASKS):
                    theta[p, i] *= shrink
    return regret, deployed_regret, deployed_violation
