"""Both experiments of the paper, written once more in plain NumPy from its formulas.

Arrays have the realizations r on their first axis.
"""

from __future__ import annotations

import numpy as np

WARMUP = 1000
STEP, CONTROL = 5e-3, 1.0


class Regression:
    """Ten tasks, θ (r, 10, 3), data z (r, 10, 4) with (x_i, y_i) in the rows; the effect is μ (r, 10, 3)."""

    width = 40
    left, right = np.triu_indices(10, 1)

    def __init__(self, instances):
        covariance = np.stack([item.environment.base.covariance for item in instances])
        self.mu = np.stack([item.environment.effect for item in instances])
        self.sigma = covariance[..., :3, :3]
        self.beta = np.linalg.solve(self.sigma, covariance[..., :3, 3:])[..., 0]
        assert np.allclose(
            covariance[..., 3, 3], np.einsum("rip,ripq,riq->ri", *[self.beta, self.sigma, self.beta]) + 1
        )
        self.bound = np.stack([item.problem.constraints[0].bound for item in instances])
        self.active = np.stack([item.problem.constraints[0].active for item in instances])
        self.factor = np.linalg.cholesky(self.sigma)
        self.start = np.stack([item.start for item in instances]).reshape(-1, 10, 3)
        curvature = self.sigma + self.mu[..., :, None] * self.mu[..., None, :]
        self.best = np.linalg.solve(curvature, self.sigma @ self.beta[..., None])[..., 0]

    def sample(self, white, theta):
        """z at θ, from standard normal numbers (r, 40)."""
        white = white.reshape(-1, 10, 4)
        x = _times(self.factor, white[..., :3])
        y = _dot(self.beta, x) + _dot(self.mu, theta) + white[..., 3]
        return np.concatenate([x, y[..., None]], axis=-1)

    def risk(self, theta):
        """½ E(y − θᵀx)² = ½ ((β − θ)ᵀΣ(β − θ) + (μᵀθ)² + 1), task by task."""
        square = _form(self.sigma, self.beta - theta)
        return 0.5 * np.sum(square + _dot(self.mu, theta) ** 2 + 1, axis=-1)

    def moments(self, base):
        """The gradient sees base samples (n, r, 10, 4) only through these averages."""
        x, y = base[..., :3], base[..., 3]
        return x.mean(0), y.mean(0), np.einsum("nrip,nriq->ripq", x, x) / len(x), np.mean(x * y[..., None], axis=0)

    def gradient(self, moments, mu, theta, anticipate):
        """The average of (y + μᵀθ − xᵀθ)(μ − x), without μ where the reaction is not anticipated."""
        x, y, xx, xy = moments
        moved = _dot(mu, theta)
        gradient = _times(xx, theta) - xy - moved[..., None] * x
        if anticipate:
            gradient += (y + moved - _dot(x, theta))[..., None] * mu
        return gradient

    def learn(self, mu, z, z_probe, u, zeta):
        error = z_probe[..., 3] - z[..., 3] - _dot(mu, u)
        return mu + zeta * error[..., None] * u

    def g(self, theta):
        apart = theta[:, self.left] - theta[:, self.right]
        return np.where(self.active, _dot(apart, apart) - self.bound, -1.0)

    known_g = g

    def pull(self, theta, lam):
        """λᵀ∇g(θ)."""
        pairs = np.zeros((len(theta), 10, 10))
        pairs[:, self.left, self.right] = pairs[:, self.right, self.left] = self.active * lam
        return 2 * (pairs.sum(axis=2)[..., None] * theta - pairs @ theta)

    def project(self, theta):
        norm = np.sqrt(np.sum(theta**2, axis=(1, 2), keepdims=True))
        return theta * np.minimum(1.0, 1e3 / np.maximum(norm, 1e-300))

    @property
    def effect(self):
        return self.mu


class Portfolio:
    """Ten assets, θ and z (r, 10); the effect is A (r, 10, 10). Metrics use the true covariance, methods another."""

    width = 10

    def __init__(self, instances):
        self.effect = np.stack([item.environment.effect for item in instances])
        self.mean = np.stack([item.environment.base.mean for item in instances])
        self.covariance = np.stack([item.environment.base.covariance for item in instances])
        self.estimated = np.stack([item.problem.constraints[2].matrix for item in instances])
        self.spread = np.stack([item.problem.constraints[1].coefficients[0] for item in instances])
        self.xi = np.linalg.norm(self.effect, 2, axis=(1, 2))  # ξ = ε = ‖A‖
        self.factor = np.linalg.cholesky(self.covariance)
        self.start = np.stack([item.start for item in instances])
        self.best = np.stack([item.optimum.decision for item in instances])  # checked by cvxpy below

    def sample(self, white, theta):
        return self.mean + _times(self.effect, theta) + _times(self.factor, white)

    def risk(self, theta):
        moved = self.mean + _times(self.effect, theta)
        return -_dot(moved, theta) + self.xi * _dot(theta, theta)

    def moments(self, base):
        return base.mean(0)

    def gradient(self, mean, effect, theta, anticipate):
        gradient = -mean - _times(effect, theta) + 2 * self.xi[:, None] * theta
        if anticipate:
            gradient -= _times(effect.swapaxes(1, 2), theta)
        return gradient

    def learn(self, effect, z, z_probe, u, zeta):
        error = z_probe - z - _times(effect, u)
        return effect + zeta * error[:, :, None] * u[:, None, :]

    def g(self, theta):
        return self._g(theta, self.covariance)

    def known_g(self, theta):
        return self._g(theta, self.estimated)

    def _g(self, theta, covariance):
        risk = _form(covariance, theta)
        return np.stack([theta.sum(1) - 1, _dot(self.spread, theta) - 2, risk - 0.01], axis=1)

    def pull(self, theta, lam):
        risk = 2 * _times(self.estimated, theta)
        return lam[:, :1] + lam[:, 1:2] * self.spread + lam[:, 2:] * risk

    def project(self, theta):
        return np.clip(theta, 0.0, 0.3)


def _times(matrices, vectors):
    return np.einsum("...pq,...q->...p", matrices, vectors)


def _dot(left, right):
    return np.einsum("...p,...p->...", left, right)


def _form(matrices, vectors):
    return _dot(vectors, _times(matrices, vectors))


def algorithm(world, method, noise, rounds):
    """Algorithm 1 (its two baselines likewise): the metrics after the last of `rounds` rounds, each (r,)."""
    theta = world.start
    origin = np.zeros_like(theta)
    moments = world.moments(np.stack([world.sample(white, origin) for white in noise.warmup(WARMUP)]))
    effect = world.effect if method == "oracle" else np.zeros_like(world.effect)
    g = world.g(theta)
    lam, violation = np.zeros_like(g), np.zeros_like(g)
    optimal = world.risk(world.best)
    first = world.risk(theta) - optimal
    regret, deployments = 0.0, WARMUP
    deployed_regret = WARMUP * (world.risk(origin) - optimal)
    deployed_violation = np.maximum(0.0, world.g(origin).max(axis=1))
    for t in range(1, rounds + 1):
        deployed = [theta]
        if method != "oracle":
            white_u, white, white_probe = noise.round(t)
            u = white_u[:, : theta[0].size].reshape(theta.shape)
            z, z_probe = world.sample(white, theta), world.sample(white_probe, theta + u)
            effect = world.learn(effect, z, z_probe, u, 1 / (t + 10))
            deployed = [theta, theta + u]
        excess = [world.risk(decision) - optimal for decision in deployed]
        values = [world.g(decision) for decision in deployed]
        regret = regret + excess[0]
        violation = violation + values[0]
        deployed_regret = deployed_regret + sum(excess)
        deployed_violation = np.maximum(deployed_violation, np.max(values, axis=(0, 2)))
        deployments += len(deployed)
        gradient = world.gradient(moments, effect, theta, anticipate=method != "pd-ps") + world.pull(theta, lam)
        last, g = theta, world.known_g(theta)
        theta = world.project(theta - STEP * gradient)
        lam = np.maximum(lam + STEP * (g - CONTROL * STEP * lam), 0.0)
    return {
        "relative_regret": regret / rounds / first,
        "deviation": np.sum((last - world.best) ** 2, axis=tuple(range(1, last.ndim))),
        "estimation_error": np.sum((effect - world.effect) ** 2, axis=tuple(range(1, effect.ndim))),
        "deployed_regret": deployed_regret / deployments,
        "deployed_violation": deployed_violation,
        "violation": violation / rounds,
        "decision": last.reshape(len(last), -1),
        "multipliers": lam,
    }
