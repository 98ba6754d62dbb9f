"""The options that methods share, checked in one place."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from performative import steps
from performative.environments.protocol import Environment
from performative.estimators.protocol import GradientEstimator, no_prediction
from performative.estimators.regression import LeastSquares
from performative.exploration import Exploration
from performative.methods.primal_dual import PrimalDual
from performative.numerics.arrays import Floats, as_field
from performative.numerics.pytrees import callable_node
from performative.problem import Problem, with_dimension
from performative.shifts import Shift, apply_effect, require_distinct, shift_tensor, unmoved
from performative.solvers.feasibility import require_feasible
from performative.steps import Step
from performative.validation import finite_array, matrix, positive, vector, whole


def memory_from(forgetting: float, samples: int) -> Array | None:
    """The largest number of samples, besides the new ones, that estimates rest on; None for no limit."""
    share = positive("forgetting", forgetting)
    if share > 1.0:
        raise ValueError(
            f"`forgetting <= 1` must hold, but got {forgetting=}; it is the weight that past data "
            "keep from round to round, such as 0.99"
        )
    return None if share == 1.0 else as_field(np.float64(samples * share / (1.0 - share)))


def parts_of(
    problem: Problem,
    start: ArrayLike | None,
    shift: Shift | None = None,
    effect: ArrayLike | None = None,
    predicts: bool = False,
) -> tuple[Problem, Floats | None, Floats | None]:
    """The problem with its dimension, if the effect or the start determines it, and the start and the effect as arrays.

    Limits on what a decision causes are refused unless the method `predicts` the data of a decision.
    """
    if isinstance(problem, Problem) and problem.caused and not predicts:
        raise no_prediction(problem, "this method")
    if effect is not None:
        effect = matrix("effect", effect) if shift is None else finite_array("effect", effect)
    elif shift is not None:
        raise ValueError("`effect` must be given with `shift`, since its shape cannot be inferred")
    start = None if start is None else vector("start", start)
    columns = effect.shape[1] if effect is not None and shift is None else None
    rows = None if start is None else start.shape[0]
    return with_dimension(problem, required=False, effect=columns, start=rows), start, effect


def feasible_parts(
    problem: Problem, start: ArrayLike | None, environment: Environment | None = None
) -> tuple[Problem, Floats | None]:
    """The problem with its dimension, which must be known, checked to be feasible, and the start as an array."""
    problem, start, _ = parts_of(problem, start)
    problem = with_dimension(problem, environment=environment)
    require_feasible(problem, start)
    return problem, start


def regression_of(
    shift: Shift | None,
    effect: Floats | None,
    dimension: int,
    reservoir: int,
    memory: Array | None = None,
    error: Floats | None = None,
    signs: Floats | None = None,
) -> LeastSquares:
    """The regression of a dense effect or, with a `shift`, of a structured one, with the prior `effect`."""
    tensor = None if shift is None or effect is None else shift_tensor(shift, effect, dimension)
    if tensor is not None:
        require_distinct(tensor)
    return LeastSquares(
        shift=callable_node(apply_effect if shift is None else shift),
        prior=as_field(effect),
        error=as_field(error),
        signs=as_field(signs),
        tensor=as_field(tensor),
        unmoved=() if tensor is None else unmoved(tensor),
        reservoir=reservoir,
        memory=memory,
    )


class Common(NamedTuple):
    """The options that methods of the framework share, checked and ready for `PrimalDual`."""

    problem: Problem
    step: Step
    control: Step
    warmup: int
    start: Floats | None
    samples: int
    shift: Shift
    effect: Floats | None

    def method(self, estimator: GradientEstimator, exploration: Exploration) -> PrimalDual:
        """The framework with an estimator and an exploration."""
        return PrimalDual(
            self.problem, estimator, exploration, self.step, self.control, as_field(self.start), self.samples
        )


def common_parts(
    problem: Problem,
    step: Step,
    control: Step,
    warmup: int,
    start: ArrayLike | None,
    samples: int,
    shift: Shift | None = None,
    effect: ArrayLike | None = None,
) -> Common:
    """The checked options."""
    # Whether the estimator predicts data, `PrimalDual` asks.
    problem, start, effect = parts_of(problem, start, shift, effect, predicts=True)
    if problem.dimension is not None:
        require_feasible(problem.known, start)
    return Common(
        problem=problem,
        step=steps.validated("step", step),
        control=steps.validated("control", control),
        warmup=whole("warmup", warmup, 1),
        start=start,
        samples=whole("samples", samples, 1),
        shift=callable_node(apply_effect if shift is None else shift),
        effect=effect,
    )


def framework(
    problem: Problem,
    estimator: GradientEstimator,
    exploration: Exploration,
    step: Step,
    control: Step,
    start: ArrayLike | None,
    samples: int,
) -> PrimalDual:
    """The primal-dual framework with an estimator that needs no warm-up and an exploration."""
    return common_parts(problem, step, control, 1, start, samples).method(estimator, exploration)
