"""The types of arrays.

Fields of pytrees are annotated `Array`, JAX's type, which is what they hold inside a compiled function. Outside of one, the
user's numbers are NumPy arrays of float64: JAX would make them single precision outside of `precise`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from jax import Array

Floats = NDArray[np.float64]


def as_field(numbers: Any) -> Array:
    """The same numbers, typed as a field."""
    return cast("Array", numbers)
