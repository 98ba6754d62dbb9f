"""What quadrature may have cost a solution: how far a second rule with other nodes would move it."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from performative.environments.quadrature import is_exact
from performative.errors import QuadratureWarning, SolverFailed
from performative.numerics.arrays import Floats, as_field
from performative.numerics.pytrees import changed
from performative.solvers.convexity import usual_slope
from performative.solvers.derivatives import Model, constraint_curvature, frozen_model_of, model_of
from performative.solvers.kkt import Error, Solution
from performative.truth.risk import TrueRisk
from performative.validation import caller_level

MATTERS = 1e-4
"""Decisions that may be off by more than this, relative to max(1, ‖θ‖), are warned of."""
ALIKE = 1e-8
"""Up to this difference of the gradients of two rules, relative to their usual size, a linear estimate is enough."""


def with_error(solution: Solution, risk: TrueRisk, again: Callable[[TrueRisk, Floats], Floats]) -> Solution:
    """The solution with its `error`, and a `QuadratureWarning` where that matters.

    To first order another rule moves the decision by J⁻¹ times the difference of the gradients, with J their Jacobian. Where
    the gradients differ by more than rounding, `again(risk, θ)` solves with the other rule from θ.
    """
    if risk.exact:
        return solution
    theta, other = np.asarray(solution.decision), risk.twin()

    def model(risk: TrueRisk, theta: Floats) -> Model:
        return frozen_model_of(risk, jnp.asarray(theta), theta) if solution.stable else model_of(risk, theta)

    value, slope, jacobian = model(risk, theta)
    value_there, slope_there, _ = model(other, theta)
    if solution.stable:  # the data move as well
        step = 1e-6 * max(1.0, float(np.linalg.norm(theta)))
        columns = [(model(risk, theta + step * axis).gradient - slope) / step for axis in np.eye(len(theta))]
        jacobian = np.stack(columns, axis=1)
    risk_error = abs(float(value_there - value))
    apart = slope_there - slope
    at = jnp.asarray(theta)
    derivatives = functools.partial(frozen_model_of, risk, at) if solution.stable else functools.partial(model_of, risk)
    scale = usual_slope(derivatives, risk.problem)
    if np.linalg.norm(apart) <= ALIKE * scale and is_exact(risk.problem.constraints):
        curvature = jacobian + constraint_curvature(risk.problem, theta, np.asarray(solution.multipliers))
        decision_error = float(np.linalg.norm(np.linalg.pinv(curvature, rcond=1e-8) @ apart))
    else:
        try:
            moved = again(other, theta)
        except SolverFailed:
            moved = np.full_like(theta, np.nan)
        decision_error = float(np.nan_to_num(np.linalg.norm(moved - theta), nan=np.inf))
    if decision_error > MATTERS * max(1.0, float(np.linalg.norm(theta))):
        warnings.warn(
            f"the decision must not depend on the nodes of the quadrature, but may be off by about {decision_error:.1g} and "
            f"its risk by about {risk_error:.1g} (`Solution.error`): the loss has kinks that depend on several numbers at "
            "once, or is too steep on the scale of the base. An Empirical base of many samples is averaged exactly",
            QuadratureWarning,
            stacklevel=caller_level(),
        )
    return changed(solution, error=Error(as_field(np.float64(decision_error)), as_field(np.float64(risk_error))))
