"""Standard normal numbers: their distribution, their independence, and that they cannot be other than finite."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from performative import randomness
from performative.precision import precise

N = 1_000_000


@functools.cache
def drawn(seed: int = 0, size: int = N) -> np.ndarray:
    with precise():
        return np.asarray(randomness.standard_normal(randomness.new_key(seed), size))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100, 1001])
def test_first_numbers_do_not_depend_on_how_many_are_drawn(size):
    np.testing.assert_array_equal(drawn(0, size), drawn()[:size])


def test_no_numbers_are_an_empty_array():
    assert drawn(0, 0).shape == (0,)


def test_numbers_are_a_function_of_the_key_alone():
    with precise():
        again = np.asarray(jax.jit(lambda key: randomness.standard_normal(key, 1000))(randomness.new_key(0)))
    # Compiled as a whole, operations may fuse: a few units in the last place.
    np.testing.assert_allclose(again, drawn()[:1000], rtol=1e-13)


@pytest.mark.parametrize(("power", "moment", "variance"), [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)])
def test_moments_are_those_of_the_normal_distribution(power, moment, variance):
    # Var(X^p) = E X^2p − (E X^p)²: 1, 3 − 1, 15, 105 − 9. Five standard errors.
    assert abs(np.mean(drawn() ** power) - moment) <= 5 * np.sqrt(variance / N)


@pytest.mark.parametrize("level", [-4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0])
def test_tail_probabilities_are_those_of_the_normal_distribution(level):
    probability = stats.norm.sf(level)
    frequency = np.mean(drawn() > level)
    assert abs(frequency - probability) <= 5 * np.sqrt(probability * (1 - probability) / N)


def test_kolmogorov_and_smirnov_find_nothing():
    # A fixed seed: the p-value is one number, which a correct sampler puts below 1e-4 once in ten thousand seeds.
    assert stats.kstest(drawn(), "norm").pvalue > 1e-4


@pytest.mark.parametrize("parity", [0, 1])
def test_both_numbers_of_a_pair_are_normal(parity):
    assert stats.kstest(drawn()[parity::2], "norm").pvalue > 1e-4


@pytest.mark.parametrize("transform", [np.asarray, np.square, np.abs])
@pytest.mark.parametrize("lag", [1, 2, 3])
def test_neighbours_are_uncorrelated(lag, transform):
    x = transform(drawn())
    # A correlation of N independent pairs has standard error 1/√N.
    assert abs(np.corrcoef(x[:-lag], x[lag:])[0, 1]) <= 5 / np.sqrt(N)


def test_the_two_numbers_of_a_pair_are_uncorrelated_also_in_size():
    pairs = drawn().reshape(-1, 2)
    assert abs(np.corrcoef(pairs.T)[0, 1]) <= 5 / np.sqrt(N / 2)
    assert abs(np.corrcoef(pairs.T**2)[0, 1]) <= 5 / np.sqrt(N / 2)


@pytest.mark.parametrize("other", [1, 2, 12345])
def test_different_keys_are_uncorrelated(other):
    assert abs(np.corrcoef(drawn(), drawn(other))[0, 1]) <= 5 / np.sqrt(N)


def test_first_numbers_over_many_folded_keys_are_normal():
    with precise():
        keys = jax.vmap(lambda i: jax.random.fold_in(randomness.new_key(3), i))(jnp.arange(100_000))
        first = np.asarray(jax.vmap(lambda key: randomness.standard_normal(key, 1)[0])(keys))
    assert stats.kstest(first, "norm").pvalue > 1e-4
    assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) <= 5 / np.sqrt(len(first))


EXTREME = np.array([0, 1, 2**11 - 1, 2**11, 2**62, 2**63 - 1, 2**63, 2**64 - 2**11, 2**64 - 1], dtype=np.uint64)


def test_extreme_bits_give_finite_logarithms_and_turns():
    with precise():
        logarithm = np.asarray(randomness._log_uniform(jnp.asarray(EXTREME)))
        cosine, sine = (np.asarray(part) for part in randomness._turn(jnp.asarray(EXTREME)))
    assert np.all(np.isfinite(logarithm))
    assert np.all(logarithm <= 0)
    assert logarithm[0] == pytest.approx(-53 * np.log(2), rel=1e-15)
    assert logarithm[-1] == 0.0
    np.testing.assert_allclose(cosine**2 + sine**2, 1.0, rtol=1e-15)
    assert (cosine[0], sine[0]) == (1.0, 0.0)


def test_extreme_bits_give_finite_numbers():
    with precise():
        for radius_bits in EXTREME:
            radius = jnp.sqrt(-2.0 * randomness._log_uniform(jnp.asarray([radius_bits])))
            assert np.all(np.isfinite(radius)), radius_bits
            assert np.all(radius <= np.sqrt(2 * 53 * np.log(2)) * (1 + 1e-15)), radius_bits


def test_series_agree_with_the_libraries_own_functions():
    bits = np.random.default_rng(0).integers(0, 2**64, size=100_000, dtype=np.uint64)
    bits = np.concatenate([bits, bits >> np.uint64(20), ~(bits >> np.uint64(20)), bits >> np.uint64(45), EXTREME])
    with precise():
        logarithm = np.asarray(randomness._log_uniform(jnp.asarray(bits)))
        cosine, sine = (np.asarray(part) for part in randomness._turn(jnp.asarray(bits)))
    u = ((bits >> np.uint64(11)).astype(np.int64) + 1) * 2.0**-53
    # A few units in the last place of 1; close to u = 1 the logarithm is small and has to keep its relative accuracy.
    np.testing.assert_allclose(logarithm, np.log(u), rtol=2e-15, atol=1e-300)
    # NumPy rounds 2πv before it takes the cosine, which costs it up to 2π·2⁻⁵³ ≈ 7e-16.
    v = (bits >> np.uint64(11)).astype(np.int64) * 2.0**-53
    np.testing.assert_allclose(cosine, np.cos(2 * np.pi * v), atol=2e-15)
    np.testing.assert_allclose(sine, np.sin(2 * np.pi * v), atol=2e-15)


def test_keys_do_not_depend_on_the_users_default_generator():
    before = jax.random.key_data(randomness.new_key(5))
    with jax.default_prng_impl("rbg"):
        after = jax.random.key_data(randomness.new_key(5))
    np.testing.assert_array_equal(before, after)
