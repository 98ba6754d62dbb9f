"""What an estimator offers to the framework that plugs it in."""

from __future__ import annotations

from typing import Any, Protocol

from jax import Array

from performative.numerics.pytrees import pytree
from performative.problem import Problem
from performative.shifts import Shift


class GradientEstimator(Protocol):
    """Any approximation of ∇PR: all that the robust primal-dual framework asks for."""

    def init(self, problem: Problem, key: Array) -> Any:
        """The belief before any data."""

    def opening(self, belief: Any) -> int:
        """How many samples a first deployment at θ = 0 must bring before anything else, or 0."""

    def update(self, problem: Problem, belief: Any, decisions: Array, samples: Array, t: Array) -> Any:
        """The belief after round t deployed `decisions` (b, d) and observed `samples` (b, n, k)."""

    def check(self, belief: Any, decisions: Array, samples: Array) -> None:
        """Refuse what `update` cannot take; the shapes are those of `tell`."""

    def gradient(self, problem: Problem, belief: Any, theta: Array) -> Array:
        """∇P̂R_t(θ)."""


@pytree()
class Unobserved:
    """What is believed before any data: nothing. The key is for what will be drawn at random."""

    key: Array


class EffectEstimator(Protocol):
    """Holds how data are believed to shift, and improves that belief round by round."""

    @property
    def shift(self) -> Shift:
        """The bilinear shift(effect, θ) of the data."""

    @property
    def pairs(self) -> bool:
        """Whether it learns from pairs of decisions."""

    def start(self, width: int, dimension: int) -> Array:
        """Â₀ for samples of length `width` and decisions of length `dimension`."""

    def update(self, effect: Array, decisions: Array, samples: Array, t: Array) -> Array:
        """Â_t from Â_{t−1} and what was deployed (b, d) and observed (b, n, k) in round t."""


def require_decisions(decisions: Array, count: int, what: str) -> None:
    """Refuse another number of decisions than an estimator learns from."""
    if decisions.shape[0] != count:
        raise ValueError(f"`decisions` must be {what}, but got {decisions.shape[0]} decisions")
