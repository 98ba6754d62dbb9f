"""Descent along the score-function gradient."""

from __future__ import annotations

from collections.abc import Callable

from jax import Array
from numpy.typing import ArrayLike

from performative.estimators import ScoreEstimate
from performative.exploration import Alone
from performative.methods.options import framework
from performative.methods.primal_dual import PrimalDual
from performative.numerics.pytrees import callable_node
from performative.numerics.tracers import jax_arrays
from performative.problem import Problem
from performative.steps import Step


def score_gradient(
    problem: Problem,
    *,
    log_density: Callable[[Array, Array], Array] | None,
    step: Step = 5e-3,
    control: Step = 1.0,
    start: ArrayLike | None = None,
    samples: int = 1,
) -> PrimalDual:
    """Descent along the score-function gradient (equation PR_grad), for those who know the density p(z; θ) in full.

    `log_density(z, theta)` is log p for one sample, in `jax.numpy`; see `estimators.ScoreEstimate`. Nothing is learned.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> problem = pf.Problem(Revenue(), pf.Box([0.0], [5.0]))
    >>> market = pf.ParametricFamily(pf.Normal(0.25), lambda price: 4.0 - price)
    >>> method = pf.score_gradient(problem, log_density=market.log_density)
    """
    if not callable(log_density):
        raise TypeError(
            f"`log_density` must be a function of (z, theta), since the density must be known, but got {log_density!r}"
        )
    estimator = ScoreEstimate(jax_arrays(callable_node(log_density)))
    return framework(problem, estimator, Alone(), step, control, start, samples)
