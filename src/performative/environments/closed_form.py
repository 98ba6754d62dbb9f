"""A world with a formula for its risk, which is exact and cheaper than any average."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array
from numpy.typing import ArrayLike

from performative.environments.protocol import KnownWorld, check_solution
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import assign, callable_node, pytree
from performative.numerics.tracers import is_traced, jax_arrays
from performative.problem import Loss, Problem
from performative.provenance import describe

Formula = Callable[[Array, Array], Array]


@pytree()
class ClosedForm:
    """`world` with a formula (θ, where) ↦ E_{Z∼D(where)} ℓ(θ; Z) for one `loss` ℓ, in `jax.numpy`; the rest is the world's.

    Problems with another loss are refused. Without a formula, losses with kinks are averaged over thousands of nodes in every
    round that is measured.

    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> def loss(theta, z):
    ...     return jnp.abs(theta[0]) * z[0]
    >>> base = pf.LocationFamily(pf.Gaussian([1.0], [1.0]), [[0.5]])
    >>> world = pf.ClosedForm(base, loss, lambda theta, where: jnp.abs(theta[0]) * (1.0 + 0.5 * where[0]))
    >>> pf.performative_risk(pf.Problem(loss, pf.Box([-2.0], [2.0])), world, [-1.0])
    0.5
    """

    world: KnownWorld
    loss: Loss
    formula: Formula

    def __init__(self, world: KnownWorld, loss: Loss, formula: Formula) -> None:
        for name, part in (("world.sample", getattr(world, "sample", None)), ("loss", loss), ("formula", formula)):
            if not callable(part):
                raise TypeError(f"`{name}` must be callable, but got {part!r}")
        assign(
            self,
            world=world,
            loss=jax_arrays(callable_node(loss)),
            formula=jax_arrays(callable_node(formula)),
        )

    @property
    def width(self) -> int:
        """k, the length of one sample."""
        return int(self.world.width)

    @property
    def dimension(self) -> int | None:
        """d, if the world determines it."""
        return getattr(self.world, "dimension", None)

    @property
    def effect(self) -> Array | None:
        """A, if the world is a location family."""
        return getattr(self.world, "effect", None)

    def normals(self, n: int) -> int:
        """How many standard normal numbers n samples take."""
        return int(self.world.normals(n))

    def respond(self, normals: Array, theta: Array) -> Array:
        """The samples made from these numbers."""
        return self.world.respond(normals, theta)

    @in_float64
    def sample(self, key: Array, theta: Array, n: int) -> Array:
        """n samples (n, k) of Z ∼ D(θ)."""
        return self.world.sample(key, theta, n)

    def risk(self, problem: Problem, steps: int | None = None) -> FormulaRisk:
        """The formula as the decoupled risk."""
        return FormulaRisk(self.formula)

    def check(self, problem: Problem, theta: ArrayLike | None = None) -> None:
        """Check as the world does, and refuse a loss that is not the formula's, in its function or its numbers."""
        self.world.check(problem, theta)
        if is_traced(self, problem):
            return
        if describe(problem.loss, most=10**6) != describe(self.loss, most=10**6):
            raise ValueError("the problem's loss must be the one that the formula is for, but it differs")

    def check_solution(self, problem: Problem, theta: ArrayLike) -> None:
        """Refuse a solution that the world refuses."""
        check_solution(self.world, problem, theta)


@pytree()
class FormulaRisk:
    """The formula as a decoupled risk; PR(θ) is its diagonal."""

    formula: Formula

    def __call__(self, theta: Array, where: Array | None = None) -> Array:
        """PR(θ), or the decoupled risk if `where` is given."""
        return jnp.asarray(self.formula(theta, theta if where is None else where))
