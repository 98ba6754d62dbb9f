"""Thompson sampling on the linear model (Thompson 1933; Agrawal, Goyal 2013): deploy the optimum of a model that is drawn."""

from __future__ import annotations

from numpy.typing import ArrayLike

from performative.methods.predicted_optimum import PredictedOptimum, predicted_optimum
from performative.problem import Problem
from performative.shifts import Shift
from performative.validation import positive


def thompson(
    problem: Problem,
    *,
    prior: float = 1.0,
    start: ArrayLike | None = None,
    anchor: ArrayLike | None = None,
    samples: int = 1,
    shift: Shift | None = None,
    effect: ArrayLike | None = None,
    reservoir: int = 500,
) -> PredictedOptimum:
    """Draw the linear model of the data from its posterior, deploy the optimum of the drawn problem, and so on.

    The model is Z = m + Aθ + noise, and its posterior that of `estimators.posterior`. It explores by being unsure: early draws
    differ widely, later ones agree. Neither a horizon nor a step is to be chosen. Assumes a location family. Everything it
    deploys is feasible, by a pull toward the anchor.

    Args:
        problem: what the decision-maker knows; its decision set must be bounded.
        prior: by how many standard deviations of the noise, before any data, a move by sup‖θ‖/√d in one coordinate may
            shift the data: the scale of the normal prior on the effect, whose ridge is (sup‖θ‖/√d/prior)².
        start: the first decision, pulled back if it is not feasible; by default the anchor.
        anchor: a strictly feasible decision to pull toward; by default the one with the largest slack.
        samples: how many samples each deployment brings.
        shift: the bilinear shift(effect, θ) of a structured effect; by default effect @ θ.
        effect: the mean of the prior, zero by default; needed with `shift`.
        reservoir: how many samples are kept where the loss is not quadratic in the data.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> problem = pf.Problem(Revenue(), pf.Box([0.0, 0.0], [5.0, 5.0]))
    >>> method = pf.thompson(problem, start=[1.0, 1.0], samples=50)
    >>> import jax
    >>> method.ask(method.init(jax.random.key(0)), jax.random.key(1)).tolist()
    [[1.0, 1.0]]
    """
    return predicted_optimum(
        problem,
        start=start,
        anchor=anchor,
        samples=samples,
        shift=shift,
        effect=effect,
        reservoir=reservoir,
        prior=positive("prior", prior),
    )
