"""The named methods: each a choice of parts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from performative import steps
from performative.environments.location import Shift, apply_effect, overlap, require_distinct, shift_tensor
from performative.estimators import (
    BaseSamples,
    KnownEffect,
    LocationEstimator,
    PairedLeastSquares,
)
from performative.exploration import Alone, Exploration, Pair
from performative.optimum import require_feasible
from performative.primal_dual import PrimalDual
from performative.problem import Problem
from performative.pytrees import as_node, callable_node, changed
from performative.safe import SafePrimalDual
from performative.safety import Nearest, Pull
from performative.steps import Step
from performative.validation import finite_array, positive, whole


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
    forgetting: float = 1.0,
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
        forgetting: the weight that what is known keeps from round to round, for a world that drifts: with 0.99 estimates rest
            on about the last hundred rounds. It needs `recycle`, since base samples of the warm-up alone cannot fade.
        samples: how many samples each deployment brings.
        shift: the bilinear shift(effect, θ) of a structured effect; by default effect @ θ.
        effect: Â₀, zero by default; needed with `shift`, whose effect may have any shape.
    """
    explore = _exploration(exploration)
    parts = common_parts(problem, step, control, warmup, start, samples, shift, effect)
    learner = PairedLeastSquares(
        shift=parts.pop("shift"),
        step=None if estimation_step is None else steps.validated("estimation_step", estimation_step),
        prior=parts.pop("effect"),
        probe=float(getattr(explore, "scale", 1.0)),
    )
    memory = _memory(forgetting, 2 * parts["samples"])
    if memory is not None and not recycle:
        raise ValueError(f"`recycle=True` must be given with `forgetting`, but got recycle={recycle!r}, {forgetting=}")
    estimator = LocationEstimator(learner, BaseSamples(bool(recycle)), True, parts.pop("warmup"), memory)
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
    parts = common_parts(problem, step, control, warmup, start, samples, shift, effect)
    known = KnownEffect(parts.pop("shift"), parts.pop("effect"))
    estimator = LocationEstimator(known, BaseSamples(bool(recycle)), anticipate=True, warmup=parts.pop("warmup"))
    return PrimalDual(estimator=estimator, exploration=Alone(), **parts)


def safe_apda(
    problem: Problem,
    *,
    exploration: float = 1.0,
    start: Any = None,
    anchor: Any = None,
    safety: str = "pull",
    samples: int = 1,
    shift: Shift | None = None,
    effect: Any = None,
    history: tuple[Any, Any] | None = None,
    reservoir: int = 500,
    forgetting: float = 1.0,
) -> SafePrimalDual:
    """APDA for those who pay for every deployment: one a round, all feasible, exploration that fades like t^(−1/4).

    It needs no warm-up, no horizon and no step sizes: all scales are learnt. A problem without a strictly feasible decision
    is refused. Only where neither Θ nor the loss at the start has a length (an unbounded set and a loss without curvature) the
    first exploration is 1 in the unit of θ.

    Args:
        problem: what the decision-maker knows.
        exploration: a factor on the exploration that balances its price against what it teaches.
        start: the first decision, pulled back if it is not feasible; by default the anchor.
        anchor: a strictly feasible decision to pull towards; by default that of the largest slack.
        safety: "pull", inside the compiled loop, or "nearest", the Euclidean projection by cvxpy: closer, for live use.
        samples: how many samples each deployment brings.
        shift: the bilinear shift(effect, θ) of a structured effect; by default effect @ θ.
        effect: Â₀, zero by default; needed with `shift`.
        history: past deployments, decisions (N, d) and the sample (N, k) each brought. Base samples are those at decisions 0.
        reservoir: how many deployments are kept where the loss is not quadratic in the data.
        forgetting: the weight that what is known keeps from round to round, for a world that drifts: with 0.99 estimates rest
            on about the last hundred rounds, and exploration fades no further than it has after so many.
    """
    problem, start, effect = known_parts(problem, start, shift, effect)
    if problem.dimension is None:
        raise ValueError("the problem's dimension must be known; give Problem(..., dimension=d)")
    if start is not None and not problem.decisions.contains(start):
        raise ValueError(f"`start` must lie in the decision set {problem.decisions}, but got {start}")
    if history is not None:
        past = tuple(finite_array(name, part, 2) for name, part in zip(("decisions", "samples"), history, strict=True))
        if past[0].shape != (len(past[1]), problem.dimension) or not len(past[0]):
            raise ValueError(
                f"`history` must hold decisions (N, {problem.dimension}) and samples (N, k), but got {past[0].shape} and "
                f"{past[1].shape}"
            )
        history = (past[0], past[1])
    unmoved, overlap = ((), None) if shift is None else _structure(shift, effect, problem.dimension)
    if safety not in ("pull", "nearest"):
        raise ValueError(f"`safety` must be 'pull' or 'nearest', but got {safety!r}")
    keeper = Pull.of(problem, anchor) if safety == "pull" else Nearest.of(problem, anchor)
    radius = float(problem.decisions.radius)
    samples, reservoir = whole("samples", samples, 1), whole("reservoir", reservoir, 1)
    memory = _memory(forgetting, samples)
    if memory is not None:  # a reservoir that holds more would never be full
        reservoir = max(1, min(reservoir, int(memory / 2)))
    return SafePrimalDual(
        problem=problem,
        shift=callable_node(apply_effect if shift is None else shift),
        prior=effect,
        safety=keeper,
        start=keeper.anchor if start is None else start,
        history=history,
        exploration=np.float64(positive("exploration", exploration)),
        widest=np.float64(radius / (2 * math.sqrt(problem.dimension))),
        structured=shift is not None,
        unmoved=unmoved,
        overlap=overlap,
        samples=samples,
        reservoir=reservoir,
        memory=memory,
    )


def _memory(forgetting: float, samples: int) -> Any:
    """On how many samples, before the new ones, estimates rest at most; None for all there are."""
    kept = positive("forgetting", forgetting)
    if kept > 1.0:
        raise ValueError(f"`forgetting <= 1` must hold, but got {forgetting=}")
    return None if kept == 1.0 else np.float64(samples * kept / (1.0 - kept))


def known_parts(problem: Problem, start: Any, shift: Shift | None, effect: Any) -> tuple[Problem, Any, Any]:
    """The problem with the dimension that the effect or the start tells, the start and the effect as arrays."""
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
    return problem, start, effect


def _structure(shift: Shift, effect: Any, dimension: int) -> tuple[tuple[int, ...], Any]:
    """The positions of the data that no effect can move, and the inverse overlap of the effect's numbers.

    None for the overlap where it is the identity, each number being one entry.
    """
    tensor = shift_tensor(shift, effect, dimension)
    unmoved = tuple(int(index) for index in np.flatnonzero(~np.any(tensor, axis=(1, 2))))
    gram = overlap(tensor)
    if np.allclose(gram, np.eye(len(gram)), atol=1e-12):
        return unmoved, None
    require_distinct(tensor)
    return unmoved, np.linalg.inv(gram)


def common_parts(
    problem: Problem,
    step: Step,
    control: Step,
    warmup: int,
    start: Any,
    samples: int,
    shift: Shift | None,
    effect: Any,
) -> dict[str, Any]:
    """The options that methods of the framework share, checked."""
    problem, start, effect = known_parts(problem, start, shift, effect)
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
