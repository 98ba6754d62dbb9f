"""The paper's three methods, each a choice of parts: APDA, PD-PS and the oracle."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from performative import steps
from performative.estimators import BaseSamples, KnownEffect, LocationEstimator, PairedLeastSquares
from performative.exploration import Alone, Exploration, Pair, PairInside
from performative.methods.options import common_parts, memory_from
from performative.methods.primal_dual import PrimalDual
from performative.numerics.arrays import as_field
from performative.numerics.pytrees import as_node, changed
from performative.problem import Problem
from performative.shifts import Shift
from performative.steps import Step


def apda(
    problem: Problem,
    *,
    step: Step = 5e-3,
    control: Step = 1.0,
    estimation_step: Step | None = None,
    warmup: int = 1000,
    exploration: float | Exploration = 1.0,
    probes: Literal["anywhere", "inside"] = "anywhere",
    start: ArrayLike | None = None,
    recycle: bool = False,
    forgetting: float = 1.0,
    samples: int = 1,
    shift: Shift | None = None,
    effect: ArrayLike | None = None,
) -> PrimalDual:
    """The adaptive primal-dual algorithm (Algorithm 1), which learns the effect and anticipates it.

    Args:
        problem: what the decision-maker knows.
        step: η, a number or a function of the round.
        control: δ, likewise.
        estimation_step: ζ, likewise; by default the theorem's 2/(κ₁t + 2κ₃), see `performative.steps`.
        warmup: n, the number of base samples observed at θ = 0.
        exploration: the standard deviation of the probes u_t, or a part such as `Pair`.
        probes: "anywhere", as in the paper, whose probes may leave Θ and violate g; or "inside", which keeps them in Θ (not
            necessarily within g), see `PairInside`. A world that is not defined outside Θ needs that.
        start: θ_1; by default the point of Θ nearest to 0.
        recycle: use every observation as a base sample instead of the first n alone.
        forgetting: the weight that past data keep from round to round, for a world that drifts: with 0.99 estimates rest
            on about the last hundred rounds. It needs `recycle`, since base samples of the warm-up alone cannot fade.
        samples: how many samples each deployment brings.
        shift: the bilinear shift(effect, θ) of a structured effect; by default effect @ θ.
        effect: Â₀, zero by default; needed with `shift`, whose effect may have any shape.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> problem = pf.Problem(Revenue(), pf.Box([0.0, 0.0], [5.0, 5.0]))
    >>> method = pf.apda(problem, warmup=100)
    >>> import jax
    >>> state = method.init(jax.random.key(0))
    >>> method.ask(state, jax.random.key(1)).shape, method.wanted(state)
    ((1, 2), 100)
    """
    explore = _exploration(exploration, probes, problem)
    parts = common_parts(problem, step, control, warmup, start, samples, shift, effect)
    learner = PairedLeastSquares(
        shift=parts.shift,
        step=None if estimation_step is None else steps.validated("estimation_step", estimation_step),
        prior=as_field(parts.effect),
        probe=float(getattr(explore, "scale", 1.0)),
    )
    memory = memory_from(forgetting, 2 * parts.samples)
    if memory is not None and not recycle:
        raise ValueError(f"`forgetting` requires `recycle=True`, but got recycle={recycle!r}, {forgetting=}")
    estimator = LocationEstimator(learner, BaseSamples(bool(recycle)), True, parts.warmup, memory)
    return parts.method(estimator, explore)


def pd_ps(
    problem: Problem,
    *,
    step: Step = 5e-3,
    control: Step = 1.0,
    estimation_step: Step | None = None,
    warmup: int = 1000,
    exploration: float | Exploration = 1.0,
    probes: Literal["anywhere", "inside"] = "anywhere",
    start: ArrayLike | None = None,
    recycle: bool = False,
    forgetting: float = 1.0,
    samples: int = 1,
    shift: Shift | None = None,
    effect: ArrayLike | None = None,
) -> PrimalDual:
    """The primal-dual method for performatively stable points (PD-PS): `apda` without anticipation, with the same options.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> problem = pf.Problem(Revenue(), pf.Box([0.0, 0.0], [5.0, 5.0]))
    >>> method = pf.pd_ps(problem, step=0.01)
    """
    method = apda(
        problem,
        step=step,
        control=control,
        estimation_step=estimation_step,
        warmup=warmup,
        exploration=exploration,
        probes=probes,
        start=start,
        recycle=recycle,
        forgetting=forgetting,
        samples=samples,
        shift=shift,
        effect=effect,
    )
    return changed(method, estimator=changed(method.estimator, anticipate=False))


def oracle(
    problem: Problem,
    *,
    effect: ArrayLike,
    step: Step = 5e-3,
    control: Step = 1.0,
    warmup: int = 1000,
    start: ArrayLike | None = None,
    recycle: bool = False,
    samples: int = 1,
    shift: Shift | None = None,
) -> PrimalDual:
    """The paper's baseline: APDA with the true `effect` A. It has nothing to learn, so it deploys no probes.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> problem = pf.Problem(Revenue(), pf.Box([0.0, 0.0], [5.0, 5.0]))
    >>> method = pf.oracle(problem, effect=[[-1.5, 0.3], [0.2, -1.0]])
    """
    parts = common_parts(problem, step, control, warmup, start, samples, shift, effect)
    learner = KnownEffect(parts.shift, as_field(parts.effect))
    estimator = LocationEstimator(learner, BaseSamples(bool(recycle)), anticipate=True, warmup=parts.warmup)
    return parts.method(estimator, Alone())


def _exploration(exploration: float | Exploration, probes: str, problem: Problem) -> Exploration:
    if probes not in ("anywhere", "inside"):
        raise ValueError(f"`probes` must be 'anywhere' or 'inside', but got {probes!r}")
    if isinstance(exploration, int | float | np.floating | np.integer):
        return Pair(exploration) if probes == "anywhere" else PairInside(exploration, problem.decisions)
    if probes == "inside":
        raise ValueError(
            f"`probes='inside'` needs a number as `exploration`, but got {exploration!r}; give performative.PairInside itself"
        )
    has_parts = all(callable(getattr(exploration, part, None)) for part in ("normals", "decisions"))
    if isinstance(exploration, type) or not has_parts:
        raise TypeError(f"`exploration` must be a number or an object such as pf.Pair(), but got {exploration!r}")
    return as_node(exploration)
