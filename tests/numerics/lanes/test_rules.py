"""Contractions and sums keep their types and their numbers whichever way they are computed."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lane_agreement import agree, agree_all

from performative.numerics import lanes
from performative.numerics.lanes import rules
from performative.numerics.lanes.interpreter import over_lanes
from performative.numerics.precision import precise

LANES = 6
_random = np.random.default_rng(0)
V = _random.normal(size=(5, LANES))
M = _random.normal(size=(5, 5, LANES))
T = _random.normal(size=(2, 3, 4, LANES))
U = _random.normal(size=(2, 4, 3, LANES))
FIXED = _random.normal(size=(5, 5))


def test_contractions_keep_the_type_of_their_result():
    dtypes = (jnp.int32, jnp.int64, jnp.uint8, jnp.bool_, jnp.complex128)
    agree_all({dtype.__name__: (lambda m: m @ m, (3 * np.abs(M)).astype(dtype)) for dtype in dtypes})


def test_contractions_in_float32_keep_their_type():
    with precise():
        got = over_lanes(lambda m: m @ m)(jnp.asarray(M, jnp.float32))
    assert got.dtype == jnp.float32
    # Five products of order 1 each in float32, whose unit is 1e-7.
    np.testing.assert_allclose(got, np.einsum("ijn,jkn->ikn", M, M), atol=1e-5)


def test_contractions_keep_a_preferred_type():
    agree(lambda m: jnp.matmul(m, m, preferred_element_type=jnp.float64), np.round(3 * M).astype(np.float32))


@pytest.mark.parametrize("unrolled", [0, 1 << 14])
def test_contractions_agree_on_both_sides_of_the_size_limit(monkeypatch, unrolled):
    monkeypatch.setattr(rules, "UNROLLED", unrolled)
    agree(lambda m, v, t, u: (m @ v, v @ m, FIXED @ v, jnp.einsum("aij,ajk->kia", t, u)), M, V, T, U)


@pytest.mark.parametrize("size", [5, 40])
def test_what_all_lanes_share_needs_no_axis_for_them(size):
    matrix, vector = _random.normal(size=(size, size)), _random.normal(size=(size, LANES))

    def function(matrix, vector):
        return matrix @ vector, jnp.sum(matrix * vector), jnp.sum(matrix)

    with precise():
        got = over_lanes(function)(lanes.Same(jnp.asarray(matrix)), jnp.asarray(vector))
        expected = jax.vmap(function, in_axes=(None, -1), out_axes=-1)(matrix, vector)
    for ours, theirs in zip(got, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_outer_products_and_long_sums_of_few_or_many_lanes():
    def function(a, b):
        return jnp.outer(a, b), a @ b, jnp.sum(a * b), jnp.sum(jnp.outer(a, b))

    shapes = [(rows, count) for rows in (3, 40) for count in (1, LANES)]
    agree_all({f"{shape}": (function, *_random.normal(size=(2, *shape))) for shape in shapes})
