"""The optimum of a sampled risk: sample-average approximation, with derivatives where they are right and without otherwise."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from performative.errors import SolverFailed
from performative.numerics.arrays import Floats, as_field
from performative.numerics.pytrees import changed
from performative.problem import Problem
from performative.solvers.convexity import spread_of_points, usual_slope
from performative.solvers.derivatives import Model, model_of, normalized
from performative.solvers.feasibility import FEASIBLE, require_feasible
from performative.solvers.kkt import Error, Solution, kkt_residual
from performative.solvers.minimum import minimized, minimum
from performative.solvers.sequential import subproblem
from performative.truth.sampled import AverageRisk, SampledRisk

AGAIN = 8
"""How often the optimum is computed again with other draws; how far these lie apart says how far it may be off."""
STEP = 0.02
"""The step of finite differences, in units of the size of Θ; the search without derivatives ends a thousand times finer."""
AGREE = 0.1
"""How far derivatives may lie from differences, relative to their size there, or to a tenth of their largest size."""


class Sampled(NamedTuple):
    """A sampled risk with what a solver needs to know about it."""

    problem: Problem
    risk: SampledRisk | AverageRisk
    length: float


def sample_average_optimum(
    problem: Problem, risk: SampledRisk | AverageRisk, key: Array, start: ArrayLike | None = None, again: int = AGAIN
) -> Solution:
    """argmin of a sampled risk over θ ∈ Θ with g(θ) ≤ 0.

    Derivatives are used if they agree with differences; samples that jump with the decision (counts, choices) have none, nor
    has a `HostWorld`. Then COBYQA searches without them. `message` holds the standard error of the risk, and that of the decision
    from optima of other draws.
    """
    theta = require_feasible(problem, start)
    sampled = Sampled(problem, risk, _length(problem, theta))
    solve = _with_derivatives if _derivatives_hold(sampled, theta) else _without_derivatives
    try:
        solution = solve(sampled, theta)
    except SolverFailed:
        if solve is _without_derivatives:
            raise
        solve = _without_derivatives
        solution = solve(sampled, theta)
    others = []
    for number in range(again):
        other = jax.random.fold_in(key, number + 1)
        redrawn = sampled._replace(risk=_with_key(risk, other), problem=_limits_with_key(problem, other))
        others.append(_again(solve, redrawn, np.asarray(solution.decision)))
    spread = np.std(others, axis=0, ddof=1) if again else np.full(len(theta), np.nan)
    error = float(_standard_error(risk, solution.decision))
    count = _samples(risk)
    return changed(
        solution,
        local=True,
        error=Error(as_field(np.float64(np.linalg.norm(spread))), as_field(np.float64(error))),
        message=f"local: sample average over {count} draws, {'with' if solve is _with_derivatives else 'without'} derivatives; "
        f"standard errors: {error:.2g} of the risk, {', '.join(f'{part:.2g}' for part in spread)} of the decision",
    )


def _again(solve: Callable[[Sampled, Floats], Solution], sampled: Sampled, theta: Floats) -> Floats:
    """The optimum of other draws next to θ."""
    if solve is _without_derivatives:
        return np.asarray(solve(sampled, theta).decision)
    derivatives = functools.partial(model_of, sampled.risk)
    scaled = normalized(derivatives, sampled.problem, usual_slope(derivatives, sampled.problem))
    return minimized(scaled, sampled.problem, theta)[0].decision


def _limits_with_key(problem: Problem, key: Array) -> Problem:
    """The problem, limits on what a decision causes averaged over the draws of another key."""

    def redrawn(node: Any) -> Any:
        return changed(node, key=key) if isinstance(node, SampledRisk) else node

    is_drawn = lambda node: isinstance(node, SampledRisk)  # noqa: E731
    return changed(problem, constraints=jax.tree.map(redrawn, problem.constraints, is_leaf=is_drawn))


def _length(problem: Problem, theta: Floats) -> float:
    """The size of Θ: the median distance of points all over it from θ."""
    points = problem.decisions.spread(len(theta), 32)
    return float(np.median(np.linalg.norm(np.asarray(points) - theta, axis=-1))) or 1.0


def _derivatives_hold(sampled: Sampled, theta: Floats) -> bool:
    """Whether automatic derivatives agree with central differences at θ and at a few points all over Θ, most of them inside."""
    if getattr(_sampled(sampled.risk).environment, "runs_on_host", False):
        return False
    points = [theta, *spread_of_points(sampled.problem, theta, 2)]
    try:
        slopes = [np.asarray(_gradient(sampled.risk, jnp.asarray(point))) for point in points]
    except (
        TypeError,
        ValueError,
        NotImplementedError,
    ):  # the program has no derivative, as a call to the host has none
        return False
    differences = [_differences(sampled, point) for point in points]
    sizes = np.linalg.norm(differences, axis=-1)
    apart = np.linalg.norm(np.asarray(slopes) - np.asarray(differences), axis=-1)
    return bool(np.all(apart <= AGREE * (sizes + AGREE * np.max(sizes))))


def _differences(sampled: Sampled, theta: Floats) -> Floats:
    """The gradient by central differences along the axes, inside Θ where θ is."""
    step = STEP * sampled.length
    slopes = np.zeros(len(theta))
    for axis in range(len(theta)):
        ends = []
        for sign in (1.0, -1.0):
            moved = np.array(theta)
            moved[axis] += sign * step
            ends.append(np.asarray(sampled.problem.decisions.project(jnp.asarray(moved))))
        width = ends[0][axis] - ends[1][axis]
        if width <= 0:
            continue
        slopes[axis] = (_value(sampled.risk, ends[0]) - _value(sampled.risk, ends[1])) / width
    return slopes


def _with_derivatives(sampled: Sampled, theta: Floats) -> Solution:
    return minimum(sampled.problem, sampled.risk, theta)


def _without_derivatives(sampled: Sampled, theta: Floats) -> Solution:
    """COBYQA on θ ↦ PR(Π_Θ θ), so that any set will do, and multipliers from differences."""
    from scipy.optimize import NonlinearConstraint, minimize

    problem = sampled.problem

    def inside(point: Floats) -> Array:
        return problem.decisions.project(jnp.asarray(point))

    constraints = []
    if problem.constraint_names:
        constraints = [NonlinearConstraint(lambda point: np.asarray(problem.g(inside(point))), -np.inf, 0.0)]
    found = minimize(
        lambda point: _value(sampled.risk, inside(point)),
        theta,
        method="COBYQA",
        constraints=constraints,
        options={
            "initial_tr_radius": 0.3 * sampled.length,
            "final_tr_radius": 1e-3 * STEP * sampled.length,
            "maxfev": 200 * (len(theta) + 1),
        },
    )
    decision = np.asarray(inside(found.x))
    if np.max(np.asarray(problem.g(inside(found.x))), initial=0.0) > max(FEASIBLE, 1e-6 * sampled.length):
        raise SolverFailed("the search without derivatives found no feasible decision; pass a `start`")
    gradient = _differences(sampled, decision)
    slopes = [np.linalg.norm(_differences(sampled, point)) for point in problem.decisions.spread(len(theta), 4)]
    scale = max(float(np.median(slopes)), 1e-12)
    model = Model(np.asarray(found.fun), gradient / scale, np.eye(len(decision)))
    _, multipliers = subproblem(problem, decision, np.zeros(len(problem.constraint_names)), model)
    residual = kkt_residual(problem, decision, multipliers, gradient / scale)
    return Solution.of(decision, scale * multipliers, _value(sampled.risk, decision), residual, True, "")


def _value(risk: SampledRisk | AverageRisk, theta: Array | Floats) -> float:
    return float(_compiled_value(risk, jnp.asarray(theta)))


@jax.jit
def _compiled_value(risk: SampledRisk | AverageRisk, theta: Array) -> Array:
    return risk(theta)


@jax.jit
def _gradient(risk: SampledRisk | AverageRisk, theta: Array) -> Array:
    return jax.grad(risk)(theta)


def _sampled(risk: SampledRisk | AverageRisk) -> SampledRisk:
    inner = risk.risk if isinstance(risk, AverageRisk) else risk
    assert isinstance(inner, SampledRisk)
    return inner


def _samples(risk: SampledRisk | AverageRisk) -> int:
    return _sampled(risk).samples * (len(risk.rounds) if isinstance(risk, AverageRisk) else 1)


def _with_key(risk: SampledRisk | AverageRisk, key: Array) -> SampledRisk | AverageRisk:
    """The same risk with other draws."""
    inner = changed(_sampled(risk), key=key)
    return changed(risk, risk=inner) if isinstance(risk, AverageRisk) else inner


@jax.jit
def _standard_error(risk: SampledRisk | AverageRisk, theta: Array) -> Array:
    losses = risk.losses(theta)
    return jnp.std(losses, ddof=1) / jnp.sqrt(losses.shape[0])
