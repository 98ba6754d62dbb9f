"""Standard normal numbers: their distribution, their independence, and that they cannot be other than finite."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from performative.numerics import randomness
from performative.numerics.precision import precise

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


@pytest.mark.parametrize("transform", [np.asarray, np.square, np.abs])
@pytest.mark.parametrize("lag", [1, 2, 3])
def test_neighbors_are_uncorrelated(lag, transform):
    x = transform(drawn())
    # A correlation of N independent pairs has standard error 1/√N.
    assert abs(np.corrcoef(x[:-lag], x[lag:])[0, 1]) <= 5 / np.sqrt(N)


@pytest.mark.parametrize("other", [1, 2, 12345])
def test_different_keys_are_uncorrelated(other):
    assert abs(np.corrcoef(drawn(), drawn(other))[0, 1]) <= 5 / np.sqrt(N)


def test_first_numbers_over_many_folded_keys_are_normal():
    with precise():
        keys = jax.vmap(lambda i: jax.random.fold_in(randomness.new_key(3), i))(jnp.arange(100_000))
        first = np.asarray(jax.jit(jax.vmap(lambda key: randomness.standard_normal(key, 1)[0]))(keys))
    assert stats.kstest(first, "norm").pvalue > 1e-4
    assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) <= 5 / np.sqrt(len(first))


def test_rows_do_not_repeat_a_number():
    # Rows start at random places of one sequence of 2⁶⁴: rows that overlapped would share numbers.
    with precise():
        keys = jax.vmap(lambda i: jax.random.fold_in(randomness.new_key(4), i))(jnp.arange(20_000))
        rows = np.asarray(jax.jit(jax.vmap(lambda key: randomness.standard_normal(key, 50)))(keys))
    assert len(np.unique(rows)) == rows.size


EXTREME = np.array([0, 1, 2**12 - 1, 2**12, 2**62, 2**63 - 1, 2**63, 2**64 - 2**12, 2**64 - 1], dtype=np.uint64)


def test_extreme_bits_give_finite_numbers():
    with precise():
        fraction = np.asarray(randomness._one_to_two(jnp.asarray(EXTREME)))
        logarithm = np.asarray(randomness._log(jnp.asarray(2.0 - fraction)))
    assert np.all((fraction >= 1) & (fraction < 2))
    assert np.all(np.isfinite(logarithm))
    assert logarithm[0] == 0.0
    assert logarithm[-1] == pytest.approx(-52 * np.log(2), rel=1e-15)
    assert np.all(logarithm <= 0)


def test_series_agree_with_the_functions_of_numpy():
    u = np.random.default_rng(0).uniform(size=100_000)
    u = np.concatenate([u, 1.0 - u * 2.0**-20, u * 2.0**-20, u * 2.0**-45, [1.0, 2.0**-52, np.sqrt(0.5), np.sqrt(2.0)]])
    angle = (np.random.default_rng(1).uniform(size=100_000) - 0.5) * np.pi
    with precise():
        logarithm = np.asarray(randomness._log(jnp.asarray(u)))
        sine = angle * np.asarray(randomness._series(randomness._SINE, jnp.asarray(angle * angle)))
    # A few units in the last place; close to u = 1 the logarithm is small and has to keep its relative accuracy.
    np.testing.assert_allclose(logarithm, np.log(u), rtol=2e-15, atol=1e-300)
    np.testing.assert_allclose(sine, np.sin(angle), rtol=2e-15)


@pytest.mark.parametrize("number", [0, 1, 17, 2**31, 2**32 - 1])
def test_folding_in_a_number_is_what_jax_does(number):
    key = randomness.new_key(9)
    with precise():
        ours = randomness.fold_in(*jax.random.key_data(key), jnp.asarray(number, jnp.uint32))
        theirs = jax.random.key_data(jax.random.fold_in(key, np.uint32(number)))
    assert [int(word) for word in ours] == [int(word) for word in theirs]


def test_keys_do_not_depend_on_the_users_default_generator():
    before = jax.random.key_data(randomness.new_key(5))
    with jax.default_prng_impl("rbg"):
        after = jax.random.key_data(randomness.new_key(5))
    np.testing.assert_array_equal(before, after)
