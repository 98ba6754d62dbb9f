"""What a function reads is found wherever it is, and a change of it is told by name."""

import contextlib
import contextvars
import dataclasses
import functools
import gc
import sys
import time
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative.numerics.reads as reads_module
from performative.numerics.pytrees import callable_node
from performative.numerics.reads import changes, reading, reads
from performative.numerics.watched import Watched

RATE = 1.0
TABLE = np.arange(5000.0)
OPTIONS = {"rate": [1.0, 2.0]}
settings = types.ModuleType("settings_of_a_user")
settings.RATE = 1.0
settings.inner = types.ModuleType("settings_of_a_user.inner")
settings.inner.RATE, settings.inner.outer = 1.0, settings


LEVEL = contextvars.ContextVar("LEVEL")
MASKED = np.ma.array(np.arange(3.0))


class Plan:
    rate = 1.0

    def __init__(self):
        self.weights, self.inner, self.me = np.ones(3), types.SimpleNamespace(rate=1.0), self

    @functools.cached_property
    def lazy(self):
        return 2.0 * self.rate

    def loss(self, theta, z):
        return RATE * self.lazy

    def __call__(self, theta, z):
        return self.loss(theta, z)


PLAN = Plan()


@dataclasses.dataclass(frozen=True)
class Slotted:
    __slots__ = ("rate",)
    rate: float


def helper(x):
    return RATE * x


compiled, mapped = jax.jit(helper), jax.vmap(helper)


def with_defaults(theta, z, *, rate=TABLE):
    return rate[0]


def closing_over(value):
    return lambda theta, z: jnp.sum(value)


def of_a_module(module):
    return lambda theta, z: module.inner.outer.inner.RATE


def change(namespace, name, value):
    return lambda undo: undo.enter_context(pytest.MonkeyPatch.context()).setattr(namespace, name, value, raising=False)


def put(items, index):
    def mutate(undo):
        undo.callback(items.__setitem__, index, items[index])
        items[index] = 9.0

    return mutate


def put_level(undo):
    undo.callback(LEVEL.reset, LEVEL.set(2.0))


def put_mask(undo):
    undo.callback(setattr, MASKED, "mask", False)
    MASKED.mask = [True, False, False]


ME = sys.modules[__name__]


@pytest.mark.parametrize(
    ("function", "mutate", "name"),
    [
        (lambda theta, z: RATE, change(ME, "RATE", 2.0), "RATE"),
        (lambda theta, z: helper(z), change(ME, "RATE", 2.0), "helper.RATE"),
        (lambda theta, z: helper(z), change(ME, "helper", lambda x: 3.0 * RATE * x), "helper"),
        (lambda theta, z: compiled(z), change(ME, "RATE", 2.0), "compiled.RATE"),
        (lambda theta, z: mapped(z), change(ME, "RATE", 2.0), "RATE"),
        (lambda theta, z: (lambda: RATE)(), change(ME, "RATE", 2.0), "RATE"),
        (lambda theta, z: OPTIONS["rate"], put(OPTIONS["rate"], 1), "OPTIONS['rate'][1]"),
        (lambda theta, z: TABLE[0], put(TABLE, 4999), "TABLE"),
        (lambda theta, z: settings.RATE, change(settings, "RATE", 2.0), "settings.RATE"),
        (lambda theta, z: settings.inner.RATE, change(settings.inner, "RATE", 2.0), "settings.inner.RATE"),
        (of_a_module(settings), change(settings.inner, "RATE", 2.0), "module.inner.RATE"),
        (PLAN.loss, change(PLAN.inner, "rate", 2.0), "self.inner.rate"),
        (PLAN.loss, put(PLAN.weights, 0), "self.weights"),
        (PLAN.loss, change(Plan, "rate", 2.0), "class.rate"),
        (PLAN, change(ME, "RATE", 2.0), "RATE"),
        (lambda theta, z: PLAN.inner.rate, change(PLAN.inner, "rate", 2.0), "PLAN.inner.rate"),
        (functools.partial(helper), change(ME, "RATE", 2.0), "RATE"),
        (jax.tree_util.Partial(helper), change(ME, "RATE", 2.0), "RATE"),
        (lambda theta, z: LEVEL.get(), put_level, "LEVEL"),
        (lambda theta, z: MASKED.sum(), put_mask, "MASKED.mask"),
        (with_defaults, put(TABLE, 0), "['rate']"),
        (closing_over(TABLE), put(TABLE, 0), "value"),
        (lambda theta, z: not_yet, change(ME, "not_yet", 2.0), "not_yet"),  # noqa: F821
    ],
)  # fmt: skip
def test_a_change_is_found_and_named(function, mutate, name):
    before = reads(function)
    assert before == reads(function)
    with contextlib.ExitStack() as undo:
        mutate(undo)
        found = [path for path, _, _ in changes(before, reads(function))]
    assert before == reads(function)
    assert any(path.endswith(name) for path in found), found


def test_a_function_of_its_arguments_alone_reads_nothing():
    assert reads(lambda theta, z: jnp.sum(theta * z) + np.pi + len(z)) == ()
    assert not isinstance(callable_node(lambda theta, z: jnp.sum(theta * z)), Watched)


def test_values_that_appear_on_first_use_are_no_change():
    plan = Plan()
    before = reads(plan.loss)
    plan.loss(None, None)
    assert "lazy" in vars(plan)
    assert reads(plan.loss) == before
    plan.lazy = 5.0
    assert [name for name, _, _ in changes(before, reads(plan.loss))] == ["self.lazy"]
    plan.lazy = 2.0
    assert reads(plan.loss) == before


def test_the_first_values_of_cached_properties_are_forgotten_with_their_object():
    plan, count = Plan(), len(reads_module._cached)
    plan.loss(None, None)
    reading(plan)
    assert len(reads_module._cached) == count + 1
    del plan.me, plan
    gc.collect()
    assert len(reads_module._cached) <= count


def test_slots_recursion_and_odd_values_are_read():
    def again(n):
        return again(n - 1)

    things = [Slotted(2.0), again, np.array([object()]), {1, 2}, jax.random.key(0), float("nan"), (lambda: 0), object()]
    for thing in things:
        assert reading(thing) == reading(thing)
    assert reading(Slotted(2.0)) != reading(Slotted(3.0))


def test_a_generator_that_moves_on_is_another():
    def numbers(start):
        yield start
        yield from range(3)

    generator = numbers(1.0)
    found = []
    for _ in generator:
        assert reading(generator) == reading(generator)
        found.append(reading(generator))
    found.append(reading(generator))
    assert len(set(found)) == 5  # at each of its four values and at its end
    assert reading(numbers(1.0)) == reading(numbers(1.0)) != reading(numbers(2.0))


def test_reading_stays_cheap():
    start = time.perf_counter()
    for _ in range(100):
        reads(PLAN.loss)
    assert (time.perf_counter() - start) / 100 < 5e-3  # about 0.1 ms on an idle machine
