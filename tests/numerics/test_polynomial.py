"""Degrees of polynomials and analyticity, read off programs."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from performative.numerics import polynomial

K = 4
FIXED = np.random.default_rng(0).normal(size=(K, K))
ZERO = np.zeros(K)


@jax.custom_jvp
def own_jvp(x):
    return x * x


own_jvp.defjvp(lambda primals, tangents: (own_jvp(*primals), 2 * primals[0] * tangents[0]))


@jax.custom_vjp
def own_vjp(x):
    return x * x


own_vjp.defvjp(lambda x: (x * x, x), lambda x, g: (2 * x * g,))


@jax.custom_jvp
def looks_like_logaddexp(x, y):
    return jnp.maximum(x, y)


looks_like_logaddexp.defjvp(lambda primals, tangents: (looks_like_logaddexp(*primals), tangents[0]))


DEGREES = {
    "constant": (lambda z: 3.0, 0),
    "constant array": (lambda z: jnp.ones(3), 0),
    "linear": (lambda z: 2.0 * z[0] - jnp.sum(z) / 3.0 + 1.0, 1),
    "mean": (lambda z: jnp.mean(z), 1),
    "fixed matrix": (lambda z: FIXED @ z, 1),
    "quadratic": (lambda z: jnp.sum(z**2), 2),
    "product of entries": (lambda z: z[0] * z[1] + z[2], 2),
    "quadratic form": (lambda z: z @ FIXED @ z, 2),
    "square": (lambda z: jnp.square(z - 1.0), 2),
    "variance": (lambda z: jnp.var(z), 2),
    "cubic": (lambda z: jnp.sum(z**3) + z[0] ** 2, 3),
    "cubic by products": (lambda z: z[0] * z[1] * z[2], 3),
    "quartic": (lambda z: jnp.sum((z @ z) ** 2), 4),
    "power zero": (lambda z: jnp.sum(z**0), 0),
    "reshape": (lambda z: jnp.sum(z.reshape(2, 2) ** 2), 2),
    "transpose": (lambda z: jnp.sum(z.reshape(2, 2).T * z.reshape(2, 2)), 2),
    "slicing": (lambda z: jnp.sum(z[1:3] ** 2) + jnp.sum(z[::-2]), 2),
    "constant indices": (lambda z: jnp.sum(z[np.array([0, 3, 3])] ** 2), 2),
    "concatenate": (lambda z: jnp.sum(jnp.concatenate([z, jnp.ones(2), z[:1]]) ** 2), 2),
    "stack": (lambda z: jnp.sum(jnp.stack([z, 2 * z]) ** 2), 2),
    "tile": (lambda z: jnp.sum(jnp.tile(z, 2) ** 2), 2),
    "repeat": (lambda z: jnp.sum(jnp.repeat(z, 2) ** 2), 2),
    "split": (lambda z: jnp.sum(jnp.split(z, 2)[0] ** 2), 2),
    "number by number": (lambda z: jnp.sum(jnp.concatenate([z, jnp.ones(K)]) * jnp.concatenate([jnp.ones(K), z])), 1),
    "customized derivatives": (lambda z: jnp.sum(own_jvp(z)), 2),
    "customized transposed derivatives": (lambda z: jnp.sum(own_vjp(z)), 2),
    "product of scalars by einsum": (lambda z: jnp.einsum(",->", z[0], z[1]), 2),
    "pad": (lambda z: jnp.sum(jnp.pad(z, 2) ** 2), 2),
    "matmul": (lambda z: jnp.sum((FIXED @ z) ** 2), 2),
    "einsum": (lambda z: jnp.einsum("i,ij,j->", z, FIXED, z), 2),
    "cubic einsum": (lambda z: jnp.einsum("i,j,k->", z, z, z), 3),
    "cumsum": (lambda z: jnp.sum(jnp.cumsum(z) ** 2), 2),
    "scatter": (lambda z: jnp.sum(jnp.zeros(6).at[np.array([0, 2])].add(z[:2]) ** 2), 2),
    "set": (lambda z: jnp.sum(z.at[1].set(0.0) ** 2), 2),
    "where on a constant": (lambda z: jnp.sum(jnp.where(np.arange(K) > 1, z, 0.0) ** 2), 2),
    "nested jit": (lambda z: jax.jit(lambda x: jnp.sum(x * x))(z), 2),
    "remat": (lambda z: jax.checkpoint(lambda x: jnp.sum(x * x))(z), 2),
    "vmap": (lambda z: jnp.sum(jax.vmap(lambda row: (row @ z) ** 2)(jnp.asarray(FIXED))), 2),
    "gradient of a cubic": (lambda z: jax.grad(lambda x: jnp.sum(x**3))(z), 2),
    "fixed function of constants": (lambda z: jnp.exp(jnp.asarray(FIXED[0])) @ z, 1),
    "pinball": (lambda z: jnp.maximum(0.3 * z[0], -0.7 * z[0]), math.inf),
    "where on the data": (lambda z: jnp.sum(jnp.where(z > 0, z, 2 * z)), math.inf),
    "abs": (lambda z: jnp.sum(jnp.abs(z)), math.inf),
    "sign": (lambda z: jnp.sum(jnp.sign(z)), math.inf),
    "floor": (lambda z: jnp.sum(jnp.floor(z)), math.inf),
    "clip": (lambda z: jnp.sum(jnp.clip(z, -1, 1)), math.inf),
    "relu": (lambda z: jnp.sum(jax.nn.relu(z)), math.inf),
    "sort": (lambda z: jnp.sort(z)[0], math.inf),
    "max": (lambda z: jnp.max(z), math.inf),
    "exp": (lambda z: jnp.sum(jnp.exp(z)), math.inf),
    "logistic": (lambda z: jnp.sum(jnp.logaddexp(0.0, z)), math.inf),
    "ratio": (lambda z: z[0] / (1.0 + z[1] ** 2), math.inf),
    "negative power": (lambda z: jnp.sum((2.0 + z) ** -1), math.inf),
    "norm": (lambda z: jnp.sqrt(1.0 + jnp.sum(z * z)), math.inf),
    "data as index": (lambda z: jnp.asarray(FIXED)[0, z[0].astype(int)], math.inf),
    "scan": (lambda z: lax.scan(lambda c, x: (c * x, None), 1.0, z)[0], math.inf),
    "truncated to whole numbers": (lambda z: jnp.sum(z.astype(jnp.int64).astype(jnp.float64)), math.inf),
    "truncated to booleans": (lambda z: jnp.sum(z.astype(bool).astype(jnp.float64)), math.inf),
}


@pytest.mark.parametrize("name", DEGREES)
def test_degree_is_read_off_the_program(name):
    function, degree = DEGREES[name]
    assert polynomial.degree(function, ZERO) == degree


def test_degree_counts_one_argument_at_a_time():
    def loss(theta, z):
        return jnp.sum(theta * z) + jnp.sum(theta**3)

    theta = np.ones(K)
    assert polynomial.degree(lambda z: loss(theta, z), ZERO) == 1
    assert polynomial.degree(lambda theta: loss(theta, ZERO), theta) == 3
    assert polynomial.degree(lambda both: loss(both, both), theta) == 3
    assert polynomial.degree(lambda both: jnp.sum(both[0] * both[1]), (theta, ZERO)) == 2


def test_analytic_functions_are_told_from_piecewise_ones():
    assert polynomial.is_analytic(lambda theta, z: jnp.sum(jnp.exp(theta * z)), ZERO, ZERO)
    assert not polynomial.is_analytic(lambda theta, z: jnp.sum(jnp.abs(theta) * z), ZERO, ZERO)
    assert not polynomial.is_analytic(lambda theta, z: jnp.sum(theta * jnp.abs(z)), ZERO, ZERO)
    assert not polynomial.is_analytic(lambda theta, z: jnp.sum(looks_like_logaddexp(theta, z)), ZERO, ZERO)


@pytest.mark.parametrize(
    "function",
    [lambda x: jnp.logaddexp(0.0, x), lambda x: jnp.logaddexp(x, 2 * x[0]), jax.nn.softplus, jax.nn.log_sigmoid],
    ids=["logaddexp", "of two", "softplus", "log sigmoid"],
)
def test_the_logistic_function_is_analytic_however_it_is_written(function):
    assert polynomial.is_analytic(lambda theta, z: jnp.sum(function(theta * z)), ZERO, ZERO)
