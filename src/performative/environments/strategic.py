"""Strategic individuals: each moves its features to be scored better, as far as that is worth its cost."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from performative.environments.bases import Base
from performative.environments.reaction import Reaction, require_base
from performative.numerics.pytrees import pytree
from performative.validation import finite_array

NEWTON = 30
"""Steps to the best response under logistic utility: Newton's where they stay in the bracket, halvings otherwise."""


def strategic_response(
    base: Base, *, ease: Any, utility: str = "linear", wanted: int = -1, label: float | None = None
) -> Reaction:
    """Individuals z = (x, y), the label last, who answer the score s(x) = ⟨θ, x⟩ (+ θ's last number, if θ is one longer).

    Each chooses x' to maximise u(wanted · s(x')) − Σ_i (x'_i − x_i)²/(2·ease_i): Perdomo et al. 2020 for linear u(s) = s, with
    x' = x + wanted · ease · θ; for logistic u(s) = log σ(s), the better the score already is the less is done. The label stays.

    Args:
        base: the individuals as they are, a distribution of (x, y).
        ease: how cheaply each feature moves, one number or one a feature; 0 for features that cannot be moved.
        utility: "linear" or "logistic".
        wanted: −1 for those who want a low score (spam, default), +1 for a high one.
        label: the only label whose individuals respond (spammers, say); by default all do.
    """
    require_base(base)
    features = base.width - 1
    if features < 1:
        raise ValueError(f"`base` must hold features and a label, at least 2 numbers a sample, but holds {base.width}")
    if utility not in ("linear", "logistic"):
        raise ValueError(f"`utility` must be 'linear' or 'logistic', but got {utility!r}")
    if wanted not in (-1, 1):
        raise ValueError(f"`wanted` must be -1 or 1, but got {wanted!r}")
    eases = finite_array("ease", ease, (0, 1))
    if eases.ndim and eases.shape != (features,):
        raise ValueError(f"`ease` must be one number or one for each of {features} features, but got {eases.shape}")
    if not np.all(eases >= 0):
        raise ValueError(f"`ease` must be >= 0, but got {eases.min()}")
    only = None if label is None else finite_array("label", label, 0)
    return Reaction(
        base, BestResponse(np.broadcast_to(eases, features).copy(), np.float64(wanted), only, utility == "logistic")
    )


@pytree("logistic")
class BestResponse:
    """The best response of one individual; see `strategic_response`."""

    ease: Any
    wanted: Any
    label: Any
    logistic: Any

    def __call__(self, theta: Array, z: Array) -> Array:
        """(x', y)."""
        x, y = z[:-1], z[-1]
        if theta.shape[0] not in (x.shape[0], x.shape[0] + 1):
            raise ValueError(
                f"a decision must hold one weight for each of {x.shape[0]} features, and an intercept or none, but holds "
                f"{theta.shape[0]} numbers"
            )
        weights = self.wanted * theta[: x.shape[0]]
        effort = jnp.ones(())
        if self.logistic:
            offset = theta[x.shape[0]] if theta.shape[0] > x.shape[0] else 0.0
            score = jnp.sum(weights * x) + self.wanted * offset
            effort = jax.nn.sigmoid(-_improved(score, jnp.sum(self.ease * weights * weights)))
        if self.label is not None:
            effort = jnp.where(y == self.label, effort, 0.0)
        return jnp.concatenate([x + effort * self.ease * weights, y[None]])


def _improved(score: Array, reach: Array) -> Array:
    """The root s' of s' = s + reach·σ(−s'), which is unique and lies in [s, s + reach]: Newton's method, kept in the bracket."""

    def newton(root: Array, score: Array, reach: Array) -> Array:
        calm = jax.nn.sigmoid(-root)
        return root - (root - score - reach * calm) / (1.0 + reach * calm * (1.0 - calm))

    fixed, far = lax.stop_gradient(score), lax.stop_gradient(reach)

    def step(_: Any, bracket: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        low, high, root = bracket
        above = root - fixed - far * jax.nn.sigmoid(-root) > 0
        low, high = jnp.where(above, low, root), jnp.where(above, root, high)
        ahead = newton(root, fixed, far)
        return low, high, jnp.where((ahead > low) & (ahead < high), ahead, 0.5 * (low + high))

    high = jnp.minimum(
        fixed + far, jnp.maximum(fixed, jnp.log1p(far)) + 1.0
    )  # beyond log(reach), reach·σ(−s') is below 1
    root = lax.fori_loop(0, NEWTON, step, (fixed, high, 0.5 * (fixed + high)))[2]
    # From the root, each further step doubles the order of the derivatives that are exact: two steps, up to the third.
    return newton(newton(root, score, reach), score, reach)
