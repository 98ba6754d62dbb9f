"""The performative optimum, certified by its KKT residual."""

from __future__ import annotations

import jax.numpy as jnp
from numpy.typing import ArrayLike

from performative.environments.protocol import Environment, knows_risk
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import as_node
from performative.numerics.randomness import new_key
from performative.problem import Problem, with_dimension
from performative.solvers import certificate
from performative.solvers.kkt import Solution
from performative.solvers.minimum import minimum
from performative.truth.risk import require_samples, require_still, true_risk
from performative.truth.sample_average import sample_average_optimum
from performative.truth.sampled import SampledRisk
from performative.validation import whole


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

    For a world that only samples it is the optimum of the average loss over `samples` draws with `seed`, the same draws for every
    decision; `message` holds standard errors of the risk and of the decision.

    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> problem = pf.Problem(lambda price, demand: -jnp.sum(price * demand), pf.Box([0.0], [5.0]))
    >>> market = pf.LocationFamily(pf.Gaussian([4.0], [0.25]), effect=[[-1.0]])
    >>> best = pf.performative_optimum(problem, market)
    >>> best.decision.round(6).tolist(), round(float(best.risk), 6), best.local
    ([2.0], -4.0, False)
    """
    if not knows_risk(environment) and callable(getattr(environment, "sample", None)):
        require_still(environment)
        problem = with_dimension(problem, environment=environment)
        key = new_key(seed)
        require_samples(problem, environment, key)
        risk = SampledRisk(problem, as_node(environment), key, jnp.zeros(()), whole("samples", samples, 8))
        return sample_average_optimum(problem, risk, key, start)
    known = true_risk(problem, environment)
    return minimum(known.problem, known, start)


@in_float64
def certify(problem: Problem, environment: Environment, decision: ArrayLike, multipliers: ArrayLike) -> Solution:
    """A `Solution` from a decision and multipliers computed elsewhere, in closed form say, with its KKT residual."""
    risk = true_risk(problem, environment)
    return certificate.certify(risk.problem, risk, decision, multipliers)
