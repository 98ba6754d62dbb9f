"""Safe APDA: one deployment per round, all of them counted, none of them infeasible."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from performative.estimators.prediction import Prediction
from performative.estimators.regression import LeastSquares
from performative.fading import Fading
from performative.methods.options import memory_from, parts_of
from performative.methods.safe_primal_dual import SafePrimalDual
from performative.numerics.arrays import Floats, as_field
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import as_node, callable_node
from performative.past import Past, history_for
from performative.problem import Problem, with_dimension
from performative.safety import Pull, Safety
from performative.shifts import Shift, apply_effect, inverse_overlap, shift_tensor, unmoved
from performative.solvers.feasibility import require_inside, strictly_feasible
from performative.steps import CurvatureSteps
from performative.validation import whole


def safe_apda(
    problem: Problem,
    *,
    exploration: float = 1.0,
    start: ArrayLike | None = None,
    anchor: ArrayLike | None = None,
    safety: Safety | None = None,
    samples: int = 1,
    shift: Shift | None = None,
    effect: ArrayLike | None = None,
    history: Past | tuple[ArrayLike, ArrayLike] | None = None,
    reservoir: int = 500,
    forgetting: float = 1.0,
) -> SafePrimalDual:
    """APDA for those who pay for every deployment: one per round, all feasible, exploration that fades like t^(−1/4).

    It needs no warm-up, no horizon and no step sizes: all scales are learned. A problem without a strictly feasible decision
    is refused. If neither Θ nor the loss sets a scale (an unbounded set and a loss without curvature at the start), the first
    exploration has standard deviation 1.

    Args:
        problem: what the decision-maker knows.
        exploration: a factor on the noise that balances the cost of exploring against what it teaches.
        start: the first decision, pulled back if it is not feasible; by default the anchor.
        anchor: a strictly feasible decision to pull toward; by default the one with the largest slack, or one near the start
            where slack has no end.
        safety: `safety.Pull()`, the default, which runs inside the compiled loop, or `safety.Nearest()`, the Euclidean
            projection by cvxpy: closer, for live use.
        samples: how many samples each deployment brings.
        shift: the bilinear shift(effect, θ) of a structured effect; by default effect @ θ.
        effect: Â₀, zero by default; needed with `shift`.
        history: past deployments, a `performative.Past`, or decisions (N, d) and samples (N, k), one for each. Base samples
            have decision 0. The first decision is the start all the same.
        reservoir: how many deployments are kept where the loss is not quadratic in the data.
        forgetting: the weight that past data keep from round to round, for a world that drifts: with 0.99 estimates rest
            on about the last hundred rounds, and exploration stops fading after that many.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> problem = pf.Problem(Revenue(), pf.Box([0.0, 0.0], [5.0, 5.0]))
    >>> method = pf.safe_apda(problem, start=[1.0, 1.0], samples=50)
    >>> import jax
    >>> state = method.init(jax.random.key(0))
    >>> method.ask(state, jax.random.key(1)).shape, method.wanted(state)
    ((1, 2), 50)
    """
    problem, start, effect = parts_of(problem, start, shift, effect)
    problem = with_dimension(problem)
    if start is not None:
        start = require_inside("start", problem, start)
    safety = Pull() if safety is None else _checked_safety(safety)
    prepared = as_node(safety).prepared(problem, strictly_feasible(problem, anchor, start))
    samples, size = whole("samples", samples, 1), whole("reservoir", reservoir, 1)
    memory = memory_from(forgetting, samples)
    if memory is not None:  # a reservoir that holds more would never be full
        size = max(1, min(size, int(memory / 2)))
    learner = _learner(shift, effect, problem.d, size, memory)
    widest = float(problem.decisions.radius) / (2 * math.sqrt(problem.d))
    return SafePrimalDual(
        problem=problem,
        learner=learner,
        exploration=Fading(exploration, widest),
        safety=prepared,
        steps=CurvatureSteps(),
        start=prepared.anchor if start is None else as_field(start),
        history=None if history is None else _past(problem, learner, history),
        samples=samples,
    )


def _checked_safety(safety: Any) -> Safety:
    if not isinstance(safety, type) and callable(getattr(safety, "prepared", None)):
        return safety
    name = safety.__name__ if isinstance(safety, type) else str(safety).capitalize()
    if name in ("Pull", "Nearest"):
        raise TypeError(f"`safety` must be an object, but got {safety!r}; pass an object, pf.safety.{name}()")
    raise TypeError(f"`safety` must be an object such as pf.safety.Pull(), but got {safety!r}")


def _learner(
    shift: Shift | None, effect: Floats | None, dimension: int, reservoir: int, memory: Array | None
) -> LeastSquares:
    """The regression of a dense effect, or of a structured one."""
    tensor = None if shift is None or effect is None else shift_tensor(shift, effect, dimension)
    return LeastSquares(
        shift=callable_node(apply_effect if shift is None else shift),
        prior=None if effect is None else as_field(effect),
        structured=shift is not None,
        unmoved=() if tensor is None else unmoved(tensor),
        overlap=None if tensor is None else as_field(inverse_overlap(tensor)),
        reservoir=reservoir,
        memory=memory,
    )


@in_float64
def _past(problem: Problem, learner: LeastSquares, history: Past | tuple[ArrayLike, ArrayLike]) -> Past:
    """The history, checked against the problem, the effect and what the loss needs to know about the data."""
    past = history_for(problem, history)
    width = past.means.shape[1]
    if learner.prior is not None:
        theta = jax.ShapeDtypeStruct((problem.d,), np.float64)
        (rows,) = jax.eval_shape(learner.shift, learner.prior, theta).shape
        if rows != width:
            raise ValueError(f"`history` must hold samples of {rows} numbers, like the effect's rows, but got {width}")
    if past.rows is None and Prediction(problem.loss, learner.shift).pattern(width, problem.d) is None:
        raise ValueError(
            "`history` must hold single samples for a loss that is not quadratic in the data, but its rows are means of up to "
            f"{np.max(past.counts):g}; give the rows that were averaged"
        )
    return past
