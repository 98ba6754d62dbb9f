"""Safety: a candidate that violates a constraint is pulled back to a feasible decision before it is deployed."""

from __future__ import annotations

from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from performative.numerics import polynomial
from performative.numerics.arrays import Floats, as_field
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import pytree
from performative.problem import Problem
from performative.sets import Box, DecisionSet, Product

MARGIN = 1e-9
"""How far below 0 every constraint stays, as a share of the anchor's slack: room for rounding.

An anchor's slack is that of the problem's own scale, whatever the unit, so a decision stays away from the boundary by about
10⁻⁹ of the distances in the problem.
"""
HALVINGS = 50
CORRECTIONS = 6
"""Steps toward the violated constraints before the pull, which is then short."""


class Safety(Protocol):
    """A way to keep deployments safe, for any problem.

    >>> import performative as pf
    >>> safety: pf.safety.Safety = pf.safety.Pull()
    """

    def prepared(self, problem: Problem, anchor: Floats) -> PreparedSafety:
        """The same for one problem, with a strictly feasible decision to fall back on."""


class PreparedSafety(Protocol):
    """Turns a candidate in Θ into a decision that is safe to deploy, for one problem.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> method = pf.safe_apda(pf.Problem(Revenue(), pf.Box([0.0], [5.0])), anchor=[2.0])
    >>> prepared: pf.safety.PreparedSafety = method.safety
    >>> prepared.anchor.tolist()
    [2.0]
    """

    @property
    def anchor(self) -> Array:
        """A safe decision."""

    def __call__(self, problem: Problem, candidate: Array) -> Array:
        """A decision near a candidate in Θ that is safe to deploy."""


@pytree()
class Pull:
    """Pull a candidate toward a strictly feasible decision, the anchor, until every constraint holds; see `PullToward`.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> problem = pf.Problem(Revenue(), pf.Box([0.0], [5.0]), [pf.constraints.Linear([1.0], 4.0)])
    >>> method = pf.safe_apda(problem, safety=pf.safety.Pull())
    """

    @in_float64
    def prepared(self, problem: Problem, anchor: Floats) -> PullToward:
        """The pull toward `anchor`."""
        margin = -MARGIN * np.asarray(problem.g(jnp.asarray(anchor)))
        quadratic = problem.is_declared_convex and polynomial.degree(problem.g, jnp.zeros(problem.d)) <= 2
        return PullToward(as_field(anchor), as_field(margin), _widths(problem), bool(quadratic))


@pytree()
class Nearest:
    """Take the feasible decision nearest to a candidate, by cvxpy: for live use. Constraints must have a convex form.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> problem = pf.Problem(Revenue(), pf.Box([0.0], [5.0]), [pf.constraints.Linear([1.0], 4.0)])
    >>> method = pf.safe_apda(problem, safety=pf.safety.Nearest())
    """

    def prepared(self, problem: Problem, anchor: Floats) -> NearestFeasible:
        """The projection on the feasible set of a problem."""
        for item in problem.constraints:
            if not item.has_convex_form:
                raise ValueError(f"constraint {item.names[0]} must have a convex form to be projected on, but has none")
        return NearestFeasible(Pull().prepared(problem, anchor))


@pytree("quadratic")
class PullToward:
    """Pull a candidate toward a strictly feasible `anchor` until every g_i ≤ −margin_i.

    Where g is quadratic and convex, how far to pull is exact, from the root of a quadratic; otherwise bisection finds it and
    never leaves the feasible side. The result is checked once more: if it is not feasible, because of rounding or because g
    is not finite there, the anchor itself is deployed. Lengths are relative to the `widths` of a box whose sides differ: they may
    be in different units.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> problem = pf.Problem(Revenue(), pf.Box([0.0], [5.0]), [pf.constraints.Linear([1.0], 4.0)])
    >>> method = pf.safe_apda(problem, anchor=[2.0])
    >>> with jax.enable_x64(True):
    ...     method.safety(problem, jnp.array([5.0])).round(3).tolist()
    [4.0]
    """

    anchor: Array
    margin: Array
    widths: Array | None
    quadratic: bool

    def __call__(self, problem: Problem, candidate: Array) -> Array:
        """A decision near a candidate in Θ that is safe to deploy."""
        if not problem.constraint_names:
            return candidate
        way = self._corrected(problem, candidate) - self.anchor
        share = self._exact(problem, way) if self.quadratic else self._bisected(problem, way)
        pulled = self.anchor + share * way
        return jnp.where(jnp.all(problem.g(pulled) <= 0.0), pulled, self.anchor)

    def _corrected(self, problem: Problem, candidate: Array) -> Array:
        """The candidate after a few extrapolated parallel projections on the constraints it violates (Pierra 1984).

        Each moves by −L Σ g_i⁺∇g_i/‖∇g_i‖², the mean step to the violated constraints, stretched by L to their common depth.
        """

        def correct(_: Array, candidate: Array) -> Array:
            excess = problem.g(candidate) + self.margin
            if self.widths is None:
                steepness = problem.steepness(candidate)
            else:
                rows = jax.jacrev(problem.g)(candidate) * self.widths
                steepness = jnp.sum(rows * rows, axis=1)
            violated = (excess > 0.0) & (steepness > 0.0)
            scaled = jnp.where(violated, excess / jnp.where(violated, steepness, 1.0), 0.0)
            mean = problem.pullback(candidate, scaled) if self.widths is None else rows.T @ scaled
            length = jnp.sum(jnp.where(violated, scaled * excess, 0.0)) / jnp.maximum(jnp.sum(mean * mean), 1e-300)
            step = mean if self.widths is None else self.widths * mean
            moved = problem.decisions.project(candidate - length * step)
            return jnp.where(jnp.all(jnp.isfinite(moved)), moved, candidate)

        return lax.fori_loop(0, CORRECTIONS, correct, candidate)

    def _exact(self, problem: Problem, way: Array) -> Array:
        start = problem.g(jnp.asarray(self.anchor)) + self.margin
        half, end = (problem.g(self.anchor + part * way) + self.margin for part in (0.5, 1.0))
        bend = 2.0 * (end + start - 2.0 * half)
        slope = end - start - bend
        # The positive root of bend·s² + slope·s + start = 0; there is none where g stays below 0.
        inside = slope * slope - 4.0 * bend * start
        below = slope + jnp.sqrt(jnp.maximum(inside, 0.0))
        reached = (inside > 0.0) & (below > 0.0) & (end > 0.0)
        return jnp.min(jnp.where(reached, -2.0 * start / jnp.where(reached, below, 1.0), 1.0))

    def _bisected(self, problem: Problem, way: Array) -> Array:
        def safe(share: Array) -> Array:
            return jnp.all(problem.g(self.anchor + share * way) <= -self.margin)

        def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = ends
            middle = 0.5 * (low + high)
            good = safe(middle)
            return jnp.where(good, middle, low), jnp.where(good, high, middle)

        one = jnp.ones(())
        low, _ = lax.fori_loop(0, HALVINGS, halve, (jnp.zeros(()), one))
        return jnp.where(safe(one), one, low)


@pytree()
class NearestFeasible:
    """The feasible decision nearest to the candidate, by cvxpy, with a pull to make up for its tolerance: for live use.

    Closer to the candidate than a pull alone, and a thousand times slower.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> cap = pf.constraints.Linear([1.0, 1.0], 4.0)
    >>> problem = pf.Problem(Revenue(), pf.Box([0.0, 0.0], [5.0, 5.0]), [cap])
    >>> method = pf.safe_apda(problem, anchor=[1.0, 1.0], safety=pf.safety.Nearest())
    >>> with jax.enable_x64(True):
    ...     method.safety(problem, jnp.array([4.0, 2.0])).round(3).tolist()
    [3.0, 1.0]
    """

    pull: PullToward

    @property
    def anchor(self) -> Array:
        """A safe decision."""
        return self.pull.anchor

    def __call__(self, problem: Problem, candidate: Array) -> Array:
        """The nearest feasible decision, up to cvxpy's tolerance, made safe by the pull."""
        # In two halves: a callback may run in a thread that knows no float64.
        shape = jax.ShapeDtypeStruct((2, *candidate.shape), np.float32)
        halves = jax.pure_callback(_projected, shape, problem, candidate, vmap_method="sequential")
        nearest = jnp.sum(halves.astype(jnp.float64), axis=0)
        return self.pull(problem, problem.decisions.project(nearest))


def _widths(problem: Problem) -> Array | None:
    """The widths of a bounded box, or of a product of boxes, whose sides differ."""
    sides = _sides(problem.decisions)
    if sides is None or not np.all(np.isfinite(sides)):
        return None
    return None if np.allclose(sides, sides[0], atol=0.0) else as_field(np.array(sides))


def _sides(decisions: DecisionSet) -> Floats | None:
    """The sides of a box or of a product of boxes; None for other sets."""
    if isinstance(decisions, Product):
        parts = [sides for part in decisions.parts if (sides := _sides(part)) is not None]
        return np.concatenate(parts) if len(parts) == len(decisions.parts) else None
    if not isinstance(decisions, Box):
        return None
    return np.broadcast_to(np.asarray(decisions.upper) - np.asarray(decisions.lower), (decisions.dimension or 1,))


def _projected(problem: Problem, candidate: Array) -> NDArray[np.float32]:
    """The halves of the projection on the feasible set, up to cvxpy's tolerance; the candidate itself if the solver fails."""
    import cvxpy as cp

    problem = jax.tree.map(np.asarray, problem)
    theta = cp.Variable(len(candidate))
    limits = [item.declare(theta) <= 0 for item in problem.constraints]
    program = cp.Problem(
        cp.Minimize(cp.sum_squares(theta - np.asarray(candidate))), [*problem.decisions.declare(theta), *limits]
    )
    try:
        program.solve(solver=cp.CLARABEL)
    except cp.SolverError:
        return _halves(candidate)  # the pull makes it safe
    return _halves(candidate if theta.value is None else theta.value)


def _halves(numbers: Any) -> NDArray[np.float32]:
    """Two arrays whose sum is the numbers."""
    whole = np.asarray(numbers, np.float64)
    high = whole.astype(np.float32)
    return np.stack([high, (whole - high).astype(np.float32)])
