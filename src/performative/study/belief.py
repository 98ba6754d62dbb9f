"""The world as the log of a study shows it: its effect and risk, stable point and optimum, with what is not known of them.

Least squares of the last samples on the decisions that brought them, whatever the method. What a method that forgets has
forgotten counts for as little here. A method's own estimates would do less well: those of Safe APDA begin at a prior, and across
a constraint that binds they keep a part of it for long.
"""

from __future__ import annotations

import math
from collections import deque
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
    """The last samples of a log, each with the decision that brought it, and what a method was given before that.

    `history` is such, decisions (N, d) and samples (N, k).
    """

    def __init__(self, history: Any = None) -> None:
        self._parts: deque[tuple[int, Floats, Floats]] = deque()
        self._count = 0
        if history is not None:
            decisions, samples = map(np.asarray, history)
            self.add(0, decisions, samples[:, None])

    def add(self, number: int, decisions: Floats, samples: Floats) -> None:
        """Decisions (b, d) of round `number`, and what they brought (b, n, k)."""
        for x, z in zip(decisions, samples[:, -LAST:], strict=True):
            self._parts.append((number, x, z))
            self._count += len(z)
        while self._count - len(self._parts[0][2]) >= LAST:
            self._count -= len(self._parts.popleft()[2])

    def watching(self, told: Iterable[Round]) -> Iterator[Round]:
        """The same rounds, looked at as they pass."""
        for one in told:
            self.add(one.deployment, one.decisions["decisions"], one.data["samples"])
            yield one

    def different(self) -> int:
        """At how many different decisions they were observed."""
        return len(np.unique([x for _, x, _ in self._parts], axis=0)) if self._parts else 0

    def rows(self, memory: float | None) -> tuple[Floats, Floats, Floats]:
        """Decisions (n, d), samples (n, k) and their weights: with a `memory`, what is older than so many samples fades."""
        numbers, decisions, samples = zip(*self._parts, strict=True)
        sizes = [len(z) for z in samples]
        fading = np.ones(len(sizes))  # of all that came before a part
        count = 0.0
        for place, size in enumerate(sizes):
            if memory is not None and place and numbers[place] != numbers[place - 1]:
                fading[place] = min(1.0, memory / count)
            count = count * fading[place] + size
        weights = np.append(np.cumprod(fading[:0:-1])[::-1], 1.0)
        return np.repeat(decisions, sizes, axis=0), np.concatenate(samples), np.repeat(weights, sizes)


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
    different = recent.different()
    if not different:
        return None
    sure = different > method.problem.dimension
    if isinstance(method, SafePrimalDual) and method.structured:
        return Believed(method, state, sure)
    problem = method.problem
    free = Problem(problem.loss, problem.decisions, dimension=problem.dimension)
    observer = safe_apda(free, start=problem.decisions.project(jnp.asarray(state.decision)))
    fresh = observer.init(new_key(0))
    rows = recent.rows(forgets(method))
    return Believed(observer, changed(fresh, belief=_regressed(observer, fresh.belief.key, *rows)), sure)


def forgets(method: Any) -> float | None:
    """On how many samples the estimates of a method rest at most, if it forgets."""
    found = getattr(method, "memory", None)
    found = getattr(getattr(method, "estimator", None), "memory", None) if found is None else found
    return None if found is None else float(found)


def _regressed(observer: SafePrimalDual, key: Any, decisions: Floats, samples: Floats, weights: Floats) -> Regression:
    """Least squares of samples (n, k) on decisions (n, d). What was never varied keeps an effect of 0 and a huge error."""
    d, k, share = decisions.shape[1], samples.shape[1], (weights / weights.sum())[:, None]
    center, mean = (share * decisions).sum(axis=0), (share * samples).sum(axis=0)
    x, z, count = decisions - center, samples - mean, 1.0 / float(np.sum(share**2))
    scatter = (share * x).T @ x
    ridge = 1e-9 * max(float(np.trace(scatter)) / d, 1e-9 * max(1.0, float(np.max(decisions**2))))
    inverse = np.linalg.inv(scatter + ridge * np.eye(d))
    effect = (share * z).T @ x @ inverse
    left = z - x @ effect.T
    kept = None
    if not observer.is_quadratic(k):
        rows = np.concatenate([decisions, samples], axis=1)[-max(1, min(observer.reservoir, int(count))) :]
        kept = np.resize(rows, (observer.reservoir, d + k))
    belief = Regression(
        effect=effect,
        count=np.float64(count),
        decision=center,
        data=mean,
        inverse=inverse @ ((share * x).T @ (share * x)) @ inverse,
        scatter=count * (share * left).T @ left,
        kept=kept,
        lean=np.zeros((k, 0)),
        lean_inverse=np.zeros((0, 0)),
        key=key,
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
