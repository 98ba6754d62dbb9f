"""Strategic individuals: each moves its features to get a better score, as far as that is worth the cost."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import ArrayLike

from performative.environments.bases import Base
from performative.environments.reaction import Reaction, require_base
from performative.numerics.arrays import as_field
from performative.numerics.pytrees import pytree
from performative.validation import finite_array

NEWTON = 30
"""Steps to the best response under logistic utility: Newton's if they stay in the bracket, halvings otherwise."""


def strategic_response(
    base: Base,
    *,
    ease: ArrayLike,
    utility: Literal["linear", "logistic"] = "linear",
    wanted: Literal[-1, 1] = -1,
    label: float | None = None,
) -> Reaction:
    """Individuals z = (x, y), the label last, who answer the score s(x) = ⟨θ, x⟩ (+ θ's last number, if θ is one longer).

    Each chooses x' to maximize u(wanted · s(x')) − Σ_i (x'_i − x_i)²/(2·ease_i). Linear utility u(s) = s is that of Perdomo
    et al. 2020, with x' = x + wanted · ease · θ; with logistic utility u(s) = log σ(s), individuals move less the better their
    score already is. Labels do not change.

    Args:
        base: the individuals before they move, a distribution of (x, y).
        ease: how cheaply each feature moves, one number or one per feature; 0 for features that cannot move.
        utility: "linear" or "logistic".
        wanted: −1 if individuals want a low score (spam, the default), +1 if they want a high one.
        label: the only label whose individuals respond (spammers, say); by default all respond.

    >>> import performative as pf
    >>> mail = pf.Empirical([[0.5, 1.0], [0.25, 0.0]])  # one feature and the label
    >>> world = pf.strategic_response(mail, ease=0.25, label=1.0)  # θ = 2 moves spam to x' = 0.5 − 0.25·2
    >>> pf.performative_risk(pf.Problem(lambda theta, z: z[0], pf.Box([0.0], [2.0])), world, [2.0])
    0.125
    """
    require_base(base)
    features = base.width - 1
    if features < 1:
        raise ValueError(
            f"`base` must hold features and a label, at least 2 numbers per sample, but holds {base.width}"
        )
    if utility not in ("linear", "logistic"):
        raise ValueError(f"`utility` must be 'linear' or 'logistic', but got {utility!r}")
    if wanted not in (-1, 1):
        raise ValueError(f"`wanted` must be -1 or 1, but got {wanted!r}")
    eases = finite_array("ease", ease, (0, 1))
    if eases.ndim and eases.shape != (features,):
        raise ValueError(f"`ease` must be one number or one for each of {features} features, but got {eases.shape}")
    if not np.all(eases >= 0):
        raise ValueError(f"`ease` must be >= 0, but got {eases.min()}")
    response = BestResponse(
        as_field(np.broadcast_to(eases, features).copy()),
        as_field(np.float64(wanted)),
        None if label is None else as_field(finite_array("label", label, 0)),
        utility == "logistic",
    )
    return Reaction(base, response)


@pytree("logistic")
class BestResponse:
    """The best response of one individual; see `strategic_response`.

    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> from performative.environments import BestResponse
    >>> respond = BestResponse(ease=np.array([0.25]), wanted=np.float64(-1), label=None, logistic=False)
    >>> respond(jnp.array([2.0]), jnp.array([0.5, 1.0])).tolist()
    [0.0, 1.0]
    """

    ease: Array
    wanted: Array
    label: Array | None
    logistic: bool

    def __call__(self, theta: Array, z: Array) -> Array:
        """The individual (x', y) after moving."""
        x, y = z[:-1], z[-1]
        if theta.shape[0] not in (x.shape[0], x.shape[0] + 1):
            raise ValueError(
                f"a decision must hold one weight for each of {x.shape[0]} features, and optionally an intercept, but holds "
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
    """The unique root s' of s' = s + reach·σ(−s'), which lies in [s, s + reach]: Newton's method, kept in the bracket."""

    def newton(root: Array, score: Array, reach: Array) -> Array:
        calm = jax.nn.sigmoid(-root)
        return root - (root - score - reach * calm) / (1.0 + reach * calm * (1.0 - calm))

    fixed, far = lax.stop_gradient(score), lax.stop_gradient(reach)

    def step(_: Array, bracket: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        low, high, root = bracket
        above = root - fixed - far * jax.nn.sigmoid(-root) > 0
        low, high = jnp.where(above, low, root), jnp.where(above, root, high)
        ahead = newton(root, fixed, far)
        return low, high, jnp.where((ahead > low) & (ahead < high), ahead, 0.5 * (low + high))

    high = jnp.minimum(
        fixed + far, jnp.maximum(fixed, jnp.log1p(far)) + 1.0
    )  # beyond log(reach), reach·σ(−s') is below 1
    root = lax.fori_loop(0, NEWTON, step, (fixed, high, 0.5 * (fixed + high)))[2]
    # From the root, each further step doubles the order of the exact derivatives: two steps make them exact to third order.
    return newton(newton(root, score, reach), score, reach)
