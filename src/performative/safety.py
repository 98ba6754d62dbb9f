"""Safety: what may be deployed at all. A decision that breaks a constraint is pulled towards one that meets all of them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from performative import convex, polynomial
from performative.precision import in_float64
from performative.problem import Problem
from performative.pytrees import pytree
from performative.validation import Floats, finite_array

MARGIN = 1e-9
"""How far below 0 every constraint is kept, as a share of the anchor's slack: room for rounding."""
HALVINGS = 50
CORRECTIONS = 6
"""Steps towards the violated constraints before the pull, which is then short."""


class NoStrictlyFeasibleDecision(ValueError):
    """No decision meets all constraints with room to spare; `slack` is the largest found, `blocking` who holds it back."""

    def __init__(self, slack: float, blocking: dict[str, float]) -> None:
        self.slack, self.blocking = slack, blocking
        super().__init__(
            "a decision in the set with g(θ) < 0 must exist for a method that explores safely, but the largest slack found "
            f"is {slack:.6g}; held back by: {', '.join(blocking)}"
        )


@pytree("quadratic")
class Pull:
    """Towards a strictly feasible `anchor` until every g_i ≤ −margin_i.

    Where g is quadratic and convex the way is found exactly, from the root of a quadratic; otherwise by bisection that never
    leaves the feasible side. What comes out is looked at once more: if it is not feasible, by rounding or because g is not
    finite there, the anchor itself is deployed.
    """

    anchor: Any
    margin: Any
    quadratic: Any

    @staticmethod
    @in_float64
    def of(problem: Problem, anchor: Any = None) -> Pull:
        """Towards the decision of largest slack, or the `anchor` given."""
        if anchor is None:
            try:
                anchor, slack, blocking = convex.largest_slack(problem)
            except convex.SolverFailed as error:
                raise ValueError(
                    f"the decision of largest slack must be found, but the solver failed; give an `anchor`: {error}"
                ) from error
        else:
            anchor = finite_array("anchor", anchor, 1)
            if anchor.shape != (problem.dimension,) or not problem.decisions.contains(anchor):
                raise ValueError(f"`anchor` must lie in the decision set {problem.decisions}, but got {anchor}")
            values = np.asarray(problem.g(jnp.asarray(anchor)))
            slack = float(-np.max(values, initial=-np.inf))
            blocking = {n: 1.0 for n, v in zip(problem.constraint_names, values, strict=True) if v >= 0}
        if not slack > 0:
            raise NoStrictlyFeasibleDecision(slack, blocking)
        margin = -MARGIN * np.asarray(problem.g(jnp.asarray(anchor)))
        convex_forms = not np.any(convex.undeclared(problem))
        quadratic = convex_forms and polynomial.degree(problem.g, jnp.zeros(problem.dimension)) <= 2
        return Pull(np.asarray(anchor, dtype=np.float64), margin, bool(quadratic))

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

        Each moves by −L Σ g_i⁺∇g_i/‖∇g_i‖², the mean way to the violated constraints, stretched by L to their common depth.
        """

        def correct(_: Any, candidate: Array) -> Array:
            steepness, excess = problem.steepness(candidate), problem.g(candidate) + self.margin
            violated = (excess > 0.0) & (steepness > 0.0)
            scaled = jnp.where(violated, excess / jnp.where(violated, steepness, 1.0), 0.0)
            mean = problem.pullback(candidate, scaled)
            length = jnp.sum(jnp.where(violated, scaled * excess, 0.0)) / jnp.maximum(jnp.sum(mean * mean), 1e-300)
            moved = problem.decisions.project(candidate - length * mean)
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

        def halve(_: Any, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = ends
            middle = 0.5 * (low + high)
            good = safe(middle)
            return jnp.where(good, middle, low), jnp.where(good, high, middle)

        one = jnp.ones(())
        low, _ = lax.fori_loop(0, HALVINGS, halve, (jnp.zeros(()), one))
        return jnp.where(safe(one), one, low)


@pytree()
class Nearest:
    """The feasible decision nearest to the candidate, by cvxpy, and a pull for what its tolerance leaves: for live use.

    Closer than a pull alone and a thousand times slower. Constraints must have a convex form.
    """

    pull: Any

    @staticmethod
    def of(problem: Problem, anchor: Any = None) -> Nearest:
        """With the pull towards the decision of largest slack, or the `anchor` given."""
        import cvxpy as cp

        for item in problem.constraints:
            if item.declare(cp.Variable(problem.dimension)) is None:
                raise ValueError(f"constraint {item.names[0]} must have a convex form to be projected on, but has none")
        return Nearest(Pull.of(problem, anchor))

    @property
    def anchor(self) -> Any:
        """The decision that is known to be safe."""
        return self.pull.anchor

    def __call__(self, problem: Problem, candidate: Array) -> Array:
        """See the class."""
        shape = jax.ShapeDtypeStruct(candidate.shape, np.float64)
        found = jax.pure_callback(_projected, shape, problem, candidate, vmap_method="sequential")
        return self.pull(problem, problem.decisions.project(found))


def _projected(problem: Problem, candidate: Any) -> Floats:
    """The projection on the feasible set as far as cvxpy's tolerance; the candidate itself where the solver gives up."""
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
        return np.asarray(candidate)  # the pull makes it safe
    return np.asarray(candidate if theta.value is None else theta.value)


@in_float64
def nearest(problem: Problem, candidate: Any, anchor: Any = None) -> Floats:
    """The feasible decision nearest to a candidate: what `Nearest` deploys."""
    safety = Nearest.of(problem, anchor)
    return np.asarray(safety(problem, jnp.asarray(finite_array("candidate", candidate, 1))))
