"""Equations between constants, computed by NumPy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from performative.numerics.lanes import constants as module
from performative.numerics.lanes import interpreter
from performative.numerics.lanes.interpreter import over_lanes
from performative.numerics.precision import precise

V = np.random.default_rng(0).normal(size=(5, 6))
FIXED = np.random.default_rng(1).normal(size=(5, 5))
INDEX = np.array([4, 0, 2, 2])


def constants(x):
    rows = jnp.where(INDEX < 2, INDEX + 1, INDEX)[None] + jnp.arange(2)[:, None]
    words = jnp.arange(3, dtype=jnp.uint32).astype(jnp.uint64) * np.uint64(2**63 + 1)
    flags = jnp.concatenate([rows[0] < 2, jnp.ones(1, bool)])
    chosen = jnp.where(flags, jnp.zeros(5), FIXED[0])
    case = lax.select_n(np.int32(2), *(jnp.full(3, value) for value in (1, 2, 3)))
    spread = jnp.broadcast_to(chosen.reshape(5, 1), (5, 2)), lax.broadcasted_iota(jnp.int32, (2, 3), 0)
    apart = FIXED - lax.transpose(FIXED + 1.0, (1, 0))
    ratio = lax.div(-apart, lax.expand_dims(FIXED[0], (0,)) + jnp.zeros((5, 5)))
    tiny = lax.mul(ratio, np.float64(1e-308)), lax.div(np.ones(2), np.array([0.0, -np.inf]))
    sides = [compare(apart, ratio) for compare in (lax.lt, lax.le, lax.gt, lax.ge, lax.eq, lax.ne)]
    split = lax.split(ratio, (2, 3)), lax.squeeze(ratio[:1], (0,)), lax.is_finite(ratio)
    whole = jnp.asarray([1, 2**62 + 1, -3]).astype(float), -jnp.arange(3), jnp.arange(4) - 7
    return jnp.sum(x), rows, words, flags, chosen, case, spread, ratio, tiny, sides, split, whole


def test_constants_by_numpy_have_the_bits_of_compiled_ones(monkeypatch):
    with precise():
        ours = jax.tree.leaves(over_lanes(constants)(jnp.asarray(V)))
        monkeypatch.setattr(module, "_PLAIN", {})
        theirs = jax.tree.leaves(over_lanes(constants)(jnp.asarray(V)))
    for one, other in zip(ours, theirs, strict=True):
        assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


def test_constants_are_not_compiled(monkeypatch):
    reached = set()
    by_numpy = interpreter.by_numpy
    monkeypatch.setattr(
        interpreter, "by_numpy", lambda *operands: reached.add(operands[0].primitive.name) or by_numpy(*operands)
    )
    with precise():
        jax.make_jaxpr(over_lanes(constants))(jnp.asarray(V))
    assert reached == set(module._PLAIN)
