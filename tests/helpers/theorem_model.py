"""A problem that meets every assumption of the theorem, and runs of APDA on it with the theorem's settings."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

import performative as pf
from performative import theory
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import changed
from performative.numerics.randomness import new_key

TARGET = np.array([1.0, -0.5, 0.25])
EFFECT = np.array([[0.4, 0.1, 0.0], [0.0, 0.3, 0.1], [0.1, 0.0, 0.2]])
ACTIVE, SLACK = 0.1, 0.48
"""Bounds of the constraint: the optimum on it, with λ* = 0.27, and the optimum inside."""
REALIZATIONS = 50
HORIZONS = (100, 1_000, 10_000, 30_000)


def quadratic_loss(theta, z):
    """Quadratic in θ and z, strongly convex in both: γ_θ = 0.2, γ_Z = 0.1, β = 0.03, so γ_θ − β²/γ_Z > 0."""
    return 0.1 * (jnp.sum((theta - TARGET) ** 2) + 0.5 * jnp.sum(z * z) + 0.3 * jnp.sum(theta * z))


@functools.cache
def model(bound):
    """Problem, environment and constants: bounded data, a ball, a quadratic constraint with L_g = 1."""
    random = np.random.default_rng(5)
    base = pf.Empirical(random.uniform(-0.5, 0.5, size=(200, 3)) + np.array([0.1, 0.2, 0.3]))
    problem = pf.Problem(quadratic_loss, pf.Ball(1.0), [pf.constraints.Quadratic(0.5 * np.eye(3), bound)])
    environment = pf.LocationFamily(base, EFFECT)
    return problem, environment, theory.constants(problem, environment)


@functools.cache
@in_float64
def measured(bound, rounds, warmup=None):
    """Sums over t = 1..T of regret, violation, squared gradient error and squared parameter error, per realization."""
    problem, environment, constants = model(bound)
    options = constants.settings(rounds) | ({} if warmup is None else {"warmup": warmup})
    method = pf.apda(problem, start=TARGET / np.linalg.norm(TARGET), **options)
    keys = jax.vmap(functools.partial(jax.random.fold_in, new_key(1)))(jnp.arange(REALIZATIONS))
    states = _opened(method, environment, keys)
    # n is no part of the state: with another one in its place, all horizons share one program.
    method = changed(method, estimator=changed(method.estimator, warmup=1))
    least = jnp.asarray(pf.performative_optimum(problem, environment).risk)
    return np.asarray(_sums(method, environment, environment.risk(problem), least, states, keys, rounds))


@jax.jit
def _opened(method, environment, keys):
    """The states after the warm-up, one realization after the other: n may be large."""

    def opened(key):
        state = method.init(jax.random.fold_in(key, 0))
        opening = method.ask(state, jax.random.fold_in(key, 1))
        samples = environment.sample(jax.random.fold_in(key, 2), opening[0], method.wanted(state))
        return method.tell(state, opening, samples[None])

    return jax.lax.map(opened, keys)


@jax.jit
def _sums(method, environment, risk, least, states, keys, rounds):
    exact = jax.grad(risk)

    def run(state, key):
        def one_round(t, carry):
            state, sums = carry
            asking, answering = jax.random.split(jax.random.fold_in(key, t))
            decisions = method.ask(state, asking)
            answers = jax.random.split(answering, 2)
            samples = jnp.stack([environment.sample(answers[i], decisions[i], 1) for i in range(2)])
            theta, after = state.decision, method.tell(state, decisions, samples)
            error = method.estimator.gradient(method.problem, after.belief, theta) - exact(theta)
            new = [
                risk(theta) - least,
                method.problem.g(theta)[0],
                jnp.sum(error**2),
                jnp.sum((after.belief.effect - environment.effect) ** 2),
            ]
            return after, sums + jnp.stack(new)

        return jax.lax.fori_loop(3, rounds + 3, one_round, (state, jnp.zeros(4)))[1]

    return jax.vmap(run)(states, keys)
