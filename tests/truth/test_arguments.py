"""Risk and optimum refuse bad arguments."""

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


BASE = pf.Gaussian([0.0, 0.0], [1.0, 1.0])


WORLD = pf.LocationFamily(BASE, 0.1 * np.eye(2))


def refused(message, call, kind=ValueError):
    """`call` raises `kind` with `message`, literally, in it."""
    with pytest.raises(kind, match=re.escape(message)):
        call()


def test_the_risk_is_refused_at_bad_decisions():
    refused(
        "`theta` must be finite, but got nan at index [1]", lambda: pf.performative_risk(PROBLEM, WORLD, [0.0, NAN])
    )
    refused(
        "`theta` must have shape (2,) like the problem's decisions, but got (3,)",
        lambda: pf.performative_risk(PROBLEM, WORLD, [0.0, 0.0, 0.0]),
    )


@pytest.mark.parametrize("find", [pf.performative_optimum, pf.stable_point])
def test_an_optimum_is_refused_a_bad_start(find):
    refused("`start` must be finite, but got nan at index [0]", lambda: find(PROBLEM, WORLD, start=[NAN, 0.0]))
    with pytest.raises(ValueError, match=r"`start`|dimension"):
        find(PROBLEM, WORLD, start=[0.0, 0.0, 0.0])
