"""A newsvendor whose stock attracts demand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.tree_util import Partial
from scipy import special

from performative.environments import ClosedForm, Gaussian, LocationFamily, Normal
from performative.numerics.arrays import Floats
from performative.problem import Problem
from performative.problems.case import Case, kkt_point, normal_density, stable_kkt_point
from performative.sets import Box
from performative.validation import finite_array, positive

DEMAND = 2.0
MOST = 6.0


def loss(cost: Array, price: Array, theta: Array, z: Array) -> Array:
    """cq − p min(q, z)."""
    return cost * theta[0] - price * jnp.minimum(theta[0], z[0])


def decoupled(cost: Array, price: Array, share: Array, spread: Array, theta: Array, where: Array) -> Array:
    """cq − p E min(q, Z₀ + aq') for an order q on the demand that q' attracted."""
    order, attracted = theta[0], share * where[0]
    gap = (order - attracted - DEMAND) / spread
    lost = spread * (gap * jax.scipy.stats.norm.cdf(gap) + jax.scipy.stats.norm.pdf(gap))  # E(q − Z)⁺
    return cost * order - price * (order - lost)


def make(induced: float = 0.3, cost: float = 0.5, price: float = 1.0, noise: float = 0.5) -> Case:
    """Demand Z = Z₀ + aq, Z₀ ∼ N(m, s²), for an order q in [0, 6], ℓ = cq − p min(q, z); a is `induced`, s `noise`.

    min(q, Z) = aq + min(u, Z₀) with u = (1 − a)q, and with k = (u − m)/s, E min(u, Z₀) = u − (u − m)Φ(k) − sφ(k). Hence

        PR(q) = cq − p(aq + E min(u, Z₀)),    PR'(q) = c − pa − p(1 − a) P(Z₀ > u),

    so that PR is convex and least where P(Z₀ > u) = (c/p − a)/(1 − a). On frozen data the derivative is c − p P(Z₀ > u), and
    the stable order is smaller: P(Z₀ > u) = c/p. Where such an order lies outside Θ, the nearest one in Θ takes its
    place. `0 <= a < c/p < 1` must hold: at a ≥ c/p one more piece pays for itself by the demand it attracts.

    The loss has a kink at q = z, though PR has none. Methods that need a smooth loss refuse it. The world knows the formula,
    E(q − Z)⁺ = s(kΦ(k) + φ(k)), since a quadrature of the kink would be slow and piecewise linear in q.
    """
    price, cost, spread = positive("price", price), positive("cost", cost), positive("noise", noise)
    share, ratio = float(finite_array("induced", induced, 0)), cost / price
    if not 0 <= share < ratio < 1:
        raise ValueError(f"`0 <= induced < cost/price < 1` must hold, but got {induced=}, cost/price={ratio}")
    problem = Problem(Partial(loss, np.float64(cost), np.float64(price)), Box([0.0], [MOST]))
    numbers = [np.float64(number) for number in (cost, price, share, spread)]
    environment = ClosedForm(
        LocationFamily(Gaussian([DEMAND], [spread**2]), [[share]]), problem.loss, Partial(decoupled, *numbers)
    )

    def risk(theta: Floats) -> float:
        order = float(theta[0])
        reached = (1 - share) * order
        k = (reached - DEMAND) / spread
        sold = reached - (reached - DEMAND) * special.ndtr(k) - spread * np.exp(-0.5 * k**2) / np.sqrt(2.0 * np.pi)
        return float(cost * order - price * (share * order + sold))

    def unmet(order: Floats) -> Floats:
        """P(Z₀ > (1 − a)q)."""
        return np.asarray(special.ndtr((DEMAND - (1 - share) * order) / spread))

    def order_with(chance: float) -> Floats:
        return np.clip([(DEMAND - spread * special.ndtri(chance)) / (1 - share)], 0.0, MOST)

    stable = order_with(ratio)
    return Case(
        name="newsvendor",
        title="A newsvendor whose stock attracts demand",
        reference="Dana and Petruzzi 2001, The Newsvendor Model with Endogenous Demand",
        problem=problem,
        environment=environment,
        risk=risk,
        optimum=kkt_point(
            problem,
            risk,
            lambda order: cost - price * (share + (1 - share) * unmet(order)),
            order_with((ratio - share) / (1 - share)),
        ),
        stable=stable_kkt_point(
            problem,
            risk,
            lambda order: cost - price * special.ndtr((DEMAND + share * stable - order) / spread),
            stable,
        ),
        family=Normal(spread**2),
        density=normal_density([DEMAND], [[share]], spread**2),
        known_effect=np.array([[share]]),
    )
