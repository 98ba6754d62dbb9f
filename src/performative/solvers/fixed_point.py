"""The decision that minimizes the risk on the data it induces, found by repeated minimization."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from performative.errors import SolverFailed
from performative.numerics.arrays import Floats
from performative.numerics.pytrees import changed
from performative.problem import Problem
from performative.solvers.certificate import certified
from performative.solvers.convexity import not_convex, proof_of_convexity, spread_of_points, survey, usual_slope
from performative.solvers.derivatives import (
    DecoupledRisk,
    Derivatives,
    Model,
    frozen_models,
    gradient_size,
    normalized,
    projected,
)
from performative.solvers.feasibility import require_feasible
from performative.solvers.kkt import TOLERANCE, Point, Solution, kkt_residual
from performative.solvers.minimum import STARTS, best_of_starts, feasible_towards, minimized, smooth_start
from performative.solvers.natural_map import jump, zero_of_natural_map
from performative.solvers.subgradients import NEAR, stationarity
from performative.solvers.unbounded import require_bounded

REPETITIONS = 120
"""The most repetitions before Newton's method takes over."""
STALLED = 15
"""After this many repetitions without getting much closer to a stable point, steps become shorter."""


def fixed_point(problem: Problem, risk: DecoupledRisk, start: ArrayLike | None = None, near: bool = False) -> Solution:
    """θ* = argmin_θ risk(θ, θ*) over θ ∈ Θ with g(θ) ≤ 0; limits on what a decision causes are those on the data of θ*.

    Repeated minimization with Anderson acceleration, and with shorter steps if needed. If the risk on frozen data is not
    convex, its minimizer is searched for from nine starts; `message` says whether the decision is that minimizer or only a
    KKT point. With a start that is `near` θ*, Newton's method comes first, from there and, if that leads nowhere, from points all
    over Θ: repetition may circle for a minute.
    """
    models = frozen_models(risk)

    @functools.lru_cache(maxsize=64)  # the same few are asked for again and again
    def model(where: bytes, theta: bytes) -> Model:
        return models(np.frombuffer(where), np.frombuffer(theta))

    def frozen(where: Floats) -> Derivatives:
        held = np.asarray(where, np.float64).tobytes()
        return lambda theta: model(held, np.asarray(theta, np.float64).tobytes())

    theta = require_feasible(problem, start)
    theta = smooth_start(problem, frozen(theta), theta)
    try:
        return _fixed_point(problem, risk, frozen, theta, near)
    except SolverFailed:
        require_bounded(problem, frozen(theta), theta, "the risk on frozen data")
        raise


def _fixed_point(
    problem: Problem, risk: DecoupledRisk, frozen: Callable[[Floats], Derivatives], theta: Floats, near: bool
) -> Solution:
    def examine(where: Floats) -> tuple[bool, str | None, str]:
        """Whether the risk on frozen data is proved convex, why it is not convex, and a sentence about either."""
        held = problem.frozen(jnp.asarray(where))
        evidence = survey(frozen(where), held, where, lambda theta: risk(theta, jnp.asarray(where)))
        size, name = usual_slope(frozen(where), held), "the risk on frozen data"
        proof = proof_of_convexity(held, evidence, risk, name, True, size)
        if proof is not None:
            return True, None, f"global: {proof}"
        said = f"local: {name} is not proved convex, though it is at all of {len(evidence.points)} points"
        return False, not_convex(held, evidence, name, size), said

    def finished(point: Point, local: bool, message: str) -> Solution:
        derivatives, multipliers = frozen(point.decision), scale * point.multipliers
        held = problem.frozen(jnp.asarray(point.decision))
        return changed(certified(held, derivatives, point.decision, multipliers, local, message), stable=True)

    _, reason, _ = examine(theta)
    scale = usual_slope(frozen(theta), problem)
    attempts: list[tuple[float, Point, str]] = []

    def field(theta: Floats) -> Floats:
        return normalized(frozen(theta), problem, scale)(theta).gradient

    def all_over(theta: Floats) -> Iterator[Floats]:
        yield theta
        yield from spread_of_points(problem, theta, 1)

    def by_newton(starts: Iterable[Floats], accepted: float, best: Point | None = None) -> Point:
        """The best zero of the natural map reached from the starts, the first one that is good enough."""
        for start in starts:
            point = zero_of_natural_map(field, problem, feasible_towards(problem, theta, start), accepted)
            best = point if best is None or point.residual < best.residual else best
            if best.residual <= accepted:
                break
        assert best is not None
        return best

    for _ in range(8):
        at = functools.partial(repeated, lambda where: normalized(frozen(where), problem, scale), problem, theta)
        accepted = TOLERANCE * max(1.0, float(np.linalg.norm(field(theta))))
        point = by_newton(all_over(theta), accepted) if near else None
        if point is None or not point.residual <= accepted:
            near, point = False, at(REPETITIONS if reason is None else 40)
            accepted = TOLERANCE * max(1.0, float(np.linalg.norm(field(point.decision))))
        if reason is None and not point.residual <= accepted:
            point = by_newton(itertools.chain([point.decision], all_over(theta)), accepted, point)
        if reason is None and not point.residual <= accepted:
            _explain(field, normalized(frozen(point.decision), problem, scale), problem, point)
        proved, reason, said = examine(point.decision)
        if reason is None:
            return finished(point, not proved, said)
        scaled = normalized(frozen(point.decision), problem, scale)
        better, count = best_of_starts(scaled, problem.frozen(jnp.asarray(point.decision)), point.decision)
        gain = scale * float(scaled(point.decision).value - scaled(better.decision).value)
        least = f"the least risk on the same data of the KKT points reached from {count} of {STARTS + 1} starts"
        if gain <= 1e-9 * scale * max(1.0, abs(float(scaled(point.decision).value))):
            return finished(point, True, f"local: {reason}; the decision has {least}")
        again = any(np.allclose(theta, other.decision) for _, other, _ in attempts)
        attempts.append(
            (gain, point, f"local: {reason}; a KKT point, but on the same data {better.decision} has a risk lower by")
        )
        theta = better.decision
        if again:
            break
    gain, point, message = min(attempts, key=lambda item: (item[1].residual > TOLERANCE, item[0]))
    return finished(point, True, f"{message} {gain:.6g}")


def _explain(field: Callable[[Floats], Floats], risk: Derivatives, problem: Problem, point: Point) -> None:
    """Raise `SolverFailed` with the place where the data jump, if that is why no point is stable."""
    held = problem.frozen(jnp.asarray(point.decision))
    found = jump(field, point.decision, minimized(risk, held, point.decision)[0].decision)
    if found is not None:
        place, size = found
        raise SolverFailed(
            "a stable point need not exist, and none was found: the reaction to the decision is not continuous. At "
            f"{place} the gradient on frozen data jumps by {size:.3g} times its usual size, from one side of zero to the other"
        )


def repeated(risk: Callable[[Floats], Derivatives], problem: Problem, theta: Floats, most: int) -> Point:
    """The fixed point of θ ↦ argmin risk(θ), searched for from θ, or the best point on the way."""

    def residual(theta: Floats, lam: Floats, close: bool) -> float:
        if close:  # perhaps at a kink
            return stationarity(problem.frozen(jnp.asarray(theta)), risk(theta), theta, lam)
        return kkt_residual(problem.frozen(jnp.asarray(theta)), theta, lam, risk(theta)(theta).gradient)

    best = Point(theta, np.zeros(len(problem.constraint_names)), np.inf)
    inputs: list[Floats] = []
    outputs: list[Floats] = []
    stalled, weight = 0, 0.0
    for _ in range(most):
        minimizer, _ = minimized(_held(risk(theta), theta, weight), problem.frozen(jnp.asarray(theta)), theta)
        gap = float(np.linalg.norm(minimizer.decision - theta))
        before = best.residual
        for candidate in (theta, minimizer.decision):
            reached = residual(candidate, minimizer.multipliers, gap <= NEAR * max(1.0, float(np.linalg.norm(theta))))
            if reached < best.residual:
                best = Point(candidate, minimizer.multipliers, reached)
        stalled = 0 if best.residual < 0.5 * before else stalled + 1
        accepted = TOLERANCE * gradient_size(risk(best.decision), best.decision)
        if best.residual <= 1e-3 * accepted or (best.residual <= accepted and stalled > 3):
            break
        inputs, outputs = [*inputs[-8:], theta], [*outputs[-8:], minimizer.decision]
        theta = projected(problem, _anderson(inputs, outputs))
        if stalled == STALLED and gap > 0:
            change = risk(minimizer.decision)(minimizer.decision).gradient - risk(inputs[-1])(inputs[-1]).gradient
            weight = max(4.0 * weight, float(np.linalg.norm(change)) / gap)
            theta, stalled, inputs, outputs = best.decision, 0, [], []
    return best


def _held(risk: Derivatives, where: Floats, weight: float) -> Derivatives:
    """risk(θ) + ½·weight·‖θ − where‖²: minimized repeatedly, it has the same fixed points and shorter steps.

    The minimizers of a linear risk are corners of the set, and repetition would go from one to another forever.
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


def _anderson(inputs: list[Floats], outputs: list[Floats]) -> Floats:
    """The next input of the fixed-point iteration: the mixture of outputs whose residuals cancel best."""
    residuals = np.stack(outputs) - np.stack(inputs)
    if len(residuals) == 1:
        return outputs[-1]
    steps = np.diff(residuals, axis=0).T
    weights = np.linalg.lstsq(steps, residuals[-1], rcond=1e-12)[0]
    return np.asarray(outputs[-1] - np.diff(np.stack(outputs), axis=0).T @ weights)
