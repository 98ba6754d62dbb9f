"""Keys, and the standard normal numbers that all randomness of a run is made of."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
from jax import Array, lax

_SINE = [(-1) ** k / math.factorial(2 * k + 1) for k in range(8)]
_COSINE = [(-1) ** k / math.factorial(2 * k) for k in range(9)]
_LOGARITHM = [2 / (2 * k + 1) for k in range(11)]


def new_key(seed: int) -> Array:
    """The root of all randomness of a run: a threefry key, whatever the user's default generator is."""
    return jax.random.key(seed, impl="threefry2x32")


def standard_normal(key: Array, size: int) -> Array:
    """Standard normal numbers (size,). The first of them do not depend on how many are drawn.

    Box–Muller on threefry bits, with series for log, sin and cos that are exact to a few units in the last place on the
    ranges that occur. Next to being cheaper in float64 than `jax.random.normal`, whose inverse error function alone costs
    more, it is made of elementwise operations that run along the lanes of a simulation.
    """
    return interleaved(*box_muller(random_bits(key, size + size % 2)))[:size]


def random_bits(key: Array, size: int) -> Array:
    """Threefry-2x32 with 20 rounds (Salmon et al. 2011) on the counters 0, …, size−1: 64 random bits each."""
    words = jax.random.key_data(key)  # two for threefry keys; a user's generator may have more
    first = functools.reduce(jnp.bitwise_xor, words[0::2])
    second = functools.reduce(jnp.bitwise_xor, words[1::2])
    schedule = (first, second, first ^ second ^ jnp.uint32(0x1BD11BDA))
    left = jnp.zeros(size, jnp.uint32) + first
    right = jnp.arange(size, dtype=jnp.uint32) + second
    for group in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            left = left + right
            right = ((right << turn) | (right >> (32 - turn))) ^ left
        left = left + schedule[(group + 1) % 3]
        right = right + schedule[(group + 2) % 3] + jnp.uint32(group + 1)
    return (left.astype(jnp.uint64) << 32) | right.astype(jnp.uint64)


def box_muller(bits: Array) -> tuple[Array, Array]:
    """r·cos(2πv) and r·sin(2πv) with r = √(−2 log u), for each neighbouring pair (u, v) of `bits`."""
    pairs = bits.reshape(-1, 2)
    radius = jnp.sqrt(-2.0 * _log_uniform(pairs[:, 0]))
    cosine, sine = _turn(pairs[:, 1])
    return radius * cosine, radius * sine


def interleaved(even: Array, odd: Array) -> Array:
    """The numbers of both arrays in turn."""
    return jnp.stack([even, odd], axis=-1).reshape(-1)


def _log_uniform(bits: Array) -> Array:
    """log u for u uniform on {1, …, 2⁵³}/2⁵³: e·log 2 + 2·artanh((m−1)/(m+1)), u = m·2ᵉ with m in [√½, √2)."""
    u = ((bits >> 11).astype(jnp.int64) + 1).astype(jnp.float64) * 2.0**-53
    pattern = lax.bitcast_convert_type(u, jnp.int64)
    exponent = ((pattern >> 52) - 1023).astype(jnp.float64)
    mantissa = lax.bitcast_convert_type((pattern & ((1 << 52) - 1)) | (1023 << 52), jnp.float64)
    large = mantissa > math.sqrt(2)
    mantissa = jnp.where(large, 0.5 * mantissa, mantissa)
    exponent = jnp.where(large, exponent + 1.0, exponent)
    ratio = (mantissa - 1.0) / (mantissa + 1.0)
    return exponent * math.log(2) + ratio * _series(_LOGARITHM, ratio * ratio)


def _turn(bits: Array) -> tuple[Array, Array]:
    """cos and sin of 2πv for v uniform on {0, …, 2⁵³−1}/2⁵³, reduced to the nearest quarter turn."""
    v = (bits >> 11).astype(jnp.int64)
    quarter = (v + (1 << 50)) >> 51
    angle = (v - (quarter << 51)).astype(jnp.float64) * (2 * math.pi * 2.0**-53)
    square = angle * angle
    sine, cosine = angle * _series(_SINE, square), _series(_COSINE, square)
    swap = (quarter & 1) == 1
    turned_cosine = jnp.where(swap, sine, cosine) * jnp.where(((quarter + 1) & 2) == 2, -1.0, 1.0)
    turned_sine = jnp.where(swap, cosine, sine) * jnp.where((quarter & 2) == 2, -1.0, 1.0)
    return turned_cosine, turned_sine


def _series(coefficients: list[float], x: Array) -> Array:
    value = jnp.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value = value * x + coefficient
    return value
