"""Mixtures of families, whose weights may move too."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.numerics.pytrees import assign, pytree
from performative.problem import Problem


@pytree()
class Mixture:
    """One of several families, drawn with weights that may move too.

    The parameter holds the weights of all components and then the parameters of each, one after the other.
    """

    components: Any

    def __init__(self, components: Sequence[Any]) -> None:
        if not all(hasattr(item, "log_density") for item in components):
            raise TypeError(f"`components` must be families such as performative.Normal, but got {components!r}")
        widths = {item.width for item in components}
        if len(widths) != 1:
            raise ValueError(
                f"`components` must be at least one family, all of one width, but got the widths {sorted(widths)}"
            )
        if len({item.discrete for item in components}) > 1:
            raise ValueError("`components` must all have a density or all be discrete, but got some of both")
        assign(self, components=tuple(components))

    @property
    def width(self) -> int:
        """k."""
        return int(self.components[0].width)

    @property
    def size(self) -> int:
        """The weights and all parameters."""
        return len(self.components) + sum(item.size for item in self.components)

    @property
    def by_mean(self) -> bool:
        """No: the mean of Z does not tell the weights."""
        return False

    @property
    def discrete(self) -> bool:
        """As the components are."""
        return bool(self.components[0].discrete)

    def normals(self, n: int) -> int:
        """One to choose the component, and what the hungriest component takes."""
        return n * (1 + max(item.normals(1) for item in self.components))

    def draw(self, normals: Array, parameter: Array) -> Array:
        """A component by its weight, and a sample of it."""
        weights, parts = self.split(parameter)
        rows = normals.reshape(-1, self.normals(1))
        uniform = jax.scipy.special.ndtr(rows[:, 0])
        below = jnp.cumsum(weights)[:-1]
        chosen = jnp.sum((uniform[:, None] > below).astype(jnp.int64), axis=1)
        drawn = [
            jax.vmap(lambda row, item=item, part=part: item.draw(row[1 : 1 + item.normals(1)], part)[0])(rows)
            for item, part in zip(self.components, parts, strict=True)
        ]
        return jnp.sum(jnp.stack(drawn) * (chosen == np.arange(len(drawn))[:, None])[:, :, None], axis=0)

    def log_density(self, z: Array, parameter: Array) -> Array:
        """log Σ w_j p_j(z)."""
        weights, parts = self.split(parameter)
        logs = [item.log_density(z, part) for item, part in zip(self.components, parts, strict=True)]
        return jax.scipy.special.logsumexp(jnp.stack(logs) + jnp.log(jnp.maximum(weights, 1e-300)))

    def risk(self, problem: Problem, parameter: Any, steps: int | None = None) -> Any:
        """The weighted risks of the components."""
        risks = tuple(
            item.risk(problem, _Part(self, parameter, index), steps) for index, item in enumerate(self.components)
        )
        return _MixtureRisk(risks, self, parameter)

    def split(self, parameter: Array) -> tuple[Array, list[Array]]:
        """The weights, and the parameter of each component."""
        count = len(self.components)
        ends = np.cumsum([count, *(item.size for item in self.components)])
        return parameter[:count], [parameter[a:b] for a, b in itertools.pairwise(ends)]

    def fault(self, parameter: Array) -> str | None:
        """Weights that sum to 1, and proper components."""
        weights, parts = self.split(parameter)
        if not (np.all(np.asarray(weights) >= 0) and abs(float(np.sum(weights)) - 1.0) < 1e-9):
            return f"must begin with {len(self.components)} weights >= 0 that sum to 1"
        faults = [item.fault(part) for item, part in zip(self.components, parts, strict=True)]
        return next((fault for fault in faults if fault), None)

    def inside(self, parameter: Array) -> Array:
        """As it is: no estimate of it is made."""
        return parameter


@pytree("index")
class _Part:
    mixture: Any
    parameter: Any
    index: Any

    def __call__(self, theta: Array) -> Array:
        return self.mixture.split(self.parameter(theta))[1][self.index]


@pytree()
class _MixtureRisk:
    risks: Any
    mixture: Any
    parameter: Any

    def __call__(self, theta: Array, where: Array | None = None) -> Array:
        weights, _ = self.mixture.split(self.parameter(theta if where is None else where))
        return sum((w * risk(theta, where) for w, risk in zip(weights, self.risks, strict=True)), start=jnp.zeros(()))
