"""Slater's condition, and multipliers with their duality gap: what Lemma 3 needs to bound the violation by O(√T)."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.numerics import polynomial
from performative.numerics.arrays import Floats
from performative.problem import Problem
from performative.sets import Box, Budget, DecisionSet, HalfSpace, Product, Reals, Simplex
from performative.solvers.feasibility import largest_slack
from performative.solvers.kkt import Solution
from performative.theory.evidence import estimated, proved, unknown
from performative.theory.landscape import Landscape

SLIGHT = 1e-9
"""A slack up to this share of C counts as none: a solver cannot tell it from 0."""


class Slater(NamedTuple):
    """Whether some decision satisfies every constraint with slack (None: undecided), which one, by how much, and the evidence."""

    holds: bool | None
    decision: Floats
    slack: float
    evidence: str


def slater(problem: Problem, constraint_bound: float) -> Slater:
    """Slater's condition: some θ ∈ Θ with g(θ) < 0; affine constraints on a polyhedron need no slack. `constraint_bound` is C.

    A decision with slack proves it. Where none has any, it fails if the constraints are declared convex.
    """
    decision, slack, blocking, _ = largest_slack(problem)
    if not problem.constraints:
        return Slater(True, decision, math.inf, "there are no constraints")
    if slack > SLIGHT * (constraint_bound if math.isfinite(constraint_bound) else 1.0):
        return Slater(True, decision, slack, f"some decision has the slack {slack:.4g}")
    slack = max(slack, 0.0) + 0.0
    affine = polynomial.degree(problem.g, jnp.asarray(decision)) <= 1
    if affine and _is_polyhedral(problem.decisions):
        return Slater(True, decision, slack, "affine constraints on a polyhedron, which always have multipliers")
    names = ", ".join(blocking) or "the constraints"
    if affine or not problem.is_declared_convex:
        return Slater(None, decision, slack, f"no decision with slack in {names} was found")
    return Slater(False, decision, slack, f"no decision has slack in {names}, so λ* need not exist")


def multipliers(landscape: Landscape, optimum: Solution, found: Slater, convex: bool) -> tuple[float, float, str]:
    """‖λ‖ of the optimum, a bound on the duality gap of λ, and the evidence; `convex` says that PR is known to be.

    Then PR + λᵀg is convex, so with p its gradient at θ̂ and r = θ̂ − Π_Θ(θ̂ − p) it is at least PR(θ̂) + λᵀg(θ̂) − ‖r‖(2R + ‖p‖)
    on Θ; and PR(θ_PO) ≤ PR(θ') for a feasible θ' next to θ̂, on the way to the decision with slack.
    """
    if not landscape.problem.constraints:
        return 0.0, 0.0, proved("there are no constraints")
    if found.holds is False:
        return math.inf, math.inf, unknown("Slater's condition fails")
    norm = float(np.linalg.norm(optimum.multipliers))
    residual = f"KKT residual {float(optimum.kkt_residual):.1e}"
    if not landscape.bounded:
        return norm, 0.0, estimated(f"those of the optimum ({residual})")
    points = (jnp.asarray(value) for value in (optimum.decision, optimum.multipliers, found.decision))
    gap = float(jax.jit(lambda *points: _gap(landscape, *points))(*points))
    label = proved if convex and found.slack > 0 else estimated
    return norm, gap, label(f"those of the optimum ({residual}), with the duality gap {gap:.1e}")


def _gap(landscape: Landscape, theta: Array, weights: Array, inside: Array) -> Array:
    problem, risk = landscape.problem, landscape.risk
    values, at_inside = problem.g(theta), problem.g(inside)
    excess, slack = jnp.maximum(jnp.max(values), 0.0), -jnp.max(at_inside)
    share = jnp.where((excess > 0) & (slack > 0), excess / jnp.where(slack > 0, excess + slack, 1.0), 0.0)
    feasible = theta + share * (inside - theta)
    slope = jax.grad(lambda theta: risk(theta) + weights @ problem.g(theta))(theta)
    moved = jnp.linalg.norm(theta - problem.decisions.project(theta - slope))
    stationary = moved * (2 * problem.decisions.radius + jnp.linalg.norm(slope))
    return jnp.maximum(risk(feasible) - risk(theta) - weights @ values + stationary, 0.0)


def _is_polyhedral(decisions: DecisionSet) -> bool:
    if isinstance(decisions, Product):
        return all(_is_polyhedral(part) for part in decisions.parts)
    return isinstance(decisions, Box | Simplex | Budget | HalfSpace | Reals)
