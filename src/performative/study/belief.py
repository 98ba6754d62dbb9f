"""The world as a method believes it to be: its risk, stable point and optimum, with what is not known of them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from performative.convex import SolverFailed
from performative.estimators import LocationEstimator
from performative.optimum import performative_optimum, stable_point
from performative.precision import in_float64
from performative.primal_dual import PrimalDual
from performative.problem import Problem
from performative.pytrees import changed, pytree
from performative.safe import SafePrimalDual
from performative.validation import Floats

NORMAL = 1.959963984540054
"""Standard errors on each side of a 95 % interval."""


class Predicted(NamedTuple):
    """The risk that is predicted at a decision, and its 95 % interval (None where the method offers no errors)."""

    decision: Floats
    risk: float
    low: float | None
    high: float | None


@pytree()
class Believed:
    """What a method believes, as an environment whose risk can be minimised."""

    method: Any
    belief: Any

    def check(self, problem: Problem, theta: Any = None) -> None:
        """The problem is the method's own."""

    def risk(self, problem: Problem) -> Believed:
        """The decoupled risk."""
        return self

    def __call__(self, theta: Array, where: Array | None = None) -> Array:
        """The average loss of θ over the data that are predicted at `where`, or at θ itself."""
        where = theta if where is None else where
        if isinstance(self.method, SafePrimalDual):
            return self.method.predicted_risk(self.belief, self.belief.effect, theta, where)
        return self.method.estimator.predicted_risk(self.method.problem, self.belief, theta, where)


def believed(method: Any, state: Any) -> Believed | None:
    """What is believed, if the method is one that predicts and data have been told."""
    if isinstance(method, SafePrimalDual) and state.belief.effect is not None:
        return Believed(method, state.belief)
    learns = isinstance(method, PrimalDual) and isinstance(method.estimator, LocationEstimator)
    if learns and state.belief.base is not None:
        return Believed(method, state.belief)
    return None


def effect(method: Any, state: Any) -> tuple[Floats | None, Floats | None]:
    """The estimated effect and its standard errors, where there are such."""
    known = _confidence(method, state)
    if known is not None:
        return known.effect, known.effect_error
    found = getattr(getattr(state, "belief", None), "effect", None)
    return (None if found is None else np.asarray(found)), None


@in_float64
def predicted(world: Believed, state: Any, decision: Any) -> Predicted:
    """The risk at a decision. The standard error is the method's, by the delta method."""
    decision = np.asarray(decision)
    known = _confidence(world.method, changed(state, decision=decision))
    risk = float(_risks(world, decision[None])[0])
    if known is None or not math.isfinite(known.risk_error):
        return Predicted(decision, risk, None, None)
    return Predicted(decision, risk, risk - NORMAL * known.risk_error, risk + NORMAL * known.risk_error)


def solved(world: Believed, state: Any, which: str) -> Predicted | None:
    """The "optimum" or the "stable" point of the world as believed, or None where none is found."""
    solver = performative_optimum if which == "optimum" else stable_point
    try:
        decision = solver(world.method.problem, world).decision
    except (SolverFailed, ValueError, ArithmeticError):
        return None
    return predicted(world, state, decision)


@in_float64
def cost(world: Believed, deployed: Floats, decision: Floats) -> float:
    """By how much the predicted risk of all that was `deployed` (n, b, d) exceeds that of θ_t (n, d) in its place."""
    b = deployed.shape[1]
    there = np.asarray(_risks(world, deployed.reshape(-1, deployed.shape[2]))).reshape(-1, b)
    here = np.asarray(_risks(world, decision))[:, None]
    return float(np.nansum(there - here))


@jax.jit
def _risks(world: Believed, decisions: Array) -> Array:
    return jax.lax.map(world, decisions)


@in_float64
def _confidence(method: Any, state: Any) -> Any:
    if not hasattr(method, "confidence"):
        return None
    try:
        return method.confidence(state)
    except ValueError:  # too few samples
        return None
