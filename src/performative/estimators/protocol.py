"""What an estimator must offer to be plugged into the framework."""

from __future__ import annotations

from typing import Any, Protocol, TypeGuard

from jax import Array

from performative.caused import Source
from performative.numerics.pytrees import pytree
from performative.problem import Problem
from performative.shifts import Shift


class GradientEstimator(Protocol):
    """Any approximation of ∇PR, which is all that the robust primal-dual framework needs.

    The belief is any pytree of arrays.

    >>> import performative as pf
    >>> estimator: pf.estimators.GradientEstimator = pf.estimators.FrozenData()
    """

    def init(self, problem: Problem, key: Array) -> object:
        """The belief before any data."""

    def opening(self, belief: Any) -> int:
        """How many samples a warm-up at θ = 0 must bring before the first round, or 0 for no warm-up."""

    def update(self, problem: Problem, belief: Any, decisions: Array, samples: Array, t: Array) -> object:
        """The belief after round t, which deployed `decisions` (b, d) and observed `samples` (b, n, k)."""

    def check(self, belief: Any, decisions: Array, samples: Array) -> None:
        """Refuse what `update` cannot take; the shapes are those of `tell`."""

    def gradient(self, problem: Problem, belief: Any, theta: Array) -> Array:
        """∇P̂R_t(θ)."""


class PredictingEstimator(GradientEstimator, Protocol):
    """An estimator that predicts the data of any decision, which constraints on what a decision causes need."""

    def source(self, belief: Any) -> Source:
        """What data decisions bring about, as far as it knows."""


def predicts_data(estimator: object) -> TypeGuard[PredictingEstimator]:
    """Whether an estimator predicts the data of any decision."""
    return callable(getattr(estimator, "source", None))


def no_prediction(problem: Problem, name: str) -> TypeError:
    """What is wrong if a method that does not predict data is given limits on what a decision causes."""
    return TypeError(
        f"constraints on what a decision causes, {list(problem.caused_names)}, need a method that predicts the data of a "
        f"decision, but {name} does not; use apda, pd_ps or oracle"
    )


@pytree()
class Unobserved:
    """The belief before any data; the key is for random draws to come."""

    key: Array


class EffectEstimator(Protocol):
    """Estimates how decisions shift the data, better from round to round.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> method = pf.apda(pf.Problem(Revenue(), pf.Box([0.0], [5.0])))
    >>> effects: pf.estimators.EffectEstimator = method.estimator.effects
    >>> effects.pairs
    True
    """

    @property
    def shift(self) -> Shift:
        """The bilinear shift(effect, θ) of the data."""

    @property
    def pairs(self) -> bool:
        """Whether it learns from pairs of decisions."""

    def start(self, width: int, dimension: int) -> Array:
        """Â₀ for samples of length `width` and decisions of length `dimension`."""

    def update(self, effect: Array, decisions: Array, samples: Array, t: Array) -> Array:
        """Â_t from Â_{t−1} and the `decisions` (b, d) and `samples` (b, n, k) of round t."""


def require_decisions(decisions: Array, count: int, what: str) -> None:
    """Refuse a number of decisions other than the one an estimator learns from."""
    if decisions.shape[0] != count:
        raise ValueError(f"`decisions` must be {what}, but got {decisions.shape[0]} decisions")
