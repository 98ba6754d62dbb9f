"""The world as the log of a study shows it: its effect and risk, stable point and optimum, with standard errors.

It is least squares of the last samples on the decisions that brought them, whatever the method; where a method forgets, old data
fade here as well. A method's own estimates would do worse: those of Safe APDA start from a prior, and across a binding
constraint they keep part of it for a long time.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from performative.errors import SolverFailed
from performative.estimators.prediction import Learned, Prediction
from performative.estimators.regression import LeastSquares, Regression
from performative.estimators.standard_errors import Confidence, confidence
from performative.methods.protocol import Method, MethodState
from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import callable_node, pytree
from performative.past import Past
from performative.problem import Problem
from performative.shifts import apply_effect
from performative.solvers.derivatives import DecoupledRisk
from performative.solvers.kkt import Solution
from performative.study.history import Round

NORMAL = 1.959963984540054
"""Standard errors on each side of a 95% interval."""
RESERVOIR = 500
"""How many of the last samples a loss that is not quadratic in the data is averaged over."""
LAST = 2**14
"""How many samples the least squares rests on, at most."""


class Predicted(NamedTuple):
    """The predicted risk at a decision, and its 95% interval (None where the data do not suffice for one)."""

    decision: Floats
    risk: float
    low: float | None
    high: float | None


@runtime_checkable
class KnowsStructure(Protocol):
    """A method that may know the structure of the effect, which a log does not show."""

    def structure(self, state: Any) -> Learned | None:
        """What it has learned with that structure; None if the effect has none."""


class Recent:
    """The last samples of a log, each with the decision that brought it.

    `history` is what the method had before the study. Its rows count, unless they are means, which scatter less than samples.
    """

    def __init__(self, history: Past | None = None) -> None:
        self._parts: deque[tuple[int, Floats, Floats]] = deque()
        self._count = 0
        if history is not None and history.rows is not None:
            decisions, samples = map(np.asarray, history.rows)
            self.add(0, decisions, samples[:, None])

    def add(self, number: int, decisions: Floats, samples: Floats) -> None:
        """Add decisions (b, d) of round `number` and the samples (b, n, k) they brought."""
        for x, z in zip(decisions, samples[:, -LAST:], strict=True):
            self._parts.append((number, x, z))
            self._count += len(z)
        while self._count - len(self._parts[0][2]) >= LAST:
            self._count -= len(self._parts.popleft()[2])

    def watching(self, reported_rounds: Iterable[Round]) -> Iterator[Round]:
        """The same rounds, added as they pass."""
        for one in reported_rounds:
            self.add(one.asked.number, one.asked.decisions, one.observed.samples)
            yield one

    def distinct_decisions(self) -> int:
        """How many distinct decisions there are."""
        return len(np.unique([x for _, x, _ in self._parts], axis=0)) if self._parts else 0

    def rows(self, memory: float | None) -> tuple[Floats, Floats, Floats]:
        """Decisions (n, d), samples (n, k) and their weights; with a `memory`, data older than that many samples fade."""
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
    """The estimated world, a risk that can be minimized; `sure` says whether it has standard errors."""

    learner: LeastSquares
    prediction: Prediction
    regression: Regression
    ridge: Array | float
    sure: bool

    def __call__(self, theta: Array, where: Array | None = None) -> Array:
        """The average loss of θ over the data predicted at `where`, or at θ itself."""
        return self.prediction.risk(self.regression, self.regression.effect, theta, where)


@in_float64
def believed(method: Method, state: MethodState, recent: Recent) -> Believed | None:
    """The estimated world, once there are data. Standard errors take more distinct decisions than a decision has numbers.

    Only a method that learns a structured effect does better than least squares of the log: it knows the structure.
    """
    distinct = recent.distinct_decisions()
    if not distinct:
        return None
    sure = distinct > method.problem.d
    learned = method.structure(state) if isinstance(method, KnowsStructure) else None
    if learned is not None:
        return Believed(*learned, sure)
    learner = LeastSquares(callable_node(apply_effect), None, False, (), None, RESERVOIR, None)
    prediction = Prediction(method.problem.loss, learner.shift)
    decisions, samples, weights = recent.rows(memory_of(method))
    quadratic = prediction.pattern(samples.shape[1], decisions.shape[1]) is not None
    regression = Regression.of(decisions, samples, weights, None if quadratic else RESERVOIR)
    return Believed(learner, prediction, regression, 0.0, sure)


def memory_of(method: Method) -> float | None:
    """How many samples the estimates of a method rest on at most, if it forgets."""
    learner = getattr(method, "learner", None) or getattr(method, "estimator", None)
    memory = getattr(learner, "memory", None)
    return None if memory is None else float(memory)


@in_float64
def effect(world: Believed) -> tuple[Floats, Floats | None]:
    """The estimated effect, and its standard errors where it has any."""
    estimate = _confidence(world, world.regression.decision)
    if estimate is None:
        return np.asarray(world.regression.effect), None
    return estimate.effect, estimate.effect_error


@in_float64
def predicted(world: Believed, decision: ArrayLike) -> Predicted:
    """The risk at a decision, with a standard error by the delta method."""
    decision = np.asarray(decision)
    estimate = _confidence(world, decision)
    risk = float(_risks(world, decision[None])[0])
    if estimate is None or not math.isfinite(estimate.risk_error):
        return Predicted(decision, risk, None, None)
    return Predicted(decision, risk, risk - NORMAL * estimate.risk_error, risk + NORMAL * estimate.risk_error)


@in_float64
def solved(world: Believed, problem: Problem, solver: Callable[[Problem, DecoupledRisk], Solution]) -> Predicted | None:
    """The `minimum` or the `fixed_point` of the estimated risk, or None if the solver finds none."""
    try:
        decision = solver(problem, world).decision
    except (SolverFailed, ValueError, ArithmeticError):
        return None
    return predicted(world, decision)


@in_float64
def cost(world: Believed, deployed: Floats, decision: Floats) -> float:
    """The predicted risk of everything `deployed` (n, b, d) less that of θ_t (n, d) in its place, added up."""
    b = deployed.shape[1]
    there = np.asarray(_risks(world, deployed.reshape(-1, deployed.shape[2]))).reshape(-1, b)
    here = np.asarray(_risks(world, decision))[:, None]
    return float(np.nansum(there - here))


@jax.jit
def _risks(world: Believed, decisions: Array) -> Array:
    return jax.lax.map(world, decisions)


def _confidence(world: Believed, decision: ArrayLike) -> Confidence | None:
    if not world.sure:
        return None
    theta = jnp.asarray(decision)
    try:
        return confidence(world.learner, world.prediction, world.regression, theta, theta, world.ridge)
    except ValueError:  # too few samples
        return None
