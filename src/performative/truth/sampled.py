"""Risks as functions of θ where the world only samples or moves: averages with standard errors, and their excess."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from performative.environments.answers import answer
from performative.environments.protocol import Environment, MovingWorld, risk_of
from performative.numerics.pytrees import changed, pytree
from performative.problem import Problem


class Risk(float):
    """A risk: a number, with the standard error of the samples it was averaged over; 0 if no samples were drawn.

    >>> import performative as pf
    >>> from performative.truth.sampled import Risk
    >>> risk = Risk(2.5, standard_error=0.1)
    >>> risk + 1, risk.standard_error
    (3.5, 0.1)
    """

    standard_error: float

    def __new__(cls, value: float, standard_error: float = 0.0) -> Risk:
        """The number with its standard error."""
        risk = super().__new__(cls, value)
        risk.standard_error = standard_error
        return risk

    @staticmethod
    def of(losses: Array) -> Risk:
        """The mean of the losses of independent samples."""
        count = losses.shape[0]
        error = float(jnp.std(losses, ddof=1)) / count**0.5 if count > 1 else float("inf")
        return Risk(float(jnp.mean(losses)), error)


@pytree("samples")
class SampledRisk:
    """The average loss of θ over `samples` draws with one key, in round t: a deterministic function of θ.

    The same key for every θ: risks at two decisions differ by their decisions, not by their noise (common random numbers).
    """

    problem: Problem
    environment: Environment
    key: Array
    t: Array
    samples: int

    def losses(self, theta: Array, where: Array | None = None) -> Array:
        """The losses of all draws."""
        induced = theta if where is None else where
        z, _ = answer(self.environment, self.key, induced, self.samples, self.t, ())
        return jax.vmap(functools.partial(self.problem.loss, theta))(z)

    def __call__(self, theta: Array, where: Array | None = None) -> Array:
        """The average loss of θ on the data that `where` induces, which is θ itself by default."""
        return jnp.mean(self.losses(theta, where))


@pytree("samples")
class SampledExcess:
    """PR_t(θ) − PR_t(reference), estimated from `samples` pairs of draws with common random numbers."""

    problem: Problem
    environment: Environment
    samples: int

    def __call__(self, theta: Array, reference: Array, t: Array, key: Array) -> tuple[Array, Array]:
        """The estimate, and the square of its standard error."""
        risk = SampledRisk(self.problem, self.environment, key, t, self.samples)
        apart = risk.losses(theta) - risk.losses(reference)
        return jnp.mean(apart), jnp.var(apart, ddof=1) / self.samples


@pytree()
class MovingRisk:
    """The decoupled risk in round t of a world that knows its truth in every round, `environment.at(t)`."""

    problem: Problem
    environment: MovingWorld
    t: Array

    def __call__(self, theta: Array, where: Array | None = None) -> Array:
        """PR_t(θ), or the average loss of θ on the data that `where` induces."""
        return risk_of(self.problem, self.environment.at(self.t))(theta, where)


@pytree()
class MovingExcess:
    """PR_t(θ) − PR_t(reference) of a world that knows its truth in every round."""

    problem: Problem
    environment: MovingWorld

    def __call__(self, theta: Array, reference: Array, t: Array) -> Array:
        """The excess risk in round t."""
        risk = MovingRisk(self.problem, self.environment, t)
        return risk(theta) - risk(reference)


@pytree()
class AverageRisk:
    """The mean of a risk over some rounds: its minimizer is the best fixed decision."""

    risk: MovingRisk | SampledRisk
    rounds: Array

    def __call__(self, theta: Array, where: Array | None = None) -> Array:
        """The mean over the rounds of PR_t(θ)."""
        return jnp.mean(jax.vmap(lambda t: changed(self.risk, t=t)(theta, where))(self.rounds))

    def losses(self, theta: Array) -> Array:
        """The losses of all draws in all rounds, of a sampled risk."""
        risk: Any = self.risk
        return jax.vmap(lambda t: changed(risk, t=t).losses(theta))(self.rounds).reshape(-1)
