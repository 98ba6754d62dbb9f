"""Safe APDA: one deployment per round, all of them counted, none of them infeasible."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from performative.budget import Budget
from performative.errors import DistantHistoryWarning, InfeasibleStartWarning
from performative.estimators.prediction import Prediction
from performative.estimators.regression import LeastSquares
from performative.methods.options import memory_from, parts_of, regression_of
from performative.methods.planning import Planner
from performative.methods.ranges import ranges
from performative.methods.safe_primal_dual import SafePrimalDual
from performative.moves import Moves
from performative.numerics.arrays import Floats, as_field
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import as_node, changed
from performative.past import Past, history_for
from performative.problem import Problem, with_dimension
from performative.safety import PreparedSafety, Pull, Safety
from performative.shifts import Shift
from performative.solvers.feasibility import require_inside, strictly_feasible
from performative.validation import positive, read_only, shown, whole

ROUNDING = 1e-6
"""A start is moved by less than this share of its size without a word: a solver's answer may break a constraint by rounding."""
NIL = 1e-14
"""A start below this share of the range of Θ is 0 up to rounding, and says nothing about how far one should go; a start that a
solver found, below ROUNDING."""


def safe_apda(
    problem: Problem,
    *,
    start: ArrayLike | None = None,
    samples: int = 1,
    loss_budget: float | None = 1.0,
    max_move: float | str | Sequence[float | str] | ArrayLike | None = None,
    deployments: int | None = None,
    deployments_per_round: int = 1,
    exploration: float = 1.0,
    anchor: ArrayLike | None = None,
    safety: Safety | None = None,
    shift: Shift | None = None,
    effect: ArrayLike | None = None,
    effect_error: ArrayLike | None = None,
    signs: ArrayLike | None = None,
    history: Past | tuple[ArrayLike, ArrayLike] | None = None,
    reservoir: int | None = None,
    forgetting: float = 1.0,
) -> SafePrimalDual:
    """For those who pay for every deployment: start at today's decision, move as far as the evidence goes, stay feasible.

    It needs no warm-up, no horizon and no step sizes. The first decision is the start. A problem without a strictly feasible
    decision is refused. Where a column of the data has two values, such as a label, each group of samples may react in its own
    way; not with a `history`, with a `shift` or where the loss is quadratic in the data.

    Args:
        problem: what the decision-maker knows.
        start: today's decision, pulled back with a warning if it is not feasible; by default the anchor.
        samples: how many samples each deployment brings.
        loss_budget: how much may be lost in all against staying at the start, in multiples of one deployment's loss at the
            start, over the first thirty deployments; it grows like √t afterward. With `forgetting`, over the deployments that
            are remembered. None or infinity for no limit.
        max_move: how far a decision may be from the last one: a number, a share of the last decision such as "5%", or a list
            of them, one for each coordinate.
        deployments: how many there will be, if you know: the last ones then explore less.
        deployments_per_round: how many decisions are deployed side by side, each with its `samples`; all but the first explore.
        exploration: a factor on the worth of what a probe teaches.
        anchor: a strictly feasible decision to pull toward; by default the one with the largest slack, or one near the start
            where slack has no end.
        safety: `safety.Pull()`, the default, which runs inside the compiled loop, or `safety.Nearest()`, the Euclidean
            projection by cvxpy: closer, for live use.
        shift: the bilinear shift(effect, θ) of a structured effect; by default effect @ θ.
        effect: what you expect the effect to be, Â₀; zero by default; needed with `shift`.
        effect_error: how far off that may be, one standard deviation: a number, or one for each entry; nan where you cannot say.
        signs: what you know of the signs of the effect, entry by entry: 1, -1, 0 for no effect at all, nan where you cannot say.
        history: past deployments, a `performative.Past`, or decisions (N, d) and samples (N, k), one for each. Base samples
            have decision 0. The first decision is the start all the same.
        reservoir: how many samples are kept where the loss is not quadratic in the data; those of a hundred deployments by
            default, but at least 500 and at most 2,000.
        forgetting: the weight that past data keep from round to round, for a world that drifts: with 0.99 estimates rest
            on about the last hundred rounds, and exploration goes on after that many.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> problem = pf.Problem(Revenue(), pf.Box([0.0, 0.0], [5.0, 5.0]))
    >>> method = pf.safe_apda(problem, start=[1.0, 1.0], samples=50)
    >>> import jax
    >>> state = method.init(jax.random.key(0))
    >>> method.ask(state, jax.random.key(1)).tolist(), method.wanted(state)
    ([[1.0, 1.0]], 50)
    """
    problem, start, effect = parts_of(problem, start, shift, effect)
    problem = with_dimension(problem)
    if start is not None:
        start = require_inside("start", problem, start)
    safety = Pull() if safety is None else _checked_safety(safety)
    prepared = as_node(safety).prepared(problem, strictly_feasible(problem, anchor, start))
    samples = whole("samples", samples, 1)
    size = min(max(100 * samples, 500), 2_000) if reservoir is None else whole("reservoir", reservoir, 1)
    memory = memory_from(forgetting, samples)
    if memory is not None:  # a reservoir that holds more would never be full
        size = max(1, min(size, int(memory / 2)))
    known = effect if shift is not None else None
    error, sign = (
        _entries(name, given, known, problem.d) for name, given in (("effect_error", effect_error), ("signs", signs))
    )
    _require_prior(effect, error, sign)
    by_group = shift is None and history is None
    learner = changed(regression_of(shift, effect, problem.d, size, memory, error, sign), by_group=by_group)
    begin = _begin(problem, prepared, start)
    moves = None if max_move is None else Moves.of(max_move, begin)
    first_moves = np.full(problem.d, np.inf) if moves is None else np.asarray(moves.limits(jnp.asarray(begin)))
    widths, widest = ranges(problem, begin, first_moves, NIL if start is not None else ROUNDING)
    return SafePrimalDual(
        problem=problem,
        learner=learner,
        planner=Planner(as_field(widths), as_field(np.float64(positive("exploration", exploration)))),
        widest=as_field(widest),
        safety=prepared,
        budget=Budget(loss_budget),
        start=as_field(begin),
        max_move=moves,
        deployments=as_field(np.float64(np.inf if deployments is None else whole("deployments", deployments, 1))),
        history=None if history is None else _past(problem, learner, history, widest),
        samples=samples,
        arms=whole("deployments_per_round", deployments_per_round, 1),
    )


@in_float64
def _begin(problem: Problem, safety: PreparedSafety, start: Floats | None) -> Floats:
    """The first decision: the start, made safe if it is not feasible, or the anchor."""
    if start is None:
        return np.asarray(safety.anchor)
    values = np.asarray(problem.g(jnp.asarray(start)))
    if np.all(values <= 0.0):
        return np.array(start)
    begin = np.asarray(safety(problem, jnp.asarray(start)))
    if np.max(np.abs(begin - start)) <= ROUNDING * np.max(np.abs(start)):
        return begin
    worst, first = int(np.argmax(values)), shown(np.round(begin, 6).tolist())
    warnings.warn(
        f"`start` must be feasible to be deployed, but constraint {problem.constraint_names[worst]!r} is {values[worst]:.3g} > 0 "
        f"at {shown(start.tolist())}: the first decision, and what losses are compared with, is {first}",
        InfeasibleStartWarning,
        stacklevel=4,
    )
    return begin


def _entries(name: str, given: ArrayLike | None, effect: Floats | None, dimension: int) -> Floats | None:
    """What is known of each entry of an effect, as an array like a structured `effect`, or (k, d); nan where nothing is."""
    if given is None:
        return None
    array = np.array(given, np.float64)
    if effect is not None:
        if array.shape not in ((), np.shape(effect)):
            raise ValueError(f"`{name}` must have the shape {np.shape(effect)} of `effect`, but got {array.shape}")
        return read_only(np.broadcast_to(array, np.shape(effect)).copy())
    number = "be a number or " if name == "effect_error" else ""
    if (array.ndim or not number) and (array.ndim != 2 or array.shape[1] != dimension):
        raise ValueError(f"`{name}` must {number}have shape (k, {dimension}), but got {array.shape}")
    return read_only(array)


def _require_prior(effect: Floats | None, error: Floats | None, signs: Floats | None) -> None:
    shapes = {"effect": effect, "effect_error": error, "signs": signs}
    given = {name: part.shape for name, part in shapes.items() if part is not None and part.ndim}
    for (first, expected), (name, shape) in itertools.pairwise(given.items()):
        if shape != expected:
            raise ValueError(f"`{name}` must have the shape {expected} of `{first}`, but got {shape}")
    if error is not None and (np.any(error <= 0) or np.any(np.isinf(error))):
        raise ValueError(f"`effect_error` must be positive, or nan where you cannot say, but got {shown(error)}")
    if signs is None:
        return
    if not np.all(np.isin(signs, (-1.0, 0.0, 1.0)) | np.isnan(signs)):
        raise ValueError(f"`signs` must be -1, 0, 1, or nan where you cannot say, but got {shown(signs)}")
    if (effect is not None and np.any(np.sign(effect) * signs < 0)) or (
        effect is not None and np.any(effect[signs == 0] != 0)
    ):
        raise ValueError(f"`effect` must have the signs that `signs` says, but got {shown(effect)}")


def _checked_safety(safety: Any) -> Safety:
    if not isinstance(safety, type) and callable(getattr(safety, "prepared", None)):
        return safety
    name = safety.__name__ if isinstance(safety, type) else str(safety).capitalize()
    if name in ("Pull", "Nearest"):
        raise TypeError(f"`safety` must be an object, but got {safety!r}; pass an object, pf.safety.{name}()")
    raise TypeError(f"`safety` must be an object such as pf.safety.Pull(), but got {safety!r}")


@in_float64
def _past(problem: Problem, learner: LeastSquares, history: Past | tuple[ArrayLike, ArrayLike], widest: Floats) -> Past:
    """The history, checked against the problem, the effect and what the loss needs to know about the data."""
    past = history_for(problem, history)
    decisions = np.asarray(past.decisions)
    inside = np.asarray(jax.vmap(problem.decisions.project)(jnp.asarray(decisions)))
    away = np.max(np.abs(decisions - inside) / np.where(widest > 0, widest, 1.0), axis=1)
    if np.min(away) > 1.0 and np.any(decisions):  # base samples are at 0, wherever Θ is
        nearest = int(np.argmin(away))
        warnings.warn(
            f"`history` should hold decisions near Θ, but the nearest, {shown(decisions[nearest].tolist())}, is "
            f"{away[nearest]:.3g} times the width of Θ away from it: is it in other units?",
            DistantHistoryWarning,
            stacklevel=4,
        )
    width = past.means.shape[1]
    if learner.width not in (None, width):
        raise ValueError(
            f"`history` must hold samples of {learner.width} numbers, like the effect's rows, but got {width}"
        )
    if past.rows is None and Prediction(problem.loss, learner.shift).pattern(width, problem.d) is None:
        raise ValueError(
            "`history` must hold single samples for a loss that is not quadratic in the data, but its rows are means of up to "
            f"{np.max(past.counts):g}; give the rows that were averaged"
        )
    return past
