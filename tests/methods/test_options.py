"""Options that a method cannot use are refused."""

from __future__ import annotations

import re

import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf

NAN, INF = float("nan"), float("inf")


def loss(theta, z):
    return 0.5 * jnp.sum((z - theta) ** 2)


SQUARE = pf.Box([-1.0, -1.0], [1.0, 1.0])


PROBLEM = pf.Problem(loss, SQUARE)


def refused(message, call, kind=ValueError):
    """`call` raises `kind` with `message`, literally, in it."""
    with pytest.raises(kind, match=re.escape(message)):
        call()


@pytest.mark.parametrize("make", [pf.apda, pf.pd_ps, lambda p, **options: pf.oracle(p, effect=np.eye(2), **options)])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step": 0.0}, "`step > 0` must hold, but got step=0.0"),
        ({"step": -0.1}, "`step > 0` must hold, but got step=-0.1"),
        ({"step": NAN}, "`step` must be finite, but got nan"),
        ({"step": INF}, "`step` must be finite, but got inf"),
        ({"step": "fast"}, "`step` must be numbers, but got 'fast'"),
        ({"step": None}, "`step` must be numbers, but got None"),
        ({"step": [0.1, 0.2]}, "`step` must have 0 axes, but got shape (2,)"),
        ({"step": lambda t: -1.0}, "`step(t)` must be a positive number for every round t, but at t=1 it is -1.0"),
        ({"step": lambda t: NAN}, "`step(t)` must be a positive number for every round t, but at t=1 it is nan"),
        ({"control": 0.0}, "`control > 0` must hold, but got control=0.0"),
        ({"control": NAN}, "`control` must be finite, but got nan"),
        ({"warmup": 0}, "`warmup` must be a whole number >= 1, but got warmup=0"),
        ({"warmup": 2.5}, "`warmup` must be a whole number >= 1, but got warmup=2.5"),
        ({"samples": 0}, "`samples` must be a whole number >= 1, but got samples=0"),
        ({"start": [NAN, 0.0]}, "`start` must be finite, but got nan at index [0]"),
        ({"start": [[0.0, 0.0]]}, "`start` must have 0 or 1 axes, but got shape (1, 2)"),
        ({"start": [0.0, 0.0, 0.0]}, "has dimension 2, but `start` is for decisions of 3 numbers"),
        ({"start": [2.0, 0.0]}, "`start` must lie in the decision set"),
    ],
)
def test_bad_options_of_a_method_are_refused(make, options, message):
    refused(message, lambda: make(PROBLEM, **options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"estimation_step": -1.0}, "`estimation_step > 0` must hold, but got estimation_step=-1.0"),
        ({"estimation_step": NAN}, "`estimation_step` must be finite, but got nan"),
        ({"exploration": 0.0}, "`exploration > 0` must hold, but got exploration=0.0"),
        ({"exploration": NAN}, "`exploration` must be finite, but got nan"),
        ({"effect": [[NAN, 0.0]]}, "`effect` must be finite, but got nan at index [0, 0]"),
        ({"effect": [1.0, 2.0]}, "`effect` must have 0 or 2 axes, but got shape (2,)"),
        ({"effect": np.ones((2, 3))}, "has dimension 2, but `effect` is for decisions of 3 numbers"),
        ({"shift": lambda effect, theta: effect @ theta}, "`effect` must be given with `shift`"),
    ],
)
def test_bad_options_of_the_adaptive_method_are_refused(options, message):
    refused(message, lambda: pf.apda(PROBLEM, **options))


@pytest.mark.parametrize("exploration", [0.5, np.float64(0.5), np.float32(0.5), pf.Pair(0.5)])
def test_the_default_estimation_step_knows_the_scale_of_the_probes_however_it_is_given(exploration):
    assert pf.apda(PROBLEM, exploration=exploration).estimator.effects.probe == 0.5
