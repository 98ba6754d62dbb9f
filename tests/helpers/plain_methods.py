"""Two small methods in plain Python that keep every rule, and the checks put to such methods."""

import jax.numpy as jnp

import performative as pf
from performative import checks
from performative.checks import suite, trial
from performative.numerics import precision
from performative.numerics.pytrees import changed, pytree
from performative.numerics.randomness import standard_normal


class Echo:
    """A world without noise of its own."""

    dimension = 2

    def sample(self, key, theta, n):
        return jnp.broadcast_to(1.0 - 0.5 * theta, (n, 2))


def cost(theta, z):
    return jnp.sum(theta**2) - jnp.sum(z * theta)


PROBLEM = pf.Problem(cost, pf.Box(0.0, 1.0), [pf.constraints.Linear([1.0, 1.0], 0.3, name="cap")])


@pytree()
class Place:
    round: object
    decision: object
    multipliers: object
    extra: object = None


class Walker:
    """A plain method that keeps every rule; those of `broken_methods` break one each."""

    def __init__(self):
        self.problem = PROBLEM

    def init(self, key):
        return Place(jnp.ones((), int), jnp.array([0.1, 0.1]), jnp.zeros(1))

    def ask(self, state, key):
        return state.decision[None]

    def wanted(self, state):
        return 1

    def tell(self, state, decisions, samples):
        theta, lam = state.decision, state.multipliers
        gradient = 2.0 * theta - samples[0, 0] + self.problem.pullback(theta, lam)
        moved = self.problem.decisions.project(theta - 0.1 * gradient)
        return Place(state.round + 1, moved, jnp.maximum(lam + 0.1 * self.problem.g(theta), 0.0), state.extra)


class Explorer(Walker):
    """Another, whose deployments are random."""

    normals = 2

    def ask(self, state, key):
        return Explorer.decide(self, state, standard_normal(key, 2))

    def decide(self, state, normals):
        return (state.decision + 0.1 * normals)[None]


class Planner(Walker):
    """Another, whose state plans the same probe in every round."""

    def init(self, key):
        return changed(super().init(key), extra=jnp.array([0.1, 0.0]))

    def ask(self, state, key):
        return (state.decision + state.extra)[None]

    def learn(self, state, decisions, samples):
        return Walker.tell(self, state, decisions, samples)

    def plans(self, round):
        return round >= 0

    def plan(self, state):
        return changed(state, extra=jnp.array([0.1, 0.0]))

    def tell(self, state, decisions, samples):
        return self.plan(self.learn(state, decisions, samples))


EXPLORER, ECHO = Explorer(), Echo()


def failed(method):
    return {check.name: check.evidence for check in checks.conformance(method, ECHO, rounds=8) if not check.passed}


@precision.in_float64
def one_check(name, method):
    return suite._checked(name, checks.CHECKS[name], trial.Trial(method, ECHO, rounds=8, seed=0))
