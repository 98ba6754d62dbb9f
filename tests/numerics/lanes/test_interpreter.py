"""`over_lanes` gives what `jax.vmap` over the last axis gives, whatever the function is made of."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from lane_agreement import agree, agree_all

from performative.numerics.lanes.interpreter import over_lanes
from performative.numerics.precision import precise

LANES = 6
_random = np.random.default_rng(0)
V = _random.normal(size=(5, LANES))
W = _random.normal(size=(5, LANES))
M = _random.normal(size=(5, 5, LANES))
T = _random.normal(size=(2, 3, 4, LANES))
U = _random.normal(size=(2, 4, 3, LANES))
S = _random.normal(size=(LANES,))
I = _random.integers(0, 5, size=(3, LANES))  # noqa: E741
J = _random.integers(0, 5, size=(LANES,))
B = _random.normal(size=(5, LANES)) > 0
FIXED = _random.normal(size=(5, 5))
INDEX = np.array([4, 0, 2, 2])
POSITIVE = np.abs(V) + 0.5


@jax.custom_jvp
def cubed(x):
    return x**3


@cubed.defjvp
def _cubed_jvp(primals, tangents):
    return cubed(*primals), 10.0 * primals[0] ** 2 * tangents[0]  # not the derivative, to see that it is used


@jax.custom_vjp
def halved(x):
    return x / 2


halved.defvjp(lambda x: (x / 2, x), lambda x, g: (7.0 * g * x,))


CASES = {
    "contractions": {
        "matrix times vector": (lambda m, v: m @ v, M, V),
        "vector times matrix": (lambda m, v: v @ m, M, V),
        "inner product": (lambda v, w: v @ w, V, W),
        "outer product": (lambda v, w: jnp.outer(v, w), V, W),
        "matrix times matrix": (lambda m: m @ m, M),
        "fixed matrix on the left": (lambda v: FIXED @ v, V),
        "fixed matrix on the right": (lambda v: v @ FIXED, V),
        "fixed times mapped matrix": (lambda m: FIXED @ m @ FIXED.T, M),
        "batched contraction": (lambda t, u: t @ u, T, U),
        "einsum with a kept batch axis": (lambda t, u: jnp.einsum("aij,ajk->aik", t, u), T, U),
        "einsum over several axes": (lambda t, u: jnp.einsum("aij,aji->a", t, u), T, U),
        "einsum to a scalar": (lambda t, u: jnp.einsum("aij,aji->", t, u), T, U),
        "einsum with transposed result": (lambda t, u: jnp.einsum("aij,ajk->kia", t, u), T, U),
        "einsum of three": (lambda m, v, w: jnp.einsum("ij,i,j", m, v, w), M, V, W),
        "einsum with a trace": (lambda m: jnp.einsum("ii->i", m), M),
        "tensordot": (lambda t, u: jnp.tensordot(t, u, axes=((1, 2), (2, 1))), T, U),
        "kron": (lambda v, w: jnp.kron(v, w), V, W),
        "large contraction": (lambda m: jnp.tile(m, (8, 10)) @ jnp.tile(m, (10, 8)), M),
        "large contraction with a fixed matrix": (lambda m: jnp.tile(m, (8, 10)) @ np.tile(FIXED, (10, 8)), M),
    },
    "indices": {
        "constant index": (lambda v: v[2], V),
        "negative index": (lambda v: v[-1], V),
        "constant indices": (lambda v: v[INDEX], V),
        "constant indices of rows": (lambda m: m[INDEX], M),
        "constant indices of columns": (lambda m: m[:, INDEX], M),
        "constant indices of two axes": (lambda m: m[INDEX, INDEX[::-1]], M),
        "two-dimensional constant indices": (lambda m: m[INDEX.reshape(2, 2)], M),
        "traced index": (lambda v, j: v[j], V, J),
        "traced indices": (lambda v, i: v[i], V, I),
        "traced indices of columns": (lambda m, i: m[:, i], M, I),
        "traced indices of two axes": (lambda m, i: m[i, i], M, I),
        "traced indices of a fixed array": (lambda i: jnp.asarray(FIXED)[i], I),
        "indices out of range, filled": (lambda v: v.at[np.array([1, 9])].get(mode="fill", fill_value=-3.0), V),
        "indices out of range, clipped": (lambda v: v.at[np.array([1, 9])].get(mode="clip"), V),
        "no indices": (lambda m: m[np.array([], int)], M),
        "indices out of range": (lambda v: jnp.nan_to_num(v[np.array([1, 9])], nan=-3.0), V),
        "neighboring and repeated indices": (lambda m: m[np.array([1, 2, 3, 3, 3, 0, 4, 3, 2])], M),
        "rows between the axes of their indices": (
            lambda m: lax.gather(
                m,
                np.array([[[0], [1], [4]], [[2], [2], [3]]]),
                lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,)),
                slice_sizes=(1, 5),
            ),
            M,
        ),
        "take along an axis": (lambda m, i: jnp.take_along_axis(m[:3], i[:, None], axis=1), M, I),
        "boolean choice": (lambda v, b: jnp.where(b, v, 0.0), V, B),
        "dynamic slice, fixed start": (lambda v: lax.dynamic_slice(v, (1,), (3,)), V),
        "dynamic slice, traced start": (lambda v, j: lax.dynamic_slice(v, (j,), (2,)), V, J),
        "dynamic update": (lambda v, j: lax.dynamic_update_slice(v, jnp.ones(2), (j,)), V, J),
        "add at a constant index": (lambda v: v.at[1].add(3.0), V),
        "add at repeated constant indices": (lambda v: v.at[INDEX].add(v[:4]), V),
        "add at a traced index": (lambda v, j: v.at[j].add(v[0]), V, J),
        "set at traced indices": (lambda m, i: m.at[i[0]].set(m[i[1]]), M, I),
        "set rows of a fixed array": (lambda v: jnp.asarray(FIXED).at[1].set(v), V),
        "maximum at an index": (lambda v, j: v.at[j].max(0.3), V, J),
        "multiply at an index": (lambda v, j: v.at[j].multiply(2.0), V, J),
    },
    "shapes": {
        "strided slice": (lambda v: v[::2], V),
        "reversed": (lambda v: v[::-1], V),
        "reshape": (lambda t: t.reshape(6, 4), T),
        "ravel": (lambda t: t.reshape(-1), T),
        "transpose": (lambda t: t.transpose(2, 0, 1), T),
        "swap of axes": (lambda t: jnp.swapaxes(t, 0, 2), T),
        "new axes": (lambda v: v[:, None] - v[None], V),
        "squeeze": (lambda v: jnp.squeeze(v[:, None], 1), V),
        "broadcast": (lambda v: jnp.broadcast_to(v, (3, 5)), V),
        "broadcast of a scalar": (lambda s: jnp.broadcast_to(s, (3, 5)), S),
        "concatenate": (lambda v, w: jnp.concatenate([v, w[:2], jnp.ones(1)]), V, W),
        "concatenate along the second axis": (lambda m: jnp.concatenate([m, FIXED], axis=1), M),
        "stack": (lambda v, w: jnp.stack([v, w, v * w], axis=-1), V, W),
        "split": (lambda t: jnp.split(t, 2, axis=2), T),
        "tile": (lambda v: jnp.tile(v, 3), V),
        "repeat": (lambda v: jnp.repeat(v, 2), V),
        "roll": (lambda v: jnp.roll(v, 2), V),
        "pad": (lambda m: jnp.pad(m, ((1, 0), (2, 3)), constant_values=7.0), M),
        "pad by a value of the lane": (lambda v, s: lax.pad(v, s, ((1, 2, 1),)), V, S),
        "pad a fixed array by a value of the lane": (lambda s: lax.pad(jnp.arange(3.0), s, ((1, 2, 0),)), S),
        "negative padding": (lambda v: lax.pad(v, 0.0, ((-1, -1, 0),)), V),
        "pad by the edge": (lambda v: jnp.pad(v, 2, mode="edge"), V),
        "diagonal": (lambda m: jnp.diag(m), M),
        "diagonal matrix": (lambda v: jnp.diag(v), V),
        "triangle": (lambda m: jnp.tril(m), M),
    },
    "reductions": {
        "sum": (lambda t: jnp.sum(t), T),
        "sum over the last axis": (lambda t: jnp.sum(t, axis=-1), T),
        "sum over two axes": (lambda t: jnp.sum(t, axis=(0, 2)), T),
        "mean with kept axes": (lambda t: t - jnp.mean(t, axis=1, keepdims=True), T),
        "product": (lambda v: jnp.prod(v), V),
        "maximum with an initial value": (lambda v: jnp.max(v, initial=0.0), V),
        "minimum": (lambda t: jnp.min(t, axis=1), T),
        "variance": (lambda v: jnp.var(v), V),
        "norm": (lambda v: jnp.linalg.norm(v), V),
        "argmax": (lambda t: jnp.argmax(t, axis=1), T),
        "argmin over all": (lambda m: jnp.argmin(m), M),
        "any and all": (lambda b: (jnp.any(b), jnp.all(b)), B),
        "count": (lambda b: jnp.sum(b), B),
        "cumsum": (lambda m: jnp.cumsum(m, axis=0), M),
        "cumsum over the last axis": (lambda m: jnp.cumsum(m, axis=-1), M),
        "reverse cumsum": (lambda v: lax.cumsum(v, reverse=True), V),
        "cumulative product and maximum": (lambda v: (jnp.cumprod(v), lax.cummax(v), lax.cummin(v)), V),
        "cumulative logarithm of a sum": (lambda v: lax.cumlogsumexp(v), V),
        "logsumexp": (lambda v: jax.nn.logsumexp(v), V),
        "softmax": (lambda v: jax.nn.softmax(v), V),
        "sort": (lambda v: jnp.sort(v), V),
        "sort along the first axis": (lambda m: jnp.sort(m, axis=0), M),
        "descending sort": (lambda v: -jnp.sort(-v), V),
        "argsort": (lambda v: jnp.argsort(v), V),
        "sort of several by one": (lambda v, w: lax.sort((v, w), num_keys=1), V, W),
        "sort of several, one of them fixed": (lambda v: lax.sort((v, jnp.arange(5.0)), num_keys=1), V),
        "largest k": (lambda v: lax.top_k(v, 2), V),
        "median and quantile": (lambda v: (jnp.median(v), jnp.quantile(v, 0.3)), V),
    },
    "elementwise": {
        "arithmetic with scalars": (lambda v: 2.0 * v / 3.0 - 1.0 + v**2, V),
        "scalar of the lane times an array": (lambda v, s: s * v + v / s - s, V, S),
        "fixed array": (lambda v: v * np.arange(5.0), V),
        "elementary functions": (lambda v: jnp.exp(v) + jnp.sin(v) * jnp.tanh(v) - jnp.expm1(v) + jnp.cosh(v), V),
        "roots and logarithms": (
            lambda v: jnp.log(v) + jnp.sqrt(v) + lax.rsqrt(v) + jnp.log1p(v) + jnp.cbrt(v),
            POSITIVE,
        ),
        "powers": (lambda v: v**-2 + v**1.7 + 2.0**v, POSITIVE),
        "rounding": (lambda v: (jnp.floor(v), jnp.ceil(v), jnp.round(v), jnp.sign(v), jnp.abs(v)), V),
        "remainder": (lambda v, w: (v % w, jnp.remainder(v, 0.7), lax.rem(v, w)), V, POSITIVE),
        "arctangent of two": (lambda v, w: jnp.arctan2(v, w), V, W),
        "special functions": (lambda v: jax.scipy.special.ndtr(v) + lax.erf(v) + lax.lgamma(jnp.abs(v)), V),
        "inverse error function": (lambda v: lax.erf_inv(jnp.tanh(v)), V),
        "maximum and minimum": (lambda v, w: jnp.maximum(v, w) + jnp.minimum(v, 0.0), V, W),
        "clip": (lambda v: jnp.clip(v, -0.5, 0.5), V),
        "clip by arrays": (lambda v: jnp.clip(v, -np.ones(5), np.linspace(0, 1, 5)), V),
        "clip by bounds of the lane": (lambda v, s: lax.clamp(-jnp.abs(s), v, jnp.abs(s)), V, S),
        "clamp by bounds of each entry": (lambda v, w: lax.clamp(-jnp.abs(w), v, jnp.abs(w)), V, W),
        "clamp of a fixed array": (lambda s: lax.clamp(-jnp.abs(s), jnp.linspace(-2.0, 2.0, 5), jnp.abs(s)), S),
        "where on the array": (lambda v, w: jnp.where(v > 0, v, w), V, W),
        "where on a scalar of the lane": (lambda v, w, s: jnp.where(s > 0, v, w), V, W, S),
        "where on a fixed predicate": (lambda v, w: jnp.where(np.arange(5) > 2, v, w), V, W),
        "scalar choice": (lambda v, s: lax.select(s > 0, v, -v), V, S),
        "choice among three": (lambda v, w, j: lax.select_n(j % 3, v, w, v * w), V, W, J),
        "bits": (lambda i: (i & 1, i | 2, i ^ 3, i << 1, i >> 1, ~i, lax.population_count(i)), I),
        "comparisons": (lambda v, w: (v < w, v <= w, v > w, v >= w, v == w, v != w), V, W),
        "logic": (lambda b, v: (b & (v > 0.5), b | (v > 0.5), ~b), B, V),
        "not a number": (lambda v: (jnp.isnan(v / v), jnp.isfinite(v), jnp.isinf(v)), V),
        "conversions": (lambda v, b: (v.astype(jnp.int32), v.astype(jnp.float32), b.astype(jnp.float64)), V, B),
        "complex numbers": (lambda v, w: jnp.real((v + 1j * w) * jnp.conj(v + 1j * w)), V, W),
        "polynomial": (lambda v: jnp.polyval(jnp.array([1.0, -2.0, 0.5]), v), V),
    },
    "customized derivatives": {
        "softplus": (lambda v: jax.nn.softplus(v), V),
        "relu": (lambda v: jax.nn.relu(v), V),
        "gelu and silu": (lambda v: jax.nn.gelu(v) + jax.nn.silu(v), V),
        "own jvp": (lambda v: cubed(v), V),
        "gradient with an own jvp": (jax.grad(lambda v: jnp.sum(cubed(v))), V),
        "own vjp": (lambda v: halved(v), V),
        "gradient with an own vjp": (jax.grad(lambda v: jnp.sum(halved(v) ** 2)), V),
        "stop_gradient": (jax.grad(lambda v: jnp.sum(lax.stop_gradient(v) * v)), V),
        "rematerialization": (jax.grad(lambda v: jnp.sum(jax.checkpoint(lambda x: jnp.sin(x) * x)(v))), V),
    },
    "control flow": {
        "cond": (lambda v, s: lax.cond(s > 0, lambda x: x * 2, lambda x: jnp.sin(x), v), V, S),
        "cond on a fixed predicate": (lambda v: lax.cond(jnp.asarray(True), jnp.cos, jnp.sin, v), V),
        "switch": (lambda v, j: lax.switch(j % 3, [jnp.sin, jnp.cos, jnp.tanh], v), V, J),
        "scan": (lambda v: lax.scan(lambda c, x: (c * 0.5 + x, c), 0.0, v), V),
        "scan with a fixed input": (lambda s: lax.scan(lambda c, x: (c * 0.5 + x, c), s, jnp.arange(4.0)), S),
        "scan of nothing": (lambda v: lax.scan(lambda c, x: (c * 0.5 + x, c), 1.0, v[:0]), V),
        "fixed number of rounds": (lambda v: lax.fori_loop(0, 4, lambda i, c: jnp.sin(c) + i, v), V),
        "number of rounds of the lane": (lambda v, j: lax.fori_loop(0, j, lambda i, c: jnp.sin(c) + i, v), V, J),
        "while": (lambda v: lax.while_loop(lambda c: jnp.sum(c**2) > 0.1, lambda c: 0.7 * c, v), V),
        "while, until the lane's own limit": (
            lambda v, s: lax.while_loop(lambda c: jnp.sum(c**2) > s**2, lambda c: 0.7 * c - 0.1 * s, v),
            V,
            S,
        ),
        "while, alike in all lanes": (
            lambda v: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.sin(c[1])), (0, v)),
            V,
        ),
        "while, lanes that come in on the way": (
            lambda s: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[2], s * c[0]), (0, 1.0, 2.0)),
            S,
        ),
        "cond of two results": (lambda v, s: lax.cond(s > 0, lambda x: (x, s), lambda x: (x + 1, 2.0), v), V, S),
        "cond inside while": (
            lambda v: lax.while_loop(
                lambda c: jnp.max(c) > 0.1, lambda c: lax.cond(c[0] > 0, lambda x: 0.5 * x, lambda x: x - 1.0, c), v
            ),
            V,
        ),
        "nested jit": (lambda v: jax.jit(lambda x: jax.jit(jnp.sin)(x) * 2)(v), V),
        "nested vmap": (lambda m, v: jax.vmap(lambda row: row @ v)(m), M, V),
        "map": (lambda m: lax.map(jnp.sum, m), M),
    },
    "linear algebra, through vmap": {
        "solve": (lambda m, v: jnp.linalg.solve(m, v), M, V),
        "cholesky": (lambda m: jnp.linalg.cholesky(m @ m.T + jnp.eye(5)), M),
        "convolution": (lambda v, w: jnp.convolve(v, w[:3]), V, W),
        "interpolation": (lambda v: jnp.interp(v, np.linspace(-3, 3, 7), np.arange(7.0)), V),
    },
    "trees and constants": {
        "tree in, tree out": (lambda d: {"a": d["x"] * 2, "b": (d["y"], None)}, {"x": V, "y": S}),
        "scalars": (lambda s: s * s + 1, S),
        "input handed through": (lambda v: v, V),
        "the same output twice": (lambda v: (v * 2, v * 2), V),
        "constant array": (lambda v: jnp.arange(3.0), V),
        "constant number": (lambda v: 1.5, V),
        "closed-over array": (lambda v: jnp.asarray(FIXED), V),
        "constant next to a lane": (lambda v: (jnp.zeros((2, 2), jnp.int32), v[0]), V),
        "empty array": (lambda v: (jnp.zeros((0,)), v[:0], jnp.sum(v[:0])), V),
    },
}


@pytest.mark.parametrize("group", CASES)
def test_over_lanes_equals_vmap(group):
    agree_all(CASES[group])


def test_a_branch_that_no_lane_takes_is_not_computed():
    calls = []

    def told(x):
        calls.append(1)
        return x

    def either(s):
        shape = jax.ShapeDtypeStruct((), s.dtype)
        return lax.cond(s > 0, lambda x: jax.pure_callback(told, shape, x, vmap_method="sequential"), jnp.sin, s)

    with precise():
        mapped = jax.jit(over_lanes(either))
        np.testing.assert_allclose(mapped(-np.abs(S)), np.sin(-np.abs(S)))
        assert not calls
        np.testing.assert_allclose(mapped(S), np.where(S > 0, S, np.sin(S)))
        assert len(calls) == LANES


SMOOTH = {
    "quadratic form": lambda v: v @ FIXED @ v,
    "constant indices": lambda v: jnp.sum(v[INDEX] ** 3),
    "scatter": lambda v: jnp.sum(jnp.zeros(5).at[INDEX].add(v[:4] ** 2) ** 2),
    "sort": lambda v: jnp.sum(jnp.sort(v) * np.arange(5.0) ** 2 * v),
    "cumsum": lambda v: jnp.sum(jnp.cumsum(v) ** 3),
    "where": lambda v: jnp.sum(jnp.where(v > 0, v**2, -(v**3))),
    "clip": lambda v: jnp.sum(jnp.clip(v, -0.5, 0.5) ** 2 * v),
    "pad": lambda v: jnp.sum(jnp.pad(v**2, 2, mode="edge") ** 2),
    "concatenate": lambda v: jnp.prod(jnp.concatenate([v, v[1:3]])),
    "maximum": lambda v: jnp.max(v) ** 2,
    "softplus": lambda v: jnp.sum(jax.nn.softplus(v @ FIXED)),
    "relu": lambda v: jnp.sum(jax.nn.relu(v) ** 3),
    "logsumexp": lambda v: jax.nn.logsumexp(v * 3),
    "einsum": lambda v: jnp.einsum("i,j,k,ij,jk", v, v, v, FIXED, FIXED),
    "norm": lambda v: jnp.sqrt(jnp.sum(v * v)),
    "scan": lambda v: lax.scan(lambda c, x: (jnp.sin(c) + x**2, None), 0.0, v)[0],
    "cond": lambda v: lax.cond(v[0] > 0, lambda x: jnp.sum(x**2), lambda x: jnp.sum(x**3), v),
}


DERIVATIVES = {
    "grad": lambda function: (jax.value_and_grad(function), V),
    "jvp": lambda function: (lambda v, w: jax.jvp(function, (v,), (w,)), V, W),
    "hessian": lambda function: (jax.hessian(function), V),
}


@pytest.mark.parametrize("derivative", DERIVATIVES)
def test_over_lanes_equals_vmap_on_derivatives(derivative):
    agree_all({name: DERIVATIVES[derivative](function) for name, function in SMOOTH.items()})


def keys():
    return jax.random.split(jax.random.key(3), LANES)


RANDOM = {
    "uniform": lambda key: jax.random.uniform(key, (3,)),
    "normal": lambda key: jax.random.normal(key, (2, 2)),
    "bits": lambda key: jax.random.bits(key, (4,), jnp.uint64),
    "integers": lambda key: jax.random.randint(key, (4,), 0, 10),
    "permutation": lambda key: jax.random.permutation(key, 5),
    "choice": lambda key: jax.random.choice(key, jnp.asarray(FIXED[0])),
    "folded": lambda key: jax.random.normal(jax.random.fold_in(key, 7)),
    "split": lambda key: jax.random.split(key, 3),
    "one of a split": lambda key: jax.random.uniform(jax.random.split(key, 3)[1]),
    "stacked keys": lambda key: jnp.stack([key, jax.random.fold_in(key, 1)]),
    "nested vmap over folded keys": lambda key: jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(3)),
}


def test_over_lanes_equals_vmap_on_random_draws():
    with precise():
        between = (lambda key, s: jnp.where(s > 0, key, jax.random.fold_in(key, 1)), keys(), S)
        agree_all({name: (draw, keys()) for name, draw in RANDOM.items()} | {"choice between keys": between})


def test_literals_take_the_type_of_their_partner():
    def function(v):
        return v + 1, v * 2, jnp.where(v > 1, v, 3), jnp.maximum(v, 1)

    dtypes = (jnp.int8, jnp.int32, jnp.uint32, jnp.uint64, jnp.float32)
    agree_all({dtype.__name__: (function, (3 * np.abs(V)).astype(dtype)) for dtype in dtypes})


def test_one_lane_is_enough():
    agree(lambda m, v: jnp.sort(m @ v)[INDEX], M[..., :1], V[..., :1])


def test_as_many_lanes_as_entries_are_not_mistaken_for_entries():
    square = np.random.default_rng(1).normal(size=(6, 6, 6))
    vector = np.random.default_rng(2).normal(size=(6, 6))
    scalar = np.random.default_rng(3).normal(size=(6,))
    agree(
        lambda m, v, s: (m @ v * s, jnp.where(s > 0, m, v), jnp.cumsum(m, 1) + s, v[np.arange(6)[::-1]], m.T - v),
        square,
        vector,
        scalar,
    )


def test_uncompiled_calls_agree_too():
    with precise():
        function = lambda m, v: (jnp.sort(m @ v)[INDEX], jnp.sum(v), 1.0)  # noqa: E731
        expected = jax.vmap(function, in_axes=-1, out_axes=-1)(jnp.asarray(M), jnp.asarray(V))
        for ours, theirs in zip(over_lanes(function)(jnp.asarray(M), jnp.asarray(V)), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_nothing_is_lost_inside_a_loop():
    with precise():
        function = lambda m, v: jnp.tanh(m @ v)  # noqa: E731
        plain = jax.vmap(function, in_axes=-1, out_axes=-1)

        def repeated(mapped):
            return lax.fori_loop(0, 3, lambda _, v: mapped(jnp.asarray(M), v), jnp.asarray(V))

        np.testing.assert_allclose(repeated(over_lanes(function)), repeated(plain), rtol=1e-12)


def test_loops_keep_the_lanes_last():
    """A loop that carries a counter without lanes, one with, and one that gets them on the way; over slices, and backwards."""

    def looped(x, y):
        def body(carry, piece):
            count, plain, grown = carry
            grown = grown + plain * piece
            return (count + 1, plain + jnp.sum(x), grown * count), grown

        last, stacked = jax.lax.scan(body, (0, 0.0, jnp.zeros(3)), y, reverse=True)
        powers = jax.lax.fori_loop(0, 4, lambda i, value: value * 0.5 + x[i % 3], jnp.zeros(()))
        return last, stacked, powers

    with precise():
        random = np.random.default_rng(0)
        x, y = jnp.asarray(random.normal(size=(3, 7))), jnp.asarray(random.normal(size=(5, 3, 7)))
        expected = jax.vmap(looped, in_axes=-1, out_axes=-1)(x, y)
        for one, other in zip(jax.tree.leaves(over_lanes(looped)(x, y)), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-13)
