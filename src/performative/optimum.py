"""The performative optimum and the stable point, certified by their KKT residual."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative import convex, polynomial
from performative.convex import Model, Point, SolverFailed
from performative.precision import in_float64
from performative.problem import Problem
from performative.pytrees import pytree
from performative.risk import knows_risk
from performative.validation import Floats, finite_array

TOLERANCE = 1e-7
"""The KKT residual, relative to the gradient's usual size, up to which an answer is accepted."""
STARTS = 8
"""From how many more points a problem that is not convex is solved."""
STALLED = 15
"""After how many repetitions without getting much closer to a stable point steps are made shorter."""
FEASIBLE = 1e-8
"""How large max g may be at its smallest for a problem to count as feasible."""


class InfeasibleProblem(ValueError):
    """No decision in Θ meets all constraints; `violation` is the smallest max_i g_i, `conflicting` who insists on it."""

    def __init__(self, violation: float, conflicting: dict[str, float]) -> None:
        self.violation = violation
        self.conflicting = conflicting
        names = ", ".join(conflicting)
        super().__init__(
            "a decision in the set with g(θ) <= 0 must exist, but the smallest max g(θ) that was found is "
            f"{violation:.6g}; in conflict (with each other or with the decision set): {names}"
        )


@pytree("local", "message")
class Solution:
    """A KKT point: the decision θ, the multipliers λ of the constraints, its performative risk, and the certificate.

    `kkt_residual` is the largest of ‖θ − Π_Θ(θ − (∇ + λᵀ∇g)/s)‖, max g⁺ and max |λ g|/s, where s is the usual size of the
    gradient on Θ, so that the unit of the loss does not matter. `local` says that the problem is not convex, so that there
    may be better decisions elsewhere; `message` says how that was found out.
    """

    decision: Any
    multipliers: Any
    risk: Any
    kkt_residual: Any
    local: Any
    message: Any


@in_float64
def performative_optimum(problem: Problem, environment: Any, start: Any = None) -> Solution:
    """θ_PO, the minimiser of PR(θ) over θ ∈ Θ with g(θ) ≤ 0.

    Exact convex programming where PR is quadratic, sequential convex programming otherwise. For any location family. Where
    the problem is found not to be convex, the best of the KKT points that are reached from nine starts.
    """
    problem = _resolved(problem, environment)
    derivatives = functools.partial(_model, problem, environment)
    theta = _smooth_start(problem, derivatives, require_feasible(problem, start))
    survey = _survey(derivatives, problem, theta, _risk_of(problem, environment))
    risk = _normalised(derivatives, problem, survey.scale)
    reason = _not_convex(problem, survey, "the performative risk")
    message = f"global: the performative risk is convex ({survey.extent})"
    if reason is None:
        point, hessians = _minimised(risk, problem, theta)
        reason = _bent_downwards("the performative risk", [survey.scale * h for h in hessians], survey.scale)
    if reason is not None:
        point, count = _best_of_starts(risk, problem, theta)
        message = f"local: {reason}; the best of the KKT points that {count} of {STARTS + 1} starts led to"
    return _certified(problem, environment, point, survey.scale, reason is not None, message)


@in_float64
def stable_point(problem: Problem, environment: Any, start: Any = None) -> Solution:
    """θ_PS, which minimises the risk on the very data it induces: θ_PS = argmin_θ E_{Z∼D(θ_PS)} ℓ(θ; Z), g(θ) ≤ 0.

    Found by repeated risk minimisation with Anderson acceleration, and with shorter steps if need be, so that it is also
    found where plain repetition circles or diverges. `risk` is PR(θ_PS). Where the risk on frozen data is not convex, its
    minimiser is looked for from nine starts; `message` says whether the decision is that minimiser or a KKT point only.
    """
    problem = _resolved(problem, environment)

    def frozen(where: Floats) -> Callable[[Floats], Model]:
        return functools.partial(_frozen_model, problem, environment, jnp.asarray(where))

    theta = require_feasible(problem, start)
    theta = _smooth_start(problem, frozen(theta), theta)

    def look(where: Floats) -> tuple[Survey, str | None]:
        survey = _survey(frozen(where), problem, where, _risk_of(problem, environment, where))
        return survey, _not_convex(problem, survey, "the risk on frozen data")

    survey, reason = look(theta)
    scale = survey.scale
    tried: list[tuple[float, Point, str]] = []
    for _ in range(8):
        at = functools.partial(_repeated, lambda where: _normalised(frozen(where), problem, scale), problem, theta)
        point = at(200 if reason is None else 40)
        survey, reason = look(point.decision)
        if reason is None:
            message = f"global: the risk on frozen data is convex ({survey.extent})"
            return _certified(problem, environment, point, scale, False, message)
        risk = _normalised(frozen(point.decision), problem, scale)
        better, count = _best_of_starts(risk, problem, point.decision)
        gain = scale * float(risk(point.decision).value - risk(better.decision).value)
        searched = f"the least risk on the same data of the KKT points that {count} of {STARTS + 1} starts led to"
        if gain <= 1e-9 * scale * max(1.0, abs(float(risk(point.decision).value))):
            return _certified(problem, environment, point, scale, True, f"local: {reason}; the decision has {searched}")
        seen = any(np.allclose(theta, other.decision) for _, other, _ in tried)
        tried.append(
            (gain, point, f"local: {reason}; a KKT point, but on the same data {better.decision} has a risk lower by")
        )
        theta = better.decision
        if seen:
            break
    gain, point, message = min(tried, key=lambda item: (item[1].residual > TOLERANCE, item[0]))
    return _certified(problem, environment, point, scale, True, f"{message} {gain:.6g}")


@in_float64
def certify(problem: Problem, environment: Any, decision: Any, multipliers: Any) -> Solution:
    """A `Solution` from a decision and multipliers found elsewhere, in closed form say, with its KKT residual."""
    problem = _resolved(problem, environment)
    decision, multipliers = finite_array("decision", decision, 1), finite_array("multipliers", multipliers, 1)
    derivatives = functools.partial(_model, problem, environment)
    scale = _survey(derivatives, problem, decision, _risk_of(problem, environment)).scale
    gradient = _normalised(derivatives, problem, scale)(decision).gradient
    residual = convex.kkt_residual(problem, decision, multipliers / scale, gradient)
    return _certified(problem, environment, Point(decision, multipliers / scale, residual), scale, False, "certified")


def require_feasible(problem: Problem, candidate: Any = None) -> Floats:
    """A decision in Θ with g ≤ 0 (the candidate or the projection of 0 if they will do), or `InfeasibleProblem`."""
    first = np.zeros(problem.dimension) if candidate is None else finite_array("start", candidate, 1)
    if first.shape != (problem.dimension,):
        raise ValueError(f"`start` must have shape ({problem.dimension},), but got {first.shape}")
    if candidate is not None and not problem.decisions.contains(first):
        raise ValueError(f"`start` must lie in the decision set {problem.decisions}, but got {first}")
    theta = _projected(problem, first)
    g = _g(problem, theta)
    for name, value in zip(problem.constraint_names, g, strict=True):
        if not np.isfinite(value):
            raise ValueError(
                f"constraint {name} must be finite on the decision set, but is {value} at {theta}; give a start"
            )
    if np.max(g, initial=-np.inf) <= 0:
        return theta
    theta, slack, blocking = _largest_slack(problem)
    if slack < -FEASIBLE:
        raise InfeasibleProblem(-slack, blocking)
    return theta


@in_float64
def _projected(problem: Problem, point: Floats) -> Floats:
    return np.asarray(problem.decisions.project(jnp.asarray(point)))


@in_float64
def _g(problem: Problem, theta: Floats) -> Floats:
    return np.asarray(_jitted_g(problem, theta))


@jax.jit
def _jitted_g(problem: Problem, theta: Array) -> Array:
    return problem.g(theta)


_largest_slack = in_float64(convex.largest_slack)


def _resolved(problem: Problem, environment: Any) -> Problem:
    if not isinstance(problem, Problem):
        raise TypeError(f"`problem` must be a performative.Problem, but got {problem!r}")
    if not knows_risk(environment):
        raise TypeError(
            "the optimum needs an environment whose truth is known, such as performative.LocationFamily, "
            f"but got {type(environment).__name__}"
        )
    told = getattr(environment, "dimension", None)
    if told is not None:
        problem = problem.of_dimension(told)
    if problem.dimension is None:
        raise ValueError("the problem's dimension must be known; give Problem(..., dimension=d)")
    environment.check(problem)
    return problem


class Survey(NamedTuple):
    """A risk at points all over Θ, before it is minimised."""

    points: Floats
    models: list[Model]
    quadratic: bool

    @property
    def scale(self) -> float:
        """The usual size of the gradient: a quarter of the points has a smaller one, flat stretches left out."""
        sizes = np.array([np.linalg.norm(model.gradient) for model in self.models])
        rounding = 1e-15 * np.array([abs(float(model.value)) for model in self.models])
        steep = sizes > rounding
        return float(np.quantile(sizes[steep], 0.25)) if np.any(steep) else float(np.max(rounding)) or 1.0

    @property
    def extent(self) -> str:
        """How much was looked at."""
        if self.quadratic:
            return "everywhere, since it is quadratic"
        return f"and so are the constraints, as far as {len(self.points)} points and the chords between them show"


def _survey(
    derivatives: Callable[[Floats], Model], problem: Problem, theta: Floats, risk: Callable[[Any], Any]
) -> Survey:
    first = convex.smoothed(derivatives, problem, theta)
    convex.require_finite(first, theta)
    points = [theta, *_spread(problem, theta)]
    if polynomial.degree(risk, np.zeros(problem.dimension)) <= 2:
        moves = np.stack(points) - theta
        gradients = first.gradient + moves @ first.hessian
        values = first.value + 0.5 * np.sum(moves * (first.gradient + gradients), axis=1)
        return Survey(
            np.stack(points), [Model(v, g, first.hessian) for v, g in zip(values, gradients, strict=True)], True
        )
    models = [first, *(derivatives(point) for point in points[1:])]
    finite = [all(np.all(np.isfinite(part)) for part in model) for model in models]
    kept = [model for model, good in zip(models, finite, strict=True) if good]
    return Survey(np.stack(points)[finite], kept, False)


def _spread(problem: Problem, theta: Floats, pairs: int = 4) -> list[Floats]:
    """Points of Θ, always the same: first as far as Θ goes, then around θ; inside and on the boundary."""
    random = np.random.default_rng(0)
    radius = problem.decisions.radius
    near = min(radius, 10.0) / np.sqrt(problem.dimension)
    reach = (np.zeros_like(theta), 4 * radius) if np.isfinite(radius) else (theta, 10 * near)
    points = []
    for center, length in (reach, (theta, near)):
        moves = length * random.normal(size=(pairs, problem.dimension))
        drawn = [_projected(problem, center + sign * move) for move in moves for sign in (1, -1)]
        weights = random.uniform(size=2 * pairs)
        mixed = [w * one + (1 - w) * other for w, one, other in zip(weights, drawn, drawn[1:] + drawn[:1], strict=True)]
        points += [*mixed, *drawn[:pairs]]
    return points


def _normalised(derivatives: Callable[[Floats], Model], problem: Problem, scale: float) -> Callable[[Floats], Model]:
    def risk(theta: Floats) -> Model:
        return Model(*(part / scale for part in convex.smoothed(derivatives, problem, theta)))

    return risk


def _minimised(
    risk: Callable[[Floats], Model], problem: Problem, theta: Floats, bend: float = 0.0
) -> tuple[Point, list[Floats]]:
    """A KKT point, and the Hessians met on the way; points that curve downwards are left."""
    hessians: list[Floats] = []
    for _ in range(10):
        accepted = TOLERANCE * _size(risk, theta)
        point, met = convex.minimise(risk, problem, theta, accepted)
        hessians += met
        lower = convex.below(risk, problem, point)
        if lower is None:
            break
        theta = lower
    if not point.residual <= accepted:
        most = 100 if bend else 400
        kinked = convex.minimise_with_kinks(risk, problem, point.decision, 0.1 * accepted, most, bend)
        point = kinked if kinked.residual < point.residual else point
    return point, hessians


def _best_of_starts(risk: Callable[[Floats], Model], problem: Problem, theta: Floats) -> tuple[Point, int]:
    """The best of the KKT points that are reached from θ and from other starts, and how many there are."""
    found: list[tuple[bool, float, Point]] = []
    failure: Exception = SolverFailed("no start led to a KKT point")
    for start in [theta, *_starts(risk, problem, theta)]:
        try:
            point, _ = _minimised(risk, problem, start, bend=1.0)
        except (SolverFailed, ValueError) as error:
            failure = error
            continue
        bad = not point.residual <= TOLERANCE * _size(risk, point.decision)
        found.append((bad, point.residual if bad else float(risk(point.decision).value), point))
    if not found:
        raise failure
    best = found[0]
    for other in found[1:]:  # the first of those that are as good
        if other[0] < best[0] or (other[0] == best[0] and other[1] < best[1] - 1e-9 * max(1.0, abs(best[1]))):
            best = other
    return best[2], sum(not bad for bad, _, _ in found)


def _starts(risk: Callable[[Floats], Model], problem: Problem, theta: Floats) -> list[Floats]:
    """The points with the least risk among feasible ones all over Θ that are not close to one another."""
    points = [_feasible(problem, theta, point) for point in _spread(problem, theta, 32)]
    close = 0.25 * np.median([np.linalg.norm(point - theta) for point in points])
    chosen: list[Floats] = []
    for index in np.argsort([float(risk(point).value) for point in points], kind="stable"):
        if len(chosen) < STARTS and all(np.linalg.norm(points[index] - other) >= close for other in chosen):
            chosen.append(points[index])
    return chosen


def _feasible(problem: Problem, theta: Floats, point: Floats) -> Floats:
    """The point, or the first on the way from it to the feasible θ that meets the constraints."""
    for halving in range(6):
        there = theta + 0.5**halving * (point - theta)
        if np.max(_g(problem, there), initial=-np.inf) <= 0:
            return there
    return theta


def _smooth_start(problem: Problem, derivatives: Callable[[Floats], Model], theta: Floats) -> Floats:
    """θ, or a feasible point close to it where derivatives are not finite at θ itself (a norm at 0)."""
    for length in (0.0, 1e-2, 1e-3, 1e-4):
        moved = convex.nudged(problem, theta, length) if length else theta
        parts = [*derivatives(moved), *convex.constraints(problem, moved)]
        if all(np.all(np.isfinite(part)) for part in parts) and np.max(parts[3], initial=-np.inf) <= FEASIBLE:
            return moved
    return theta


def _size(risk: Callable[[Floats], Model], theta: Floats) -> float:
    return max(1.0, float(np.linalg.norm(risk(theta).gradient)))


def _repeated(risk: Callable[[Floats], Callable[[Floats], Model]], problem: Problem, theta: Floats, most: int) -> Point:
    """The fixed point of θ ↦ argmin risk(θ), looked for from θ, or the best that was met."""

    def residual(theta: Floats, lam: Floats) -> float:
        return convex.kkt_residual(problem, theta, lam, risk(theta)(theta).gradient)

    best = Point(theta, np.zeros(len(problem.constraint_names)), np.inf)
    inputs: list[Floats] = []
    outputs: list[Floats] = []
    stalled, weight = 0, 0.0
    for _ in range(most):
        found, _ = _minimised(_held(risk(theta), theta, weight), problem, theta)
        gap = float(np.linalg.norm(found.decision - theta))
        before = best.residual
        for candidate in (theta, found.decision):
            reached = residual(candidate, found.multipliers)
            if weight == 0.0:
                reached = min(reached, max(found.residual, gap))
            if reached < best.residual:
                best = Point(candidate, found.multipliers, reached)
        stalled = 0 if best.residual < 0.5 * before else stalled + 1
        accepted = TOLERANCE * _size(risk(best.decision), best.decision)
        if best.residual <= 1e-3 * accepted or (best.residual <= accepted and stalled > 3):
            break
        inputs, outputs = [*inputs[-8:], theta], [*outputs[-8:], found.decision]
        theta = np.asarray(problem.decisions.project(jnp.asarray(_anderson(inputs, outputs))))
        if stalled == STALLED and gap > 0:
            change = risk(found.decision)(found.decision).gradient - risk(inputs[-1])(inputs[-1]).gradient
            weight = max(4.0 * weight, float(np.linalg.norm(change)) / gap)
            theta, stalled, inputs, outputs = best.decision, 0, [], []
    return best


def _held(risk: Callable[[Floats], Model], where: Floats, weight: float) -> Callable[[Floats], Model]:
    """risk(θ) + ½·weight·‖θ − where‖²: minimised again and again it has the same fixed points, and steps that are shorter.

    Where risk is linear its minimisers are corners of the set, and repetition goes from one to another for ever.
    """

    def held(theta: Floats) -> Model:
        value, gradient, hessian = risk(theta)
        apart = theta - where
        return Model(
            value + 0.5 * weight * float(apart @ apart),
            gradient + weight * apart,
            hessian + weight * np.eye(len(theta)),
        )

    return held if weight else risk


def _certified(problem: Problem, environment: Any, point: Point, scale: float, local: bool, message: str) -> Solution:
    """The solution from a point of the problem whose risk is divided by `scale`."""
    risk = _normalised(functools.partial(_model, problem, environment), problem, scale)
    if not point.residual <= TOLERANCE * _size(risk, point.decision):
        raise SolverFailed(
            f"no KKT point was found: the best residual is {point.residual:.3g}, accepted is {TOLERANCE:.0e} relative"
        )
    value = _model(problem, environment, point.decision).value
    return Solution(
        point.decision, scale * point.multipliers, np.float64(value), np.float64(point.residual), local, message
    )


def _not_convex(problem: Problem, survey: Survey, name: str) -> str | None:
    """In what the problem is seen not to be convex: the risk or a constraint curves downwards or has such a kink."""
    hessians = [model.hessian for model in survey.models[: 1 if survey.quadratic else None]]
    reason = _bent_downwards(name, hessians, survey.scale)
    if reason is None and not survey.quadratic:
        values, gradients = (np.stack(part) for part in list(zip(*survey.models, strict=True))[:2])
        reason = _above_chord(name, survey.points, values, gradients)
    points = survey.points[:1] if polynomial.degree(problem.g, np.zeros(problem.dimension)) <= 2 else survey.points
    for index in np.flatnonzero(convex.undeclared(problem)):
        if reason is not None:
            break
        called, alone = f"constraint {problem.constraint_names[index]}", np.eye(len(problem.constraint_names))[index]
        reason = _bent_downwards(called, [convex.constraint_curvature(problem, point, alone) for point in points], 0.0)
        if reason is None and len(points) > 1:
            g, jacobians = (
                np.stack(part) for part in zip(*(convex.constraints(problem, p) for p in points), strict=True)
            )
            reason = _above_chord(called, points, g[:, index], jacobians[:, index])
    return reason


def _bent_downwards(name: str, hessians: list[Floats], scale: float) -> str | None:
    """Judged by the Hessians of a function whose gradient is of size `scale`."""
    lowest = min(float(np.linalg.eigvalsh((h + h.T) / 2)[0]) for h in hessians)
    if lowest < -1e-9 * max(float(np.max(np.abs(hessians))), 1e-3 * scale):
        return f"{name} is not convex, its Hessian has the eigenvalue {lowest:.6g}"
    return None


def _above_chord(name: str, points: Floats, values: Floats, gradients: Floats) -> str | None:
    """Judged by f(y) ≥ f(x) + ⟨∇f(x), y − x⟩ for all pairs of points, up to rounding."""
    finite = np.isfinite(values) & np.all(np.isfinite(gradients), axis=1)
    points, values, gradients = points[finite], values[finite], gradients[finite]
    along = gradients @ points.T - np.sum(gradients * points, axis=1)[:, None]
    gap = values[None, :] - values[:, None] - along
    allowed = 1e-10 * (np.abs(values)[None, :] + np.abs(values)[:, None] + np.abs(gradients) @ np.abs(points).T)
    if not np.any(gap < -allowed):
        return None
    x, y = np.unravel_index(np.argmin(gap / np.maximum(allowed, 1e-300)), gap.shape)
    return f"{name} is not convex, at {points[y]} it lies {-gap[x, y]:.6g} below its tangent at {points[x]}"


def _anderson(inputs: list[Floats], outputs: list[Floats]) -> Floats:
    """The next input of the fixed-point iteration: the mixture of outputs whose residuals cancel best."""
    residuals = np.stack(outputs) - np.stack(inputs)
    if len(residuals) == 1:
        return outputs[-1]
    steps = np.diff(residuals, axis=0).T
    weights = np.linalg.lstsq(steps, residuals[-1], rcond=1e-12)[0]
    return np.asarray(outputs[-1] - np.diff(np.stack(outputs), axis=0).T @ weights)


def _risk_of(problem: Problem, environment: Any, where: Floats | None = None) -> Callable[[Any], Any]:
    return lambda theta: environment.risk(problem)(theta, None if where is None else jnp.asarray(where))


def _model(problem: Problem, environment: Any, theta: Floats) -> Model:
    return Model(*(np.asarray(part) for part in _derivatives(problem, environment, theta)))


def _frozen_model(problem: Problem, environment: Any, where: Array, theta: Floats) -> Model:
    return Model(*(np.asarray(part) for part in _frozen_derivatives(problem, environment, where, theta)))


@jax.jit
def _derivatives(problem: Problem, environment: Any, theta: Array) -> tuple[Array, Array, Array]:
    risk = environment.risk(problem)
    return (*jax.value_and_grad(risk)(theta), jax.hessian(risk)(theta))


@jax.jit
def _frozen_derivatives(problem: Problem, environment: Any, where: Array, theta: Array) -> tuple[Array, Array, Array]:
    risk = environment.risk(problem)
    return (*jax.value_and_grad(risk)(theta, where), jax.hessian(risk)(theta, where))
