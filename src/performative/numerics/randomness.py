"""Random keys, and the standard normal numbers that a simulation draws from them."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from performative.numerics.arrays import as_field

_LOGARITHM = [2 / (2 * k + 1) for k in range(10)]
_SINE = [(-1) ** k / math.factorial(2 * k + 1) for k in range(11)]
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FRACTION = np.uint64((1 << 52) - 1)
_ROOT_HALF = np.uint64(np.float64(math.sqrt(0.5)).view(np.uint64))


def new_key(seed: int | Array) -> Array:
    """The root of all randomness of a run: a threefry key, whatever the user's default generator is."""
    if isinstance(seed, int):  # its two words, as they are: nothing is compiled
        words = np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32)
        return jax.random.wrap_key_data(as_field(words), impl="threefry2x32")
    return jax.random.key(seed, impl="threefry2x32")


def standard_normal(key: Array, size: int) -> Array:
    """Standard normal numbers (size,). The first ones do not depend on how many are drawn."""
    require_key(key)
    words = jax.random.key_data(key)  # two for threefry keys; a user's generator may have more
    first, second = (functools.reduce(jnp.bitwise_xor, words[parity::2]) for parity in (0, 1))
    return normals_from(first, second, size)


def require_key(key: Any) -> None:
    """Refuse a seed in place of a key."""
    dtype = getattr(key, "dtype", None)
    if dtype is None or not (jnp.issubdtype(dtype, jax.dtypes.prng_key) or np.ndim(key)):
        raise TypeError(f"`key` must be a random key, but got {key!r}; write jax.random.key(0)")


def normals_from(first: Array, second: Array, size: int) -> Array:
    """√(−2 log u)·sin a with u uniform on (0, 1] and a on [−π/2, π/2): the standard normals (size,) of a key's two words.

    The bits come from SplitMix64 (Steele, Lea, Flood 2014) started at the key; keys are far apart because threefry makes
    them. Both functions are series, exact to a few units in the last place on the ranges that occur. Every number is
    elementwise arithmetic on its own counter, which runs along the lanes of a simulation at a quarter of the cost of
    `jax.random.normal`. Numbers are not drawn in pairs, since taking pairs apart would cost more.
    """
    if isinstance(first, jax.core.Tracer):
        return _traced_normals(first, second, size)
    return _normals(first, second, size)


def _normals(first: Array, second: Array, size: int) -> Array:
    start = (first.astype(jnp.uint64) << 32) | second.astype(jnp.uint64)
    counter = start + (2 * jnp.arange(size, dtype=jnp.uint64) + 1) * _GOLDEN
    u = 2.0 - _one_to_two(_mixed(counter))
    angle = (_one_to_two(_mixed(counter + _GOLDEN)) - 1.5) * math.pi
    return jnp.sqrt(-2.0 * _log(u)) * (angle * _series(_SINE, angle * angle))


# Within a program that is being traced, a part of it that was traced before is taken over. Outside of one, its operations run one
# by one: compiled together they may differ in the last bit, depending on how many numbers there are.
_traced_normals = jax.jit(_normals, static_argnums=2, inline=True)


def fold_in(first: Array, second: Array, number: Array) -> tuple[Array, Array]:
    """The two words of `jax.random.fold_in(key, number)`, 0 ≤ number < 2³²: threefry-2x32 of the number (Salmon et al. 2011)."""
    schedule = (first, second, first ^ second ^ np.uint32(0x1BD11BDA))
    left = jnp.zeros_like(number, jnp.uint32) + first
    right = number.astype(jnp.uint32) + second
    for group in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            left = left + right
            right = ((right << turn) | (right >> (32 - turn))) ^ left
        left = left + schedule[(group + 1) % 3]
        right = right + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return left, right


def _mixed(counter: Array) -> Array:
    """The output function of SplitMix64."""
    mixed = (counter ^ (counter >> 30)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> 27)) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> 31)


def _one_to_two(bits: Array) -> Array:
    """Uniform on [1, 2): the upper 52 bits as a fraction."""
    return lax.bitcast_convert_type((bits >> 12) | np.uint64(1023 << 52), jnp.float64)


def _log(u: Array) -> Array:
    """log u for normal u > 0: e·log 2 + 2·artanh((m−1)/(m+1)), u = m·2ᵉ with m in [√½, √2)."""
    above = lax.bitcast_convert_type(u, jnp.uint64) - _ROOT_HALF + np.uint64(1023 << 52)
    exponent = lax.bitcast_convert_type((above >> 52) | np.uint64(1075 << 52), jnp.float64) - (2.0**52 + 1023)
    mantissa = lax.bitcast_convert_type((above & _FRACTION) + _ROOT_HALF, jnp.float64)
    ratio = (mantissa - 1.0) / (mantissa + 1.0)
    return exponent * math.log(2) + ratio * _series(_LOGARITHM, ratio * ratio)


def _series(coefficients: list[float], x: Array) -> Array:
    value = jnp.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value = value * x + coefficient
    return value
