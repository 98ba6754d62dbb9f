"""Both experiments of the paper, written once more in plain NumPy from its formulas, against the library.

On the same instances the two must agree up to the standard error of their paired difference if the noise is not shared,
and to rounding if it is. Arrays have the realisations r on their first axis.
"""

from __future__ import annotations

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative.experiments.reproduce import reproduce
from performative.numerics.precision import precise
from performative.numerics.randomness import new_key, standard_normal
from performative.problems import portfolio, regression
from performative.simulation.engine import round_keys

ROUNDS, REALIZATIONS, WARMUP = 2000, 24, 1000
STEP, CONTROL = 5e-3, 1.0
SENSITIVITIES = (1.0, 10.0)
METHODS = ("apda", "pd-ps", "oracle")
COMPARED = ("relative_regret", "deviation", "estimation_error", "deployed_regret")


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


class OwnNoise:
    """Standard normal numbers for n samples of the warm-up, and for u_t, Z_t and Z'_t of each round."""

    def __init__(self, width, realizations):
        self.random, self.shape = np.random.default_rng(20), (realizations, width)

    def warmup(self, n):
        return self.random.normal(size=(n, *self.shape))

    def round(self, t):
        return self.random.normal(size=(3, *self.shape))


class LibraryNoise:
    """The very numbers that the library draws for seed 0, realisation and round; all sensitivities share them."""

    def __init__(self, width, realizations):
        @jax.jit
        def draw(key):
            opening = standard_normal(round_keys(key, 0, 1)[1], WARMUP * width)
            keys = jax.vmap(lambda t: round_keys(key, t, 2))(jnp.arange(1, ROUNDS + 1))
            return opening.reshape(WARMUP, width), jax.vmap(jax.vmap(lambda key: standard_normal(key, width)))(keys)

        with precise():
            drawn = [draw(jax.random.fold_in(new_key(0), r)) for r in range(realizations)]
        self.opening = np.stack([np.asarray(opening) for opening, _ in drawn] * len(SENSITIVITIES), axis=1)
        self.drawn = np.stack([np.asarray(rounds) for _, rounds in drawn] * len(SENSITIVITIES), axis=2)

    def warmup(self, n):
        return self.opening

    def round(self, t):
        return self.drawn[t - 1]


def algorithm(world, method, noise):
    """Algorithm 1 (its two baselines likewise): the metrics after the last round, each (r,)."""
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
    for t in range(1, ROUNDS + 1):
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
        "relative_regret": regret / ROUNDS / first,
        "deviation": np.sum((last - world.best) ** 2, axis=tuple(range(1, last.ndim))),
        "estimation_error": np.sum((effect - world.effect) ** 2, axis=tuple(range(1, effect.ndim))),
        "deployed_regret": deployed_regret / deployments,
        "deployed_violation": deployed_violation,
        "violation": violation / ROUNDS,
        "decision": last.reshape(len(last), -1),
        "multipliers": lam,
    }


@pytest.fixture(scope="module", params=["regression", pytest.param("portfolio", marks=pytest.mark.slow)])
def experiment(request):
    """What the library finds, and the same instances in the form of this file, one sensitivity after the other."""
    dataset = reproduce(request.param, rounds=ROUNDS, realizations=REALIZATIONS, methods=METHODS)
    module, world = {"regression": (regression, Regression), "portfolio": (portfolio, Portfolio)}[request.param]
    instances = [module.instance(0, r, eps, WARMUP) for eps in SENSITIVITIES for r in range(REALIZATIONS)]
    return dataset.isel(t=-1), world(instances)


def differences(experiment, method, noise):
    """Metric, sensitivity, what the library found and what was expected, realisations first."""
    final, world = experiment
    for metric, expected in algorithm(world, method, noise).items():
        for sensitivity, values in zip(SENSITIVITIES, np.split(expected, len(SENSITIVITIES)), strict=True):
            yield (
                metric,
                sensitivity,
                final[metric].sel({"sensitivity": sensitivity, "algorithm": method}).values,
                values,
            )


def test_library_agrees_with_an_independent_implementation(experiment):
    noise = OwnNoise(experiment[1].width, len(SENSITIVITIES) * REALIZATIONS)
    wrong, compared = [], 0
    for method in METHODS:
        for metric, sensitivity, found, expected in differences(experiment, method, noise):
            if metric in COMPARED:
                difference = found - expected
                allowed = 4 * difference.std(ddof=1) / np.sqrt(REALIZATIONS) + 1e-12
                compared += 1
                if not abs(difference.mean()) <= allowed:
                    wrong.append((sensitivity, method, metric, float(difference.mean()), float(allowed)))
    assert compared == len(METHODS) * len(COMPARED) * len(SENSITIVITIES)
    assert not wrong


def test_library_agrees_to_rounding_on_the_same_noise(experiment):
    noise = LibraryNoise(experiment[1].width, REALIZATIONS)
    wrong = []
    for method in METHODS:
        for metric, sensitivity, found, expected in differences(experiment, method, noise):
            off = np.max(np.abs(found - expected))
            if not off <= 1e-10 * max(1.0, np.max(np.abs(expected))):
                wrong.append((sensitivity, method, metric, float(off)))
    assert not wrong


def _values(problem, theta):
    with precise():
        return np.asarray(problem.g(theta))


@pytest.mark.parametrize("sensitivity", [1.0, 10.0])
@pytest.mark.parametrize("realization", [0, 1])
def test_regression_optimum_risk_and_constraints_agree_with_cvxpy(realization, sensitivity):
    instance = regression.instance(0, realization, sensitivity, WARMUP)
    world = Regression([instance])
    sigma, beta, mu, bound, active = world.sigma[0], world.beta[0], world.mu[0], world.bound[0], world.active[0]
    assert np.linalg.norm(mu) == pytest.approx(sensitivity, rel=1e-12)
    theta = cp.Variable((10, 3))
    residuals = [cp.sum_squares(np.linalg.cholesky(sigma[i]).T @ (beta[i] - theta[i])) for i in range(10)]
    risk = 0.5 * (sum(residuals) + cp.sum_squares(cp.sum(cp.multiply(mu, theta), axis=1)) + 10)
    pairs = list(zip(world.left, world.right, strict=True))
    close = [cp.sum_squares(theta[i] - theta[j]) - b for (i, j), b in zip(pairs, bound, strict=True)]
    constraints = [g <= 0 for g, on in zip(close, active, strict=True) if on]
    program = cp.Problem(cp.Minimize(risk), constraints)
    program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    best = np.asarray(instance.optimum.decision)
    assert np.allclose(best, world.best.reshape(-1), atol=1e-12)
    assert np.allclose(best, theta.value.reshape(-1), atol=1e-4)
    assert float(instance.optimum.risk) == pytest.approx(program.value, abs=1e-7)

    assert np.all(_values(instance.truth, best) <= 0)
    for point in (best, np.random.default_rng(realization).normal(size=30)):
        theta.value = point.reshape(10, 3)
        assert pf.performative_risk(instance.truth, instance.environment, point) == pytest.approx(risk.value, rel=1e-9)
        expected = [g.value if on else -1.0 for g, on in zip(close, active, strict=True)]
        assert np.allclose(_values(instance.truth, point), expected, atol=1e-12)


@pytest.mark.parametrize("sensitivity", [1.0, 10.0])
@pytest.mark.parametrize("realization", [0, 1])
def test_portfolio_optimum_risk_and_constraints_agree_with_cvxpy(realization, sensitivity):
    instance = portfolio.instance(0, realization, sensitivity, WARMUP)
    world = Portfolio([instance])
    effect, mean, covariance = world.effect[0], world.mean[0], world.covariance[0]
    assert np.linalg.norm(effect, 2) == pytest.approx(sensitivity, rel=1e-12)
    theta = cp.Variable(10)
    # −(z̄ + Aθ)ᵀθ + ξ‖θ‖², whose curvature ξI − (A + Aᵀ)/2 is positive semidefinite since ξ = ‖A‖.
    curvature = sensitivity * np.eye(10) - (effect + effect.T) / 2
    risk = -mean @ theta + cp.quad_form(theta, cp.psd_wrap(curvature))

    def g(covariance):
        variance = cp.sum_squares(np.linalg.cholesky(covariance).T @ theta)
        return cp.hstack([cp.sum(theta) - 1, world.spread[0] @ theta - 2, variance - 0.01])

    program = cp.Problem(cp.Minimize(risk), [theta >= 0, theta <= 0.3, g(covariance) <= 0])
    program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    best = np.asarray(instance.optimum.decision)
    assert np.allclose(best, theta.value, atol=1e-5)
    assert float(instance.optimum.risk) == pytest.approx(program.value, abs=1e-7)
    theta.value = instance.start
    assert np.all(g(world.estimated[0]).value <= 1e-12)

    for point in (best, np.random.default_rng(realization).uniform(0, 0.3, size=10)):
        theta.value = point
        assert pf.performative_risk(instance.truth, instance.environment, point) == pytest.approx(risk.value, rel=1e-9)
        assert np.allclose(_values(instance.truth, point), g(covariance).value, atol=1e-12)
        assert np.allclose(_values(instance.problem, point), g(world.estimated[0]).value, atol=1e-12)
