"""Several decision-makers who move the same data: the view of one of them while the others stay put."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from performative.environments.bases import Base, Empirical, Gaussian
from performative.environments.location import LocationFamily
from performative.environments.reaction import require_base
from performative.numerics.pytrees import assign, pytree
from performative.validation import finite_array, whole


@pytree()
class LocationGame:
    """Z = Z₀ + Σ_i A_i θ_i: every player's decision θ_i moves the data (Narang et al. 2023).

    `effects` holds A_i (k, d_i) for each player. With the others' decisions fixed, the world of one player is a location
    family, which `view` gives.
    """

    base: Any
    effects: Any

    def __init__(self, base: Base, effects: Sequence[Any]) -> None:
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

    def view(self, player: int, decisions: Sequence[Any]) -> LocationFamily:
        """The world of `player` while every other player i keeps decisions[i]; the player's own entry is not read."""
        player = whole("player", player, 0, len(self.effects) - 1)
        if len(decisions) != len(self.effects):
            raise ValueError(
                f"`decisions` must hold one for each of {len(self.effects)} players, but got {len(decisions)}"
            )
        moved = np.zeros(self.base.width)
        for i, effect in enumerate(self.effects):
            if i != player:
                kept = finite_array(f"decisions[{i}]", decisions[i], 1)
                if kept.shape != effect.shape[1:]:
                    raise ValueError(f"`decisions[{i}]` must have shape {effect.shape[1:]}, but got {kept.shape}")
                moved = moved + effect @ kept
        return LocationFamily(_moved(self.base, moved), self.effects[player])


def _moved(base: Any, by: Any) -> Base:
    if isinstance(base, Gaussian):
        return Gaussian(base.mean + by, base.covariance)
    if isinstance(base, Empirical):
        return Empirical(base.samples + by)
    raise TypeError(f"`base` must be a Gaussian or Empirical to be moved, but got {type(base).__name__}")
