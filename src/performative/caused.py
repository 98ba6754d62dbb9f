"""Limits on what a decision causes as constraints g(θ) ≤ 0, once somebody says what data it brings about."""

from __future__ import annotations

from typing import Protocol

import jax.numpy as jnp
from jax import Array

from performative.constraints import Constraint
from performative.expected import Caused, Score
from performative.numerics.outcomes import Outcome
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import changed, pytree


class Average(Protocol):
    """The average of a function of a decision over the data that a decision `where` brings about, by default itself."""

    def __call__(self, theta: Array, where: Array | None = None) -> Array:
        """E_{Z∼D(where)} f(θ, Z)."""


class Distribution(Protocol):
    """The distribution of a function of a decision on the data that a decision `where` brings about, by default itself."""

    def __call__(self, theta: Array, where: Array | None = None) -> Outcome:
        """The distribution of f(θ, Z), Z ∼ D(where)."""


class Source(Protocol):
    """Somebody who says what data decisions bring about: a world, or what a method believes of it."""

    def average(self, function: Score) -> Average:
        """The average of a function, as a pytree."""

    def distribution(self, function: Score) -> Distribution:
        """The distribution of a function, as a pytree."""


@pytree("names")
class Induced(Constraint):
    """A limit on what a decision causes, with the averages and distributions it needs: a constraint like any other.

    `where`, if given, is the decision whose data are taken, whatever θ is: data that do not react.
    """

    item: Caused
    averages: tuple[Average, ...]
    distributions: tuple[Distribution, ...]
    where: Array | None
    names: tuple[str, ...]

    @staticmethod
    def of(item: Caused, source: Source) -> Induced:
        """The constraint that a limit becomes on the data of a source."""
        averages = tuple(source.average(function) for function in item.averaged)
        distributions = tuple(source.distribution(function) for function in item.scored)
        return Induced(item, averages, distributions, None, item.names)

    @in_float64
    def __call__(self, theta: Array) -> Array:
        """The values (m,), at most 0 where the limit holds."""
        theta = jnp.asarray(theta)
        where = theta if self.where is None else jnp.asarray(self.where)
        means = [average(theta, where) for average in self.averages]
        outcomes = [distribution(theta, where) for distribution in self.distributions]
        return self.item.values(jnp.stack(means) if means else jnp.zeros(0), outcomes)

    def frozen(self, where: Array) -> Induced:
        """The same limit on the data of one decision."""
        return changed(self, where=where)
