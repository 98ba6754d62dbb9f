"""Losses that the file of a study can name; each takes one decision θ and one sample z."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from performative.numerics.pytrees import assign, pytree
from performative.validation import finite_array


@pytree()
class SquaredError:
    """½(y − xᵀθ)² + ½·ridge·‖θ‖² for a sample z = (x, y), the label last.

    >>> import numpy as np
    >>> from performative.losses import SquaredError
    >>> float(SquaredError()(np.array([2.0]), np.array([3.0, 5.0])))
    0.5
    """

    ridge: Array

    def __init__(self, ridge: float = 0.0) -> None:
        assign(self, ridge=_at_least_zero("ridge", ridge))

    def __call__(self, theta: Array, z: Array) -> Array:
        """The loss of one sample."""
        _require_width(z, theta.shape[0] + 1, "the features and a label")
        return 0.5 * (z[-1] - jnp.sum(z[:-1] * theta)) ** 2 + 0.5 * self.ridge * jnp.sum(theta * theta)


@pytree()
class Revenue:
    """−(θ − cost)ᵀz for prices θ and the quantities z sold at them.

    >>> import numpy as np
    >>> from performative.losses import Revenue
    >>> float(Revenue(cost=1.0)(np.array([3.0, 2.0]), np.array([10.0, 20.0])))
    -40.0
    """

    cost: Array

    def __init__(self, cost: ArrayLike = 0.0) -> None:
        assign(self, cost=finite_array("cost", cost, (0, 1)))

    def __call__(self, theta: Array, z: Array) -> Array:
        """The loss of one sample."""
        _require_width(z, theta.shape[0], "a quantity for each price")
        return -jnp.sum((theta - jnp.asarray(self.cost)) * z)


@pytree()
class PortfolioReturn:
    """−zᵀθ + aversion·‖θ‖² for weights θ and the returns z of the assets.

    >>> import numpy as np
    >>> from performative.losses import PortfolioReturn
    >>> float(PortfolioReturn(aversion=1.0)(np.array([0.5, 0.5]), np.array([1.0, 2.0])))
    -1.0
    """

    aversion: Array

    def __init__(self, aversion: float = 0.0) -> None:
        assign(self, aversion=_at_least_zero("aversion", aversion))

    def __call__(self, theta: Array, z: Array) -> Array:
        """The loss of one sample."""
        _require_width(z, theta.shape[0], "a return for each asset")
        return -jnp.sum(z * theta) + self.aversion * jnp.sum(theta * theta)


@pytree()
class Logistic:
    """log(1 + e^s) − y·s + ½·ridge·‖θ‖² with the score s = xᵀθ, for a sample z = (x, y), the label 0 or 1 last.

    >>> import numpy as np
    >>> from performative.losses import Logistic
    >>> round(float(Logistic()(np.array([0.0]), np.array([1.0, 1.0]))), 4)  # log 2
    0.6931
    """

    ridge: Array

    def __init__(self, ridge: float = 0.0) -> None:
        assign(self, ridge=_at_least_zero("ridge", ridge))

    def __call__(self, theta: Array, z: Array) -> Array:
        """The loss of one sample."""
        _require_width(z, theta.shape[0] + 1, "the features and a label")
        score = jnp.sum(z[:-1] * theta)
        return jax.nn.softplus(score) - z[-1] * score + 0.5 * self.ridge * jnp.sum(theta * theta)


@pytree()
class Pinball:
    """Σ_i level·(z_i − θ_i)⁺ + (1 − level)·(θ_i − z_i)⁺, which is smallest where θ is the quantile of z at `level`.

    With `smoothing` s the kink is rounded over a width s: u⁺ becomes s·log(1 + e^(u/s)). `safe_apda` needs that.

    >>> import numpy as np
    >>> from performative.losses import Pinball
    >>> float(Pinball(level=0.75)(np.array([1.0]), np.array([3.0])))
    1.5
    """

    level: Array
    smoothing: Array | None

    def __init__(self, level: float = 0.5, smoothing: float = 0.0) -> None:
        share = float(finite_array("level", level, 0))
        if not 0 < share < 1:
            raise ValueError(f"`0 < level < 1` must hold, but got level={share}")
        assign(self, level=np.float64(share), smoothing=float(_at_least_zero("smoothing", smoothing)) or None)

    def __call__(self, theta: Array, z: Array) -> Array:
        """The loss of one sample."""
        _require_width(z, theta.shape[0], "one for each entry of the decision")
        return jnp.sum(self.level * self._part(z - theta) + (1.0 - self.level) * self._part(theta - z))

    def _part(self, u: Array) -> Array:
        if self.smoothing is None:
            return jnp.maximum(u, 0.0)
        return self.smoothing * jax.nn.softplus(u / self.smoothing)


def _at_least_zero(name: str, value: ArrayLike) -> np.float64:
    number = np.float64(finite_array(name, value, 0))
    if number < 0:
        raise ValueError(f"`{name} >= 0` must hold, but got {name}={number}")
    return number


def _require_width(z: Array, width: int, what: str) -> None:
    if z.shape != (width,):
        raise ValueError(f"a sample must have shape ({width},), {what}, but got shape {z.shape}")
