"""The effect A of decisions on the data: learned from pairs of deployments (Algorithm 1, line 7), or known."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from performative import steps
from performative.numerics.pytrees import pytree
from performative.shifts import Shift
from performative.steps import Step


@pytree("probe")
class PairedLeastSquares:
    """Online least squares on pairs: Â_t = Â_{t−1} + ζ_t (Z'_t − Z_t − Â_{t−1}u_t) u_tᵀ, line 7 of Algorithm 1.

    The sign is the one of §3.2: descent on ½‖Z' − Z − Âu‖². Algorithm 1 prints the opposite one, which diverges. For a
    structured effect the outer product becomes the transposed derivative of `shift` in the effect. With several samples
    per deployment Z and Z' are their averages. `step` is ζ, `prior` is Â₀ (zero by default), `probe` the standard
    deviation of u that the default ζ_t = 2/(κ₁t + 2κ₃) assumes.

    >>> import jax.numpy as jnp
    >>> import performative as pf
    >>> learner = pf.estimators.PairedLeastSquares(lambda effect, theta: effect @ theta, step=0.5, prior=None, probe=1.0)
    >>> pair, samples = jnp.array([[0.0], [1.0]]), jnp.array([[[3.0]], [[5.0]]])
    >>> learner.update(learner.start(1, 1), pair, samples, 1).tolist()  # half of (5 − 3 − 0)·1
    [[1.0]]
    """

    shift: Shift
    step: Step | None
    prior: Array | None
    probe: float

    @property
    def pairs(self) -> bool:
        """True: it learns from pairs of deployments, θ and θ + u."""
        return True

    def start(self, width: int, dimension: int) -> Array:
        """Â₀: the prior, or zero."""
        return jnp.zeros((width, dimension)) if self.prior is None else jnp.asarray(self.prior)

    def update(self, effect: Array, decisions: Array, samples: Array, t: Array) -> Array:
        """One step of descent on the pair of round t."""
        z, z_probe = jnp.mean(samples, axis=1)
        u = decisions[1] - decisions[0]
        step = self.step if self.step is not None else steps.excited(u.shape[0], self.probe)
        predicted, transposed = jax.vjp(lambda effect: self.shift(effect, u), effect)
        return effect + steps.at(step, t) * transposed(z_probe - z - predicted)[0]


@pytree()
class KnownEffect:
    """The true A, given by the caller: the paper's baseline.

    >>> import performative as pf
    >>> known = pf.estimators.KnownEffect(lambda effect, theta: effect @ theta, [[-1.5]])
    >>> known.pairs, known.start(1, 1).tolist()
    (False, [[-1.5]])
    """

    shift: Shift
    effect: Array

    @property
    def pairs(self) -> bool:
        """False: it needs no probes."""
        return False

    def start(self, width: int, dimension: int) -> Array:
        """Returns A, whatever the width and the dimension."""
        return jnp.asarray(self.effect)

    def update(self, effect: Array, decisions: Array, samples: Array, t: Array) -> Array:
        """Returns A unchanged: there is nothing to learn."""
        return effect
