"""Least squares with a random design: some deployments around the start, then the optimum that a linear model predicts."""

from __future__ import annotations

from numpy.typing import ArrayLike

from performative.methods.predicted_optimum import PredictedOptimum, predicted_optimum
from performative.problem import Problem
from performative.shifts import Shift
from performative.validation import positive


def least_squares(
    problem: Problem,
    *,
    design: int | None = None,
    exploration: float = 0.3,
    start: ArrayLike | None = None,
    anchor: ArrayLike | None = None,
    samples: int = 1,
    shift: Shift | None = None,
    effect: ArrayLike | None = None,
    reservoir: int = 500,
) -> PredictedOptimum:
    """Deploy at random around the start, then what a linear model predicts to be best, refitted at every deployment.

    It is what a careful analyst would do, and explores no more once the design is over: a model that is wrong where it deploys
    may stay wrong. Assumes a location family. Everything it deploys is feasible, by a pull toward the anchor.

    Args:
        problem: what the decision-maker knows; its decision set must be bounded.
        design: how many random deployments follow the start; 2d by default.
        exploration: how far they go from it in each coordinate, as a share of sup‖θ‖/√d over Θ.
        start: the first decision, pulled back if it is not feasible; by default the anchor.
        anchor: a strictly feasible decision to pull toward; by default the one with the largest slack.
        samples: how many samples each deployment brings.
        shift: the bilinear shift(effect, θ) of a structured effect; by default effect @ θ.
        effect: Â₀, zero by default; needed with `shift`.
        reservoir: how many samples are kept where the loss is not quadratic in the data.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> problem = pf.Problem(Revenue(), pf.Box([0.0, 0.0], [5.0, 5.0]))
    >>> method = pf.least_squares(problem, start=[1.0, 1.0], samples=50)
    >>> int(method.design.count), float(method.design.reach)
    (4, 1.5)
    """
    return predicted_optimum(
        problem,
        start=start,
        anchor=anchor,
        samples=samples,
        shift=shift,
        effect=effect,
        reservoir=reservoir,
        design=design,
        exploration=positive("exploration", exploration),
    )
