"""Lemmas 1, A1 and 2: how strongly decisions move the data, and what that makes of the risk.

A is the effect, σ_max(A) the sensitivity; L and γ are the Lipschitz and strong-convexity constants of PR.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64
from performative.shifts import Shift
from performative.theory.arguments import require_nonnegative
from performative.validation import finite_array, whole


@in_float64
def sensitivity(effect: ArrayLike, shift: Shift | None = None, dimension: int | None = None) -> float:
    """Lemma 1: ε = σ_max(A), with W₁(D(θ), D(θ')) ≤ ε‖θ − θ'‖.

    Assumes a location family and nothing else. For a structured effect give its `shift` and the `dimension` of decisions.

    >>> import performative as pf
    >>> round(pf.theory.sensitivity([[3.0, 0.0], [0.0, 4.0]]), 6)
    4.0
    """
    return float(_singular_values(effect, shift, dimension)[0])


@in_float64
def distance(effect: ArrayLike, one: ArrayLike, other: ArrayLike, shift: Shift | None = None) -> float:
    """Lemma A1: W₁(D(θ), D(θ')) ≤ ‖A(θ − θ')‖, where θ is `one` and θ' is `other`.

    Assumes a location family. It is an equality: W₁ is at least the distance of the means.

    >>> import performative as pf
    >>> pf.theory.distance([[3.0, 0.0], [0.0, 4.0]], [1.0, 0.0], [0.0, 1.0])
    5.0
    """
    effect = finite_array("effect", effect, 2 if shift is None else None)
    apart = finite_array("one", one, 1) - finite_array("other", other, 1)
    moved = effect @ apart if shift is None else shift(jnp.asarray(effect), jnp.asarray(apart))
    return float(np.linalg.norm(np.asarray(moved)))


@in_float64
def least_response(effect: ArrayLike, shift: Shift | None = None, dimension: int | None = None) -> float:
    """σ_min(A) = min ‖Aθ‖ over ‖θ‖ = 1, which is 0 where A has fewer rows than columns.

    >>> import performative as pf
    >>> round(pf.theory.least_response([[3.0, 0.0], [0.0, 4.0]]), 6)
    3.0
    >>> pf.theory.least_response([[3.0, 4.0]])
    0.0
    """
    values = _singular_values(effect, shift, dimension)
    return float(values[-1])


def _singular_values(effect: ArrayLike, shift: Shift | None, dimension: int | None) -> Floats:
    effect = finite_array("effect", effect, 2 if shift is None else None)
    if shift is None:
        matrix = effect
    else:
        size = whole("dimension", dimension, 1)
        matrix = np.asarray(jax.jacobian(lambda theta: shift(jnp.asarray(effect), theta))(jnp.zeros(size)))
    values = np.linalg.svd(matrix, compute_uv=False)
    missing = matrix.shape[1] - len(values)
    return np.concatenate([values, np.zeros(max(missing, 0))])


def risk_lipschitz(loss_lipschitz: float, data_lipschitz: float, sensitivity: float) -> float:
    """Lemma 2, first part: PR is L-Lipschitz with L ≤ L_θ + L_Z σ_max(A).

    Assumes that ℓ is L_θ-Lipschitz in θ and L_Z-Lipschitz in Z (Assumption 1), and a location family.

    >>> import performative as pf
    >>> pf.theory.risk_lipschitz(loss_lipschitz=1.0, data_lipschitz=2.0, sensitivity=0.5)
    2.0
    """
    return loss_lipschitz + data_lipschitz * sensitivity


def risk_convexity(
    decision_convexity: float,
    data_convexity: float,
    smoothness: float,
    sensitivity: float,
    least_response: float = 0.0,
    as_printed: bool = False,
) -> float:
    """Lemma 2, second part: PR is γ-strongly convex with γ ≥ min of γ_Z s² − 2βs + γ_θ over σ_min(A) ≤ s ≤ σ_max(A).

    Assumes that ℓ is γ_θ-strongly convex in θ, γ_Z-strongly convex in Z, and ‖∇_θℓ(θ; z) − ∇_θℓ(θ; z')‖ ≤ β‖z − z'‖. This β is
    the smoothness across θ and Z, not that of ℓ as a whole, for which γ_θ − β²/γ_Z > 0 is impossible.

    As printed: max{γ_θ − β²/γ_Z, γ_θ − 2σ_max β + γ_Z σ_min²}, which is never larger.

    >>> import performative as pf
    >>> pf.theory.risk_convexity(decision_convexity=2.0, data_convexity=1.0, smoothness=0.5, sensitivity=1.0)
    1.75
    """
    require_nonnegative(data_convexity=data_convexity, smoothness=smoothness, least_response=least_response)
    if least_response > sensitivity:
        raise ValueError(f"`least_response <= sensitivity` must hold, but got {least_response=}, {sensitivity=}")
    if as_printed:
        whole_line = decision_convexity - smoothness**2 / data_convexity if data_convexity > 0 else -math.inf
        ends = decision_convexity - 2 * sensitivity * smoothness + data_convexity * least_response**2
        return max(whole_line, ends)
    at = smoothness / data_convexity if data_convexity > 0 else math.inf
    s = min(max(at, least_response), sensitivity)
    return data_convexity * s**2 - 2 * smoothness * s + decision_convexity
