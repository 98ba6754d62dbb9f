"""Data that a method cannot use are refused."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf

NAN, INF = float("nan"), float("inf")
KEY = jax.random.key(0)
PROBLEM = pf.Problem(lambda theta, z: 0.5 * jnp.sum((z - theta) ** 2), pf.Box([-1.0, -1.0], [1.0, 1.0]))


def refused(message, call, kind=ValueError):
    """`call` raises `kind` with `message`, literally, in it."""
    with pytest.raises(kind, match=re.escape(message)):
        call()


@pytest.fixture(scope="module")
def warm():
    """A method after its warm-up, with the decisions of its first round."""
    method = pf.apda(PROBLEM, warmup=4)
    opening = method.init(KEY)
    state = method.tell(opening, method.ask(opening, KEY), np.random.default_rng(0).normal(size=(1, 4, 2)))
    return method, state, np.asarray(method.ask(state, KEY))


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (np.zeros((2, 2)), "`samples` must have shape (2, n, k), but got (2, 2)"),
        (np.zeros(2), "`samples` must have shape (2, n, k), but got (2,)"),
        (np.zeros((3, 1, 2)), "`samples` must have shape (2, n, k), but got (3, 1, 2)"),
        (np.zeros((2, 0, 2)), "`samples` must have shape (2, n, k), but got (2, 0, 2)"),
        (np.full((2, 1, 2), NAN), "`samples` must be finite, but got nan at index [0, 0, 0]"),
        (np.array([[[0.0, 1.0]], [[INF, 0.0]]]), "`samples` must be finite, but got inf at index [1, 0, 0]"),
        (np.zeros((2, 1, 3)), "one sample of shape (3,)"),
        ("many", "`samples` must be numbers"),
        ([[[1.0, 2.0]], [[1.0]]], "`samples` must be numbers"),
    ],
    ids=["matrix", "vector", "count", "none", "nan", "inf", "width", "words", "ragged"],
)
def test_bad_samples_are_refused(warm, samples, message):
    method, state, decisions = warm
    refused(message, lambda: method.tell(state, decisions, samples))


@pytest.mark.parametrize(
    ("decisions", "message"),
    [
        (np.zeros((2, 3)), "`decisions` must have shape (b, 2), but got (2, 3)"),
        (np.zeros(2), "`decisions` must have shape (b, 2), but got (2,)"),
        (np.full((2, 2), NAN), "`decisions` must be finite, but got nan at index [0, 0]"),
    ],
)
def test_bad_decisions_are_refused(warm, decisions, message):
    method, state, _ = warm
    refused(message, lambda: method.tell(state, decisions, np.zeros((2, 1, 2))))


def test_samples_of_another_width_than_the_warm_up_are_refused(warm):
    # One number would broadcast over both.
    method, state, decisions = warm
    with pytest.raises(ValueError, match=r"`samples`.*\(2, 1, 1\)|sample.*1"):
        method.tell(state, decisions, np.zeros((2, 1, 1)))


@pytest.mark.parametrize("count", [1, 3])
def test_a_round_told_without_its_pair_is_refused(warm, count):
    method, state, decisions = warm
    with pytest.raises(ValueError, match="`decisions` must"):
        method.tell(state, np.resize(decisions, (count, 2)), np.zeros((count, 1, 2)))


def test_samples_that_do_not_fit_a_given_effect_are_refused():
    method = pf.oracle(PROBLEM, effect=np.ones((3, 2)), warmup=4)
    with pytest.raises(ValueError, match=r"`effect` must|`samples` must"):
        method.tell(method.init(KEY), np.zeros((1, 2)), np.zeros((1, 4, 2)))
