"""Your own method in twenty lines: steps along the sign of the gradient on the current data."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


class State(NamedTuple):
    """What a method carries from round to round; simulations and studies read only these three fields."""

    round: Any
    decision: Any
    multipliers: Any


class SignDescent:
    """θ ← Π_Θ(θ − t^(−1/2)·length·sign(∇ℓ + λᵀ∇g)), one deployment per round."""

    def __init__(self, problem, length=0.5):
        self.problem, self.length = problem, length

    def init(self, key):
        start = self.problem.decisions.project(jnp.zeros(self.problem.dimension))
        return State(jnp.asarray(1), start, jnp.zeros(len(self.problem.constraint_names)))

    def ask(self, state, key):
        return state.decision[None]  # (b, d): the decisions to deploy

    def wanted(self, state):
        return 1  # samples for each of them

    def tell(self, state, decisions, samples):  # samples (b, n, k)
        slope = jax.grad(self.problem.loss)(state.decision, samples[0, 0])
        slope = slope + self.problem.pullback(state.decision, state.multipliers)
        length = self.length / jnp.sqrt(state.round)
        decision = self.problem.decisions.project(state.decision - length * jnp.sign(slope))
        multipliers = jnp.maximum(state.multipliers + length * self.problem.g(state.decision), 0.0)
        return State(state.round + 1, decision, multipliers)
