"""Descent and ascent to an equilibrium of two decision-makers (Wood, Dall'Anese 2022)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from performative.estimators import FrozenData
from performative.exploration import Alone
from performative.methods.options import feasible_parts, framework
from performative.methods.primal_dual import PrimalDual
from performative.numerics.arrays import as_field
from performative.problem import Problem
from performative.steps import Step
from performative.validation import whole


def saddle(
    problem: Problem,
    *,
    ascending: Sequence[int],
    step: Step = 5e-3,
    control: Step = 1.0,
    start: ArrayLike | None = None,
    samples: int = 1,
) -> PrimalDual:
    """The primal-dual method for equilibria of min_x max_y E_{Z∼D(x,y)} φ(x, y; Z) (Wood, Dall'Anese 2022).

    The problem's loss is φ, its decision (x, y), and `ascending` lists the positions of y in it. It descends in x and ascends
    in y on the data that (x, y) induced, and converges to the equilibrium, which is a saddle point on the very data it induces,
    if φ is strongly convex in x and strongly concave in y and the reaction is weak compared with both. With nothing ascending
    it is `repeated_gradient`. An equilibrium is not a minimum of φ: of what `simulate` records, look at `decision` and the
    constraints, not at the regret.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> problem = pf.Problem(Revenue(), pf.Box([0.0, 0.0], [5.0, 5.0]))
    >>> method = pf.saddle(problem, ascending=[1])
    """
    problem, start = feasible_parts(problem, start)
    signs = np.ones(problem.d)
    for index in ascending:
        signs[whole("ascending", index, 0, problem.d - 1)] = -1.0
    return framework(problem, FrozenData(as_field(signs)), Alone(), step, control, start, samples)
