"""Map a function over lanes that lie on the last axis of every array."""

from performative.numerics.lanes.interpreter import count_lanes, one_lane, over_lanes
from performative.numerics.lanes.values import Same

__all__ = ["Same", "count_lanes", "one_lane", "over_lanes"]
