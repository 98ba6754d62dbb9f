"""The stable point: the decision that is best on the very data it induces."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from performative.environments.protocol import Environment, check_solution
from performative.errors import SolverFailed
from performative.numerics import polynomial
from performative.numerics.arrays import Floats, as_field
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import changed
from performative.problem import Problem
from performative.solvers.convexity import usual_slope
from performative.solvers.derivatives import Derivatives, frozen_model_of, normalized
from performative.solvers.fixed_point import fixed_point, repeated
from performative.solvers.kkt import Solution
from performative.solvers.minimum import feasible_towards
from performative.truth.accuracy import with_error
from performative.truth.risk import TrueRisk, true_risk
from performative.validation import whole

DISTINCT = 1e-5
"""Stable points closer than this, relative to max(1, ‖θ‖), are one."""


@in_float64
def stable_point(
    problem: Problem, environment: Environment, start: ArrayLike | None = None, starts: int = 1
) -> Solution:
    """θ_PS, which minimizes the risk on the very data it induces: θ_PS = argmin_θ E_{Z∼D(θ_PS)} ℓ(θ; Z), g(θ) ≤ 0.

    Computed by repeated risk minimization with Anderson acceleration, and with shorter steps if necessary, so that it also
    works where plain repetition circles or diverges. `risk` is PR(θ_PS). Where the risk on frozen data is not convex, its
    minimizer is searched from nine starts; `message` says whether the decision is that minimizer or only a KKT point.

    A limit on what a decision causes, such as `constraints.Expected`, must hold there, too, but its gradient leaves out the
    reaction, like that of the loss: E_{Z∼D(θ_PS)} ∇h(θ_PS; Z).

    There may be several stable points. With `starts` = n they are searched for from n decisions all over Θ: the solution is
    the one of least risk, its `others` are the rest, and `message` says how many there are. `sensitivity` is εβ/γ where it is
    known, namely for a loss quadratic in θ and z together on a location family: ε = ‖A‖, β = ‖∂²ℓ/∂θ∂z‖, and γ is the
    strong convexity of ℓ in θ. Below 1 there is exactly one stable point (Perdomo et al. 2020).

    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> loss = lambda theta, z: 0.5 * jnp.sum((theta - z) ** 2)
    >>> problem = pf.Problem(loss, pf.Ball(10.0), dimension=1)
    >>> world = pf.LocationFamily(pf.Gaussian([1.0], [0.25]), effect=[[0.5]])
    >>> stable = pf.stable_point(problem, world)
    >>> stable.decision.round(6).tolist(), float(stable.sensitivity)  # θ = 1 + θ/2
    ([2.0], 0.5)
    """
    count = whole("starts", starts, 1)
    risk = true_risk(problem, environment)
    try:
        found = [fixed_point(risk.problem, risk, start)]
    except SolverFailed as error:
        if not problem.caused:
            raise
        raise SolverFailed(
            f"no stable point was found ({error}). On frozen data a decision answers for {list(problem.caused_names)} as far "
            "as h depends on it, not for the reaction: if h depends on the data alone, data that break a limit break it for "
            "every decision"
        ) from error
    check_solution(environment, risk.problem, np.asarray(found[0].decision))
    for theta in _further_starts(risk, np.asarray(found[0].decision), count - 1):
        try:
            other = fixed_point(risk.problem, risk, theta)
            check_solution(environment, risk.problem, np.asarray(other.decision))
        except (SolverFailed, ValueError):
            continue  # a start that leads nowhere says nothing about the others
        if all(_apart(one, other) for one in found):
            found.append(other)
    ratio = _sensitivity(risk)
    found.sort(key=lambda one: float(one.risk))
    first, *rest = (changed(one, sensitivity=as_field(np.float64(ratio))) for one in found)
    first = changed(first, others=tuple(rest), message=first.message + _uniqueness(ratio, count, len(found)))
    return with_error(first, risk, _again)


def _uniqueness(ratio: float, starts: int, found: int) -> str:
    """What is known about further stable points."""
    if found > 1:
        return f"; not unique: {found} stable points were found from {starts} starts"
    if ratio < 1:
        return f"; the only stable point, since εβ/γ = {ratio:.6g} < 1"
    return f"; the only stable point found from {starts} starts" if starts > 1 else "; there may be other stable points"


def _further_starts(risk: TrueRisk, theta: Floats, count: int) -> list[Floats]:
    """Feasible decisions all over Θ."""
    if not count:
        return []
    points = risk.problem.decisions.spread(risk.problem.d, 4 * count)[1::4]
    return [feasible_towards(risk.problem, theta, point) for point in points]


def _apart(one: Solution, other: Solution) -> bool:
    length = max(1.0, float(np.linalg.norm(one.decision)))
    return float(np.linalg.norm(np.asarray(one.decision) - np.asarray(other.decision))) > DISTINCT * length


def _again(risk: TrueRisk, theta: Floats) -> Floats:
    """The stable point by another quadrature, from θ."""
    scale = usual_slope(functools.partial(frozen_model_of, risk, jnp.asarray(theta)), risk.problem)

    def frozen(where: Floats) -> Derivatives:
        return normalized(functools.partial(frozen_model_of, risk, jnp.asarray(where)), risk.problem, scale)

    return repeated(frozen, risk.problem, theta, 40).decision


def _sensitivity(risk: TrueRisk) -> float:
    """εβ/γ of a loss that is quadratic in decision and data together, on a location family; NaN if unknown."""
    problem, world = risk.problem, risk.environment
    if getattr(world, "effect", None) is None or not hasattr(world, "shift"):
        return float("nan")
    theta, z = jnp.zeros(problem.dimension), jnp.zeros(world.width)
    if polynomial.joint_degree(problem.loss, theta, z) > 2:
        return float("nan")

    @jax.jit
    def slopes(theta: Array, z: Array) -> tuple[Array, ...]:
        reaction = jax.jacfwd(lambda theta: world.shift(jnp.asarray(world.effect), theta))(theta)  # type: ignore[attr-defined]
        return reaction, jax.jacfwd(jax.grad(problem.loss), argnums=1)(theta, z), jax.hessian(problem.loss)(theta, z)

    reaction, mixed, curvature = map(np.asarray, slopes(theta, z))
    epsilon, beta = np.linalg.norm(reaction, 2), np.linalg.norm(mixed, 2)
    gamma = float(np.linalg.eigvalsh(curvature)[0])
    return float(epsilon * beta / gamma) if gamma > 0 else float("nan")
