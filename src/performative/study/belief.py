"""The world as the log of a study shows it: its effect, and its risk now, at the stable point and at the optimum, with intervals.

The effect is least squares of the last samples on the decisions that brought them, whatever the method. Risks come from a world
that need not be linear (`estimators.curved`), fitted to the same deployments, so that intervals widen with what a line cannot
explain and with the distance from what was deployed. Where a method forgets, old data fade here as well. A method's own
estimates would do worse: those of Safe APDA start from a prior, and across a binding constraint they keep part of it for long.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from performative.errors import SolverFailed
from performative.estimators.curved import RESIDUALS, CurvedRisk, Deployed, fit
from performative.estimators.prediction import Learned, Prediction
from performative.estimators.regression import LeastSquares, Regression
from performative.estimators.standard_errors import Confidence, confidence, errors_of_line
from performative.methods.protocol import Method, MethodState
from performative.numerics.arrays import Floats, as_field
from performative.numerics.precision import in_float64
from performative.numerics.programs import Program
from performative.numerics.pytrees import callable_node, pytree
from performative.numerics.tails import beyond_f
from performative.past import Past
from performative.problem import Problem
from performative.sets import Box
from performative.shifts import apply_effect
from performative.solvers.kkt import Solution
from performative.solvers.minimum import minimum
from performative.study.least import least

NORMAL = 1.959963984540054
"""Standard errors on each side of a 95% interval."""
RESERVOIR = RESIDUALS
"""How many of the last samples a loss that is not quadratic in the data is averaged over."""
LAST = 2**14
"""How many samples the least squares rests on, at most."""
PROBES = 2**12
"""How many deployments are looked at to say what exploration has cost, at most."""
MOST_TIMES = 10.0
"""The most deployments that are asked for at once, in multiples of those that there are."""
EXTRAPOLATES = "extrapolates beyond what was deployed"


class Predicted(NamedTuple):
    """The predicted risk at a decision and its 95% interval, or None and the `reason` why there is none.

    A reason beside numbers says what they do not cover.
    """

    decision: Floats | None
    risk: float | None
    low: float | None
    high: float | None
    reason: str | None = None


class Gain(NamedTuple):
    """How much lower the risk is now than at the start, and its 95% interval, or None and the `reason` why there is none."""

    start: Floats
    gain: float | None
    low: float | None
    high: float | None
    reason: str | None = None


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
        self._first: tuple[int, Floats, Floats] | None = None
        if history is not None and history.rows is not None:
            decisions, samples = map(np.asarray, history.rows)
            self.add(0, decisions, samples[:, None])

    def add(self, number: int, decisions: Floats, samples: Floats) -> None:
        """Add decisions (b, d) of round `number` and the samples (b, n, k) they brought."""
        for x, z in zip(decisions, samples[:, -LAST:], strict=True):
            self._parts.append((number, x, z))
            self._count += len(z)
        while self._count - len(self._parts[0][2]) >= LAST:
            dropped = self._parts.popleft()
            self._count -= len(dropped[2])
            if dropped[0] > 0 and self._first is None:  # what the start brought is kept, to know the gain over it
                self._first = dropped

    def distinct_decisions(self) -> int:
        """How many distinct decisions there are."""
        return len(np.unique([x for _, x, _ in self._parts], axis=0)) if self._parts else 0

    def rows(self, memory: float | None) -> tuple[Floats, Floats, Floats]:
        """Decisions (n, d), samples (n, k) and their weights; with a `memory`, data older than that many samples fade."""
        numbers, decisions, samples = zip(*self._parts, strict=True)
        sizes = [len(z) for z in samples]
        weights = self._faded(numbers, sizes, memory)
        return np.repeat(decisions, sizes, axis=0), np.concatenate(samples), np.repeat(weights, sizes)

    def deployed(self, memory: float | None) -> Deployed:
        """The deployments, the first of the study among them; with a `memory`, old ones fade."""
        parts = [*([] if self._first is None else [self._first]), *self._parts]
        numbers, decisions, samples = zip(*parts, strict=True)
        sizes = [len(z) for z in samples]
        means = np.array([z.mean(axis=0) for z in samples])
        apart = np.concatenate(samples) - np.repeat(means, sizes, axis=0)
        rows = [np.concatenate([np.tile(x, (len(z), 1)), z], axis=1) for _, x, z in parts[-RESERVOIR:]]
        return Deployed(
            decisions=np.array(decisions),
            means=means,
            counts=np.array(sizes, np.float64),
            weights=self._faded(numbers, sizes, memory),
            scatter=apart.T @ apart,
            degrees=float(sum(sizes) - len(sizes)),
            rows=np.concatenate(rows)[-RESERVOIR:],
        )

    @staticmethod
    def _faded(numbers: Sequence[int], sizes: Sequence[int], memory: float | None) -> Floats:
        """The weight of each part: with a `memory`, what is older than that many samples fades."""
        fading = np.ones(len(sizes))  # of all that came before a part
        count = 0.0
        for place, size in enumerate(sizes):
            if memory is not None and place and numbers[place] != numbers[place - 1]:
                fading[place] = min(1.0, memory / count)
            count = count * fading[place] + size
        return np.append(np.cumprod(fading[:0:-1])[::-1], 1.0)


@pytree("early")
class Believed:
    """The estimated world, a risk that can be minimized.

    `curved` is the risk that intervals come from; None while it is too `early` for it, by so many deployments, and where the
    method knows the structure of the effect. `misfit` is by how much the means of deployments vary more around the line than
    the noise within deployments explains, at least 1. `reported` is the number of deployments.
    """

    learner: LeastSquares
    prediction: Prediction
    regression: Regression
    curved: CurvedRisk | None
    misfit: Array
    reported: Array
    early: int

    def __call__(self, theta: Array, where: Array | None = None) -> Array:
        """The average loss of θ over the data predicted at `where`, or at θ itself."""
        return self.prediction.risk(self.regression, self.regression.effect, theta, where)


@in_float64
def believed(method: Method, state: MethodState, recent: Recent) -> Believed | None:
    """The estimated world, once there are data. Standard errors take two more distinct decisions than a decision has numbers.

    Only a method that learns a structured effect does better than least squares of the log: it knows the structure.
    """
    distinct = recent.distinct_decisions()
    if not distinct:
        return None
    problem, d = method.problem, method.problem.d
    early, memory = max(0, d + 2 - distinct), memory_of(method)
    deployed = recent.deployed(memory)
    count = as_field(np.asarray(float(len(deployed.decisions))))
    learned = method.structure(state) if isinstance(method, KnowsStructure) else None
    if learned is not None:
        return Believed(*learned, None, as_field(np.asarray(_misfit(learned, deployed))), count, early)
    learner = LeastSquares(callable_node(apply_effect), None, None, None, None, (), RESERVOIR, None)
    prediction = Prediction(problem.loss, learner.shift)
    decisions, samples, weights = recent.rows(memory)
    quadratic = prediction.pattern(samples.shape[1], decisions.shape[1]) is not None
    regression = Regression.of(decisions, samples, weights, None if quadratic else RESERVOIR)
    misfit = _misfit(Learned(learner, prediction, regression), deployed)
    curved = None if early else CurvedRisk.of(problem.loss, fit(deployed, _ranges(problem)))
    return Believed(learner, prediction, regression, curved, as_field(np.asarray(misfit)), count, early)


def memory_of(method: Method) -> float | None:
    """How many samples the estimates of a method rest on at most, if it forgets."""
    learner = getattr(method, "learner", None) or getattr(method, "estimator", None)
    memory = getattr(learner, "memory", None)
    return None if memory is None else float(memory)


@in_float64
def effect(world: Believed) -> tuple[Floats, Floats | None]:
    """The estimated effect, and its standard errors where it has any."""
    regression, wider = world.regression, math.sqrt(float(world.misfit))
    if world.curved is not None and regression.degrees + regression.deployments > regression.decision.shape[0] + 2:
        line, errors = errors_of_line(regression)
        return line, errors * wider
    estimate = _confidence(world, regression.decision)
    if estimate is None:
        return np.asarray(regression.effect), None
    return estimate.effect, estimate.effect_error * wider


@in_float64
def predicted(world: Believed, decision: ArrayLike) -> Predicted:
    """The risk at a decision, with a standard error by the delta method."""
    decision = np.asarray(decision)
    if world.curved is None:
        return _without_curvature(world, decision)
    risk, error, size = (float(part) for part in _at(world.curved, decision))
    reason = _too_early(world, 2.0 * _quantile(world) * error, size)
    if reason is not None:
        return Predicted(decision, None, None, None, reason)
    low, high = (np.asarray(part) for part in world.curved.world.trusted())
    beyond = bool(np.any((decision < low) | (decision > high)))
    half = _quantile(world) * error
    return Predicted(decision, risk, risk - half, risk + half, EXTRAPOLATES if beyond else None)


@in_float64
def gain(world: Believed, decision: ArrayLike, start: ArrayLike) -> Gain:
    """How much lower the risk is at a decision than at the start."""
    decision, start = np.asarray(decision), np.asarray(start)
    if np.array_equal(decision, start):
        return Gain(start, 0.0, 0.0, 0.0)
    if world.curved is not None:
        value, error, size = (float(part) for part in _gap(world.curved, decision, start))
        half = _quantile(world) * error
        reason = _too_early(world, 2.0 * half, size)
    else:
        reason = _too_early(world, 0.0, 1.0)
        estimate = None if reason else _confidence(world, decision, start)
        if estimate is None:
            return Gain(start, None, None, None, reason or _more(1))
        value, half = estimate.gain, NORMAL * math.sqrt(float(world.misfit)) * estimate.gain_error
    if reason is not None:
        return Gain(start, None, None, None, reason)
    return Gain(start, value, value - half, value + half)


@in_float64
def optimum(
    world: Believed, problem: Problem, decision: Floats, start: Floats, last: Floats | None = None
) -> Predicted | None:
    """The least risk near what was deployed, with bounds on the least risk of all; None if none is found.

    The search begins at the `last` optimum, too.
    """
    if world.curved is None:
        return solved(world, problem, minimum, last)
    known = np.stack([decision, start, np.asarray(world.curved.world.center)])
    found = least(problem, world.curved, known, last)
    if found is None:
        return None
    size = float(_at(world.curved, found.decision)[2])
    reason = _too_early(world, found.high - found.low, size)
    if reason is not None:
        return Predicted(found.decision, None, None, None, reason)
    return Predicted(found.decision, found.risk, found.low, found.high, EXTRAPOLATES if found.edge else None)


@in_float64
def solved(
    world: Believed, problem: Problem, solver: Callable[..., Solution], last: Floats | None = None
) -> Predicted | None:
    """The `minimum` or the `fixed_point` of the estimated risk, from the `last` one if there is one; None if there is none."""
    if world.early:
        return Predicted(None, None, None, None, _more(world.early))
    for start in (last, None) if last is not None else (None,):
        try:
            return predicted(world, solver(problem, world, start).decision)
        except (SolverFailed, ValueError, ArithmeticError):
            continue
    return None


@in_float64
def cost(world: Believed, deployed: Floats, decision: Floats) -> float:
    """The predicted risk of everything `deployed` (n, b, d) less that of θ_t (n, d) in its place, added up.

    Of more than PROBES deployments away from θ_t, as many are looked at, spread evenly.
    """
    each = np.broadcast_to(decision[:, None], deployed.shape).reshape(-1, deployed.shape[2])
    deployed = deployed.reshape(each.shape)
    probes = np.flatnonzero(np.any(deployed != each, axis=1) & ~np.any(np.isnan(deployed), axis=1))
    if not len(probes):
        return 0.0
    some = probes[np.unique(np.linspace(0, len(probes) - 1, min(PROBES, len(probes))).astype(int))]
    risk = world.curved or world
    there, here = (_risks_of(risk, rows[some]) for rows in (deployed, each))
    return float(np.nansum(there - here)) * len(probes) / len(some)


def _risks_of(world: Believed | CurvedRisk, decisions: Floats) -> Floats:
    """The risks of decisions (n, d)."""
    return np.asarray(_risks(world, _padded(decisions)))[: len(decisions)]


def _padded(rows: Floats) -> Floats:
    """Rows (n, …) and the last of them again and again, so that few numbers of rows are compiled for."""
    return np.concatenate([rows, np.repeat(rows[-1:], 2 ** max(6, (len(rows) - 1).bit_length()) - len(rows), axis=0)])


@Program
def _risks(world: Believed | CurvedRisk, decisions: Array) -> Array:
    return jax.lax.map(world, decisions)


@Program
def _shifts(learner: LeastSquares, effect: Array, steps: Array) -> Array:
    """By how much the mean of the data shifts with steps (n, d)."""
    return jax.vmap(lambda step: learner.shift(effect, step))(steps)


@Program
def _at(risk: CurvedRisk, decision: Array) -> tuple[Array, Array, Array]:
    return risk(decision), risk.error(decision), risk.size(decision)


@Program
def _gap(risk: CurvedRisk, decision: Array, start: Array) -> tuple[Array, Array, Array]:
    return (*risk.gap(decision, start), jnp.maximum(risk.size(decision), risk.size(start)))


def _without_curvature(world: Believed, decision: Floats) -> Predicted:
    """The risk that a structured effect predicts."""
    reason = _too_early(world, 0.0, 1.0)
    estimate = None if reason else _confidence(world, decision)
    if estimate is None or not math.isfinite(estimate.risk_error):
        return Predicted(decision, None, None, None, reason or _more(1))
    risk = float(_risks_of(world, decision[None])[0])
    half = NORMAL * math.sqrt(float(world.misfit)) * estimate.risk_error
    return Predicted(decision, risk, risk - half, risk + half)


def _too_early(world: Believed, width: float, size: float) -> str | None:
    """Why there is no number yet: too few distinct decisions, or an interval wider than the loss is large.

    Intervals shrink like the root of the number of deployments, so that says how many more it takes.
    """
    if world.early:
        return _more(world.early)
    if width <= size:
        return None
    reported = float(world.reported)
    times = (width / size) ** 2 - 1.0 if size > 0 and math.isfinite(width) else math.inf
    return _more(max(1, math.ceil(reported * min(times, MOST_TIMES))))


def _more(deployments: int) -> str:
    return f"too early, {deployments} more deployment{'' if deployments == 1 else 's'}"


def _quantile(world: Believed) -> float:
    assert world.curved is not None
    return float(world.curved.world.quantile)


def _confidence(world: Believed, decision: ArrayLike, reference: ArrayLike | None = None) -> Confidence | None:
    if world.early:
        return None
    theta = jnp.asarray(decision)
    other = theta if reference is None else jnp.asarray(reference)
    try:
        return confidence(world.learner, world.prediction, world.regression, theta, other)
    except ValueError:  # too few samples
        return None


def _ranges(problem: Problem) -> Floats:
    """The width of Θ in each coordinate; infinite where it has none, and where Θ is not a box."""
    if not isinstance(problem.decisions, Box):
        return np.full(problem.d, np.inf)
    return np.broadcast_to(np.asarray(problem.decisions.upper) - np.asarray(problem.decisions.lower), (problem.d,))


def _misfit(learned: Learned, deployed: Deployed) -> float:
    """The variance of deployments' means around the line over that which the noise within deployments explains, or 1.

    It is 1 unless an F-test at 5% says that it is not.
    """
    learner, _, regression = learned
    (n, k), kept = deployed.means.shape, deployed.weights
    share = float(np.sum(kept**2) / kept.sum())  # of Σ w ε², each number explains so much on average
    freedom = float(kept.sum()) - share - share * (regression.effect.size / k)
    within = np.diag(deployed.scatter) / max(deployed.degrees, 1.0)
    if freedom < 1.0 or deployed.degrees < 1.0 or not np.any(within > 0):
        return 1.0
    steps = deployed.decisions - np.asarray(regression.decision)
    line = np.asarray(regression.data) + np.asarray(_shifts(learner, regression.effect, _padded(steps)))[:n]
    between = (kept * deployed.counts) @ (deployed.means - line) ** 2 / freedom
    ratio = float(np.mean(between[within > 0] / within[within > 0]))
    return ratio if beyond_f(freedom / share, deployed.degrees, ratio) < 0.05 else 1.0
