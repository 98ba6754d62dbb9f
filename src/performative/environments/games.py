"""Several decision-makers who move the same data, as one of them sees it while the others stay put."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from performative.environments.bases import Base, Empirical, Gaussian
from performative.environments.location import LocationFamily
from performative.environments.reaction import require_base
from performative.numerics.arrays import Floats
from performative.numerics.pytrees import assign, pytree
from performative.validation import finite_array, whole


@pytree()
class LocationGame:
    """Z = Z₀ + Σ_i A_i θ_i: every player's decision θ_i moves the data (Narang et al. 2023).

    `effects` holds A_i (k, d_i) for each player. With the others' decisions fixed, one player's world is a location family,
    which `view` returns.

    >>> import performative as pf
    >>> game = pf.LocationGame(pf.Gaussian([3.0], [1.0]), effects=[[[-1.0]], [[0.5]]])
    >>> market = game.view(0, [None, [2.0]])  # what player 0 faces while player 1 plays 2
    >>> market.base.mean.tolist(), market.effect.tolist()
    ([4.0], [[-1.0]])
    """

    base: Base
    effects: tuple[Array, ...]

    def __init__(self, base: Base, effects: Sequence[ArrayLike]) -> None:
        require_base(base)
        matrices = tuple(finite_array(f"effects[{i}]", effect, 2) for i, effect in enumerate(effects))
        if len(matrices) < 2:
            raise ValueError(
                f"`effects` must hold one matrix for each of at least two players, but got {len(matrices)}"
            )
        for i, effect in enumerate(matrices):
            if effect.shape[0] != base.width:
                raise ValueError(
                    f"`effects[{i}]` must have one row for each of the {base.width} numbers in a sample, but got {effect.shape}"
                )
        assign(self, base=base, effects=matrices)

    def view(self, player: int, decisions: Sequence[ArrayLike | None]) -> LocationFamily:
        """The world of `player` while every other player i keeps decisions[i]; the player's own entry is ignored."""
        player = whole("player", player, 0, len(self.effects) - 1)
        if len(decisions) != len(self.effects):
            raise ValueError(
                f"`decisions` must hold one for each of {len(self.effects)} players, but got {len(decisions)}"
            )
        shift = np.zeros(self.base.width)
        for i, effect in enumerate(self.effects):
            if i != player:
                decision = finite_array(f"decisions[{i}]", decisions[i], 1)
                if decision.shape != effect.shape[1:]:
                    raise ValueError(f"`decisions[{i}]` must have shape {effect.shape[1:]}, but got {decision.shape}")
                shift = shift + np.asarray(effect) @ decision
        return LocationFamily(_moved(self.base, shift), self.effects[player])


def _moved(base: Base, by: Floats) -> Base:
    if isinstance(base, Gaussian):
        return Gaussian(base.mean + by, base.covariance)
    if isinstance(base, Empirical):
        return Empirical(base.samples + by)
    raise TypeError(f"`base` must be a Gaussian or Empirical to be moved, but got {type(base).__name__}")
