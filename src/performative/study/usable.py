"""Can a problem be computed: its loss has a number, and a gradient, for some samples, and its constraints have numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64
from performative.numerics.programs import Program
from performative.problem import Problem
from performative.validation import shown

_WIDTHS = range(1, 65)
SYNTHETIC = 8
"""How many synthetic samples of each kind are tried."""


@in_float64
def require_usable(problem: Problem) -> None:
    """Refuse a loss that fails on samples of every width, for a reason other than their width."""
    failures = []
    for width in widths(problem):
        try:
            problem.check_samples(width)
            return
        except ValueError as error:
            failures.append(error)
    causes = [error.__cause__ for error in failures]
    wrong = next((failure for failure, cause in zip(failures, causes, strict=True) if cause is None), None)
    is_traced = all(isinstance(cause, jax.errors.JAXTypeError) for cause in causes)
    is_called_wrongly = isinstance(causes[0], TypeError) and len({str(cause) for cause in causes}) == 1
    if wrong is not None or is_traced or is_called_wrongly:  # it returns something else, or fails for every width alike
        raise wrong or failures[0]


@in_float64
def require_numbers(problem: Problem, decision: Floats, width: int | None = None, slopes: bool = True) -> None:
    """Refuse a loss that is not finite at a decision, or has no finite gradient there, whatever the samples of `width` numbers.

    They are normal, positive, large and 0 or 1: a loss need not be defined for all of them. Without a width, it is the first
    that the loss accepts.
    """
    found = [width] if width is not None else accepted_widths(problem)[:1]
    for each in found:
        values, gradients = computed(_numbers_there, problem, decision, synthetic(each))
        at = f"at {shown(np.asarray(decision).tolist())} for samples of {each} numbers, normal, positive, large or 0 and 1"
        if not np.isfinite(values).any():
            raise ValueError(f"`loss` must be finite for some samples, but is {values[0]} {at}")
        if slopes and not np.isfinite(gradients[np.isfinite(values)]).all(axis=1).any():
            raise ValueError(f"`loss` must have a finite gradient for some samples, but it is {gradients[0]} {at}")


def synthetic(width: int) -> Floats:
    """Samples (n, width) of all kinds."""
    normal = np.random.default_rng(width).normal(size=(SYNTHETIC, width))
    positive = np.abs(normal) + 0.1
    return np.concatenate([normal, positive, 20.0 * positive, (normal > 0).astype(float), positive / (1.0 + positive)])


def widths(problem: Problem) -> list[int]:
    """How many numbers a sample may have, likely numbers first."""
    d = problem.d
    return list(dict.fromkeys((d, d + 1, *_WIDTHS)))


def accepted_widths(problem: Problem) -> list[int]:
    """Those that the loss accepts."""
    return [width for width in widths(problem) if accepts(problem, width)]


def computed(program: Program, *given: Any) -> Any:
    """What a program returns, as NumPy arrays; without compiling it where that cannot be done."""
    try:
        found = program(*given)
    except jax.errors.JAXTypeError:
        with jax.disable_jit():
            found = program.function(*given)
    return jax.tree.map(np.asarray, found)


def broken(problem: Problem, decision: Floats, rounding: float) -> list[str]:
    """By how much a decision breaks each constraint, in words."""
    values = np.asarray(problem.g(jnp.asarray(decision)))
    named: Sequence[tuple[str, float]] = list(zip(problem.constraint_names, values.tolist(), strict=True))
    return [f"{name} by {value:.4g}" for name, value in named if not value <= rounding]


def accepts(problem: Problem, width: int) -> bool:
    """Whether the loss takes samples of so many numbers."""
    try:
        problem.check_samples(width)
    except ValueError:
        return False
    return True


@Program
def _numbers_there(problem: Problem, decision: Array, samples: Array) -> tuple[Array, Array]:
    """The loss (n,) and its gradient (n, d) at a decision."""
    both = jax.value_and_grad(problem.loss)
    return jax.lax.map(lambda z: both(decision, z), samples)
