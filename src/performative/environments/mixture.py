"""Mixtures of families, whose weights may move too."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.environments.families import Family, Parameter
from performative.numerics.arrays import Floats, as_field
from performative.numerics.pytrees import assign, pytree
from performative.problem import Problem
from performative.solvers.derivatives import DecoupledRisk


@pytree()
class Mixture:
    """One of several families, drawn with weights that may move too.

    The parameter holds the weights of all components, then the parameters of each component in turn.

    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> shoppers = pf.Mixture([pf.Normal(0.1), pf.Normal(0.1)])
    >>> demand = pf.ParametricFamily(
    ...     shoppers, lambda price: jnp.stack([0.25, 0.75, 8.0 - price[0], 4.0 - price[0]])
    ... )
    >>> problem = pf.Problem(lambda price, sold: -price[0] * sold[0], pf.Box([0.0], [4.0]))
    >>> round(pf.performative_risk(problem, demand, [2.0]), 6)
    -6.0
    """

    components: tuple[Family, ...]

    def __init__(self, components: Sequence[Family]) -> None:
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
        """k, the length of one sample."""
        return int(self.components[0].width)

    @property
    def size(self) -> int:
        """The number of weights and of all parameters."""
        return len(self.components) + sum(item.size for item in self.components)

    @property
    def by_mean(self) -> bool:
        """False: the mean of Z does not determine the weights."""
        return False

    @property
    def discrete(self) -> bool:
        """Whether the components are discrete."""
        return bool(self.components[0].discrete)

    def normals(self, n: int) -> int:
        """A sample takes one number to choose the component, and as many as the component that takes most."""
        return n * (1 + max(item.normals(1) for item in self.components))

    def draw(self, normals: Array, parameter: Array) -> Array:
        """A component drawn by its weight, then a sample of it."""
        weights, parts = self.split(parameter)
        rows = normals.reshape(-1, self.normals(1))
        uniform = jax.scipy.special.ndtr(rows[:, 0])
        below = jnp.cumsum(weights)[:-1]
        index = jnp.sum((uniform[:, None] > below).astype(jnp.int64), axis=1)
        samples = [
            jax.vmap(lambda row, item=item, part=part: item.draw(row[1 : 1 + item.normals(1)], part)[0])(rows)
            for item, part in zip(self.components, parts, strict=True)
        ]
        return jnp.sum(jnp.stack(samples) * (index == np.arange(len(samples))[:, None])[:, :, None], axis=0)

    def log_density(self, z: Array, parameter: Array) -> Array:
        """log Σ w_j p_j(z)."""
        weights, parts = self.split(parameter)
        logs = [item.log_density(z, part) for item, part in zip(self.components, parts, strict=True)]
        return jax.scipy.special.logsumexp(jnp.stack(logs) + jnp.log(jnp.maximum(weights, 1e-300)))

    def risk(self, problem: Problem, parameter: Parameter, steps: int | None = None) -> _MixtureRisk:
        """The weighted sum of the components' risks."""
        risks = tuple(
            item.risk(problem, _Part(self, parameter, index), steps) for index, item in enumerate(self.components)
        )
        return _MixtureRisk(risks, self, parameter)

    def split(self, parameter: Array) -> tuple[Array, list[Array]]:
        """The weights, and the parameter of each component."""
        count = len(self.components)
        ends = np.cumsum([count, *(item.size for item in self.components)])
        return parameter[:count], [parameter[a:b] for a, b in itertools.pairwise(ends)]

    def fault(self, parameter: Floats) -> str | None:
        """What is wrong with the weights or with a component's parameter."""
        weights, parts = self.split(as_field(parameter))
        if not (np.all(np.asarray(weights) >= 0) and abs(float(np.sum(weights)) - 1.0) < 1e-9):
            return f"must begin with {len(self.components)} weights >= 0 that sum to 1"
        faults = [item.fault(np.asarray(part)) for item, part in zip(self.components, parts, strict=True)]
        return next((fault for fault in faults if fault), None)

    def inside(self, parameter: Array) -> Array:
        """The parameter itself: nothing estimates it."""
        return parameter


@pytree("index")
class _Part:
    mixture: Mixture
    parameter: Parameter
    index: int

    def __call__(self, theta: Array) -> Array:
        return self.mixture.split(self.parameter(theta))[1][self.index]


@pytree()
class _MixtureRisk:
    risks: tuple[DecoupledRisk, ...]
    mixture: Mixture
    parameter: Parameter

    def __call__(self, theta: Array, where: Array | None = None) -> Array:
        weights, _ = self.mixture.split(self.parameter(theta if where is None else where))
        return sum((w * risk(theta, where) for w, risk in zip(weights, self.risks, strict=True)), start=jnp.zeros(()))
