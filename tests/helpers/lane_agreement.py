"""`over_lanes` against `jax.vmap` over the last axis."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from performative.numerics.lanes.interpreter import over_lanes
from performative.numerics.precision import precise

# The tests check what is computed, not how fast: a program that is not optimized compiles several times faster.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def agree(function, *arguments):
    """Same tree, same types, same shapes, same numbers."""
    agree_all({"": (function, *arguments)})


def agree_all(cases):
    """The same for many functions, {name: (function, *arguments)}, compiled as one program."""
    with precise():
        cases = {name: (function, *jax.tree.map(jnp.asarray, rest)) for name, (function, *rest) in cases.items()}

        def both(arguments):
            return {
                name: (
                    jax.vmap(function, in_axes=-1, out_axes=-1)(*arguments[name]),
                    over_lanes(function)(*arguments[name]),
                )
                for name, (function, *_) in cases.items()
            }

        arguments = {name: rest for name, (_, *rest) in cases.items()}
        results = jax.jit(both, compiler_options=QUICK)(arguments)
    for name, (expected, got) in results.items():
        _compare(name, expected, got)


def _compare(name, expected, got):
    assert jax.tree.structure(got) == jax.tree.structure(expected), name
    for ours, theirs in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype), name
        if jnp.issubdtype(ours.dtype, jax.dtypes.prng_key):
            ours, theirs = jax.random.key_data(ours), jax.random.key_data(theirs)
        # Sums of up to a few hundred products in another order: rounding of order 1e-15 times their size.
        np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-12, atol=1e-12, err_msg=name)
