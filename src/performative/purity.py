"""Purity: a world draws with its key and nothing else, and a call changes nothing it reads; a program would freeze it."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from jax import Array

from performative.errors import NotPure
from performative.numerics.reads import changes, reading

REMEDY = (
    "draw from the key alone (jax.random.normal(key, …)), or wrap a simulator in NumPy or plain Python as "
    "performative.HostWorld(sample) with sample(rng, theta, n)"
)

SEVERAL = 8
"""The least number of samples that show whether a world draws with its key."""


def global_random() -> dict[str, tuple[Any, ...]]:
    """The random states that all programs share, in a form that can be compared."""
    kind, words, *rest = np.random.get_state()  # noqa: NPY002
    return {
        "numpy": (kind, np.asarray(words).tobytes(), *rest),
        "Python": random.getstate(),
    }


@contextlib.contextmanager
def unchanged(things: Mapping[str, Any], remedy: str = REMEDY) -> Iterator[None]:
    """Refuse what happens inside if it changes a global random state, or what one of these `things` is made of.

    That is everything its functions read: attributes, globals and what they close over.
    """
    if all(getattr(thing, "runs_on_host", False) for thing in things.values()):
        yield
        return
    before, made_of = global_random(), {name: reading(thing) for name, thing in things.items()}
    yield
    after = global_random()
    for name in before:
        if before[name] != after[name]:
            raise NotPure(f"{_listed(things)} must be pure, but changed the global random state of {name}; {remedy}")
    for name, thing in things.items():
        for path, _, _ in changes(made_of[name], reading(thing)):
            where = path.removeprefix("class.") or "something that its functions read"
            raise NotPure(
                f"{name} must be pure, but a call changed `{where}`: a compiled program would run this once and never "
                f"again; {remedy}"
            )


def require_key_decides(name: str, draw: Any, key: Array, other: Array) -> None:
    """Refuse `draw(key)` that gives two answers to one key, or the same varied numbers to two keys."""
    first, again, second = (np.asarray(draw(each)) for each in (key, key, other))
    if first.shape != again.shape or not np.array_equal(first, again, equal_nan=True):
        raise NotPure(
            f"{name} must give the same samples for the same key, but two calls differ: it has randomness or a memory of its "
            f"own, which a compiled program would freeze; {REMEDY}"
        )
    varied = len(first) > 1 and len(np.unique(first, axis=0)) > 1
    if varied and np.array_equal(first, second, equal_nan=True):
        raise NotPure(
            f"{name} must draw with its key, but two different keys gave the same {len(first)} samples, so that every round "
            f"would see the same noise; {REMEDY}"
        )


def is_own(thing: Any) -> bool:
    """Whether an object is of a class from outside the library."""
    cls = type(thing)
    lent = getattr(sys.modules.get(cls.__module__), cls.__name__, None) is cls
    return not (lent and cls.__module__.startswith("performative."))


def _listed(things: Mapping[str, Any]) -> str:
    return " and ".join(things)
