"""The world as a study believes it to be: its effect and risk, stable point and optimum, with what is not known of them.

Safe APDA says what it believes, with standard errors. For all other methods it is the same least squares, of the last samples on
the decisions that brought them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.convex import SolverFailed
from performative.methods import safe_apda
from performative.optimum import performative_optimum, stable_point
from performative.precision import in_float64
from performative.problem import Problem
from performative.pytrees import changed, pytree
from performative.randomness import new_key
from performative.safe import Regression, SafePrimalDual
from performative.study.history import Round
from performative.validation import Floats

NORMAL = 1.959963984540054
"""Standard errors on each side of a 95 % interval."""
LAST = 2**14
"""On how many samples the least squares rests, at most."""


class Predicted(NamedTuple):
    """The risk that is predicted at a decision, and its 95 % interval (None where too little was told for one)."""

    decision: Floats
    risk: float
    low: float | None
    high: float | None


class Recent:
    """The last samples of a log, each with the decision that brought it."""

    def __init__(self) -> None:
        self._parts: list[tuple[Floats, Floats]] = []
        self._count = 0

    def watching(self, told: Iterable[Round]) -> Iterator[Round]:
        """The same rounds, looked at as they pass."""
        for one in told:
            samples, decisions = one.data["samples"], one.decisions["decisions"]
            for z, x in zip(samples[:, -LAST:], decisions, strict=True):
                self._parts.append((np.broadcast_to(x, (len(z), len(x))), z))
                self._count += len(z)
            while self._count - len(self._parts[0][1]) >= LAST:
                self._count -= len(self._parts.pop(0)[1])
            yield one

    def different(self) -> int:
        """At how many different decisions they were observed."""
        return len(np.unique([x[0] for x, _ in self._parts], axis=0)) if self._parts else 0

    def rows(self) -> tuple[Floats, Floats] | None:
        """Decisions (n, d) and samples (n, k)."""
        if not self._count:
            return None
        decisions, samples = (np.concatenate(parts)[-LAST:] for parts in zip(*self._parts, strict=True))
        return decisions, samples


@pytree("sure")
class Believed:
    """What is believed, as an environment whose risk can be minimised; whether there are standard errors of it."""

    method: Any
    state: Any
    sure: Any

    def check(self, problem: Problem, theta: Any = None) -> None:
        """The problem is the method's own."""

    def risk(self, problem: Problem) -> Believed:
        """The decoupled risk."""
        return self

    def __call__(self, theta: Array, where: Array | None = None) -> Array:
        """The average loss of θ over the data that are predicted at `where`, or at θ itself."""
        belief = self.state.belief
        return self.method.predicted_risk(belief, belief.effect, theta, where)


@in_float64
def believed(method: Any, state: Any, recent: Recent) -> Believed | None:
    """What is believed once data have been told. As many decisions as they are long tell nothing of how sure that is."""
    sure = recent.different() > method.problem.dimension
    if isinstance(method, SafePrimalDual):
        sure = sure or method.history is not None
        return None if state.belief.effect is None else Believed(method, state, sure)
    rows = recent.rows()
    if rows is None:
        return None
    problem = method.problem
    free = Problem(problem.loss, problem.decisions, dimension=problem.dimension)
    observer = safe_apda(free, start=problem.decisions.project(jnp.asarray(rows[0][-1])))
    state = observer.init(new_key(0))
    return Believed(observer, changed(state, belief=_regressed(observer, state.belief.key, *rows)), sure)


def _regressed(observer: SafePrimalDual, key: Any, decisions: Floats, samples: Floats) -> Regression:
    """Least squares of samples (n, k) on decisions (n, d). What was never varied keeps an effect of 0 and a huge error."""
    (n, d), k = decisions.shape, samples.shape[1]
    x, z = decisions - decisions.mean(axis=0), samples - samples.mean(axis=0)
    scatter = x.T @ x
    ridge = 1e-9 * max(float(np.trace(scatter)) / d, 1e-9 * n * max(1.0, float(np.max(decisions**2))))
    inverse = np.linalg.inv(scatter + ridge * np.eye(d))
    effect = z.T @ x @ inverse
    left = z - x @ effect.T
    kept = None
    if not observer.is_quadratic(k):
        kept = np.resize(
            np.concatenate([decisions, samples], axis=1)[-observer.reservoir :], (observer.reservoir, d + k)
        )
    count, nothing = np.float64(n), np.zeros((0, 0))
    belief = Regression(
        effect,
        count,
        decisions.mean(axis=0),
        samples.mean(axis=0),
        inverse,
        left.T @ left,
        kept,
        np.zeros((k, 0)),
        nothing,
        key,
    )
    return jax.tree.map(jnp.asarray, belief)


@in_float64
def effect(world: Believed) -> tuple[Floats, Floats | None]:
    """The estimated effect and its standard errors, once there are such."""
    known = _confidence(world, world.state.decision)
    if known is None:
        return np.asarray(world.state.belief.effect), None
    return known.effect, known.effect_error


@in_float64
def predicted(world: Believed, decision: Any) -> Predicted:
    """The risk at a decision; its standard error is by the delta method."""
    decision = np.asarray(decision)
    known = _confidence(world, decision)
    risk = float(_risks(world, decision[None])[0])
    if known is None or not math.isfinite(known.risk_error):
        return Predicted(decision, risk, None, None)
    return Predicted(decision, risk, risk - NORMAL * known.risk_error, risk + NORMAL * known.risk_error)


def solved(world: Believed, problem: Problem, which: str) -> Predicted | None:
    """The "optimum" or the "stable" point of the world as believed, or None where none is found."""
    solver = performative_optimum if which == "optimum" else stable_point
    try:
        decision = solver(problem, world).decision
    except (SolverFailed, ValueError, ArithmeticError):
        return None
    return predicted(world, decision)


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


def _confidence(world: Believed, decision: Any) -> Any:
    if not world.sure:
        return None
    try:
        return world.method.confidence(changed(world.state, decision=jnp.asarray(decision)))
    except ValueError:  # too few samples
        return None
