"""Drifting: a world whose parameters move along a path, round by round."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.environments.answers import respond, signature_of
from performative.environments.protocol import Environment
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import as_node, assign, callable_node, changed, pytree
from performative.numerics.tracers import jax_arrays
from performative.validation import shown

Path = Callable[[Array], Mapping[str, Any]]
"""The parameters of a world in round t, by name; those that it does not name stay."""


@pytree()
class Drifting:
    """`world` with the parameters `path(t)` in round t: data that drift, whatever is decided.

    `path(t)` returns a mapping from names of parameters to their values in round t, in `jax.numpy`; `"base.mean"` is the `mean`
    of the world's `base`. The warm-up is round 0. Parameters that the path does not name stay as they are.

    There is one optimum for each round: `pf.performative_optimum(problem, world.at(t))`. A simulation measures `regret` against
    the best fixed decision and `dynamic_regret` against the optimum of each recorded round.

    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> market = pf.LocationFamily(pf.Gaussian([4.0], [0.25]), effect=[[-1.0]])
    >>> growing = pf.Drifting(market, lambda t: {"base.mean": jnp.array([4.0]) + 0.01 * t})
    >>> problem = pf.Problem(lambda price, demand: -price[0] * demand[0], pf.Box([0.0], [5.0]))
    >>> [round(float(pf.performative_optimum(problem, growing.at(t)).decision[0]), 3) for t in (0, 100)]
    [2.0, 2.5]
    """

    world: Environment
    path: Path

    def __init__(self, world: Environment, path: Path) -> None:
        if signature_of(world) != (False, False):
            raise TypeError(f"`world` must be a world without a round or a state of its own, but got {world!r}")
        if not callable(path):
            raise TypeError(f"`path` must be a function of the round t, but got {path!r}")
        assign(self, world=as_node(world), path=jax_arrays(callable_node(path)))
        self._check_path()

    @in_float64
    def _check_path(self) -> None:
        for t in (0.0, 1.0, 1000.0):
            parameters = self.path(jnp.asarray(t))
            if not isinstance(parameters, Mapping) or not parameters:
                raise TypeError(
                    f"`path(t)` must return a mapping from names of parameters to values, but returned {shown(parameters)}"
                )
            for name, value in parameters.items():
                now = _get(self.world, name)
                if callable(now) and callable(value):
                    continue
                if np.shape(value) != np.shape(now):
                    raise ValueError(
                        f"`path(t)` must keep the shape {np.shape(now)} of {name!r}, but has {np.shape(value)} at t={t:g}"
                    )
                if not np.all(np.isfinite(np.asarray(value))):
                    raise ValueError(f"`path(t)` must be finite, but {name!r} is {shown(value)} at t={t:g}")

    @in_float64
    def at(self, t: Any) -> Any:
        """The world as it is in round t."""
        world: Any = self.world
        for name, value in self.path(jnp.asarray(t, np.float64)).items():
            world = _with(world, name.split("."), value)
        return world

    @property
    def dimension(self) -> int | None:
        """d, if the world determines it."""
        return getattr(self.world, "dimension", None)

    @property
    def normals(self) -> Callable[[int], int]:
        """How many standard normal numbers n samples take, if the world is made of such numbers."""
        return self.world.normals  # type: ignore[attr-defined]

    def respond(self, normals: Array, theta: Array, t: Array | float) -> Array:
        """The samples of round t made from these numbers."""
        return respond(self.at(t), normals, theta, t)

    @in_float64
    def sample(self, key: Array, theta: Array, n: int, t: Array | float) -> Array:
        """n samples (n, k) of Z ∼ D_t(θ)."""
        return self.at(t).sample(key, theta, n)


def _get(world: Any, name: str) -> Any:
    node = world
    for part in name.split("."):
        if not hasattr(node, part):
            raise ValueError(
                f"`path(t)` must name parameters of {type(node).__name__}, but names {name!r}; choose from "
                f"{', '.join(_parameters(world))}"
            )
        node = getattr(node, part)
    return node


def _parameters(node: Any) -> list[str]:
    """The names of what an object was made from, `base.mean` for a part of a part."""
    names = [name for name in inspect.signature(type(node)).parameters if hasattr(node, name)] or [*vars(node)]
    found = []
    for name in names:
        value = getattr(node, name)
        nested = dataclasses.is_dataclass(value) and not callable(value)
        found += [f"{name}.{inner}" for inner in _parameters(value)] if nested else [name]
    return found


def _with(node: Any, names: list[str], value: Any) -> Any:
    """A copy of an object with one of its parameters replaced."""
    first, *rest = names
    value = _with(getattr(node, first), rest, value) if rest else value
    if callable(getattr(node, "moved", None)):
        return node.moved(**{first: value})
    if dataclasses.is_dataclass(node):
        return changed(node, **{first: callable_node(value) if callable(value) else value})
    twin = copy.copy(node)
    setattr(twin, first, value)
    return twin
