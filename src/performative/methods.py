"""The named methods: each a choice of parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from performative import steps
from performative.environments.location import Shift, apply_effect
from performative.estimators import BaseSamples, KnownEffect, LocationEstimator, PairedLeastSquares
from performative.exploration import Alone, Exploration, Pair
from performative.optimum import require_feasible
from performative.primal_dual import PrimalDual
from performative.problem import Problem
from performative.pytrees import as_node, callable_node, changed
from performative.steps import Step
from performative.validation import finite_array, whole


def apda(
    problem: Problem,
    *,
    step: Step = 5e-3,
    control: Step = 1.0,
    estimation_step: Step | None = None,
    warmup: int = 1000,
    exploration: float | Exploration = 1.0,
    start: Any = None,
    recycle: bool = False,
    samples: int = 1,
    shift: Shift | None = None,
    effect: Any = None,
) -> PrimalDual:
    """The adaptive primal-dual algorithm (Algorithm 1): learns the effect, and anticipates it.

    Args:
        problem: what the decision-maker knows.
        step: η, a number or a function of the round.
        control: δ, likewise.
        estimation_step: ζ, likewise; by default the theorem's 2/(κ₁t + 2κ₃), see `performative.steps`.
        warmup: n, the number of base samples observed at θ = 0.
        exploration: the standard deviation of the probes u_t, or a part such as `Pair`.
        start: θ_1; by default the point of Θ nearest to 0.
        recycle: keep every observation as a base sample instead of the first n alone.
        samples: how many samples each deployment brings.
        shift: the bilinear shift(effect, θ) of a structured effect; by default effect @ θ.
        effect: Â₀, zero by default; needed with `shift`, whose effect may have any shape.
    """
    explore = _exploration(exploration)
    parts = _common(problem, step, control, warmup, start, samples, shift, effect)
    learner = PairedLeastSquares(
        shift=parts.pop("shift"),
        step=None if estimation_step is None else steps.validated("estimation_step", estimation_step),
        prior=parts.pop("effect"),
        probe=float(getattr(explore, "scale", 1.0)),
    )
    estimator = LocationEstimator(learner, BaseSamples(bool(recycle)), anticipate=True, warmup=parts.pop("warmup"))
    return PrimalDual(estimator=estimator, exploration=explore, **parts)


def pd_ps(problem: Problem, **options: Any) -> PrimalDual:
    """The primal-dual method for performatively stable points (PD-PS): `apda` without anticipation, same options."""
    method = apda(problem, **options)
    return changed(method, estimator=changed(method.estimator, anticipate=False))


def oracle(
    problem: Problem,
    *,
    effect: Any,
    step: Step = 5e-3,
    control: Step = 1.0,
    warmup: int = 1000,
    start: Any = None,
    recycle: bool = False,
    samples: int = 1,
    shift: Shift | None = None,
) -> PrimalDual:
    """The paper's baseline: APDA that is handed the true `effect` A. It has nothing to learn, so it deploys no probes."""
    parts = _common(problem, step, control, warmup, start, samples, shift, effect)
    known = KnownEffect(parts.pop("shift"), parts.pop("effect"))
    estimator = LocationEstimator(known, BaseSamples(bool(recycle)), anticipate=True, warmup=parts.pop("warmup"))
    return PrimalDual(estimator=estimator, exploration=Alone(), **parts)


def _common(
    problem: Problem,
    step: Step,
    control: Step,
    warmup: int,
    start: Any,
    samples: int,
    shift: Shift | None,
    effect: Any,
) -> dict[str, Any]:
    if not isinstance(problem, Problem):
        raise TypeError(f"`problem` must be a performative.Problem, but got {problem!r}")
    if effect is not None:
        effect = finite_array("effect", effect, 2 if shift is None else None)
        if shift is None:
            problem = problem.of_dimension(effect.shape[1])
    elif shift is not None:
        raise ValueError("`effect` must be given with `shift`, since its shape is not known otherwise")
    if start is not None:
        start = finite_array("start", start, 1)
        problem = problem.of_dimension(start.shape[0])
    if problem.dimension is not None:
        require_feasible(problem, candidate=start)
    return {
        "problem": problem,
        "step": steps.validated("step", step),
        "control": steps.validated("control", control),
        "warmup": whole("warmup", warmup, 1),
        "start": start,
        "samples": whole("samples", samples, 1),
        "shift": callable_node(apply_effect if shift is None else shift),
        "effect": effect,
    }


def _exploration(exploration: float | Exploration) -> Any:
    if isinstance(exploration, int | float | np.floating | np.integer):
        return Pair(exploration)
    if not all(callable(getattr(exploration, part, None)) for part in ("normals", "decisions")):
        raise TypeError(f"`exploration` must be a number or a part such as performative.Pair, but got {exploration!r}")
    return as_node(exploration)
