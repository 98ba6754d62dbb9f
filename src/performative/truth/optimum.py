"""The performative optimum, certified by its KKT residual."""

from __future__ import annotations

import functools

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from performative.environments.answers import require_still
from performative.environments.protocol import Environment, check_solution, knows_risk
from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import as_node, changed
from performative.numerics.randomness import new_key
from performative.problem import Problem, with_dimension
from performative.purity import is_own
from performative.solvers.certificate import certified
from performative.solvers.convexity import usual_slope
from performative.solvers.derivatives import frozen_model_of, model_of, normalized
from performative.solvers.kkt import Solution
from performative.solvers.minimum import minimized, minimum
from performative.truth.accuracy import with_error
from performative.truth.induced import resolved
from performative.truth.risk import TrueRisk, require_samples, true_risk
from performative.truth.sample_average import sample_average_optimum
from performative.truth.sampled import SampledRisk
from performative.validation import finite_array, whole


@in_float64
def performative_optimum(
    problem: Problem,
    environment: Environment,
    start: ArrayLike | None = None,
    samples: int = 100_000,
    seed: int = 0,
) -> Solution:
    """θ_PO, the minimizer of PR(θ) over θ ∈ Θ with g(θ) ≤ 0.

    By exact convex programming where PR is quadratic, by sequential convex programming otherwise. If the problem turns out not
    to be convex, it is the best of the KKT points reached from nine starts.

    For a world that only samples, or one of your own under limits on what a decision causes, it is the optimum of the average
    loss over `samples` draws with `seed`, the same draws for every decision; `message` holds standard errors of the risk and of
    the decision.

    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> problem = pf.Problem(lambda price, demand: -jnp.sum(price * demand), pf.Box([0.0], [5.0]))
    >>> market = pf.LocationFamily(pf.Gaussian([4.0], [0.25]), effect=[[-1.0]])
    >>> best = pf.performative_optimum(problem, market)
    >>> best.decision.round(6).tolist(), round(float(best.risk), 6), best.local
    ([2.0], -4.0, False)
    """
    with_dimension(problem, required=False)
    averages = knows_risk(environment) and not (problem.caused and is_own(environment))
    if not averages and callable(getattr(environment, "sample", None)):
        require_still(environment)
        problem = with_dimension(problem, environment=environment)
        key = new_key(seed)
        require_samples(problem, environment, key)
        count = whole("samples", samples, 8)
        problem = resolved(problem, environment, key, count)
        sampled = SampledRisk(problem, as_node(environment), key, jnp.asarray(0), count)
        return sample_average_optimum(problem, sampled, key, start)
    risk = true_risk(problem, environment)
    solution = minimum(risk.problem, risk, start)
    check_solution(environment, risk.problem, np.asarray(solution.decision))

    def again(other: TrueRisk, theta: Floats) -> Floats:
        derivatives = functools.partial(model_of, other)
        scaled = normalized(derivatives, risk.problem, usual_slope(derivatives, risk.problem))
        return minimized(scaled, other.problem, theta)[0].decision

    return with_error(solution, risk, again)


@in_float64
def certify(
    problem: Problem, environment: Environment, solution: Solution | ArrayLike, multipliers: ArrayLike = ()
) -> Solution:
    """The KKT residual, computed anew, of a `Solution` or of a decision and multipliers found elsewhere, in closed form say.

    A `Solution` that is a stable point is certified as one, any other decision as an optimum. `SolverFailed` if the residual
    is too large.
    """
    risk = true_risk(problem, environment)
    local, message, stable = True, "local: certified as a KKT point", False
    place: ArrayLike
    if isinstance(solution, Solution):
        local, message, stable = solution.local, solution.message, solution.stable
        place, multipliers = solution.decision, solution.multipliers
    else:
        place = solution
    decision, multipliers = finite_array("decision", place, 1), finite_array("multipliers", multipliers, 1)
    if multipliers.shape != (len(risk.problem.constraint_names),):
        raise ValueError(
            f"`multipliers` must hold one number for each of {len(risk.problem.constraint_names)} constraints, but got shape "
            f"{multipliers.shape}"
        )
    derivatives = (
        functools.partial(frozen_model_of, risk, jnp.asarray(decision)) if stable else functools.partial(model_of, risk)
    )
    held = risk.problem.frozen(jnp.asarray(decision)) if stable else risk.problem
    found = certified(held, derivatives, decision, multipliers, local, message)
    return changed(found, stable=stable)
