"""Is a symmetric matrix positive semidefinite? Judged row by row, however different the units of the rows are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from performative.numerics.arrays import Floats

_ROUNDING = 1e-12
"""What rounding may take from the least eigenvalue of a matrix whose diagonal is 1."""


def is_semidefinite(matrices: Floats) -> NDArray[np.bool]:
    """Whether matrices (..., d, d) have no negative eigenvalue.

    A negative number on the diagonal, or a 0 there in a row that is not 0, says no. The rest is scaled to the diagonal 1, so that
    rounding in a large row does not hide a small one: diag(10⁶, −10⁻⁴) is not semidefinite.
    """
    matrices = (matrices + np.swapaxes(matrices, -1, -2)) / 2
    diagonal = np.diagonal(matrices, axis1=-2, axis2=-1)
    roots = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = matrices / roots[..., :, None] / roots[..., None, :]
    possible = np.all((diagonal > 0) | np.all(matrices == 0, axis=-1), axis=-1)
    possible &= np.all(np.isfinite(scaled), axis=(-1, -2))
    least = np.min(np.linalg.eigvalsh(np.where(possible[..., None, None], scaled, 0.0)), axis=-1, initial=0.0)
    return np.asarray(possible & (least >= -_ROUNDING))


def is_indefinite(matrix: Any, size: float = 0.0) -> bool:
    """Whether a matrix (d, d) has a negative eigenvalue beyond the rounding of its largest number, or of one of this size."""
    rounding = 8 * np.finfo(float).eps * len(matrix) * float(np.max(np.abs(matrix), initial=size))
    return not bool(is_semidefinite(matrix + rounding * np.eye(len(matrix))))
