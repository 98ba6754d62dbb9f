"""NumPy's arrays, JAX's, and those that are traced."""

from __future__ import annotations

from typing import Any, TypeVar

import jax
import numpy as np

from performative.numerics.precision import in_float64

T = TypeVar("T")


def is_traced(*values: Any) -> bool:
    """Whether any leaf is a JAX tracer, whose values were checked while they were concrete."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))


@in_float64
def jax_arrays(tree: T) -> T:
    """The tree with its NumPy arrays as JAX arrays, so that functions written in `jax.numpy` can use all of their methods."""
    return jax.tree.map(lambda leaf: jax.device_put(leaf) if isinstance(leaf, np.ndarray | np.generic) else leaf, tree)
