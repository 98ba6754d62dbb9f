"""A bundle method for risks with kinks."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from performative.numerics.arrays import Floats
from performative.problem import Problem
from performative.solvers.conic import constraint_values, solve
from performative.solvers.derivatives import Model, projected
from performative.solvers.kkt import Point


def minimize_with_kinks(
    risk: Callable[[Floats], Model],
    problem: Problem,
    start: Floats,
    tolerance: float,
    most: int = 400,
    bend: float = 0.0,
) -> Point:
    """The minimizer of a risk that need not be smooth: a proximal bundle method (Kiwiel 1990).

    The model of the risk is the largest of its tangents. With weights α of the active tangents, the aggregate Σα_j g_j is an
    ε-subgradient at the center, where ε = Σα_j e_j sums their linearization errors; the residual is the largest of its
    distance from −λᵀ∇g − N_Θ, of ε, and of the violation. It tells when to stop, and certifies nothing. If the risk is not
    convex, e_j is at least `bend` ‖center − x_j‖², so that distant tangents count less, and the point is stationary.
    """
    import cvxpy as cp

    center, prox = start, 1.0
    model = risk(center)
    value, cuts = float(model.value), [(start, float(model.value), model.gradient)]
    best = Point(center, np.zeros(len(problem.constraint_names)), np.inf)
    for _ in range(most):
        x, level = cp.Variable(problem.d), cp.Variable()
        errors = np.array([value - f - g @ (center - at) for at, f, g in cuts])
        if bend:
            apart = np.array([float(np.sum((center - at) ** 2)) for at, _, _ in cuts])
            errors = np.maximum(np.abs(errors), bend * apart)
        tangents = np.stack([g for _, _, g in cuts]) @ (x - center) - errors <= level  # relative to the center's value
        limits = [values <= 0 for values in constraint_values(problem, center, x)]
        objective = level + cp.sum_squares(x - center) / (2 * prox)
        solve(cp.Problem(cp.Minimize(objective), [tangents, *limits, *problem.decisions.declare(x)]))
        candidate = projected(problem, x.value)
        lam = np.maximum(np.concatenate([np.atleast_1d(item.dual_value) for item in limits] or [np.zeros(0)]), 0.0)
        weights = np.maximum(np.atleast_1d(tangents.dual_value), 0.0)
        aggregate = float(weights @ errors)
        violation = float(np.max(np.asarray(problem.g(jnp.asarray(center))), initial=0.0))
        residual = max(float(np.linalg.norm(candidate - center)) / prox, aggregate, violation)
        if residual < best.residual:
            best = Point(center, lam, residual)
        if best.residual <= tolerance:
            break
        model = risk(candidate)
        expected = -float(level.value)
        cuts = [cut for cut, weight in zip(cuts, weights, strict=True) if weight > 1e-10][-60:]
        if not np.isfinite(model.value):
            prox *= 0.1
            continue
        cuts.append((candidate, float(model.value), model.gradient))
        if float(model.value) <= value - 0.1 * expected or violation > tolerance:
            center, value, prox = candidate, float(model.value), min(prox * 2.0, 1e6)
        elif expected > tolerance:
            prox = max(prox * 0.7, 1e-4)
    return best
