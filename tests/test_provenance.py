"""Descriptions: what computes something else is described differently, in every process alike."""

import functools
import json
import os
import subprocess
import sys
import types

import jax
import jax.numpy as jnp
import pytest

from performative.provenance import describe


def test_functions_that_compute_something_else_are_described_differently():
    def make(c):
        return lambda t: c / jnp.sqrt(t)

    assert describe(make(0.1)) == describe(make(0.1))
    assert describe(make(0.1)) != describe(make(0.2))
    assert describe(lambda t: 2 * t) != describe(lambda t: 3 * t)


CONSTANT = 1.0
TABLE = {"a": 1.0}
NAMES = types.SimpleNamespace(c=1.0)
ARRAY = jnp.ones(3)


def helper(t):
    return 2.0 * t


class Holder:
    def __init__(self, c):
        self.c = c

    def loss(self, t):
        return self.c * t


def changed_by(monkeypatch, function, **names):
    """Whether the description of a function changes with globals of its module."""
    before = describe(function)
    for name, value in names.items():
        monkeypatch.setitem(globals(), name, value)
    return describe(function) != before


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (lambda t: CONSTANT * t, {"CONSTANT": 2.0}),
        (lambda t: TABLE["a"] * t, {"TABLE": {"a": 2.0}}),
        (lambda t: NAMES.c * t, {"NAMES": types.SimpleNamespace(c=2.0)}),
        (lambda t: ARRAY * t, {"ARRAY": jnp.zeros(3)}),
        (lambda t: helper(t), {"helper": lambda t: 3.0 * t}),
        (lambda t: [CONSTANT * s for s in t], {"CONSTANT": 2.0}),
    ],
    ids=["number", "table", "namespace", "array", "function", "nested"],
)
def test_what_a_function_finds_by_name_is_part_of_its_description(monkeypatch, function, names):
    assert describe(function) == describe(function)
    assert changed_by(monkeypatch, function, **names)


def test_keyword_defaults_and_owners_are_part_of_a_description():
    def make(value):
        def loss(t, *, scale=value):
            return scale * t

        return loss

    assert describe(make(1.0)) == describe(make(1.0))
    assert describe(make(1.0)) != describe(make(2.0))
    assert describe(Holder(1.0).loss) == describe(Holder(1.0).loss)
    assert describe(Holder(1.0).loss) != describe(Holder(2.0).loss)


def test_descriptions_do_not_depend_on_the_process():
    program = (
        "import json; from performative.provenance import describe\n"
        "class World:\n    def __init__(self): self.pull = 2.0\n    def sample(self, key, theta, n): return theta\n"
        "def loss(t, z): return t if z in {'a', 'b', 'c'} else helper(z)\n"
        "def helper(z): return loss(z, 'a')\n"
        "print(json.dumps([describe(World()), describe(loss)]))"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1
    assert "0x" not in printed.pop()


def test_decorators_are_part_of_a_description():
    def scaled(c):
        return functools.wraps(helper)(lambda t: c * helper(t))

    assert describe(scaled(1.0)) == describe(scaled(1.0))
    assert describe(scaled(1.0)) != describe(scaled(-7.0))
    assert describe(jax.vmap(helper, in_axes=0)) != describe(jax.vmap(helper, in_axes=1))
    assert describe(jax.jit(helper)) == describe(jax.jit(helper))


def test_what_is_installed_is_named_and_not_walked_through():
    import gymnasium

    class Shop:
        def sample(self, key, theta, n):
            return gymnasium.spaces.Box(0.0, 1.0, (n, 1)).sample()

    assert len(json.dumps(describe(Shop()))) < 1000
