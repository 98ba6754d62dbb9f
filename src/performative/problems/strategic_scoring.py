"""Logistic scoring of individuals who move to be scored lower: the closed forms that spam and credit share."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import special

from performative.numerics.arrays import Floats
from performative.problems.reference_solvers import newton


def loss(penalty: Array, theta: Array, z: Array) -> Array:
    """log(1 + eˢ) − ys + ½Σρ_iθ_i², with the score s = ⟨w, x⟩ + b of z = (x, y) and θ = (w, b)."""
    score = jnp.sum(theta[:-1] * z[:-1]) + theta[-1]
    return jax.nn.softplus(score) - z[-1] * score + 0.5 * jnp.sum(penalty * theta * theta)


class Scoring(NamedTuple):
    """A table (x, y), who responds (r, 0 or 1), how easily each feature moves (e), and the penalty ρ of each weight.

    Those who respond have the features x − e∘w and so the score s(θ) = ⟨w, x⟩ + b − r Σe_i w_i². With ℓ' = sigmoid(s) − y,

        PR(θ) = mean[log(1 + eˢ) − ys] + ½Σρ_iθ_i²,    ∇PR(θ) = mean[ℓ' ∇s] + ρ∘θ,    ∇s = (x − 2r e∘w, 1),

    and on the data frozen at θ itself the gradient has (x − r e∘w, 1) for ∇s.
    """

    x: Floats
    y: Floats
    responds: Floats
    ease: Floats
    penalty: Floats

    def risk(self, theta: Floats) -> float:
        """PR(θ)."""
        score = self._features(theta, 1.0) @ theta
        return float(np.mean(np.logaddexp(0.0, score) - self.y * score) + 0.5 * np.sum(self.penalty * theta * theta))

    def field(self, theta: Floats, times: float) -> tuple[Floats, Floats]:
        """The gradient with (x − times·r e∘w, 1) for ∇s, and its Jacobian: of PR for 2, of the frozen risk at θ for 1."""
        pull = special.expit(self._features(theta, 1.0) @ theta) - self.y
        features, moves = self._features(theta, times), self._features(theta, 2.0)
        weight = (pull + self.y) * (1.0 - pull - self.y)
        bend = np.append(-times * np.mean(pull * self.responds) * self.ease, 0.0)
        jacobian = (features * weight[:, None]).T @ moves / len(pull) + np.diag(bend + self.penalty)
        return np.mean(pull[:, None] * features, axis=0) + self.penalty * theta, jacobian

    def frozen(self, theta: Floats, where: Floats) -> Floats:
        """The gradient of the risk at θ on the data that `where` induces."""
        features = self._features(where, 1.0)
        pull = special.expit(features @ theta) - self.y
        return np.mean(pull[:, None] * features, axis=0) + self.penalty * theta

    def optimum(self) -> Floats:
        """Where ∇PR vanishes."""
        return newton(lambda theta: self.field(theta, 2.0), np.zeros(len(self.penalty)))

    def stable(self) -> Floats:
        """Where the gradient on the data that θ itself induces vanishes."""
        return newton(lambda theta: self.field(theta, 1.0), np.zeros(len(self.penalty)))

    def _features(self, theta: Floats, times: float) -> Floats:
        """(x − times·r e∘w, 1) for each row."""
        moved = self.x - times * self.responds[:, None] * (self.ease * theta[:-1])
        return np.column_stack([moved, np.ones(len(moved))])
